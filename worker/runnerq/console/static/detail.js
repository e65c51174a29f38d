// One activity in full: its facts, its timeline, what went in, what came out, what went wrong.

import { address } from "./api.js";
import { bytes, clock, exact, moment, span, stateName } from "./format.js";
import { jsonView } from "./json.js";
import { h } from "./view.js";

const WORDS = {
  enqueued: "Enqueued",
  scheduled: "Enqueued for later",
  claimed: "Started",
  completed: "Completed",
  retried: "Failed, to be tried again",
  failed: "Failed for good",
  dead_lettered: "Out of attempts: dead letter",
  snoozed: "Put off by its handler",
  released: "Handed back",
  claim_lost: "Its worker was lost",
  requeued: "Requeued",
};

/** `detail`: {id, activity, events, error}. */
export function detailView({ detail, queue, canAct, act }) {
  const { activity } = detail;
  return [
    h(
      "header",
      {},
      h(
        "div",
        {},
        h("h2", {}, activity?.type ?? "Activity"),
        h("p", { class: "id" }, detail.id, h("button", { type: "button", class: "plain", on: { click: () => act.copy(detail.id) } }, detail.copied ? "Copied" : "Copy")),
      ),
      activity ? h("span", { class: `badge ${activity.status}` }, stateName(activity.status)) : "",
      h("button", { type: "button", class: "close", "aria-label": "Close", on: { click: act.close } }, "✕"),
    ),
    detail.error ? h("p", { class: "problem" }, detail.error) : "",
    activity ? body(detail, queue, canAct, act) : detail.error ? "" : h("p", { class: "waiting" }, "Reading…"),
  ];
}

function body({ activity, events }, queue, canAct, act) {
  return [
    activity.status === "dead_letter" && canAct
      ? h("p", { class: "actions" }, h("button", { type: "button", class: "primary", on: { click: () => act.requeue([activity.id]) } }, "Requeue with all attempts"))
      : "",
    activity.error ? failure(activity.error) : "",
    h("h3", {}, "Timeline"),
    events ? timeline(events) : h("p", { class: "waiting" }, "Reading…"),
    h("h3", {}, "Facts"),
    facts(activity),
    value("Payload", "payload", activity, queue),
    activity.status === "completed" ? value("Result", "result", activity, queue) : "",
    Object.keys(activity.headers).length ? [h("h3", {}, "Headers"), h("pre", { class: "json" }, jsonView(activity.headers))] : "",
  ];
}

function failure(error) {
  return h(
    "section",
    { class: "failure" },
    h("h3", {}, error.type, error.kind === "handler" ? "" : h("span", { class: "tag" }, error.kind.replace("_", " "))),
    h("p", { class: "message" }, error.message),
    error.causes?.length ? h("ul", { class: "causes" }, error.causes.map((cause) => h("li", {}, cause))) : "",
    error.traceback ? h("details", { open: true }, h("summary", {}, "Traceback"), h("pre", { class: "traceback" }, traceback(error.traceback))) : "",
  );
}

// Frames of the application stand out from those of libraries, which is where one looks first.
function traceback(text) {
  let own = true;
  return text.split("\n").map((line, index) => {
    if (/^ {2}File /.test(line)) own = !/site-packages|lib\/python|runnerq\/engine/.test(line);
    return h("span", { key: `l${index}`, class: own ? "own" : "other" }, `${line}\n`);
  });
}

function timeline(events) {
  return h(
    "ol",
    { class: "timeline" },
    events.map((event, index) => {
      const gap = index === 0 ? null : Date.parse(event.at) - Date.parse(events[index - 1].at);
      return h(
        "li",
        { key: `e${index}`, class: event.kind },
        h("time", { datetime: event.at, title: exact(event.at) }, clock(event.at)),
        h("i", { class: `dot ${event.status ?? ""}` }),
        h(
          "div",
          {},
          h("b", {}, WORDS[event.kind] ?? event.kind),
          event.attempt ? h("span", { class: "quiet" }, ` attempt ${event.attempt}`) : "",
          event.worker_id ? h("span", { class: "quiet" }, ` on ${event.worker_id}`) : "",
          event.detail.actor ? h("span", { class: "quiet" }, ` by ${event.detail.actor}`) : "",
          event.error ? h("p", { class: "message" }, `${event.error.type}: ${event.error.message}`) : "",
        ),
        h("span", { class: "gap" }, gap === null ? "" : `+${span(gap)}`),
      );
    }),
  );
}

function facts(activity) {
  const rows = [
    ["Queue", activity.queue],
    ["Priority", activity.priority],
    ["Attempts", activity.max_attempts === 0 ? `${activity.attempt}, no limit` : `${activity.attempt} of ${activity.max_attempts}`],
    ["Timeout", span(activity.timeout_ms)],
    ["Enqueued", moment(activity.created_at)],
    ["Claimable since", moment(activity.ready_at)],
    ["Started", moment(activity.claimed_at)],
    ["Lease until", activity.status === "processing" ? moment(activity.deadline) : null],
    ["Ended", moment(activity.finished_at)],
    ["Worker", activity.worker_id],
    ["Idempotency key", activity.idempotency_key],
    ["Parent", activity.parent_id],
    ["Root", activity.root_id === activity.id ? null : activity.root_id],
  ];
  return h(
    "dl",
    { class: "facts" },
    rows.filter(([, text]) => text).map(([name, text]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, text))),
  );
}

function value(title, name, activity, queue) {
  const encoding = activity[`${name}_encoding`];
  const note = encoding === "base64" ? `${activity[`${name}_codec`]}, as base64` : "";
  return [
    h(
      "h3",
      { key: `title-${name}` },
      title,
      h("small", {}, bytes(activity[`${name}_bytes`]), note ? `, ${note}` : ""),
      name === "payload"
        ? h("a", { class: "raw", href: address(`activities/${activity.id}`, { queue }), target: "_blank", rel: "noreferrer" }, "all as JSON")
        : "",
    ),
    h("pre", { key: `value-${name}`, class: "json" }, encoding === "base64" ? activity[name] : jsonView(activity[name])),
  ];
}
