// Numbers, ages and instants as people read them. Pure.

const COUNT = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const STATES = [
  ["pending", "Pending"],
  ["processing", "Running"],
  ["scheduled", "Scheduled"],
  ["retrying", "Retrying"],
  ["completed", "Completed"],
  ["failed", "Failed"],
  ["dead_letter", "Dead letter"],
  ["cancelled", "Cancelled"],
];

/** 1234 -> "1,234"; unknown -> "–"; a lower bound gets a plus. */
export function count(value, capped = false) {
  if (value === null || value === undefined) return "–";
  return COUNT.format(value) + (capped ? "+" : "");
}

/** 1234567 -> "1.2M". */
export function compact(value) {
  return value === null || value === undefined ? "–" : COMPACT.format(value);
}

/** Per second, with as many digits as help. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100) return COUNT.format(Math.round(value));
  return value >= 10 ? value.toFixed(1) : value.toFixed(2).replace(/\.?0+$/, "");
}

/** Milliseconds -> "840 ms", "12.3 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const two = (large, one, small, other) => (small ? `${large} ${one} ${small} ${other}` : `${large} ${one}`);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return two(minutes, "min", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return two(hours, "h", minutes % 60, "min");
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** How long ago, coarse: what stands in lists. */
export function ago(instant, now = Date.now()) {
  if (!instant) return "–";
  const ms = now - Date.parse(instant);
  if (ms < 0) return `in ${coarse(-ms)}`;
  return ms < 1500 ? "now" : `${coarse(ms)} ago`;
}

function coarse(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** 14:03:22, local. */
export function clock(instant) {
  return new Date(instant).toLocaleTimeString("en-GB");
}

/** 30 Nov 2026, 14:03:22.417, local; "" for none. */
export function moment(instant) {
  if (!instant) return "";
  const at = new Date(instant);
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return `${day}, ${clock(instant)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** Everything there is to know of an instant, for a tooltip. */
export function exact(instant) {
  return instant ? `${new Date(instant).toLocaleString("en-GB")} · ${instant}` : null;
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1048576 ? `${(size / 1024).toFixed(1)} kB` : `${(size / 1048576).toFixed(1)} MB`;
}

export function stateName(state) {
  return STATES.find(([value]) => value === state)?.[1] ?? state ?? "–";
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** The random end of an id: ids are ordered by time, so their beginnings look alike. */
export function shortId(id) {
  return id.slice(-12);
}
