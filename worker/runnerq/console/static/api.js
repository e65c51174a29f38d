// Asking the server. Every failure becomes an ApiError with the server's own words; numbers that a
// double cannot hold keep their digits.

const ROOT = "api/observability/";
const TIMEOUT_MS = 8000;

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** A number as it was written, where JavaScript would have changed it. */
export class ExactNumber {
  constructor(text) {
    this.text = text;
  }
}

/** JSON.parse that keeps 9007199254740993 and 1.0 as they are, where the browser tells the source. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source
      ? new ExactNumber(context.source)
      : value,
  );
}

export async function get(path, params = {}, { exact = false } = {}) {
  return request(address(path, params), {}, exact);
}

export async function post(path, params, body) {
  return request(address(path, params), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

export function address(path, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  return ROOT + path + (query.size ? `?${query}` : "");
}

async function request(url, options, exact = false) {
  let response;
  let text;
  try {
    response = await fetch(url, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
    text = await response.text();
  } catch (error) {
    const slow = error.name === "TimeoutError";
    throw new ApiError(0, "unreachable", slow ? "The console did not answer in time." : "The console cannot be reached.");
  }
  if (response.status === 401) {
    // The session ended; the same address shows the login.
    location.reload();
  }
  let document;
  try {
    document = exact ? parse(text) : JSON.parse(text);
  } catch {
    throw new ApiError(response.status, "unreadable", `The console answered ${response.status} with something that is not JSON.`);
  }
  if (!response.ok) {
    const error = document.error ?? {};
    throw new ApiError(response.status, error.code ?? "error", error.message ?? `The console answered ${response.status}.`);
  }
  return document;
}
