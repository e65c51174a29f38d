// JSON as coloured text, built of text nodes. Digits stay as they were written.

import { ExactNumber } from "./api.js";
import { h } from "./view.js";

const MOST_NODES = 4000;

/** A value (as `parse` gave it) to spans for a <pre>; very large ones are cut, and say so. */
export function jsonView(value) {
  const out = [];
  const budget = { left: MOST_NODES };
  write(value, "", out, budget);
  if (budget.left <= 0) out.push(h("span", { class: "note" }, "\n… the rest is too large to show here"));
  return out;
}

function write(value, indent, out, budget) {
  budget.left -= 1;
  if (budget.left <= 0) return;
  if (value === null) out.push(token("null", "null"));
  else if (value instanceof ExactNumber) out.push(token("number", value.text));
  else if (Array.isArray(value)) writeAll(value.map((item) => [null, item]), "[", "]", indent, out, budget);
  else if (typeof value === "object") writeAll(Object.entries(value), "{", "}", indent, out, budget);
  else out.push(token(typeof value, JSON.stringify(value)));
}

function writeAll(entries, open, close, indent, out, budget) {
  if (entries.length === 0) {
    out.push(open + close);
    return;
  }
  const inner = `${indent}  `;
  out.push(`${open}\n`);
  entries.forEach(([key, value], index) => {
    if (budget.left <= 0) return;
    out.push(inner);
    if (key !== null) out.push(token("key", JSON.stringify(key)), ": ");
    write(value, inner, out, budget);
    out.push(index < entries.length - 1 ? ",\n" : "\n");
  });
  out.push(indent + close);
}

function token(kind, text) {
  return h("span", { class: `j-${kind}` }, text);
}
