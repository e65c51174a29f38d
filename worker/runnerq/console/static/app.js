// The page: holds what is known, asks for what is missing, draws it. The address's fragment is the
// view (queue, state, type, activity), so that a link shows what its sender saw.

import { activitiesPanel } from "./activities.js";
import { get, post } from "./api.js";
import { appended } from "./charts.js";
import { decisionsPanel } from "./decisions.js";
import { detailView } from "./detail.js";
import { STATES } from "./format.js";
import { confirmView, footer, header, notice } from "./frame.js";
import { Live, TOPICS } from "./live.js";
import { overview } from "./overview.js";
import { poolsPanel } from "./pools.js";
import { chosenTheme, nextTheme } from "./theme.js";
import { render } from "./view.js";
import { workersPanel } from "./workers.js";

const PAGE_SIZE = 25;
const REFRESH_MS = 1200;
const byId = (id) => document.getElementById(id);

const page = {
  session: null,
  queues: [],
  queue: "",
  status: "connecting",
  down: null,
  reasons: { stream: null, reach: null },
  lastGood: null,
  topics: {},
  problems: {},
  series: null,
  list: { state: "", type: "", items: null, next: null, back: [], cursor: "", error: "", loading: false },
  detail: null,
  picked: new Set(),
  confirm: null,
  hover: null,
  theme: chosenTheme(),
};

// --- drawing -------------------------------------------------------------------------------------

let drawing = false;

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    drawNow();
  });
}

function drawNow() {
  // Said once: above everything when it is about everything.
  const shown = { ...page, problems: page.down === null ? page.problems : {}, act };
  const canAct = page.session !== null && page.session.role !== "viewer";
  render(byId("top"), header(page, act));
  render(byId("notice"), notice(page));
  document.body.classList.toggle("is-down", page.down !== null);
  render(byId("overview"), overview({ ...shown, selected: page.list.state }));
  render(byId("pools"), poolsPanel(shown));
  render(byId("decisions"), decisionsPanel(shown));
  render(byId("workers"), workersPanel(shown));
  render(byId("activities"), activitiesPanel({ ...page, canAct, act }));
  render(byId("foot"), footer(page));
  drawDialog(byId("detail"), page.detail && detailView({ ...page, canAct, act }));
  drawDialog(byId("confirm"), page.confirm && confirmView(page.confirm, act));
  document.title = page.queue ? `${page.queue} · runnerq` : "runnerq";
}

function drawDialog(dialog, content) {
  if (content) {
    render(dialog, content);
    if (!dialog.open) dialog.showModal();
  } else if (dialog.open) {
    dialog.close();
  }
}

// --- what comes in -------------------------------------------------------------------------------

const live = new Live({
  status(status) {
    page.status = status;
    // Without the stream, what it said of the backend is old.
    if (status === "polling") page.reasons.stream = null;
    judge();
  },
  topic(name, document) {
    page.reasons.reach = null;
    if (name === "backend") page.reasons.stream = document.up ? null : document.error.message;
    else if (name === "series") page.series = document;
    else if (document.error) page.problems[name] = document.error.message;
    else {
      page.topics[name] = document;
      page.lastGood = Date.now();
      delete page.problems[name];
      if (name === "stats" && page.list.state === "") choose(document);
    }
    judge();
  },
  point(point) {
    if (page.series) page.series = appended(page.series, point);
    draw();
  },
  activity(event) {
    if (page.detail?.id === event.activity_id) loadDetail();
    if (concerns(event)) refreshList();
  },
  resync() {
    refreshList();
    loadSeries();
    if (page.detail) loadDetail();
  },
  failed(topic, error) {
    if (error.status === 0) page.reasons.reach = error.message;
    else if (topic !== "series") page.problems[topic] = error.message;
    judge();
  },
});

// One part that fails is said in its panel; all of them, or a lost stream, is a backend that is away.
function judge() {
  const wasDown = page.down !== null;
  const all = TOPICS.every((topic) => page.problems[topic]);
  page.down = page.reasons.reach ?? page.reasons.stream ?? (all ? page.problems.stats : null);
  if (wasDown && page.down === null) refreshList();
  draw();
}

// Until somebody chooses, the browser shows what is most telling: work in progress, else what waits,
// else what went wrong, else what was done.
function choose(stats) {
  const telling = ["processing", "pending", "dead_letter", "failed", "completed"];
  const found = telling.find((state) => stats.counts[state]);
  if (!found) return;
  page.list.state = found;
  page.list.loading = true;
  loadList();
}

function still() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function concerns(event) {
  if (page.list.type && page.list.type !== event.type) return false;
  return event.status === page.list.state || (page.list.items ?? []).some((item) => item.id === event.activity_id);
}

// --- what is asked for ---------------------------------------------------------------------------

// Answers that come after a newer question are dropped; a question is not repeated while it is open.
function latest(ask, take, fail) {
  let current = 0;
  return async (...args) => {
    const mine = ++current;
    try {
      const answer = await ask(...args);
      if (mine === current) take(answer);
    } catch (error) {
      if (mine === current) fail(error);
    }
    draw();
  };
}

const loadList = latest(
  () => {
    page.list.loading = true;
    const { state, type, cursor } = page.list;
    return get(`activities/${state}`, { queue: page.queue, type, cursor, limit: PAGE_SIZE });
  },
  (answer) => {
    Object.assign(page.list, { items: answer.items, next: answer.next_cursor, error: "", loading: false });
    const shown = new Set(answer.items.map((item) => item.id));
    page.picked = new Set([...page.picked].filter((id) => shown.has(id)));
  },
  (error) => Object.assign(page.list, { error: error.message, loading: false }),
);

let refreshing = null;

function refreshList() {
  if (refreshing !== null || !page.list.state) return;
  refreshing = setTimeout(async () => {
    await loadList();
    refreshing = null;
  }, REFRESH_MS);
}

const loadDetail = latest(
  async () => {
    const path = `activities/${page.detail.id}`;
    const params = { queue: page.queue };
    const [activity, timeline] = await Promise.all([get(path, params, { exact: true }), get(`${path}/events`, params)]);
    return { activity, events: timeline.events };
  },
  (answer) => page.detail?.id === answer.activity.id && Object.assign(page.detail, answer, { error: "" }),
  (error) => page.detail && Object.assign(page.detail, { error: error.message }),
);

const loadSeries = latest(
  () => get("series", { queue: page.queue }),
  (series) => {
    page.series = series;
  },
  (error) => live.handlers.failed("series", error),
);

// --- what people do ------------------------------------------------------------------------------

const act = {
  choose: (change) => go({ ...current(), id: "", ...change }),
  open: (id) => go({ ...current(), id }),
  close: () => go({ ...current(), id: "" }),
  link: (id) => fragment({ ...current(), id }),
  stateLink: (state) => fragment({ ...current(), state, id: "" }),
  queue: (queue) => go({ ...current(), queue, id: "" }),
  hover(ms) {
    page.hover = ms;
    draw();
  },
  tile(state) {
    go({ ...current(), state, id: "" });
    byId("activities").scrollIntoView({ behavior: still() ? "auto" : "smooth" });
  },
  older() {
    page.list.back.push(page.list.cursor);
    page.list.cursor = page.list.next;
    loadList();
  },
  newer() {
    page.list.cursor = page.list.back.pop() ?? "";
    loadList();
  },
  pick(ids, on) {
    for (const id of ids) page.picked[on ? "add" : "delete"](id);
    draw();
  },
  requeue(ids) {
    page.confirm = { ids, error: "", busy: false };
    draw();
  },
  cancel() {
    page.confirm = null;
    draw();
  },
  async confirmed() {
    const { ids } = page.confirm;
    Object.assign(page.confirm, { busy: true, error: "" });
    draw();
    try {
      await post("dead-letter/requeue", { queue: page.queue }, { ids });
      page.confirm = null;
      page.picked.clear();
      loadList();
      if (page.detail) loadDetail();
    } catch (error) {
      Object.assign(page.confirm, { busy: false, error: error.message });
    }
    draw();
  },
  async copy(id) {
    await navigator.clipboard?.writeText(id);
    if (page.detail) page.detail.copied = true;
    draw();
  },
  async logout() {
    await fetch("logout", { method: "POST" });
    location.reload();
  },
  theme() {
    page.theme = nextTheme();
    draw();
  },
};

function current() {
  return { queue: page.queue, state: page.list.state, type: page.list.type, id: page.detail?.id ?? "" };
}

function fragment(view) {
  const { queue, ...rest } = view;
  const shown = queue && queue !== page.session?.queue ? { queue, ...rest } : rest;
  return `#${new URLSearchParams(Object.entries(shown).filter(([, value]) => value))}`;
}

function go(view) {
  const next = fragment(view);
  if (next === location.hash) route();
  else location.hash = next;
}

/** Follow the address: whatever it names is what is shown. */
function route() {
  const params = new URLSearchParams(location.hash.slice(1));
  const queue = params.get("queue") || page.session.queue;
  const state = STATES.some(([known]) => known === params.get("state")) ? params.get("state") : page.list.state;
  const type = params.get("type") ?? "";
  const moved = queue !== page.queue;
  if (moved) {
    Object.assign(page, { queue, topics: {}, problems: {}, series: null, down: null, reasons: { stream: null, reach: null } });
    live.watch(queue);
    loadSeries();
  }
  if (moved || state !== page.list.state || type !== page.list.type || page.list.items === null) {
    page.list = { state, type, items: null, next: null, back: [], cursor: "", error: "", loading: true };
    page.picked = new Set();
    if (state) loadList();
  }
  const id = params.get("id");
  if (!id) page.detail = null;
  else if (page.detail?.id !== id) {
    page.detail = { id, activity: null, events: null, error: "", copied: false };
    loadDetail();
  }
  draw();
}

function shortcuts(event) {
  if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...document.querySelectorAll("table.activities a.id")];
  const at = rows.indexOf(document.activeElement);
  if (event.key === "/") byId("type-filter").focus();
  else if (event.key === "j") rows[Math.min(at + 1, rows.length - 1)]?.focus();
  else if (event.key === "k") rows[Math.max(at - 1, 0)]?.focus();
  else return;
  event.preventDefault();
}

async function start() {
  drawNow();
  addEventListener("hashchange", route);
  addEventListener("keydown", shortcuts);
  // Escape changes the state, and the state closes the dialog: closed by the browser first, a draw
  // before its close event would open it again.
  byId("detail").addEventListener("cancel", (event) => { event.preventDefault(); act.close(); });
  byId("confirm").addEventListener("cancel", (event) => { event.preventDefault(); act.cancel(); });
  byId("detail").addEventListener("close", () => page.detail && act.close());
  byId("detail").addEventListener("click", (event) => event.target.id === "detail" && act.close());
  byId("confirm").addEventListener("close", () => page.confirm && act.cancel());
  // Ages grow by themselves.
  setInterval(draw, 1000);
  let wait = 1000;
  while (page.session === null) {
    try {
      page.session = await get("session");
    } catch (error) {
      page.reasons.reach = error.message;
      judge();
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 30000);
    }
  }
  page.reasons.reach = null;
  judge();
  route();
  try {
    page.queues = (await get("queues")).queues.map((queue) => queue.name);
  } catch (error) {
    live.handlers.failed("series", error);
  }
  draw();
}

start();
