// The explorer: one token, its objective, and real gradient steps on a softmax.

import { useEffect, useState } from 'preact/hooks';
import { html } from 'taut/lib/html.js';
import { useKeys } from 'taut/lib/keyboard.js';
import { OLD, SAMPLED, VOCABULARY } from 'taut/maths/clip_walk.js';
import { Curve } from 'taut/pages/clip/curve.js';
import { Python } from 'taut/pages/clip/python.js';
import { pointSnippet, walkSnippet } from 'taut/pages/clip/snippets.js';
import { LEAST_RATIO, MOST_RATIO, MOST_STEPS } from 'taut/pages/clip/state.js';
import { fixed, pushInWords, signed } from 'taut/pages/clip/words.js';
import { Say } from 'taut/widgets/readout.js';
import { Slider } from 'taut/widgets/slider.js';
import { Toggle } from 'taut/widgets/toggle.js';

const PLAYED = 14;
const BEAT = 650;

function Reading({ token }) {
  const { here, setting, steps } = token;
  const numbers = `At ρ = ${fixed(here.ratio)}: objective ${fixed(here.objective)}, slope ${fixed(here.slope)}.`;
  const words = pushInWords({ ...setting, ratio: here.ratio });
  const overshot = here.flat && steps > 0 && !token.states.at(-2).flat;
  return html`
    <div class="reading" data-part="reading">
      <p class="numbers">${numbers}</p><${Say} text=${`${numbers} ${words}`} />
      <p>${words}
        ${overshot && ' The step carried it past the edge; nothing carries it back.'}
        ${steps === 0 && !here.flat && here.slope !== 0 && html`${' '}Press <em>Take a gradient step</em> to follow it.`}</p>
    </div>`;
}

function Sliders({ token }) {
  const { setting, here } = token;
  const epsilon = { min: 0, max: 1, step: 0.01, format: (value) => fixed(value) };
  return html`
    <div class="stack">
      <${Slider} label="advantage A" value=${setting.advantage} min=${-2} max=${2} step=${0.01} onInput=${token.setAdvantage}
        format=${(value) => signed(value)} describe="How much better the reply was than expected." />
      <${Slider} label=${token.linked ? 'ε' : 'ε below'} value=${setting.clipLow} ...${epsilon} onInput=${token.setLow} />
      ${!token.linked && html`
        <${Slider} label="ε above" value=${setting.clipHigh} ...${epsilon} onInput=${token.setHigh} />`}
      <${Toggle} label="same ε below and above" value=${token.linked} onChange=${token.setLinked} />
      <${Slider} label="ρ now" value=${Number(here.ratio.toFixed(4))} min=${LEAST_RATIO} max=${MOST_RATIO} step=${0.01}
        onInput=${token.setRatio} format=${(value) => fixed(value)} describe="Probability now ÷ under the old policy, which sampled it." />
      <${Slider} label="step size η" value=${token.stepSize} min=${0} max=${2} step=${0.01}
        onInput=${token.setStepSize} format=${(value) => fixed(value)} />
    </div>`;
}

/** Takes steps by itself, one a beat. */
function usePlaying(token) {
  const [until, setUntil] = useState(null);
  useEffect(() => {
    if (until === null) return undefined;
    if (token.steps >= until) { setUntil(null); return undefined; }
    const timer = setTimeout(token.step, BEAT);
    return () => clearTimeout(timer);
  }, [until, token.steps]);
  const toggle = () => setUntil(until === null ? Math.min(MOST_STEPS, token.steps + PLAYED) : null);
  return [until !== null, toggle, () => setUntil(null)];
}

function Steps({ token }) {
  const [playing, toggle, stop] = usePlaying(token);
  const reset = () => { stop(); token.reset(); };
  useKeys({
    s: { does: 'take a gradient step', run: token.step },
    p: { does: 'play the steps, or pause', run: toggle },
    r: { does: 'back to step 0 at ρ = 1', run: reset },
  });
  return html`
    <div class="steps row">
      <button type="button" class="button primary" onClick=${token.step} disabled=${token.steps >= MOST_STEPS}>
        Take a gradient step</button>
      <button type="button" class="button" aria-pressed=${playing} onClick=${toggle}>${playing ? 'Pause' : 'Play'}</button>
      <button type="button" class="button" onClick=${reset}>Reset</button>
      <span class="count" data-part="step" role="status">step ${token.steps}</span>
    </div>`;
}

function Bar({ word, index, own, twin }) {
  const percent = (value) => `${(100 * value).toFixed(2)}%`;
  return html`
    <li class=${index === SAMPLED ? 'bar sampled' : 'bar'}>
      <code>${word}</code>
      <span class="bar-track" aria-hidden="true">
        <span class="bar-own" style=${`width: ${percent(own)}`}></span>
        <span class="bar-twin" style=${`width: ${percent(twin)}`}></span>
        <span class="bar-old" style=${`left: ${percent(OLD[index])}`}></span>
      </span>
      <span class="number">${fixed(own)}</span><span class="number twin-number">${fixed(twin)}</span>
    </li>`;
}

function Vocabulary({ token }) {
  const { here, twin, steps, start } = token;
  const other = twin.at(-1);
  return html`
    <figure class="vocabulary" data-part="vocabulary">
      <figcaption>
        <h3>What follows “17 × 6 =”</h3>
        <p class="small muted">A softmax over six tokens. <code>102</code> was sampled, at 0.40. Each step moves the logits
          along the exact gradient of <code>102</code>’s objective.</p>
      </figcaption>
      <ul class="bars">
        <li class="bar bar-head small muted" aria-hidden="true"><span></span><span></span><span>clipped</span><span>twin</span></li>
        ${VOCABULARY.map((word, index) => html`
          <${Bar} key=${word} word=${word} index=${index} own=${here.probabilities[index]} twin=${other.probabilities[index]} />`)}
      </ul>
      <p class="small muted"><span class="key own"></span> clipped ${' '}<span class="key twin"></span> the unclipped twin, now at
        ρ = <span data-part="twin-ratio">${fixed(other.ratio)}</span> ${' '}<span class="key old"></span> when sampled</p>
      ${steps === 0 && start !== 1 && html`<p class="small muted" data-part="set-state">Set by hand: only the
        logit of <code>102</code> was moved, to P = ${fixed(here.probabilities[SAMPLED], 3)}; the others keep their proportions.</p>`}
    </figure>`;
}

export function Explorer({ token }) {
  const { setting, stepSize, steps, start, here } = token;
  const snippet = steps === 0
    ? pointSnippet({ ...setting, ratio: Number(here.ratio.toFixed(4)) })
    : walkSnippet({ ...setting, start, steps, stepSize });
  return html`
    <section class="explorer" aria-label="Explorer">
      <div class="explorer-main">
        <${Reading} token=${token} />
        <${Curve} setting=${setting} states=${token.states} twin=${token.twin} onRatio=${token.setRatio} />
        <p class="small muted legend">Solid: the clipped objective that PPO climbs. Dashed: the unclipped one. Red band: flat, so
          no gradient. Drag anywhere to set ρ.</p>
        <${Steps} token=${token} />
        <${Python} part="explorer" source=${snippet} />
      </div>
      <div class="explorer-side">
        <${Sliders} token=${token} />
        <${Vocabulary} token=${token} />
      </div>
    </section>`;
}
