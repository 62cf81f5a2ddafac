// Paths by the History API; in an exported file, which has no server, the same paths behind "#".
import { useEffect, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";

const embedded = document.getElementById("taut-embedded");
export const exported = embedded !== null;
document.documentElement.toggleAttribute("data-exported", exported); // for the styles
const start = embedded?.dataset.start ?? "/"; // where an exported file opens

const listeners = new Set();
let query = new URLSearchParams(read().query);
let pending = 0;

function read() {
  const place = exported ? location.hash.slice(1) || start : location.pathname + location.search;
  const [path, rest = ""] = place.split(/\?(.*)/s);
  return { path, query: rest };
}

function address(path, text) {
  const place = text ? `${path}?${text}` : path;
  return exported ? `#${place}` : place;
}

/** The query string as it stands, also where the address bar is a moment behind. A copy. */
export function currentQuery() {
  return new URLSearchParams(query);
}

/** Sets the query string without a new entry in the history; the address bar follows within a moment. */
export function replaceQuery(next) {
  query = new URLSearchParams(next);
  // Browsers refuse hundreds of replaceState a second, as a dragged slider would make.
  if (!pending) pending = setTimeout(flush, 120);
}

function flush() {
  clearTimeout(pending);
  pending = 0;
  history.replaceState(history.state, "", address(read().path, query.toString()));
}

addEventListener("pagehide", () => pending && flush());

/** Goes to a path of this application, as "/runs/a?x=1". */
export function navigate(target, { replace = false } = {}) {
  if (pending) flush();
  history[replace ? "replaceState" : "pushState"](null, "", exported ? `#${target}` : target);
  arrive();
  if (!target.includes("#")) scrollTo(0, 0);
}

function arrive() {
  // An address typed behind another "#" is a new place; what waited to be written belongs to the old one.
  clearTimeout(pending);
  pending = 0;
  query = new URLSearchParams(read().query);
  for (const listener of listeners) listener();
}

addEventListener("popstate", arrive);
addEventListener("hashchange", arrive);

/** The path, as it is percent-encoded; the component draws anew on each navigation. */
export function usePath() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return read().path;
}

/** A link within the application. `href` starts with "/", else it's refused. */
export function Link({ href, children, ...rest }) {
  if (!/^\/(?!\/)/.test(href)) throw new Error(`not a path of this application: ${href}`);
  const follow = (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return html`<a href=${exported ? `#${href}` : href} onClick=${follow} ...${rest}>${children}</a>`;
}

/** "/runs/:name" against a path: {name: "decoded"}, or null. */
export function match(pattern, path) {
  const parts = pattern.split("/");
  const given = path.replace(/(.)\/$/, "$1").split("/");
  if (parts.length !== given.length) return null;
  const found = {};
  for (const [at, part] of parts.entries()) {
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(given[at]);
      } catch {
        return null; // a lone "%"
      }
    } else if (part !== given[at]) return null;
  }
  return found;
}

/** A run's path, its name percent-encoded: runPath("a b", "steps", 3). */
export function runPath(name, ...rest) {
  return ["", "runs", name, ...rest].map((part) => encodeURIComponent(part)).join("/");
}
