// The walk of one token, and what the rest of its reply does meanwhile.

import { useEffect, useState } from 'preact/hooks';
import { html } from 'taut/lib/html.js';
import { useUrlState } from 'taut/lib/url_state.js';
import { HUNDREDTHS, REPLY, WALK_STEPS, WATCHED, replyWalk } from 'taut/maths/reply_walk.js';
import { Python } from 'taut/pages/clip/python.js';
import { replySnippet } from 'taut/pages/clip/snippets.js';
import { within } from 'taut/pages/clip/state.js';
import { fixed, ratioOfWhole } from 'taut/pages/clip/words.js';

const BEAT = 1100;
const WALK = replyWalk();
const GRADIENT = ['Yes', 'Yes', 'No, past 1.2'];

function usePlay(step, setStep) {
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    if (step >= WALK_STEPS) { setPlaying(false); return undefined; }
    const timer = setTimeout(() => setStep(step + 1), BEAT);
    return () => clearTimeout(timer);
  }, [playing, step]);
  const toggle = () => {
    if (!playing && step >= WALK_STEPS) setStep(1);
    setPlaying(!playing);
  };
  return [playing, toggle];
}

function Rows({ step }) {
  return html`
    <table class="walk-table" data-part="walk">
      <thead><tr><th scope="col">step</th><th scope="col">P(<code>102</code>)</th><th scope="col">ρ</th><th scope="col">gradient?</th></tr></thead>
      <tbody>${HUNDREDTHS.map((now, index) => html`
        <tr class=${index + 1 === Math.min(step, 3) ? 'own' : index < step ? '' : 'ahead'}>
          <td class="number">${index + 1}</td><td class="number">${(now / 100).toFixed(2)}</td>
          <td class="number">${ratioOfWhole(now, HUNDREDTHS[0])}</td><td>${GRADIENT[index]}</td></tr>`)}
      </tbody>
    </table>`;
}

function Word({ word, now, before, watched }) {
  const moved = now.probability !== before.probability;
  const state = now.held ? 'held: no gradient' : 'moving';
  return html`
    <li class=${`word ${now.held ? 'held' : ''} ${watched ? 'watched' : ''}`} data-moved=${moved ? 'yes' : 'no'}>
      <code>${word}</code>
      <span class="word-track" aria-hidden="true">
        <span class="word-fill" style=${`height: ${(100 * now.probability).toFixed(1)}%`}></span></span>
      <span class="number">${fixed(now.probability)}</span>
      <span class="number strong">ρ ${watched ? null : fixed(now.ratio)}${watched && html`<${Watched} now=${now} />`}</span>
      <span class="small state">${state}</span>
    </li>`;
}

function Watched({ now }) {
  return html`${ratioOfWhole(Math.round(now.probability * 100), HUNDREDTHS[0])}`;
}

function verdict(step) {
  const { tokens } = WALK[step - 1];
  const held = tokens.filter((one) => one.held).length;
  if (held === 0) return 'Every token of the reply still learns.';
  if (held === tokens.length) return 'Every token is held: this reply has nothing more to say to this policy.';
  if (held === 1) return '102 is past 1.2 and stands still. The four others still move: each token has a ratio of its own.';
  return `102 stands still. ${held} of ${tokens.length} tokens are held by now, each for itself.`;
}

export function Walk() {
  const [stepText, setStep] = useUrlState('walk', 1, within(1, WALK_STEPS));
  const step = Math.round(stepText);
  const [playing, toggle] = usePlay(step, setStep);
  const { tokens, sequence } = WALK[step - 1];
  const before = WALK[Math.max(0, step - 2)].tokens;
  const wholeHeld = sequence > 1.2;
  return html`
    <section class="section" aria-labelledby="walk-title">
      <h2 id="walk-title">One token in a language model</h2>
      <p class="muted">“What is 17 × 6?” The model answered correctly, and the answer got advantage +1. When it was
        sampled, <code>102</code> had probability 0.40. The trainer takes several steps on this batch, with ε = 0.2.</p>
      <div class="row walk-controls">
        <button type="button" class="button primary" aria-pressed=${playing} onClick=${toggle}>
          ${playing ? 'Pause' : step >= WALK_STEPS ? 'Play again' : 'Play the steps'}</button>
        <button type="button" class="button" disabled=${step <= 1} onClick=${() => setStep(step - 1)}>Back</button>
        <button type="button" class="button" disabled=${step >= WALK_STEPS} onClick=${() => setStep(step + 1)}>Next step</button>
        <span class="count" data-part="walk-step">step ${step} of ${WALK_STEPS}</span>
      </div>
      <div class="walk">
        <div class="walk-own"><h3>The token</h3><${Rows} step=${step} />
          <p class="small muted">45 ÷ 40 is 1.125 exactly, and reads 1.13.</p></div>
        <div class="walk-reply"><h3>Its reply</h3>
          <ol class="words">${REPLY.map((word, index) => html`<${Word} key=${word} word=${word} now=${tokens[index]}
            before=${before[index]} watched=${index === WATCHED} />`)}</ol>
          <div aria-live="polite" data-part="walk-verdict"><p>${verdict(step)}</p>
            <p>Sequence-level ratio, the geometric mean of the five: <b data-part="sequence-ratio">${fixed(sequence, 3)}</b>.${' '}
              ${wholeHeld ? 'Past 1.2 too: now a sequence-level clip holds all five at once.'
                : 'Inside 1 ± 0.2: a sequence-level clip (GSPO) would hold none of them, 102 included.'}</p></div>
          <p class="small muted">Here each token has a softmax of its own. In a network they share weights, so a held
            token can still drift as the others move; it only has stopped pushing.</p>
        </div>
      </div>
      <${Python} part="walk" source=${replySnippet(tokens.map((one) => one.probability))} />
    </section>`;
}
