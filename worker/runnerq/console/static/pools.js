// Pools: what the operator wants, what is there, how busy it is, and why.

import { chart, largest, rowAt } from "./charts.js";
import { ago, clock, compact, count, exact, plural, span } from "./format.js";
import { windowOf } from "./overview.js";
import { h } from "./view.js";

export function poolsPanel({ topics, series, problems, hover, act }) {
  const document = topics.pools;
  return [
    h("h2", {}, "Pools", document ? h("small", {}, summary(document.pools)) : ""),
    problems.pools ? h("p", { class: "problem" }, problems.pools) : "",
    !document && !problems.pools ? h("div", { class: "card waiting" }, "Reading pools…") : "",
    document && document.pools.length === 0
      ? h(
          "div",
          { class: "card plain" },
          h("p", {}, "No worker has reported and no decision was taken in the last 24 hours."),
          h("p", { class: "quiet" }, "Start one with ", h("code", {}, "runnerq worker your.module"), "."),
        )
      : "",
    h("div", { class: "pools" }, (document?.pools ?? []).map((pool) => card(pool, series, hover, act))),
  ];
}

function summary(pools) {
  const busy = pools.reduce((sum, pool) => sum + pool.busy, 0);
  const slots = pools.reduce((sum, pool) => sum + pool.slots, 0);
  return `${count(busy)} of ${plural(slots, "slot")} busy`;
}

function card(pool, series, hover, act) {
  const desired = pool.desired ?? pool.ready;
  const scale = Math.max(1, pool.max ?? 0, desired, pool.ready);
  const moving = pool.desired !== null && pool.desired !== pool.ready;
  return h(
    "article",
    { key: `pool:${pool.pool}`, class: `card pool ${moving ? "moving" : ""}` },
    h(
      "header",
      {},
      h("h3", {}, pool.pool || "started by hand"),
      h(
        "p",
        { class: "size" },
        h("strong", {}, count(pool.ready)),
        moving ? h("span", { class: "to" }, ` → ${count(pool.desired)}`) : "",
        h("span", { class: "quiet" }, unit(pool, desired)),
      ),
    ),
    h(
      "div",
      { class: "bars" },
      pool.desired === null ? "" : bar("desired", pool.desired, scale, limits(pool)),
      bar("ready", pool.ready, scale, phases(pool)),
      bar("busy", pool.busy, Math.max(1, pool.slots), `of ${plural(pool.slots, "slot")}`),
    ),
    history(pool, series, hover, act),
    reason(pool),
    h(
      "footer",
      {},
      h("span", {}, h("b", {}, count(pool.backlog, pool.backlog_capped)), " waiting"),
      pool.oldest_claimable_age_ms === null ? "" : h("span", {}, "oldest ", h("b", {}, span(pool.oldest_claimable_age_ms))),
      pool.cordoned ? h("span", {}, plural(pool.cordoned, "cordoned", "cordoned")) : "",
      pool.draining ? h("span", {}, plural(pool.draining, "draining", "draining")) : "",
      pool.builds.length > 1 ? h("span", { class: "warn" }, plural(pool.builds.length, "build")) : "",
      h("span", { class: "types", title: pool.types.join("\n") }, types(pool)),
    ),
  );
}

function unit(pool, n) {
  return ` ${pool.pool ? "replica" : "worker"}${n === 1 ? "" : "s"}`;
}

function types(pool) {
  if (pool.types.length === 0) return "";
  return pool.types.length <= 2 ? pool.types.join(", ") : `${pool.types[0]} and ${pool.types.length - 1} more types`;
}

function limits(pool) {
  if (pool.min !== null && pool.max !== null) return `${pool.min} to ${pool.max}`;
  return pool.max === null ? "" : `at most ${pool.max}`;
}

function phases(pool) {
  return Object.entries(pool.phases)
    .filter(([phase, n]) => phase !== "ready" && n > 0)
    .map(([phase, n]) => `${n} ${phase}`)
    .join(", ");
}

function bar(name, value, scale, note) {
  return h(
    "div",
    { class: `bar ${name}` },
    h("span", { class: "label" }, name),
    h("span", { class: "track" }, h("span", { class: "fill", vars: { "--part": String(Math.min(1, value / scale)) } })),
    h("span", { class: "value" }, count(value)),
    h("span", { class: "note" }, note),
  );
}

function history(pool, series, hover, act) {
  const column = series?.pools[pool.pool];
  if (!column) return h("div", { class: "chart empty" });
  const { from, to } = windowOf(series);
  const replicas = Math.max(1, largest(column.ready, column.desired) ?? 1);
  return h(
    "div",
    { class: "plot" },
    chart({
      at: series.at_ms,
      from,
      to,
      hover,
      act,
      label: `Replicas and backlog of ${pool.pool || "workers started by hand"} over time`,
      layers: [
        { name: "backlog", kind: "area", values: column.backlog, top: Math.max(1, largest(column.backlog) ?? 1) },
        { name: "desired", kind: "step", values: column.desired, top: replicas },
        { name: "ready", kind: "step", values: column.ready, top: replicas },
      ],
    }),
    h(
      "div",
      { class: "axis" },
      h("span", {}, `${span(to - from)} ago`),
      legend(series, column, rowAt(series.at_ms, hover)),
      h("span", {}, "now"),
    ),
  );
}

function legend(series, column, row) {
  const at = row === null ? "" : `, ${clock(series.at_ms[row])}`;
  return h(
    "span",
    { class: "legend" },
    h("i", { class: "ready" }),
    `ready ${row === null ? `top ${count(largest(column.ready))}` : count(column.ready[row])}`,
    h("i", { class: "backlog" }),
    `waiting ${row === null ? `top ${compact(largest(column.backlog))}` : count(column.backlog[row])}${at}`,
  );
}

function reason(pool) {
  const decision = pool.decision;
  if (!decision) {
    const words = pool.pool ? "No scaling decision in the last 24 hours." : "Not scaled: nobody put these workers into a pool.";
    return h("p", { class: "reason quiet" }, words);
  }
  return h(
    "p",
    { class: "reason" },
    h("span", {}, decision.summary || decision.reason),
    h("time", { class: "quiet", datetime: decision.at, title: exact(decision.at) }, ` ${ago(decision.at)}`),
  );
}
