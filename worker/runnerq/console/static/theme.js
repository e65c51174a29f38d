// Light, dark, or as the system says; remembered per browser.

const ORDER = ["auto", "light", "dark"];
const KEY = "runnerq-theme";

export function chosenTheme() {
  return apply(read());
}

export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(read()) + 1) % ORDER.length];
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Storage is switched off: the choice lasts as long as the page.
  }
  return apply(next);
}

function read() {
  try {
    const stored = localStorage.getItem(KEY);
    return ORDER.includes(stored) ? stored : "auto";
  } catch {
    return document.documentElement.dataset.theme ?? "auto";
  }
}

function apply(theme) {
  document.documentElement.dataset.theme = theme;
  return theme;
}
