// Light, dark, or as the system has it. Remembered in this browser.
import { useEffect, useState } from "preact/hooks";

const KEY = "taut-theme";
const listeners = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system"; // storage is off, as in some exported files
  }
}

let choice = stored();

function apply() {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  for (const listener of listeners) listener();
}

apply();
dark.addEventListener("change", apply);

export function setTheme(next) {
  choice = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // It holds until the page is closed.
  }
  apply();
}

/** [choice, shown]: "system", "light" or "dark", and which of the last two is seen. Draws anew on a change. */
export function useTheme() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return [choice, choice === "system" ? (dark.matches ? "dark" : "light") : choice];
}

/** The value of a colour variable now, for canvases: color("--s1"). */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
