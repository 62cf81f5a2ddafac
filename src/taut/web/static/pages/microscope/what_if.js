// What if ε, λ, γ or the dual clip had been other: the recorded batch recomputed by the code that trained it.
import { useEffect } from "preact/hooks";
import { fixed, percent, signed, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { number } from "taut/lib/number.js";
import { exported } from "taut/lib/router.js";
import { useUrlState } from "taut/lib/url_state.js";
import { Replay } from "taut/pages/microscope/replay.js";
import { CHANGES, overlayOf, useDescription, useRecomputed } from "taut/pages/microscope/what_if_data.js";
import { Chart } from "taut/widgets/chart.js";
import { Code } from "taut/widgets/code.js";
import { Say } from "taut/widgets/readout.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Slider } from "taut/widgets/slider.js";
import { Toggle } from "taut/widgets/toggle.js";

// [setting, label, from, to, step, where an open side or a dual clip that is off begins when it is switched on]
const SLIDERS = [
  ["algorithm.clip_low", "ε below", 0, 1, 0.01, 0.2],
  ["algorithm.clip_high", "ε above", 0, 1, 0.01, 0.2],
  ["algorithm.dual_clip", "Dual clip c", 1.05, 10, 0.05, 3],
  ["algorithm.lam", "λ", 0, 1, 0.01],
  ["algorithm.gamma", "γ", 0, 1, 0.01],
  ["kl.coefficient", "β of the KL", 0, 1, 0.005],
];
const SWITCHES = { "algorithm.clip_low": "clip below", "algorithm.clip_high": "clip above", "algorithm.dual_clip": "dual clip" };
const NORMALIZATIONS = [["token", "tokens"], ["sequence", "replies"], ["constant", "a constant"]];
const METRICS = [
  ["clip/binding", "Clipped share", percent, (value) => `${signed(100 * value, 1)} pts`],
  ["clip/high", "held above", percent, (value) => `${signed(100 * value, 1)} pts`],
  ["clip/low", "held below", percent, (value) => `${signed(100 * value, 1)} pts`],
  ["clip/dual", "held by the dual clip", percent, (value) => `${signed(100 * value, 1)} pts`],
  ["loss/policy", "Policy loss", (value) => fixed(value, 5), (value) => signed(value, 5)],
  ["loss/kl", "KL in the loss", (value) => fixed(value, 5), (value) => signed(value, 5)],
  ["advantage/mean", "Advantage, mean", (value) => fixed(value, 4), (value) => signed(value, 4)],
  ["advantage/std", "Advantage, deviation", (value) => fixed(value, 4), (value) => signed(value, 4)],
];

/** `onOverlay(overlay or undefined)` hears what the microscope is to draw in place of what was recorded. */
export function WhatIf({ name, batch, onOverlay }) {
  const [open, setOpen] = useUrlState("whatif", false);
  if (exported) return null;
  return html`<section class="panel what-if" aria-label="What if">
    <div class="row"><h2>What if</h2>
      <p class="small muted">${open ? "" : `this batch had been trained on with another ${batch.columns.values ? "ε, λ or γ" : "ε or dual clip"}?`}</p>
      <button class="button small" aria-expanded=${open} onClick=${() => { setOpen(!open); if (open) onOverlay(undefined); }}>${open ? "Close" : "Ask"}</button></div>
    ${open && html`<${Open} name=${name} batch=${batch} onOverlay=${onOverlay} />`}
  </section>`;
}

function Open({ name, batch, onOverlay }) {
  const [changes, setChanges] = useUrlState("if", {}, CHANGES);
  const { described, error } = useDescription(name, batch.step, true);
  const asked = described ? effective(changes, described) : {};
  const { answer, error: refused, waiting } = useRecomputed(name, batch, asked);
  useEffect(() => onOverlay(answer && overlayOf(answer, batch)), [answer]);
  if (error) return html`<p class="small" role="alert">${error.message}</p>`;
  if (!described) return html`<p class="small muted" role="status">Starting what computes this. The first time takes some seconds…</p>`;
  const set = (key, value) => setChanges((old) => effective({ ...old, [key]: value }, described));
  const before = described.before;
  const after = answer?.header.after ?? before;
  return html`<p class="small what-if-words">The objective's word on the updates that were <em>recorded</em>, recomputed by the code that trained. It is not another run: under other settings the updates themselves would have been others.</p>
    <${Controls} described=${described} changes=${asked} set=${set} />
    <div class="row"><button class="button small" disabled=${!Object.keys(asked).length} onClick=${() => setChanges({})}>As it was trained</button>
      <span class="small muted" aria-busy=${!!waiting}>${moved(answer, waiting)}</span>${answer && html`<span class="small muted">${shares(answer)}</span>`}</div>
    ${refused && html`<p class="small" role="alert">${refused.message}</p>`}
    <div class="what-if-more"><details><summary class="small">The batch in numbers, and by optimiser step</summary>
      <div class="what-if-answer"><${Metrics} before=${before.metrics} after=${after.metrics} changed=${!!answer} /><${PerStep} before=${before} after=${after} changed=${!!answer} /></div></details>
    <details><summary class="small">The step once more, and this question in Python</summary>
      <div class="what-if-answer"><${Replay} name=${name} step=${batch.step} described=${described} /><${Code} source=${python(name, batch.step, asked)} title="The same in Python" /></div></details></div>
    <${Say} text=${spoken(answer)} />`;
}

/** Only what is really other than it was, and may be asked. */
function effective(changes, { settings, fixed: fixedOnes }) {
  return Object.fromEntries(Object.entries(changes).filter(([key, value]) => !(key in fixedOnes) && value !== settings[key]));
}

function moved(answer, waiting) {
  if (!answer) return waiting ? "computing…" : "Move a slider.";
  const { held, freed, sightings } = answer.header.moved;
  return `${whole(held)} of ${whole(sightings)} sightings newly held, ${whole(freed)} freed.`;
}

function shares({ header: { before, after } }) {
  const share = ({ metrics }) => percent(number(metrics["clip/binding"]));
  return `Clipped share ${share(before)} → ${share(after)}.`;
}

function spoken(answer) {
  if (!answer) return "";
  return `${shares(answer)} ${moved(answer)}`;
}

function Controls({ described, changes, set }) {
  const { settings, fixed: fixedOnes } = described;
  return html`<div class="what-if-controls">
      ${SLIDERS.filter(([key]) => !(key in fixedOnes)).map((spec) => html`<${Control} key=${spec[0]} spec=${spec} value=${spec[0] in changes ? changes[spec[0]] : settings[spec[0]]} was=${settings[spec[0]]} set=${set} />`)}
      <${Segmented} label="Loss averaged over" value=${changes["algorithm.loss_normalization"] ?? settings["algorithm.loss_normalization"]} onChange=${(value) => set("algorithm.loss_normalization", value)} options=${NORMALIZATIONS.map(([value, label]) => ({ value, label }))} />
    </div>
    ${Object.keys(fixedOnes).length > 0 && html`<p class="small faint what-if-words">${refusals(fixedOnes).map((why) => html`<span key=${why}>${why}. </span>`)}</p>`}`;
}

/** Why some sliders are not there, those of one reason together. */
function refusals(fixedOnes) {
  const labels = new Map();
  for (const [key, label] of SLIDERS.filter(([slider]) => slider in fixedOnes)) {
    const why = fixedOnes[key].replace(`${key} is GAE's, and `, "");
    labels.set(why, [...(labels.get(why) ?? []), label]);
  }
  return [...labels].map(([why, names]) => `${names.join(", ")}: ${why}`);
}

function Control({ spec, value, was, set }) {
  const [key, label, min, max, step, start] = spec;
  const show = (number) => (number === null || number === undefined ? "open" : fixed(number, step < 0.01 ? 3 : 2));
  const off = value === null || value === undefined;
  const names = { "algorithm.dual_clip": "off" };
  const note = value === was ? "as it was trained" : `was ${was === null ? names[key] ?? "open" : show(was)}`;
  return html`<div class="what-if-control">
    ${off ? html`<p class="muted what-if-off">${label}: ${names[key] ?? "open"}</p>` : html`<${Slider} label=${label} value=${value} min=${min} max=${Math.max(max, value)} step=${step} format=${show} describe=${note} onInput=${(next) => set(key, next)} />`}
    ${start !== undefined && html`<${Toggle} label=${SWITCHES[key]} value=${!off} onChange=${(on) => set(key, on ? was ?? start : null)} />`}</div>`;
}

function Metrics({ before, after, changed }) {
  const rows = METRICS.filter(([key]) => number(before[key]) !== undefined || number(after[key]) !== undefined).filter(([key]) => key !== "clip/dual" || number(before[key]) || number(after[key]));
  const cell = (metrics, key, show) => (number(metrics[key]) === undefined ? "–" : show(number(metrics[key])));
  return html`<div class="table-box" tabindex="0" role="region" aria-label="The batch before and after"><table class="table" data-testid="what-if">
    <thead><tr><th scope="col">Over the batch</th><th scope="col" class="number">trained</th><th scope="col" class="number">what if</th><th scope="col" class="number">difference</th></tr></thead>
    <tbody>${rows.map(([key, label, show, difference]) => html`<tr key=${key}><th scope="row">${label}</th><td class="number">${cell(before, key, show)}</td><td class="number">${changed ? cell(after, key, show) : "–"}</td>
      <td class="number">${changed && number(before[key]) !== undefined && number(after[key]) !== undefined ? difference(number(after[key]) - number(before[key])) : "–"}</td></tr>`)}</tbody></table></div>`;
}

/** The clipped share at each optimiser step, as it was and as it would be. */
function PerStep({ before, after, changed }) {
  const x = before.optimizer_steps.map((_, at) => at + 1);
  const share = ({ optimizer_steps: steps }) => steps.map((step) => 100 * (number(step["clip/binding"]) ?? NaN));
  const series = [{ label: "trained", x, y: share(before), color: "--s7", dashed: changed, points: true }];
  if (changed) series.push({ label: "what if", x, y: share(after), color: "--s1", points: true });
  return html`<${Chart} title="Clipped share by optimiser step" series=${series} xLabel="optimiser step" yLabel="% of tokens" height=${170} yMin=${0} format=${(value) => `${fixed(value, 1)} %`} />`;
}

function python(name, step, changes) {
  const value = (item) => (item === null ? "None" : typeof item === "string" ? `"${item}"` : String(item));
  const given = Object.entries(changes).map(([key, item]) => `"${key}": ${value(item)}`).join(", ");
  return [
    "from taut import Run",
    "from taut.launch.continued import config_of",
    "from taut.training.derive import recompute",
    "",
    `run = Run.open(${JSON.stringify(`runs/${name}`)})`,
    `found = recompute(run.batch(${step}), config_of(run), {${given}})`,
    'print(found.metrics["clip/binding"], found.metrics["loss/policy"])',
  ].join("\n");
}
