// What colours and signs mean; the same can be read without the colours.
import { fixed, signed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { binClass, MARKS, scaleOf } from "taut/pages/microscope/paint.js";

const CLIPPED = [["hh", "▲", "held above"], ["hl", "▼", "held below"], ["fh", "△", "above, not held"], ["fl", "▽", "below, not held"]];
const CAPPED = [["hh", "▲", "weight capped above"], ["hl", "▼", "weight capped below"], ["fh", "△", "above, A = 0"], ["fl", "▽", "below, A = 0"]];

function swatches(spec, scale, constants) {
  const bins = spec.scale === "sequential" ? [0, 1, 2, 3, 4, 5, 6, 7, 8] : [-4, -3, -2, -1, 0, 1, 2, 3, 4];
  const show = (value) => (spec.scale === "diverging" ? signed(value, spec.digits) : fixed(value, 2));
  const past = (edge) => (spec.scale === "ratio" && edge != null && constants.surrogate !== "dppo" ? "clip " : "");
  return html`<span class="legend-scale"><span>${past(constants.clip_low)}${show(scale.low)}</span>
    ${bins.map((bin) => html`<i key=${bin} class=${`t ${binClass(bin, spec)}`}></i>`)}
    <span>${past(constants.clip_high)}${show(scale.high)}</span></span>`;
}

export function Legend({ batch, moment, values, spec }) {
  const { constants, states } = moment;
  const there = new Set(Array.from(new Set(states), (state) => MARKS[state]?.name));
  const signs = constants.surrogate === "cispo" ? CAPPED : CLIPPED;
  const told = batch.columns.mask.some((trained) => !trained);
  return html`<div class="legend">
    ${spec.scale !== "clip" && swatches(spec, scaleOf(values, spec, constants), constants)}
    ${signs.filter(([name]) => spec.scale === "clip" || there.has(name)).map(([name, sign, words]) => html`<span key=${name}><i class=${`t ${name}`}>${sign}</i> ${words}</span>`)}
    ${there.has("du") && html`<span><i class="t du">◆</i> held by the dual clip</span>`}
    ${moment.moved && html`<span><i class="t newly-held">abc</i> newly held</span><span><i class="t freed">abc</i> freed</span>`}
    ${told && html`<span><i class="t told">abc</i> not trained on</span>`}
  </div>`;
}
