// Where the seconds of a step go.
import { duration, percent } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { Segmented } from "taut/widgets/segmented.js";

const WORDS = { sample: "sampling", reward: "reward", score: "scoring", check: "checks", update: "update", sync: "weights to the sampler", between: "in between" };
const wordOf = (phase) => (Object.hasOwn(WORDS, phase) ? WORDS[phase] : phase);
const ORDER = ["sample", "reward", "score", "check", "update", "sync"];

/** [[phase, seconds], ...] of the newest step, or the mean of all; "between" is what no phase claims. */
export function split(scalars, mean) {
  const seconds = (name) => {
    const column = scalars.get(name);
    if (!column) return 0;
    return mean ? column.y.reduce((sum, value) => sum + value, 0) / steps : column.x.at(-1) === last ? column.y.at(-1) : 0;
  };
  const whole = scalars.get("time/step");
  const steps = Math.max(...[...scalars].filter(([name]) => name.startsWith("time/")).map(([, { y }]) => y.length));
  const last = whole?.x.at(-1) ?? Math.max(...[...scalars].filter(([name]) => name.startsWith("time/")).map(([, { x }]) => x.at(-1)));
  const phases = [...scalars.keys()].filter((name) => name.startsWith("time/") && name !== "time/step").map((name) => name.slice(5));
  phases.sort((a, b) => (ORDER.indexOf(a) + 1 || 99) - (ORDER.indexOf(b) + 1 || 99));
  const parts = phases.map((phase) => [phase, seconds(`time/${phase}`)]);
  const between = whole ? seconds("time/step") - parts.reduce((sum, [, value]) => sum + value, 0) : 0;
  return between > 0 ? [...parts, ["between", between]] : parts;
}

export function TimeSplit({ scalars }) {
  const [of, setOf] = useUrlState("seconds", "mean");
  const parts = split(scalars, of === "mean");
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  if (!(total > 0)) return html`<p class="muted">No step was timed.</p>`;
  const options = [{ value: "mean", label: "mean of all steps" }, { value: "newest", label: "newest step" }];
  return html`<${Segmented} label="Seconds of" hideLabel options=${options} value=${of} onChange=${setOf} />
    <div class="split" aria-hidden="true">${parts.map(([phase, value], at) => html`<span key=${phase} style=${{ flexGrow: value / total, background: `var(--s${(at % 8) + 1})` }} title=${`${wordOf(phase)}: ${duration(value)}`}></span>`)}</div>
    <dl class="split-legend">${parts.map(([phase, value], at) => html`<div key=${phase}><dt><span class="split-key" aria-hidden="true" style=${{ background: `var(--s${(at % 8) + 1})` }}></span>${wordOf(phase)}</dt><dd>${duration(value)} <span class="faint">${percent(value / total, 0)}</span></dd></div>`)}
      <div><dt>a step</dt><dd>${duration(total)}</dd></div></dl>`;
}
