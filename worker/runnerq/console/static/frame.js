// What stands around the panels: header, the notice when something is wrong, confirmation, footer.

import { clock, count, plural } from "./format.js";
import { h } from "./view.js";

const STATUS = {
  connecting: ["connecting", "Connecting…"],
  live: ["live", "Live"],
  polling: ["polling", "Polling"],
};
const THEMES = { auto: "System theme", light: "Light theme", dark: "Dark theme" };
const THEME_SIGNS = { auto: "◐", light: "☀", dark: "☾" };

export function header(page, act) {
  const [kind, words] = page.down !== null ? ["down", "Backend down"] : STATUS[page.status];
  const names = page.queues.includes(page.queue) || !page.queue ? page.queues : [page.queue, ...page.queues];
  return [
    h("a", { class: "brand", href: "#" }, mark(), h("span", {}, "runner", h("b", {}, "q"))),
    names.length > 1
      ? h(
          "select",
          { class: "queue", "aria-label": "Queue", value: page.queue, on: { change: (event) => act.queue(event.target.value) } },
          names.map((name) => h("option", { key: name, value: name, selected: name === page.queue }, name)),
        )
      : h("span", { class: "queue" }, page.queue),
    h("span", { class: `status ${kind}`, role: "status" }, h("i", {}), words),
    h(
      "button",
      { type: "button", class: "plain theme", title: THEMES[page.theme], "aria-label": `${THEMES[page.theme]}; change`, on: { click: act.theme } },
      THEME_SIGNS[page.theme],
    ),
    page.session?.login
      ? h("button", { type: "button", class: "plain", on: { click: act.logout } }, "Log out")
      : "",
  ];
}

function mark() {
  return h(
    "svg",
    { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true" },
    h("rect", { width: 32, height: 32, rx: 8 }),
    h("path", { d: "M16 7.5a8.5 8.5 0 1 0 8.5 8.5M20.2 20.2 25 25" }),
    h("circle", { cx: 22.3, cy: 9.7, r: 2.4 }),
  );
}

export function notice(page) {
  if (page.down === null) return "";
  const since = page.lastGood === null ? "Nothing has been read yet." : `What you see is from ${clock(page.lastGood)}.`;
  return h("p", { class: "notice" }, h("b", {}, page.down), h("span", {}, `${since} Trying again by itself.`));
}

export function confirmView({ ids, error, busy }, act) {
  return [
    h("h2", {}, `Requeue ${plural(ids.length, "activity", "activities")}?`),
    h("p", {}, ids.length === 1 ? "It runs again, with all its attempts." : "They run again, each with all its attempts."),
    error ? h("p", { class: "problem" }, error) : "",
    h(
      "p",
      { class: "actions" },
      h("button", { type: "button", on: { click: act.cancel } }, "Not now"),
      h("button", { type: "button", class: "primary", disabled: busy, on: { click: act.confirmed } }, busy ? "Requeuing…" : `Requeue ${count(ids.length)}`),
    ),
  ];
}

export function footer(page) {
  if (page.session === null) return "";
  return [
    h("span", {}, `runnerq ${page.session.version}`),
    h("span", {}, page.session.login ? `${page.session.name}` : "no login"),
    h("span", { class: "keys" }, h("kbd", {}, "/"), " filter ", h("kbd", {}, "j"), h("kbd", {}, "k"), " move ", h("kbd", {}, "Esc"), " close"),
  ];
}
