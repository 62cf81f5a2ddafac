// One token under seven objectives: the objective and the gradient weight against the ratio, one cursor for all.

import { useMemo } from 'preact/hooks';
import { html } from 'taut/lib/html.js';
import { subscripts } from 'taut/lib/subscript.js';
import { useUrlState } from 'taut/lib/url_state.js';
import { FAMILY, token as surrogate } from 'taut/maths/policy.js';
import { Flat, Plane, dragging, scales } from 'taut/pages/clip/plane.js';
import { Python } from 'taut/pages/clip/python.js';
import { familySnippet } from 'taut/pages/clip/snippets.js';
import { within } from 'taut/pages/clip/state.js';
import { fixed } from 'taut/pages/clip/words.js';
import { Segmented } from 'taut/widgets/segmented.js';
import { Slider } from 'taut/widgets/slider.js';
import { Hatch, line as path, useWidth } from 'taut/widgets/svg.js';

const MOST = 4;
const LEAST = 0.02;
const SAMPLES = 400;
const HEIGHT = 120;
export const OLD_PROBABILITY = 0.2;
const RATIOS = Array.from({ length: SAMPLES + 1 }, (_, index) => LEAST + ((MOST - LEAST) * index) / SAMPLES);

/** Where this loss has a corner, so that a drawn curve has it too. */
function corners({ loss, defaults }) {
  const unit = loss === 'dppo' ? OLD_PROBABILITY : 1;
  const { clipLow, clipHigh, dualClip } = defaults;
  const found = [clipLow && 1 - clipLow / unit, clipHigh && 1 + clipHigh / unit, dualClip];
  return found.filter(Boolean).flatMap((at) => [at, at + 1e-9, at - 1e-9]);
}

const at = (member, advantage, ratio) => surrogate(member.loss, { ratio, advantage, oldProbability: OLD_PROBABILITY });

/** The line of a quantity over all ratios, as points [ρ, value], and the stretches [from, to] without gradient. */
function shapeOf(member, advantage, quantity) {
  const ratios = [...RATIOS, ...corners(member)].filter((one) => one > 0 && one <= MOST).sort((a, b) => a - b);
  const results = ratios.map((one) => at(member, advantage, one));
  const flat = [];
  results.forEach((one, index) => {
    if (!one.flat) return;
    if (index && results[index - 1].flat) flat.at(-1)[1] = ratios[index];
    else flat.push([ratios[index], ratios[index]]);
  });
  return { points: results.map((one, index) => [ratios[index], one[quantity]]), flat };
}

function Small({ id, member, advantage, ratio, quantity, onRatio, name }) {
  const [ref, width] = useWidth(260);
  const { points, flat } = useMemo(() => shapeOf(member, advantage, quantity), [member, advantage, quantity]);
  const [least, most] = quantity === 'weight' ? [-0.5, 4.2] : [-2.1, 4.2];
  const yRange = advantage > 0 ? [least, most] : [-most, -least];
  const margin = { top: 16, right: 8, bottom: quantity === 'weight' ? 36 : 20, left: 30 };
  const scale = scales({ width, height: HEIGHT + margin.bottom, xRange: [0, MOST], yRange, margin });
  const line = path(points.map(([x, y]) => [scale.x(x), scale.y(y)]));
  const here = at(member, advantage, ratio)[quantity];
  return html`
    <div ref=${ref} class="plot">
      <svg class="draggable" width=${width} height=${HEIGHT + margin.bottom} role="img"
        aria-label=${`${member.title}, ${name}: ${fixed(here)} at ρ = ${fixed(ratio)}`}
        ...${dragging((x) => onRatio(scale.xAt(x)))}>
        <defs><${Hatch} id=${`${id}-hatch`} /></defs>
        <${Plane} id=${id} scale=${scale} xTicks=${[0, 1, 2, 3, 4]} yTicks=${[-4, -2, 0, 2, 4].filter((tick) => tick >= yRange[0] && tick <= yRange[1])} digits=${0}
          xLabel=${quantity === 'weight' ? 'ratio ρ' : ''} yLabel="">
          ${flat.map(([from, to]) => html`<${Flat} hatch=${`${id}-hatch`} x=${scale.x(from)} width=${scale.x(to) - scale.x(from)}
            y=${scale.top} height=${scale.bottom - scale.top} />`)}
          <line class="old" x1=${scale.x(1)} x2=${scale.x(1)} y1=${scale.top} y2=${scale.bottom} />
          ${quantity === 'objective' && html`<path class="unclipped" d=${path([[scale.x(0), scale.y(0)], [scale.x(MOST), scale.y(MOST * advantage)]])} />`}
          <path class=${quantity === 'weight' ? 'weight' : 'clipped'} d=${line} />
          <line class="cursor" x1=${scale.x(ratio)} x2=${scale.x(ratio)} y1=${scale.top} y2=${scale.bottom} />
          <circle class="point own" r="5" cx=${scale.x(ratio)} cy=${scale.y(here)} />
        <//>
        <text class="label" x=${scale.left} y="10">${name} <tspan class="strong">${fixed(here)}</tspan></text>
      </svg>
    </div>`;
}

function range({ loss, defaults }) {
  const { clipLow, clipHigh, dualClip } = defaults;
  const dual = dualClip ? `, c = ${dualClip}` : '';
  if (loss === 'dppo') return `${fixed(OLD_PROBABILITY - clipLow)} … ${fixed(OLD_PROBABILITY + clipHigh)} of probability, from ${OLD_PROBABILITY}`;
  if (loss === 'sapo') return 'τ = 1 where A > 0, 1.05 where A < 0';
  if (clipLow == null) return `weight at most ${1 + clipHigh}`;
  return `${Number((1 - clipLow).toFixed(4))} … ${Number((1 + clipHigh).toFixed(4))}${dual}`;
}

function Card({ member, advantage, ratio, onRatio }) {
  const here = at(member, advantage, ratio);
  const state = here.flat ? 'no gradient' : here.capped ? 'weight capped, gradient flows' : 'gradient flows';
  const shared = { member, advantage, ratio, onRatio };
  return html`
    <article class="card" data-part=${member.loss}>
      <header><h3>${member.title}</h3><span class="small muted">arXiv ${member.arxiv}</span></header>
      <p class="small muted">${range(member)}</p>
      <${Small} ...${shared} id=${`objective-${member.loss}`} quantity="objective" name="objective" />
      <${Small} ...${shared} id=${`weight-${member.loss}`} quantity="weight" name="gradient weight" />
      <p class=${`small answer ${here.flat ? 'no' : 'yes'}`}>${state}</p>
      <p class="small">${subscripts(member.sentence)}</p>
    </article>`;
}

export function Gallery() {
  const [ratio, setRatio] = useUrlState('g-rho', 1.3, within(LEAST, MOST));
  const [sign, setSign] = useUrlState('g-A', '+1', { parse: (text) => (text === '-1' ? '-1' : '+1'), print: String });
  const advantage = Number(sign);
  const onRatio = (value) => setRatio(Number(Math.min(MOST, Math.max(LEAST, value)).toFixed(2)));
  return html`
    <section class="section" aria-labelledby="gallery-title">
      <h2 id="gallery-title">One token, seven objectives</h2>
      <p class="muted">The gradient weight is d objective / d log π: how hard the token pushes its own log-probability. All are A at
        ρ = 1; they differ in what they do away from it. Red: no gradient.</p>
      <div class="row gallery-controls">
        <${Segmented} label="advantage" value=${sign} onChange=${setSign} options=${[{ value: '+1', label: 'A = +1' }, { value: '-1', label: 'A = −1' }]} />
        <${Slider} label="ρ of all seven" value=${ratio} min=${LEAST} max=${MOST} step=${0.01} onInput=${onRatio} format=${(value) => fixed(value)} />
      </div>
      <div class="cards">${FAMILY.map((member) => html`<${Card} key=${member.loss} member=${member} advantage=${advantage}
        ratio=${ratio} onRatio=${onRatio} />`)}
        <aside class="card notes small muted"><h3>Reading them</h3>
          <p>Above: the objective, and dashed ρA, what importance weighting alone would climb. Below: the gradient weight.</p>
          <p>CISPO climbs log π with a constant weight: look at the weight, its own value says little.</p>
          <p>GSPO’s ρ is the whole reply’s. It moves far less than a token’s, hence the narrow range.</p>
          <p>DPPO’s edge depends on where the token began: here at 0.2. Its objective drops to 0 where the token is held; its gradient does
            nothing there.</p></aside></div>
      <${Python} part="gallery" source=${familySnippet({ ratio, advantage, oldProbability: OLD_PROBABILITY })} />
    </section>`;
}
