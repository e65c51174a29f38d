// Engine processes: which pod, how busy, how fresh their last sign of life.

import { ago, count, exact, span } from "./format.js";
import { h } from "./view.js";

const SHOWN = 40;

export function workersPanel({ topics, problems }) {
  const workers = topics.workers?.workers;
  return [
    h("h2", {}, "Workers", workers ? h("small", {}, count(workers.length)) : ""),
    problems.workers ? h("p", { class: "problem" }, problems.workers) : "",
    h(
      "div",
      { class: "card list scroll" },
      !workers ? h("p", { class: "waiting" }, "Reading workers…") : "",
      workers?.length === 0 ? h("p", { class: "quiet empty" }, "No worker is running.") : "",
      workers?.length ? table(workers.slice(0, SHOWN)) : "",
      workers?.length > SHOWN ? h("p", { class: "quiet empty" }, `and ${count(workers.length - SHOWN)} more`) : "",
    ),
  ];
}

function table(workers) {
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Worker", "Pool", "Slots", "Finished", "Up", "Heartbeat"].map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h("tbody", {}, workers.map(row)),
  );
}

function row(worker) {
  const state = worker.cordoned && worker.state === "running" ? "cordoned" : worker.state;
  return h(
    "tr",
    { key: worker.engine_id },
    h(
      "td",
      { class: "worker", title: `${worker.worker_id}\n${worker.types.join(", ")}\n${worker.build_id}` },
      h("i", { class: `dot worker-${state}` }),
      h("span", {}, worker.pod || worker.worker_id),
      state === "running" ? "" : h("span", { class: "tag" }, state),
    ),
    h("td", {}, worker.pool || "–"),
    h("td", {}, slots(worker)),
    h("td", { class: "number" }, count(worker.finished)),
    h("td", { class: "number", title: exact(worker.started_at) }, ago(worker.started_at).replace(" ago", "")),
    h("td", { class: "number" }, span(worker.heartbeat_age_ms)),
  );
}

function slots(worker) {
  return h(
    "span",
    { class: "bar busy inline", title: `${worker.busy} of ${worker.slots} busy` },
    h(
      "span",
      { class: "track" },
      h("span", { class: "fill", vars: { "--part": String(Math.min(1, worker.busy / Math.max(1, worker.slots))) } }),
    ),
    h("span", { class: "value" }, `${count(worker.busy)}/${count(worker.slots)}`),
  );
}
