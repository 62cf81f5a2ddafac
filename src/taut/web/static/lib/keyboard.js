// Keys of a page. They rest while a person types, and never take what a modifier makes the browser's.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const shown = new Map();
const listeners = new Set();
const ARROWS = "[type=range], [type=radio], [role=slider], [role=radiogroup], [role=tablist], [data-keys]";
const PRESSED = "button, a, summary, [role=button], label, [type=checkbox], [type=radio]";

function typing(target) {
  return target.closest?.("input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

/**
 * While the component is on the page: `keys` maps KeyboardEvent.key to {does: "words", run: function}.
 * A key that a focused widget uses itself (an arrow on a slider) is the widget's, by preventDefault or by its role.
 */
export function useKeys(keys) {
  const newest = useRef(keys);
  newest.current = keys;
  // With the drawing and not a moment after it, as an effect would: what a person can see, a key can reach.
  useLayoutEffect(() => {
    const id = Symbol("keys");
    const listener = (event) => {
      const own = Object.hasOwn(newest.current, event.key) ? newest.current[event.key] : undefined;
      if (!own || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
      if (event.key.startsWith("Arrow") && event.target.closest?.(ARROWS)) return;
      if ((event.key === " " || event.key === "Enter") && event.target.closest?.(PRESSED)) return;
      event.preventDefault();
      own.run(event);
    };
    shown.set(id, newest);
    document.addEventListener("keydown", listener);
    for (const redraw of listeners) redraw();
    return () => {
      shown.delete(id);
      document.removeEventListener("keydown", listener);
      for (const redraw of listeners) redraw();
    };
  }, []);
}

/** [[key, words], ...] of all that is on the page. */
export function useShownKeys() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return [...shown.values()].flatMap((keys) => Object.entries(keys.current).map(([key, { does }]) => [key, does]));
}
