// The activity browser: one state at a time, newest first, by cursor; requeue in the dead letter.

import { STATES, ago, count, exact, plural, shortId, span } from "./format.js";
import { h } from "./view.js";

/** `list`: {state, type, items, next, back: [cursor…], error, loading, stale}. `act` are callbacks. */
export function activitiesPanel({ topics, list, picked, canAct, act }) {
  const stats = topics.stats;
  const requeues = list.state === "dead_letter" && canAct;
  return [
    h("h2", {}, "Activities"),
    h(
      "div",
      { class: "card list" },
      h("div", { class: "toolbar" }, tabs(stats, list, act), filter(stats, list, act)),
      requeues ? requeueBar(list, picked, act) : "",
      list.error ? h("p", { class: "problem" }, list.error) : "",
      h("div", { class: `scroll ${list.loading ? "loading" : ""}` }, list.items ? table(list, picked, requeues, topics.workers?.workers ?? [], act) : ""),
      list.state ? "" : h("p", { class: "quiet empty" }, stats ? "Nothing has been enqueued yet." : "Reading activities…"),
      list.items?.length === 0 ? h("p", { class: "quiet empty" }, nothing(list)) : "",
      list.state ? pager(list, act) : "",
    ),
  ];
}

function tabs(stats, list, act) {
  return h(
    "div",
    { class: "tabs", role: "group", "aria-label": "State" },
    STATES.filter(([state]) => state !== "cancelled" || stats?.counts.cancelled).map(([state, name]) =>
      h(
        "button",
        {
          key: state,
          type: "button",
          "aria-pressed": String(state === list.state),
          on: { click: () => act.choose({ state }) },
        },
        h("i", { class: `dot ${state}` }),
        name,
        h("small", {}, stats ? count(stats.counts[state] ?? 0, stats.capped.includes(state)) : ""),
      ),
    ),
  );
}

function filter(stats, list, act) {
  return h(
    "div",
    { class: "filter" },
    h("input", {
      id: "type-filter",
      type: "search",
      list: "types",
      placeholder: "Any type",
      "aria-label": "Only this activity type",
      spellcheck: "false",
      autocomplete: "off",
      value: list.type,
      on: { change: (event) => act.choose({ type: event.target.value.trim() }) },
    }),
    h("datalist", { id: "types" }, Object.keys(stats?.by_type ?? {}).map((type) => h("option", { key: type, value: type }))),
  );
}

function requeueBar(list, picked, act) {
  const shown = list.items ?? [];
  if (shown.length === 0) return "";
  const all = shown.every((item) => picked.has(item.id));
  return h(
    "div",
    { class: "requeue" },
    h(
      "label",
      {},
      h("input", {
        type: "checkbox",
        checked: all,
        on: { change: () => act.pick(shown.map((item) => item.id), !all) },
      }),
      "All on this page",
    ),
    h(
      "button",
      { type: "button", class: "primary", disabled: picked.size === 0, on: { click: () => act.requeue([...picked]) } },
      picked.size ? `Requeue ${count(picked.size)}` : "Requeue",
    ),
  );
}

function nothing(list) {
  const name = STATES.find(([state]) => state === list.state)?.[1].toLowerCase();
  return `Nothing ${name === "dead letter" ? "in the dead letter" : name}${list.type ? ` of type ${list.type}` : ""}.`;
}

const ENDED = new Set(["completed", "failed", "dead_letter", "cancelled"]);

function table(list, picked, requeues, workers, act) {
  if (list.items.length === 0) return "";
  const ended = ENDED.has(list.state);
  const errors = list.items.some((item) => item.error);
  const last = ended ? "Ended" : list.state === "processing" ? "Running for" : list.state === "pending" ? "Waiting" : "Due";
  return h(
    "table",
    { class: "activities" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        requeues ? h("th", { class: "pick" }, h("span", { class: "unseen" }, "Pick")) : "",
        ["Activity", "Type", "Priority", "Attempt", "Enqueued", last, ended ? "Took" : "Worker", errors ? "Error" : ""]
          .filter(Boolean)
          .map((name) => h("th", { key: name, scope: "col" }, name)),
      ),
    ),
    h("tbody", {}, list.items.map((item) => row(item, { list, picked, requeues, workers, errors, act }))),
  );
}

function row(item, { list, picked, requeues, workers, errors, act }) {
  const ended = ENDED.has(list.state);
  return h(
    "tr",
    { key: item.id, class: `${item.status !== list.state ? "gone" : ""}`, on: { click: (event) => open(event, item, act) } },
    requeues
      ? h(
          "td",
          { class: "pick" },
          h("input", {
            type: "checkbox",
            checked: picked.has(item.id),
            "aria-label": `Pick ${item.id}`,
            on: { change: (event) => act.pick([item.id], event.target.checked) },
          }),
        )
      : "",
    h(
      "td",
      {},
      h("a", { href: act.link(item.id), class: "id", title: item.id }, h("i", { class: `dot ${item.status}` }), shortId(item.id)),
    ),
    h("td", { class: "type", title: item.type }, item.type),
    h("td", {}, item.priority === "normal" ? h("span", { class: "quiet" }, "normal") : item.priority),
    h("td", { class: "number" }, attempts(item)),
    h("td", { class: "number", title: exact(item.created_at) }, ago(item.created_at)),
    h("td", { class: "number", title: exact(moment(item)) }, when(item)),
    h(
      "td",
      { class: ended ? "number" : "owner", title: item.worker_id ?? "" },
      ended ? took(item) : item.status === "processing" ? owner(item, workers) : "–",
    ),
    errors
      ? h("td", { class: "error", title: item.error?.message ?? "" }, item.error ? [h("b", {}, item.error.type), ` ${item.error.message}`] : "")
      : "",
  );
}

function open(event, item, act) {
  // Links and boxes have their own meaning, and a selection is not a click.
  if (event.target.closest("a, input") || String(getSelection())) return;
  act.open(item.id);
}

// The pod says more than the process; both are in the tooltip.
function owner(item, workers) {
  return workers.find((worker) => worker.worker_id === item.worker_id)?.pod || (item.worker_id ?? "–");
}

function attempts(item) {
  return item.max_attempts === 0 ? count(item.attempt) : `${item.attempt}/${item.max_attempts}`;
}

function moment(item) {
  if (ENDED.has(item.status)) return item.finished_at;
  return item.status === "processing" ? item.claimed_at : item.ready_at;
}

function when(item) {
  const instant = moment(item);
  if (!instant) return "–";
  if (item.status === "processing" || item.status === "pending") return span(Date.now() - Date.parse(instant));
  return ago(instant);
}

function took(item) {
  if (!item.claimed_at || !item.finished_at) return "–";
  return span(Date.parse(item.finished_at) - Date.parse(item.claimed_at));
}

function pager(list, act) {
  return h(
    "div",
    { class: "pager" },
    h("button", { type: "button", disabled: list.back.length === 0, on: { click: act.newer } }, "Newer"),
    h("span", { class: "quiet" }, list.items ? position(list) : "Reading…"),
    h("button", { type: "button", disabled: !list.next, on: { click: act.older } }, "Older"),
  );
}

function position(list) {
  const shown = plural(list.items.length, "activity", "activities");
  if (list.back.length === 0) return `The newest ${shown}`;
  return `Page ${list.back.length + 1}, ${shown}`;
}
