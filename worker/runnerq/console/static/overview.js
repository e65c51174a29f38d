// The first thing to see: how fast work gets done, how much waits, and one number per state.

import { chart, largest, rowAt } from "./charts.js";
import { STATES, clock, compact, count, rate, span } from "./format.js";
import { h } from "./view.js";

const WINDOW_MS = 15 * 60 * 1000;

export function overview({ topics, series, problems, hover, selected, act }) {
  const stats = topics.stats;
  return [problems.stats ? h("p", { class: "problem" }, problems.stats) : "", flow(stats, series, hover, act), tiles(stats, selected, act)];
}

export function windowOf(series) {
  const to = series?.at_ms.at(-1) ?? Date.now();
  const first = series?.at_ms.find((ms) => ms > to - WINDOW_MS) ?? to;
  // A young series fills the width from one minute on, instead of hiding in the right corner.
  return { from: Math.min(first, to - 60000), to };
}

function flow(stats, series, hover, act) {
  const { from, to } = windowOf(series);
  const waiting = stats?.demand;
  return h(
    "div",
    { class: "card flow" },
    h(
      "div",
      { class: "figures" },
      figure("rate", rate(stats?.finished_per_second), "finished per second"),
      figure("wait", count(waiting?.claimable, waiting?.claimable_capped), "claimable now"),
      figure("age", span(stats?.oldest_claimable_age_ms), "oldest has waited"),
    ),
    h(
      "div",
      { class: "plot" },
      series && series.at_ms.length > 0
        ? chart({
            at: series.at_ms,
            from,
            to,
            hover,
            act,
            tall: true,
            label: "Claimable activities and attempts finished per second over time",
            layers: [
              { name: "backlog", kind: "area", values: series.claimable, top: Math.max(1, largest(series.claimable) ?? 1) },
              { name: "rate", kind: "line", values: series.rate, top: Math.max(1, largest(series.rate) ?? 1) },
            ],
          })
        : h("div", { class: "chart tall empty" }),
      h(
        "div",
        { class: "axis" },
        h("span", {}, `${span(to - from)} ago`),
        series ? legend(series, rowAt(series.at_ms, hover)) : "",
        h("span", {}, "now"),
      ),
    ),
  );
}

function legend(series, row) {
  const at = row === null ? "" : `, ${clock(series.at_ms[row])}`;
  return h(
    "span",
    { class: "legend" },
    h("i", { class: "rate" }),
    `finished/s ${row === null ? `top ${rate(largest(series.rate))}` : rate(series.rate[row])}`,
    h("i", { class: "backlog" }),
    `claimable ${row === null ? `top ${compact(largest(series.claimable))}` : count(series.claimable[row])}${at}`,
  );
}

function figure(name, value, label) {
  return h("div", { class: `figure ${name}` }, h("strong", {}, value), h("span", {}, label));
}

function tiles(stats, selected, act) {
  return h(
    "nav",
    { class: "tiles", "aria-label": "Activities by state" },
    STATES.filter(([state]) => state !== "cancelled" || stats?.counts.cancelled).map(([state, name]) =>
      h(
        "a",
        {
          key: state,
          class: `tile ${state} ${stats?.counts[state] ? "" : "zero"}`,
          href: act.stateLink(state),
          "aria-current": state === selected ? "true" : null,
          on: {
            click: (event) => {
              if (event.ctrlKey || event.metaKey || event.shiftKey) return;
              event.preventDefault();
              act.tile(state);
            },
          },
        },
        h("span", { class: "name" }, h("i", { class: `dot ${state}` }), name),
        h("strong", {}, number(stats, state)),
      ),
    ),
  );
}

function number(stats, state) {
  if (!stats) return "–";
  return count(stats.counts[state] ?? 0, stats.capped.includes(state));
}
