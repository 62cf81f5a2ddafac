// Generalised advantage estimation over one reply whose rewards and values are dragged.
import { fixed, signed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { gae, kernel } from "taut/maths/advantage.js";
import { AdvantageFigure, COUNT, DeltaFigure, HIGH, InputFigure, LOW, tokensOf } from "taut/pages/benches/gae_figures.js";
import { numbersCodec, python, replaced, tidy, within } from "taut/pages/benches/numbers.js";
import { Code } from "taut/widgets/code.js";
import { Readout } from "taut/widgets/readout.js";
import { Slider } from "taut/widgets/slider.js";
import { Table } from "taut/widgets/table.js";
import { Toggle } from "taut/widgets/toggle.js";

const CODEC = numbersCodec({ length: COUNT, low: LOW, high: HIGH });
const REWARDS = [0, 0, 0, 0, 0, 0, 0, 1];
const VALUES = [0.4, 0.45, 0.45, 0.5, 0.3, 0.75, 0.85, 0.9];

function useBench() {
  const [rewards, setRewards] = useUrlState("r", REWARDS, CODEC);
  const [values, setValues] = useUrlState("v", VALUES, CODEC);
  const [gamma, setGamma] = useUrlState("gamma", 1);
  const [lam, setLam] = useUrlState("lam", 0.95);
  const [critic, setCritic] = useUrlState("critic", true);
  const [cut, setCut] = useUrlState("cut", false);
  const [bootstrap, setBootstrap] = useUrlState("boot", 0.8);
  const [chosen, choose] = useUrlState("t", 2);
  const setters = { setGamma, setLam, setCritic, setCut, choose, setBootstrap };
  const at = (set, list) => (index, value) => set(replaced(list, index, tidy(within(Math.round(value * 100) / 100, LOW, HIGH))));
  const bounded = { gamma: within(gamma, 0, 1), lam: within(lam, 0, 1), chosen: within(Math.round(chosen), 0, COUNT - 1) };
  const used = { rewards, values: critic ? values : VALUES.map(() => 0), bootstrap: critic && cut ? within(bootstrap, LOW, HIGH) : 0 };
  const result = gae({ ...used, gamma: bounded.gamma, lam: bounded.lam });
  const weights = kernel(COUNT, bounded.chosen, bounded.gamma, bounded.lam);
  return {
    ...setters, ...used, ...result, ...bounded, weights, critic, cut, tokens: tokensOf(critic && cut), shownValues: values,
    setReward: at(setRewards, rewards), setValue: at(setValues, values),
    moveBootstrap: (value) => setBootstrap(tidy(within(Math.round(value * 100) / 100, LOW, HIGH))),
  };
}

function source({ rewards, values, gamma, lam, bootstrap }) {
  return `import torch
from taut.objective.advantage import gae

rewards = torch.tensor([${python(rewards)}], dtype=torch.float64)
values = torch.tensor([${python(values)}], dtype=torch.float64)
mask = torch.ones_like(rewards, dtype=torch.bool)  # every token is trained on
after_the_last = torch.tensor([${python(bootstrap)}], dtype=torch.float64)  # 0 unless the reply was cut
advantages, returns = gae(rewards, values, mask, gamma=${python(gamma)}, lam=${python(lam)}, bootstrap_values=after_the_last)
print([round(x, 3) for x in advantages[0].tolist()])
print([round(x, 3) for x in returns[0].tolist()])`;
}

function words({ lam, gamma, critic, cut }) {
  if (!critic) return "Without a critic every value is 0: an advantage is the reward to come, discounted. Nothing says which token earned it.";
  if (lam === 0) return "λ = 0: a token answers for the next step alone, A = δ. Little noise, and as wrong as the critic is.";
  if (lam === 1 && gamma === 1) return "λ = γ = 1: the whole reward to come, less the value here. No bias from the critic, and all the noise of what came after.";
  const end = cut ? " The reply was cut, so the value after its last token stands in for what it didn't get to say." : "";
  return `Each δ counts less by γλ = ${fixed(gamma * lam, 3)} with every token between.${end}`;
}

function chosenReadout(bench) {
  const { tokens, chosen, deltas, weights, advantages, returns, values } = bench;
  return [
    { label: "Token", value: `${chosen + 1} · “${tokens[chosen]}”` },
    { label: "δ here", value: signed(deltas[chosen], 3), note: "r + γ · next V − V" },
    { label: "Advantage", value: signed(advantages[chosen], 3), note: `Σ (γλ)ˡ δ over ${weights.filter((weight, t) => weight > 0 && t >= chosen).length} tokens` },
    { label: "Return", value: signed(returns[chosen], 3), note: `A + V, V = ${fixed(values[chosen], 2)}: what the critic learns` },
  ];
}

const COLUMNS = [
  { key: "token", label: "token", show: (row) => html`<button class="text-button mono" aria-pressed=${row.current} onClick=${row.press}>${row.id + 1} ${row.word}</button>` },
  ...[["r", "r", 2], ["v", "V", 2], ["delta", "δ", 3], ["weight", "(γλ)ˡ", 3], ["advantage", "A", 3], ["return", "return", 3]].map(
    ([key, label, digits]) => ({ key, label, number: true, show: (row) => html`<span data-cell=${key}>${(digits === 3 && key !== "weight" ? signed : fixed)(row[key], digits)}</span>` }),
  ),
];

function rowsOf({ tokens, rewards, values, deltas, weights, advantages, returns, chosen, choose }) {
  return tokens.map((word, id) => ({
    id, word, r: rewards[id], v: values[id], delta: deltas[id], weight: weights[id], advantage: advantages[id], return: returns[id], current: id === chosen, press: () => choose(id),
  }));
}

export function GaeBench() {
  const bench = useBench();
  return html`<div class="bench">
    <div class="bench-controls panel stack">
      <${Slider} label="γ, discount" value=${bench.gamma} min=${0} max=${1} step=${0.01} onInput=${bench.setGamma} describe="What a reward is worth one token later." />
      <${Slider} label="λ, reach of credit" value=${bench.lam} min=${0} max=${1} step=${0.01} onInput=${bench.setLam} describe="0 trusts the critic, 1 the reward that came." />
      <${Toggle} label="Critic" value=${bench.critic} onChange=${bench.setCritic} describe="Off, every V is 0." />
      <${Toggle} label="Reply was cut" value=${bench.cut} onChange=${bench.setCut} disabled=${!bench.critic} describe="Then the critic's value after the last token stands in for the rest." />
      <${Readout} items=${chosenReadout(bench)} words=${words(bench)} />
    </div>
    <div class="bench-figures">
      <${InputFigure} ...${bench} /><${DeltaFigure} ...${bench} /><${AdvantageFigure} ...${bench} />
    </div>
    <div class="bench-numbers"><${Table} label="GAE, token by token" columns=${COLUMNS} rows=${rowsOf(bench)} current=${bench.chosen} /></div>
    <div class="bench-code"><${Code} source=${source(bench)} title="The same advantages and returns in Python" /></div>
  </div>`;
}
