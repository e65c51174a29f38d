// The decision log: what changed, when, and in which words the operator explains it.

import { ago, exact } from "./format.js";
import { jsonView } from "./json.js";
import { h } from "./view.js";

const SHOWN = 12;

export function decisionsPanel({ topics, problems }) {
  const decisions = topics.decisions?.decisions;
  return [
    h("h2", {}, "Scaling decisions"),
    problems.decisions ? h("p", { class: "problem" }, problems.decisions) : "",
    h(
      "div",
      { class: "card list" },
      !decisions ? h("p", { class: "waiting" }, "Reading decisions…") : "",
      decisions?.length === 0 ? h("p", { class: "quiet empty" }, "None in the last 24 hours.") : "",
      h("ol", { class: "decisions" }, (decisions ?? []).slice(0, SHOWN).map(entry)),
    ),
  ];
}

function entry(decision) {
  const change = decision.to_replicas - decision.from_replicas;
  const direction = change > 0 ? "up" : change < 0 ? "down" : "hold";
  return h(
    "li",
    { key: `${decision.pool}@${decision.at}`, class: direction },
    h(
      "details",
      {},
      h(
        "summary",
        {},
        h("span", { class: "change", title: direction }, `${decision.from_replicas} → ${decision.to_replicas}`),
        h("b", {}, decision.pool),
        h("span", { class: "reason-tag" }, decision.reason),
        h("time", { class: "quiet", datetime: decision.at, title: exact(decision.at) }, ago(decision.at)),
        h("span", { class: "words" }, decision.summary),
      ),
      h("pre", { class: "json" }, jsonView(decision.detail)),
    ),
  );
}
