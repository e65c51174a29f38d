// Keeps the page current: one event stream, and polling with back-off where there is none.
//
//     connecting --hello--> live --error--> polling --hello--> live
//
// Polls never overlap: the next one is set when the last has ended. A hidden tab gives its connection
// back, because browsers allow only six per host.

import { ApiError, address, get } from "./api.js";

export const TOPICS = ["stats", "pools", "workers", "decisions"];
const POLL_MS = 3000;
const LONGEST_POLL_MS = 30000;
const PATIENCE_MS = 4000;
const HIDDEN_MS = 10000;

export class Live {
  /** `handlers`: topic(name, document), activity(event), point(document), resync(reason),
   *  status("connecting" | "live" | "polling"), failed(topic, ApiError). */
  constructor(handlers) {
    this.handlers = handlers;
    this.queue = "";
    this.source = null;
    this.timer = null;
    this.retry = null;
    this.delay = POLL_MS;
    this.generation = 0;
    document.addEventListener("visibilitychange", () => this.#visibility());
  }

  watch(queue) {
    this.queue = queue;
    this.generation += 1;
    this.#close();
    this.#open();
  }

  #open() {
    this.handlers.status("connecting");
    const generation = this.generation;
    const source = new EventSource(address("stream", { queue: this.queue }));
    this.source = source;
    const listen = (name, handler) =>
      source.addEventListener(name, (event) => {
        if (generation === this.generation) handler(JSON.parse(event.data));
      });
    listen("hello", () => {
      this.#stopPolling();
      this.handlers.status("live");
    });
    for (const topic of [...TOPICS, "backend"]) listen(topic, (data) => this.handlers.topic(topic, data));
    listen("activity", (data) => this.handlers.activity(data));
    listen("point", (data) => this.handlers.point(data));
    listen("resync", (data) => this.handlers.resync(data.reason));
    source.addEventListener("error", () => {
      if (generation !== this.generation) return;
      // The browser retries a broken stream by itself, but not one that was refused.
      if (source.readyState === EventSource.CLOSED) {
        source.close();
        clearTimeout(this.retry);
        this.retry = setTimeout(() => generation === this.generation && this.#open(), LONGEST_POLL_MS / 3);
      }
      this.#startPolling(source.readyState === EventSource.CLOSED ? 0 : PATIENCE_MS);
    });
  }

  #startPolling(after) {
    if (this.timer !== null) return;
    this.delay = POLL_MS;
    this.handlers.status("connecting");
    this.timer = setTimeout(() => this.#poll(this.generation), after);
  }

  #stopPolling() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  async #poll(generation) {
    this.handlers.status("polling");
    const params = { queue: this.queue };
    const answers = await Promise.allSettled([...TOPICS, "series"].map((topic) => get(topic, params)));
    if (generation !== this.generation || this.timer === null) return;
    let failed = false;
    answers.forEach((answer, index) => {
      const topic = [...TOPICS, "series"][index];
      if (answer.status === "fulfilled") {
        this.handlers.topic(topic, answer.value);
      } else if (answer.reason instanceof ApiError) {
        failed = true;
        this.handlers.failed(topic, answer.reason);
      } else {
        throw answer.reason;
      }
    });
    this.delay = failed ? Math.min(this.delay * 2, LONGEST_POLL_MS) : POLL_MS;
    this.timer = setTimeout(() => this.#poll(generation), this.delay);
  }

  #visibility() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.generation += 1;
        this.#close();
      }, HIDDEN_MS);
    } else if (this.source === null && this.queue) {
      this.watch(this.queue);
      this.handlers.resync("hidden");
    }
  }

  #close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.retry);
    this.#stopPolling();
  }
}
