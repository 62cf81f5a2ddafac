// The same change as a ratio and as a probability: why a ratio treats rare and frequent tokens unequally.

import { html } from 'taut/lib/html.js';
import { useUrlState } from 'taut/lib/url_state.js';
import { token as surrogate } from 'taut/maths/policy.js';
import { Python } from 'taut/pages/clip/python.js';
import { movesSnippet } from 'taut/pages/clip/snippets.js';
import { within } from 'taut/pages/clip/state.js';
import { ratioOfWhole } from 'taut/pages/clip/words.js';
import { Segmented } from 'taut/widgets/segmented.js';
import { Slider } from 'taut/widgets/slider.js';
import { useWidth } from 'taut/widgets/svg.js';

const CLIP = 0.2;
const DELTA = 0.15;
export const RARE = { name: 'a rare token', old: 0.00001, now: 0.001 };
export const SURE = { name: 'a sure token', old: 0.99, now: 0.8 };
const AXES = { rho: { low: 0.01, high: 1000, ticks: [0.01, 0.1, 1, 10, 100, 1000] }, pi: { low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1] } };
const HEIGHT = 92;
const LEAST = 0.00001;
const MOST = 0.99999;

/** A probability, with the digits that it needs. */
export function probabilityText(value) {
  const text = value >= 0.01 ? value.toFixed(3) : Number(value.toPrecision(2)).toFixed(7);
  return text.replace(/(\.\d\d\d*?)0+$/, '$1');
}
const PARTS = 1e9; // probabilities as whole numbers: as binary fractions 0.49 ÷ 0.4 is a hair short of 1.225

/** ρ of a move, rounded from the decimals as they are read. */
export function ratioText({ old, now }) {
  return now / old >= 10 ? String(Math.round(now / old)) : ratioOfWhole(Math.round(now * PARTS), Math.round(old * PARTS));
}

/** What PPO and DPPO do to a token that the advantage moved from `old` to `now`. */
export function verdicts({ old, now }) {
  const setting = { ratio: now / old, advantage: now >= old ? 1 : -1, oldProbability: old };
  return {
    ppo: surrogate('ppo', { ...setting, clipLow: CLIP, clipHigh: CLIP }),
    dppo: surrogate('dppo', { ...setting, clipLow: DELTA, clipHigh: DELTA }),
  };
}

function position(axis, { old }, probability, [left, right]) {
  const { low, high } = AXES[axis];
  if (axis === 'pi') return left + probability * (right - left);
  const ratio = Math.min(high, Math.max(low, probability / old));
  return left + (Math.log(ratio / low) / Math.log(high / low)) * (right - left);
}

function Range({ at, from, to, y, name, label }) {
  const [x1, x2] = [at(Math.max(0, from)), at(Math.min(1, to))];
  return html`
    <rect class=${`allowed ${name}`} x=${x1} width=${Math.max(1.5, x2 - x1)} y=${y} height="13" />
    <text class="mark" x="0" y=${y + 10}>${label}</text>`;
}

function Track({ axis, move }) {
  const [ref, width] = useWidth();
  const ends = [54, width - 16];
  const at = (probability) => position(axis, move, probability, ends);
  const { ticks, low, high } = AXES[axis];
  const tickAt = (tick) => (axis === 'pi' ? at(tick) : ends[0] + (Math.log(tick / low) / Math.log(high / low)) * (ends[1] - ends[0]));
  const { old, now } = move;
  const [x1, x2] = [at(old), at(now)];
  return html`
    <div ref=${ref} class="plot">
      <svg width=${width} height=${HEIGHT} role="img"
        aria-label=${`From ${probabilityText(old)} to ${probabilityText(now)}: ρ is ${ratioText(move)}`}>
        <${Range} at=${at} from=${old * (1 - CLIP)} to=${old * (1 + CLIP)} y=${30} name="ppo" label="PPO" />
        <${Range} at=${at} from=${old - DELTA} to=${old + DELTA} y=${50} name="dppo" label="DPPO" />
        <line class="axis" x1=${ends[0]} x2=${ends[1]} y1="70" y2="70" />
        ${ticks.map((tick) => html`<line class="axis" x1=${tickAt(tick)} x2=${tickAt(tick)} y1="70" y2="74" />
          <text class="tick" x=${tickAt(tick)} y="87" text-anchor="middle">${tick}</text>`)}
        <line class="jump" x1=${x1} x2=${x2} y1="16" y2="16" />
        <line class="old" x1=${x1} x2=${x1} y1="10" y2="70" />
        <circle class="point own" r="6.5" cx=${x2} cy="16" />
      </svg>
    </div>`;
}

function verdict({ flat }) {
  return html`<b class=${flat ? 'answer no' : 'answer yes'}>${flat ? 'held' : 'not held'}</b>`;
}

function Move({ axis, move, part, children }) {
  const { old, now, name } = move;
  const { ppo, dppo } = verdicts(move);
  return html`
    <div class="move" data-part=${part}>
      <h3>${name}: ${probabilityText(old)} → ${probabilityText(now)}</h3>
      <p class="numbers"><b>ρ = ${ratioText(move)}</b><span>${probabilityText(Math.abs(now - old))} of probability moved</span></p>
      <${Track} axis=${axis} move=${move} />
      <p>PPO: ${verdict(ppo)} · DPPO: ${verdict(dppo)}</p>
      ${children}
    </div>`;
}

export function Probability() {
  const [axis, setAxis] = useUrlState('axis', 'rho', { parse: (text) => (text === 'pi' ? 'pi' : 'rho'), print: String });
  const [old, setOld] = useUrlState('pold', 0.4, within(LEAST, MOST));
  const [now, setNow] = useUrlState('pnow', 0.49, within(LEAST, MOST));
  const own = { name: 'yours', old, now };
  const inside = (set) => (value) => set(Math.min(MOST, Math.max(LEAST, value)));
  const slider = { min: 0, max: 1, step: 0.001, format: probabilityText };
  return html`
    <section class="section" aria-labelledby="probability-title">
      <h2 id="probability-title">Ratio or probability?</h2>
      <p class="muted">A ratio is relative. A rare token that gains a thousandth is a hundred times likelier and far outside;
        a sure token that loses a fifth of all probability is still inside 1 ± 0.2. So the clip is tight on rare tokens and
        loose on sure ones. DPPO (2602.04879) measures what moved instead: it holds a token once π − π<sub>old</sub> is beyond
        ± 0.15 in the favoured direction.</p>
      <${Segmented} label="draw as" value=${axis} onChange=${setAxis}
        options=${[{ value: 'rho', label: 'ratio ρ' }, { value: 'pi', label: 'probability π' }]} />
      <div class="moves">
        <${Move} axis=${axis} move=${RARE} part="rare" />
        <${Move} axis=${axis} move=${SURE} part="sure" />
        <${Move} axis=${axis} move=${own} part="own">
          <${Slider} label="sampled at" value=${old} ...${slider} onInput=${inside(setOld)} />
          <${Slider} label="now" value=${now} ...${slider} onInput=${inside(setNow)} />
        <//>
      </div>
      <p class="small muted">Bars: where the token may go before it is held, PPO by ratio, DPPO by probability.
        ${axis === 'rho' ? ' The axis is logarithmic.' : ' The rare token’s range under PPO is 0.000004 wide: thinner than the line that draws it.'}</p>
      <${Python} part="probability" source=${movesSnippet([RARE, SURE, own], CLIP, DELTA)} />
    </section>`;
}
