// Every state of a page lives in the query string, so that a link reproduces what is seen.
import { useEffect, useRef, useState } from "preact/hooks";
import { currentQuery, replaceQuery, usePath } from "taut/lib/router.js";

const listeners = new Set();

const CODECS = {
  number: { parse: (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : undefined), print: String },
  boolean: { parse: (text) => (text === "1" ? true : text === "0" ? false : undefined), print: (value) => (value ? "1" : "0") },
  string: { parse: (text) => text, print: String },
};

/** Sets several keys at once; a value of undefined takes its key out. */
export function setUrlState(texts) {
  const query = currentQuery();
  for (const [key, text] of Object.entries(texts)) {
    if (text === undefined) query.delete(key);
    else query.set(key, text);
  }
  replaceQuery(query);
  for (const listener of listeners) listener();
}

/**
 * As useState, kept under `key` in the query string. A value equal to the default isn't written.
 * `parse(text)` answers undefined for what makes no sense, and the default then stands.
 */
export function useUrlState(key, initial, codec = CODECS[typeof initial]) {
  const [, redraw] = useState(0);
  usePath(); // and where another address arrives
  const text = currentQuery().get(key);
  const drawn = useRef(text);
  drawn.current = text;
  useEffect(() => {
    // Only its own key draws a component anew: a slider that is dragged draws no more than it must.
    const listener = () => currentQuery().get(key) !== drawn.current && redraw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, [key]);
  const parsed = text === null ? undefined : codec.parse(text);
  const value = parsed === undefined ? initial : parsed;
  const set = (next) => {
    const now = currentQuery().get(key);
    const before = now === null ? undefined : codec.parse(now);
    const chosen = typeof next === "function" ? next(before === undefined ? initial : before) : next;
    const printed = codec.print(chosen);
    setUrlState({ [key]: printed === codec.print(initial) ? undefined : printed });
  };
  return [value, set];
}
