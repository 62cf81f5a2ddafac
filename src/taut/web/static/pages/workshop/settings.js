// What a person chooses for a run, kept in the address.
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { publishedFor } from "taut/pages/workshop/groups.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Select } from "taut/widgets/select.js";
import { Slider } from "taut/widgets/slider.js";
import { Term } from "taut/widgets/term.js";

const ADVANTAGES = [
  { value: "batch-mean", label: "batch mean", title: "reward minus the mean of the batch" },
  { value: "group-standardized", label: "group", title: "minus the mean of the replies to the same prompt, over their deviation (GRPO)" },
  { value: "leave-one-out", label: "leave-one-out", title: "minus the mean of the other replies to the same prompt (RLOO)" },
  { value: "gae", label: "critic + GAE", title: "a critic values every token; advantages by GAE" },
];
const KL = [{ value: "none", label: "none" }, { value: "reward", label: "in the reward" }, { value: "loss", label: "in the loss" }];
const RATES = [1e-4, 3e-4, 5e-4, 1e-3, 2e-3, 3e-3, 1e-2];
const MINIBATCHES = [1, 2, 4, 8];
const PUBLISHED = { minibatches: 1, rate: 1e-3, advantage: "batch-mean", kl: "none", beta: 0.05, steps: 40 }; // all but epochs and ε
const SHOWN = [["1 epoch", 1, 0.2], ["4", 4, 0.2], ["8", 8, 0.2], ["4, ε 0.5", 4, 0.5]];

/** Whole numbers from `low` to `high`, so that no address asks for what no run could be. */
function whole(low, high) {
  return { parse: (text) => (/^\d+$/.test(text) && Number(text) >= low && Number(text) <= high ? Number(text) : undefined), print: String };
}

function oneOf(values) {
  return { parse: (text) => values.find((value) => String(value) === text), print: String };
}

function within(low, high) {
  return { parse: (text) => (text.trim() !== "" && Number(text) >= low && Number(text) <= high ? Number(text) : undefined), print: String };
}

/** {values, set}: every choice by its name, and a setter for each. */
export function useChoices() {
  const values = {};
  const set = {};
  const keep = (name, initial, codec) => { [values[name], set[name]] = useUrlState(name, initial, codec); };
  keep("epochs", 4, whole(1, 16));
  keep("minibatches", 1, oneOf(MINIBATCHES));
  keep("low", 0.2, within(0, 1));
  keep("high", 0.2, within(0, 2));
  keep("rate", 1e-3, oneOf(RATES));
  keep("advantage", "batch-mean", oneOf(ADVANTAGES.map(({ value }) => value)));
  keep("kl", "none", oneOf(KL.map(({ value }) => value)));
  keep("beta", 0.05, within(0, 1));
  keep("steps", 40, whole(1, 200));
  keep("seed", 0, whole(0, 2 ** 32 - 1));
  keep("seeds", 1, whole(1, 10));
  return { values, set };
}

/** Choices as settings of a run, all of them, the seed apart. */
export function settingsOf(values) {
  return {
    "algorithm.epochs": values.epochs,
    "algorithm.minibatches": values.minibatches,
    "algorithm.clip_low": values.low,
    "algorithm.clip_high": values.high,
    "algorithm.advantage": values.advantage,
    "optimizer.learning_rate": values.rate,
    "kl.placement": values.kl,
    ...(values.kl === "none" ? {} : { "kl.coefficient": values.beta }),
    ...(values.kl === "loss" ? { "kl.estimator": "k3" } : {}),
    "run.steps": values.steps,
  };
}

/** Those that a command must name. */
export function named(settings, defaults) {
  return Object.fromEntries(Object.entries(settings).filter(([key, value]) => value !== defaults[key]));
}

export function seedsOf({ seed, seeds }) {
  return Array.from({ length: seeds }, (_, place) => seed + place);
}

function Clip({ values, set }) {
  const [split, setSplit] = useUrlState("split", values.low !== values.high);
  const both = (value) => { set.low(Math.min(1, value)); set.high(value); };
  if (!split) {
    return html`<div><${Slider} label="ε" value=${values.high} min=${0.02} max=${1} step=${0.01} onInput=${both} describe="the clip holds the ratio from 1 − ε to 1 + ε" />
      <button class="text-button" onClick=${() => setSplit(true)}>Set the two sides apart</button></div>`;
  }
  const join = () => { set.low(Math.min(1, values.high)); setSplit(false); };
  return html`<div><${Slider} label="ε below 1" value=${values.low} min=${0} max=${1} step=${0.01} onInput=${set.low} />
    <${Slider} label="ε above 1" value=${values.high} min=${0} max=${2} step=${0.01} onInput=${set.high} />
    <button class="text-button" onClick=${join}>One ε for both sides</button></div>`;
}

/** Lit where all is as in an experiment with published figures; choosing one sets everything back to it. */
function Published({ values, set, told }) {
  const row = publishedFor({ ...told.defaults, ...settingsOf(values) }, told.defaults, told.published);
  const now = row && SHOWN.find(([, epochs, clip]) => row.epochs === epochs && row.clip === clip)?.[0];
  const choose = (label) => {
    const [, epochs, clip] = SHOWN.find(([own]) => own === label);
    for (const [name, value] of Object.entries({ ...PUBLISHED, epochs, low: clip, high: clip })) set[name](value);
  };
  return html`<${Segmented} label="Settings with published figures" options=${SHOWN.map(([label]) => ({ value: label, label }))} value=${now} onChange=${choose} />`;
}

function More({ values, set }) {
  return html`<details class="workshop-more" open=${values.minibatches !== 1 || values.kl !== "none" || values.advantage !== "batch-mean" || values.rate !== 1e-3 || undefined}>
    <summary>Advantage, KL, step size, minibatches</summary><div class="stack">
    <${Segmented} label=${html`<${Term} name="advantage">Advantage</${Term}>`} options=${ADVANTAGES} value=${values.advantage} onChange=${set.advantage} />
    <${Segmented} label=${html`<${Term} name="KL divergence">KL</${Term}> to the fine-tuned model`} options=${KL} value=${values.kl} onChange=${set.kl} />
    ${values.kl !== "none" && html`<${Slider} label="β, its weight" value=${values.beta} min=${0} max=${1} step=${0.01} onInput=${set.beta} />`}
    <div class="row"><${Select} label="Step size" value=${String(values.rate)} options=${RATES.map((rate) => ({ value: String(rate), label: String(rate) }))} onChange=${(text) => set.rate(Number(text))} />
    <${Select} label="Minibatches" value=${String(values.minibatches)} options=${MINIBATCHES.map((count) => ({ value: String(count), label: String(count) }))} onChange=${(text) => set.minibatches(Number(text))} /></div>
  </div></details>`;
}

/** The form. `onRun()` starts what is chosen. */
export function Settings({ choices: { values, set }, told, onRun, busy, error }) {
  const submit = (event) => { event.preventDefault(); onRun(); };
  // Enter in a number's field takes the number; only the button starts a run.
  const key = (event) => event.key === "Enter" && event.target.tagName === "INPUT" && event.preventDefault();
  return html`<form class="panel stack workshop-settings" onSubmit=${submit} onKeyDown=${key} aria-label="Settings of a run">
    <${Published} ...${{ values, set, told }} />
    <${Slider} label="Epochs per batch" value=${values.epochs} min=${1} max=${16} step=${1} onInput=${(value) => set.epochs(Math.round(value))} describe="how often each batch of 64 replies is used" />
    <${Clip} ...${{ values, set }} />
    <${More} ...${{ values, set }} />
    <${Slider} label="Steps" value=${values.steps} min=${1} max=${100} step=${1} onInput=${(value) => set.steps(Math.round(value))} />
    <div class="row"><${Select} label="Seeds" value=${String(values.seeds)} options=${[1, 2, 3, 5, 10].map((count) => ({ value: String(count), label: count === 1 ? "one" : String(count) }))} onChange=${(text) => set.seeds(Number(text))} />
      <label class="workshop-seed">${values.seeds > 1 ? "from seed" : "seed"} <input class="field" type="number" min="0" step="1" value=${values.seed} onChange=${(event) => /^\d+$/.test(event.currentTarget.value) && set.seed(Number(event.currentTarget.value))} /></label></div>
    <button class="button primary" type="submit" disabled=${busy}>${values.seeds > 1 ? `Run ${values.seeds} seeds` : "Run"}</button>
    ${error && html`<p class="bad wrap" role="alert">${error}</p>`}
    <p class="slider-note">It starts from a model that a careless teacher has fine-tuned. Each seed has its own, made when that seed is first used: about 15 seconds more.</p>
  </form>`;
}
