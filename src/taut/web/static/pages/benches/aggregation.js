// Which token weighs how much, once the losses of a minibatch are one number.
import { fixed, percent } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { denominator, tokenWeights } from "taut/maths/reduce.js";
import { numbersCodec, replaced, within } from "taut/pages/benches/numbers.js";
import { Code } from "taut/widgets/code.js";
import { Slider } from "taut/widgets/slider.js";
import { Figure, linear } from "taut/widgets/svg.js";
import { Table } from "taut/widgets/table.js";

const LONGEST = 40;
const LENGTHS = [4, 12, 36];
const CODEC = numbersCodec({ length: 3, low: 1, high: LONGEST });
const COLORS = ["var(--s1)", "var(--s2)", "var(--s3)"];
const NORMALIZATIONS = [
  { value: "token", title: "Per token", formula: "Σ loss / all tokens", words: "Every token weighs the same, so a long reply outweighs a short one (DAPO)." },
  { value: "sequence", title: "Per reply", formula: "mean over replies of the mean over tokens", words: "Every reply weighs the same, so a token of a long reply hardly counts (GRPO)." },
  { value: "constant", title: "By a constant", formula: "Σ loss / (replies × longest reply possible)", words: "A token's weight depends on no reply's length, its own included (Dr. GRPO)." },
];

function useBench() {
  const [lengths, setLengths] = useUrlState("lengths", LENGTHS, CODEC);
  const [constant, setConstant] = useUrlState("constant", LONGEST);
  const whole = lengths.map(Math.round);
  const bounded = within(Math.round(constant), Math.max(...whole), 100);
  const weights = Object.fromEntries(NORMALIZATIONS.map(({ value }) => [value, tokenWeights(whole, value, bounded)]));
  return { lengths: whole, constant: bounded, weights, setConstant, setLength: (at, length) => setLengths(replaced(whole, at, Math.round(length))) };
}

function source({ lengths, constant }) {
  return `import torch
from taut.objective.reduce import denominator, reduce_loss

lengths = torch.tensor([${lengths.join(", ")}])
mask = torch.arange(${Math.max(...lengths)}) < lengths[:, None]
for normalization in ("token", "sequence", "constant"):
    loss = torch.zeros(mask.shape, dtype=torch.float64, requires_grad=True)
    below = denominator(mask, normalization, constant_length=${constant})
    reduce_loss(loss, mask, normalization, below).backward()
    print(normalization, below, [round(weight, 5) for weight in loss.grad[:, 0].tolist()])`;
}

/** Three rows of cells, one a token, each as tall as the token weighs. */
function WeightFigure({ kind, lengths, weights, most }) {
  const row = 46;
  const height = row * lengths.length + 6;
  const draw = (width) => {
    const cell = linear([0, LONGEST], [26, width - 66]);
    const step = cell(1) - cell(0);
    return lengths.map((length, reply) => {
      const floor = row * (reply + 1) - 2;
      const tall = Math.max(1.5, (row - 10) * (weights[reply] / most));
      return html`<g key=${reply}><text class="bench-token" x="8" y=${floor - 4} text-anchor="middle">${reply + 1}</text>
        <line x1=${cell(0)} x2=${cell(LONGEST)} y1=${floor} y2=${floor} stroke="var(--rule)" />
        ${Array.from({ length }, (_, t) => html`<rect key=${t} x=${cell(t) + 0.5} width=${Math.max(1, step - 1)} y=${floor - tall} height=${tall} fill=${COLORS[reply]} opacity="0.85" />`)}
        <text class="bench-share" x=${width - 2} y=${floor - 4} text-anchor="end">${percent(weights[reply] * length)}</text></g>`;
    });
  };
  const said = lengths.map((length, reply) => `reply ${reply + 1}: ${length} tokens of weight ${fixed(weights[reply], 5)}, together ${percent(weights[reply] * length)}`).join("; ");
  return html`<figure class="figure"><div class="bench-title"><h3>${kind.title}</h3><span class="small muted">${kind.formula}</span></div>
    <${Figure} label=${`${kind.title}. ${said}`} height=${height} draw=${draw} /><p class="small muted">${kind.words}</p></figure>`;
}

export function AggregationBench() {
  const bench = useBench();
  const { lengths, weights, constant } = bench;
  const most = Math.max(...NORMALIZATIONS.flatMap(({ value }) => weights[value]));
  const columns = [
    { key: "id", label: "divided by", show: (row) => row.title },
    { key: "below", label: "denominator", number: true, show: (row) => html`<span data-cell="denominator">${row.below}</span>` },
    ...lengths.map((_, reply) => ({ key: `w${reply}`, label: `a token of reply ${reply + 1}`, number: true, show: (row) => html`<span data-cell="weight">${fixed(row.weights[reply], 5)}</span>` })),
    { key: "sum", label: "all together", number: true, show: (row) => percent(row.weights.reduce((sum, weight, reply) => sum + weight * lengths[reply], 0)) },
  ];
  const rows = NORMALIZATIONS.map(({ value, title }) => ({ id: value, title, below: denominator(lengths, value, constant), weights: weights[value] }));
  return html`<div class="bench">
    <div class="bench-controls panel stack">
      ${lengths.map((length, reply) => html`<${Slider} key=${reply} label=${`Reply ${reply + 1}`} value=${length} min=${1} max=${LONGEST} step=${1} unit="tokens" onInput=${(value) => bench.setLength(reply, value)} />`)}
      <${Slider} label="The constant" value=${constant} min=${Math.max(...lengths)} max=${100} step=${1} unit="tokens" onInput=${bench.setConstant} describe="The longest reply that the settings allow." />
      <p class="small muted">A cell is a token, as tall as its loss weighs in the sum; at the right, what the reply weighs altogether.</p>
    </div>
    <div class="bench-figures">${NORMALIZATIONS.map((kind) => html`<${WeightFigure} key=${kind.value} kind=${kind} lengths=${lengths} weights=${weights[kind.value]} most=${most} />`)}</div>
    <div class="bench-numbers"><${Table} label="The weight of a token under each normalisation" columns=${columns} rows=${rows} /></div>
    <div class="bench-code"><${Code} source=${source(bench)} title="The same weights in Python" /></div>
  </div>`;
}
