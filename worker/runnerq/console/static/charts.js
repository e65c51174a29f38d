// Small charts as SVG: areas, lines and steps over the series' columns. A null is a gap, never a zero.

import { h } from "./view.js";

const WIDTH = 1000;
const HEIGHT = 100;

/** Columns of [at, values] to an SVG chart. `layers`: {values, kind: "area" | "line" | "step", name}.
 *  Each layer may have its own `top`; else the largest value of all sharing layers is used. */
export function chart({ at, from, to, layers, label, hover, act, tall = false }) {
  const shared = Math.max(1, ...layers.filter((layer) => !layer.top).flatMap((layer) => known(layer.values)));
  const x = (ms) => ((ms - from) / (to - from)) * WIDTH;
  const shapes = layers.flatMap((layer) => {
    const top = layer.top ?? shared;
    const y = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 8);
    return runs(at, layer.values, from).map((run) => shape(layer, run, x, y));
  });
  return h(
    "svg",
    {
      class: `chart ${tall ? "tall" : ""}`,
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
      on: {
        pointermove: (event) => act.hover(from + share(event) * (to - from)),
        pointerleave: () => act.hover(null),
      },
    },
    [25, 50, 75].map((y) => h("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y })),
    shapes,
    hover >= from && hover <= to ? h("line", { class: "cross", x1: x(hover), x2: x(hover), y1: 0, y2: HEIGHT }) : "",
  );
}

function share(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
}

/** The row at a hovered instant: the last one that is not after it; null without hovering. */
export function rowAt(at, hover) {
  if (hover === null || at.length === 0 || hover < at[0]) return null;
  return at.findLastIndex((ms) => ms <= hover);
}

function shape(layer, run, x, y) {
  const points = layer.kind === "step" ? stepped(run) : run;
  const line = points.map(([ms, value]) => `${x(ms).toFixed(1)},${y(value).toFixed(1)}`);
  if (layer.kind !== "area") return h("path", { class: layer.name, d: `M${line.join("L")}` });
  const first = x(points[0][0]).toFixed(1);
  const last = x(points[points.length - 1][0]).toFixed(1);
  return h(
    "g",
    { class: layer.name },
    h("path", { class: "fill", d: `M${first},${HEIGHT}L${line.join("L")}L${last},${HEIGHT}Z` }),
    h("path", { class: "edge", d: `M${line.join("L")}` }),
  );
}

function stepped(run) {
  return run.flatMap(([ms, value], index) => (index === 0 ? [[ms, value]] : [[ms, run[index - 1][1]], [ms, value]]));
}

// Uninterrupted stretches. One point alone still gets a width, so that it can be seen.
function runs(at, values, from) {
  const found = [];
  let run = [];
  at.forEach((ms, index) => {
    const value = values[index];
    if (ms < from) return;
    if (value === null || value === undefined) {
      if (run.length) found.push(run);
      run = [];
    } else {
      run.push([ms, value]);
    }
  });
  if (run.length) found.push(run);
  return found.map((points) => (points.length > 1 ? points : [points[0], [points[0][0] + 1000, points[0][1]]]));
}

function known(values) {
  return values.filter((value) => value !== null && value !== undefined);
}

/** The largest value of the columns, for an axis label. */
export function largest(...columns) {
  const values = columns.flatMap(known);
  return values.length ? Math.max(...values) : null;
}

/** The series with one more point; as many points as there were at most. */
export function appended(series, point, keep = 450) {
  const cut = (values) => values.slice(-keep);
  const names = new Set([...Object.keys(series.pools), ...Object.keys(point.pools)]);
  const pools = {};
  for (const name of names) {
    const before = series.pools[name];
    const now = point.pools[name];
    pools[name] = {};
    for (const field of ["desired", "ready", "busy", "backlog"]) {
      const column = before?.[field] ?? series.at_ms.map(() => null);
      pools[name][field] = cut([...column, now?.[field] ?? null]);
    }
  }
  return {
    at_ms: cut([...series.at_ms, point.at_ms]),
    rate: cut([...series.rate, point.rate]),
    claimable: cut([...series.claimable, point.claimable]),
    running: cut([...series.running, point.running]),
    pools,
  };
}
