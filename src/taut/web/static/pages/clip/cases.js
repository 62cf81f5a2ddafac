// Four cases that hold the whole of the clip, with the person's own above them.

import { html } from 'taut/lib/html.js';
import { token as surrogate } from 'taut/maths/policy.js';
import { Python } from 'taut/pages/clip/python.js';
import { fixed, signed } from 'taut/pages/clip/words.js';
import { casesSnippet } from 'taut/pages/clip/snippets.js';

export const CASES = [
  { advantage: 2, ratio: 1.1, why: 'Yes, inside the range' },
  { advantage: 2, ratio: 1.5, why: 'No, raised enough already' },
  { advantage: -1, ratio: 0.5, why: 'No, lowered enough already' },
  { advantage: -1, ratio: 1.5, why: 'Yes: a bad token got more likely, keep correcting' },
];
const EPSILON = 0.2;

function answer({ advantage, ratio }, result) {
  if (advantage === 0) return 'No, nothing to learn';
  if (result.flat) return `No, ${advantage > 0 ? 'raised' : 'lowered'} enough already`;
  if (result.side === 'inside') return 'Yes, inside the range';
  return advantage > 0 ? 'Yes: a good token got less likely, keep correcting' : CASES[3].why;
}

function Row({ point, clipLow, clipHigh, why, own, onPick, chosen }) {
  const result = surrogate('ppo', { ...point, clipLow, clipHigh });
  const bound = result.side === 'above' ? 1 + clipHigh : 1 - clipLow;
  const product = result.side === 'inside' ? '' : `${fixed(bound, 1)} × ${fixed(point.advantage, own ? 2 : 0)} = `;
  const digits = own ? 2 : 1;
  return html`
    <tr class=${own ? 'own' : chosen ? 'chosen pick' : 'pick'} onClick=${onPick}>
      <th scope="row">${own ? html`<span class="muted">yours</span>`
        : html`<button type="button" class="button small" aria-pressed=${chosen}>Set</button>`}</th>
      <td class="number">${signed(point.advantage, own ? 2 : 0)}</td>
      <td class="number">${fixed(point.ratio, digits)}</td>
      <td class="number">${fixed(result.unclipped, digits)}</td>
      <td class="number">${product}${fixed(result.clipped, digits)}</td>
      <td class="number strong">${fixed(result.objective, digits)}</td>
      <td class=${result.flat || !point.advantage ? 'answer no' : 'answer yes'}>${why}</td>
    </tr>`;
}

export function Cases({ token }) {
  const { setting, here } = token;
  const own = { advantage: setting.advantage, ratio: here.ratio };
  const result = surrogate('ppo', { ...setting, ratio: here.ratio });
  const same = (one) => one.advantage === own.advantage && one.ratio === own.ratio
    && setting.clipLow === EPSILON && setting.clipHigh === EPSILON;
  return html`
    <section class="section" aria-labelledby="cases-title">
      <h2 id="cases-title">Four cases</h2>
      <p class="muted">PPO takes the smaller of ρA and clip(ρ)·A, where clip(ρ) is ρ held inside the range; here
        ε = 0.2. Choose a row to set the sliders above.</p>
      <div class="scroll-x" tabindex="0" role="region" aria-label="Table of cases">
        <table class="cases" data-part="cases">
          <thead><tr><th scope="col"><span class="visually-hidden">Choose</span></th><th scope="col">A</th><th scope="col">ρ</th>
            <th scope="col">ρA</th><th scope="col">clip(ρ)·A</th><th scope="col">objective</th><th scope="col">still learning?</th></tr></thead>
          <tbody>
            <${Row} own point=${own} clipLow=${setting.clipLow} clipHigh=${setting.clipHigh} why=${answer(own, result)} />
            ${CASES.map((one) => html`<${Row} key=${`${one.advantage} ${one.ratio}`} point=${one} clipLow=${EPSILON}
              clipHigh=${EPSILON} why=${one.why} chosen=${same(one)} onPick=${() => token.place({ ...one, epsilon: EPSILON })} />`)}
          </tbody>
        </table>
      </div>
      <p class="aside">The clip stops only what has gone far enough in the right direction. A mistake in the wrong
        direction is always corrected.</p>
      <${Python} part="cases" source=${casesSnippet(CASES, EPSILON)} />
    </section>`;
}
