// Estimators of the KL: one token's value and gradient, and what they come to over two small distributions.
import { fixed, signed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { divergence, divergenceGradient, estimate, expectedGradient, expectedValue, reverseDivergenceGradient } from "taut/maths/kl.js";
import { CurveFigure, DistributionFigure } from "taut/pages/benches/kl_figures.js";
import { numbersCodec, python, tidy, within } from "taut/pages/benches/numbers.js";
import { Code } from "taut/widgets/code.js";
import { Readout } from "taut/widgets/readout.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Slider } from "taut/widgets/slider.js";
import { Table } from "taut/widgets/table.js";

const NAMES = ["k1", "k2", "k3"];
const CODEC = numbersCodec({ length: 4, low: 0.001, high: 1000 });
const PLACES = [{ value: "loss", label: "in the loss" }, { value: "reward", label: "in the reward" }];

const share = (weights) => weights.map((weight) => weight / weights.reduce((sum, one) => sum + one, 0));

/** Weights whose share at `index` becomes `part`; the others keep their proportions. */
function withShare(weights, index, part) {
  const bounded = within(part, 0.01, 0.97);
  const rest = weights.reduce((sum, weight, at) => sum + (at === index ? 0 : weight), 0);
  return share(weights.map((weight, at) => (at === index ? (bounded * rest) / (1 - bounded) : weight))).map(tidy);
}

function useBench() {
  const [x, setX] = useUrlState("x", 0.7);
  const [placement, place] = useUrlState("place", "loss");
  const [policyWeights, setPolicy] = useUrlState("pi", [0.55, 0.25, 0.15, 0.05], CODEC);
  const [refWeights, setRef] = useUrlState("ref", [0.3, 0.3, 0.2, 0.2], CODEC);
  return {
    x: within(x, -3, 3), setX: (value) => setX(tidy(within(value, -3, 3))), placement: placement === "reward" ? "reward" : "loss", place,
    policy: share(policyWeights), ref: share(refWeights),
    movePolicy: (index, part) => setPolicy(withShare(policyWeights, index, part)),
    moveRef: (index, part) => setRef(withShare(refWeights, index, part)),
  };
}

function source({ policy, ref, placement }) {
  const handed = placement === "reward" ? "kl.detach() * logprobs  # a number that each token is paid for" : "kl  # differentiated";
  return `import torch
from taut.objective.kl import token_kl

policy = torch.tensor(${python(policy.map(tidy))}, dtype=torch.float64)
ref = torch.tensor(${python(ref.map(tidy))}, dtype=torch.float64)
policy, ref = policy / policy.sum(), ref / ref.sum()
mask = torch.ones(1, 4, dtype=torch.bool)  # each token once, weighed below by how often it is drawn
for estimator in ("k1", "k2", "k3"):
    logits = policy.log().requires_grad_()
    logprobs = logits.log_softmax(-1)[None]
    kl = token_kl(logprobs, ref.log()[None], mask, estimator)
    handed = ${handed}
    (policy * handed).sum().backward()
    print(estimator, round((policy * kl).sum().item(), 4), [round(g, 4) for g in logits.grad.tolist()])
print("KL", round((policy * (policy / ref).log()).sum().item(), 4))`;
}

const same = (one, other) => one.every((value, at) => Math.abs(value - other[at]) < 1e-9);

/** What a row's gradient is, in words, found from the numbers and not from what ought to hold. */
function verdict(gradient, { policy, ref }) {
  if (same(policy, ref)) return "the two agree: no gradient";
  if (same(gradient, [0, 0, 0, 0])) return "none: it trains nothing";
  if (same(gradient, divergenceGradient(policy, ref))) return "that of KL(π‖ref)";
  if (same(gradient, reverseDivergenceGradient(policy, ref))) return "that of KL(ref‖π)";
  return "no KL's";
}

function rowsOf(bench) {
  const { policy, ref, placement } = bench;
  const estimated = NAMES.map((id) => {
    const gradient = expectedGradient(id, placement, policy, ref);
    return { id, value: expectedValue(id, policy, ref), gradient, words: verdict(gradient, bench) };
  });
  const forward = { id: "KL(π‖ref)", value: divergence(policy, ref), gradient: divergenceGradient(policy, ref), words: "what is meant" };
  const backward = { id: "KL(ref‖π)", value: divergence(ref, policy), gradient: reverseDivergenceGradient(policy, ref), words: "the other direction" };
  return [...estimated, forward, backward];
}

const COLUMNS = [
  { key: "id", label: "", show: (row) => html`<strong>${row.id}</strong>` },
  { key: "value", label: "mean value", number: true, show: (row) => html`<span data-cell="value">${fixed(row.value, 4)}</span>` },
  ...[0, 1, 2, 3].map((token) => ({ key: `g${token}`, label: `∂ logit ${"abcd"[token]}`, number: true, show: (row) => html`<span data-cell="gradient">${signed(row.gradient[token], 4)}</span>` })),
  { key: "words", label: "mean gradient is" },
];

const LOSS_WORDS = "In the loss an estimate is differentiated. k1's gradient is the score, whose mean is 0; k3's mean gradient is that of KL(ref‖π), the other direction; k2's is right. All of it for tokens drawn from π itself.";
const REWARD_WORDS = "In the reward an estimate is a number that its token is paid for. k1 then has exactly the KL's gradient; k2 and k3 have not.";

function readout(x) {
  return NAMES.map((name) => {
    const { value, gradient } = estimate(name, x);
    return { label: name, value: fixed(value, 3), note: `gradient ${signed(gradient, 3)} to log π` };
  });
}

export function KlBench() {
  const bench = useBench();
  return html`<div class="bench">
    <div class="bench-controls panel stack">
      <${Slider} label="x = log π_ref − log π" value=${bench.x} min=${-3} max=${3} step=${0.01} unit="nats" onInput=${bench.setX} describe=${bench.x > 0 ? "The policy makes this token rarer than the reference does." : bench.x < 0 ? "The policy makes this token likelier than the reference does." : "The two agree on this token."} />
      <${Readout} items=${readout(bench.x)} words="One token's estimate: k1 = −x may be negative, k2 = x²/2 and k3 = eˣ − 1 − x cannot." />
    </div>
    <div class="bench-figures bench-pair">
      <${CurveFigure} title="Value" what="value" x=${bench.x} setX=${bench.setX} /><${CurveFigure} title="Gradient to log π" what="gradient" x=${bench.x} setX=${bench.setX} />
    </div>
    <div class="bench-wide stack">
      <div class="row bench-between"><h2>Over a whole distribution</h2><${Segmented} label="The KL acts" options=${PLACES} value=${bench.placement} onChange=${bench.place} /></div>
      <p class="muted">${bench.placement === "loss" ? LOSS_WORDS : REWARD_WORDS}</p>
    </div>
    <div class="bench-controls"><${DistributionFigure} ...${bench} /></div>
    <div class="bench-figures"><${Table} label="Estimators of the KL over the distribution" columns=${COLUMNS} rows=${rowsOf(bench)} /></div>
    <div class="bench-code"><${Code} source=${source(bench)} title="The same values and gradients in Python" /></div>
  </div>`;
}
