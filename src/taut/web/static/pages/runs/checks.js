// The standing checks of a run, by name, each with what it says and its story.
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { CHECKS } from "taut/pages/runs/definitions.js";

const LEVELS = { error: ["bad", "✕", "fails"], warning: ["warn", "!", "warns"], info: ["good", "✓", "passes"] };
/** Of a level that another Taut may have written, its own word. */
const levelOf = (level) => (Object.hasOwn(LEVELS, level) ? LEVELS[level] : ["quiet", "·", `says ${level}`]);
const ORDER = ["error", "warning", "info"];

/** The newest answer of each check among a run's events, failures first. */
export function answers(events) {
  const newest = new Map();
  for (const event of events) if (event.kind === "check") newest.set(event.name, event);
  return [...newest.values()].sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level) || (a.name < b.name ? -1 : 1));
}

function Story({ check }) {
  const [, , word] = levelOf(check.level);
  const [says, ...rest] = Object.hasOwn(CHECKS, check.name) ? CHECKS[check.name] : [];
  return html`<div class="panel check-story"><p><strong>${check.name}</strong> ${word}${check.step ? ` since step ${check.step}` : ""}: <span class="wrap">${check.message}</span></p>
    ${says && html`<p class="muted">${says}</p>`}${rest.map((text) => html`<p class="muted">${text}</p>`)}</div>`;
}

export function Checks({ events }) {
  const [open, setOpen] = useUrlState("check", "");
  const found = answers(events);
  if (!found.length) return html`<p class="muted">No check has answered yet.</p>`;
  const shown = found.find(({ name }) => name === open);
  return html`<ul class="checks">${found.map(({ name, level }) => { const [tone, sign, word] = levelOf(level); return html`<li key=${name}><button class="badge check" data-tone=${tone} aria-expanded=${name === open} onClick=${() => setOpen(name === open ? "" : name)}><span aria-hidden="true">${sign}</span> <span class="cut">${name}</span><span class="visually-hidden"> ${word}</span></button></li>`; })}</ul>
    ${shown && html`<${Story} check=${shown} />`}`;
}
