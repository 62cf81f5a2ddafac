// Is the gradient zero here? Eight questions; each answer is explained with its picture.

import { useRef } from 'preact/hooks';
import { html } from 'taut/lib/html.js';
import { useUrlState } from 'taut/lib/url_state.js';
import { Curve } from 'taut/pages/clip/curve.js';
import { Python } from 'taut/pages/clip/python.js';
import { explanation, quizCases } from 'taut/pages/clip/quiz_cases.js';
import { pointSnippet } from 'taut/pages/clip/snippets.js';
import { within } from 'taut/pages/clip/state.js';
import { fixed, resultOf, signed } from 'taut/pages/clip/words.js';

const COUNT = 8;
const ANSWERS = { parse: (text) => (/^[yn]{0,8}-?$/.test(text) ? text : ''), print: String };

function Question({ one }) {
  const { ratio, advantage, clipLow, dualClip } = one.setting;
  return html`
    <p class="question" data-part="question"><b>A = ${signed(advantage)}</b><b>ρ = ${fixed(ratio)}</b><b>ε = ${fixed(clipLow)}</b>
      ${dualClip && html`<b>dual clip c = ${dualClip}</b>`}</p>`;
}

function Explained({ one, answer }) {
  const { setting } = one;
  const { objective, slope, flat } = resultOf(setting);
  const right = (answer === 'y') === one.zero;
  const state = { ratio: setting.ratio, objective, slope, flat };
  return html`
    <div class="explained">
      <p class=${right ? 'good' : 'bad'} data-part="verdict"><b>${right ? '✓ Right.' : '✗ Not so.'}</b>
        ${` The gradient is ${one.zero ? 'zero' : 'not zero'}: objective ${fixed(objective)}, slope ${fixed(slope)}.`}</p>
      <p>${explanation(one)}</p>
      <${Curve} id="quiz" setting=${setting} states=${[state]} height=${250} />
      <${Python} part="quiz" source=${pointSnippet(setting)} />
    </div>`;
}

function Ended({ score, again }) {
  const words = score === COUNT ? 'Every one. You know the clip.' : score >= 6 ? 'Nearly all of it.' : 'Have another look at the four cases.';
  return html`
    <div class="ended" data-part="score"><p class="numbers"><b>${score} of ${COUNT}</b></p><p>${words}</p>
      <button type="button" class="button primary" onClick=${again}>Eight others</button></div>`;
}

/** The quiz in the address: `answers` holds a letter a question answered, y or n; a dash at its end says that the
 * newest has been read. */
function useQuiz() {
  const [seed, setSeed] = useUrlState('quiz', 1, within(0, 2 ** 31));
  const [answers, setAnswers] = useUrlState('answers', '', ANSWERS);
  const cases = quizCases(seed);
  const given = answers.replace('-', '');
  const explained = given.length > 0 && !answers.endsWith('-');
  const index = explained ? given.length - 1 : given.length;
  return {
    cases, explained, index, newest: given.at(-1),
    score: [...given].filter((letter, at) => (letter === 'y') === cases[at].zero).length,
    say: (letter) => { if (!explained && index < COUNT) setAnswers(given + letter); },
    next: () => setAnswers(`${given}-`),
    again: () => { setAnswers(''); setSeed((seed * 7 + 11) % 99991); },
  };
}

export function Quiz() {
  const { cases, explained, index, newest, score, say, next, again } = useQuiz();
  const box = useRef(null);
  const goOn = () => { next(); box.current.focus(); };
  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const letter = { y: 'y', n: 'n' }[event.key.toLowerCase()];
    if (letter) say(letter);
    if (explained && event.key === 'Enter' && event.target === box.current) goOn();
  };
  const asked = index < COUNT;
  return html`
    <section class="section" aria-labelledby="quiz-title">
      <h2 id="quiz-title">Is the gradient zero here?</h2>
      <p class="muted">Eight cases. Answer by the buttons, or by <kbd>y</kbd> and <kbd>n</kbd> while the question has the focus.</p>
      <div class="quiz" data-part="quiz" tabindex="0" role="group" aria-label="Quiz" data-keys ref=${box} onKeyDown=${keys}>
        <p class="small muted">${asked ? `question ${index + 1} of ${COUNT}` : 'done'} · <span data-part="right">${score} right</span></p>
        ${asked && html`<${Question} one=${cases[index]} />`}
        ${asked && !explained && html`<div class="row">
          <button type="button" class="button" onClick=${() => say('y')}>Yes, it is zero</button>
          <button type="button" class="button" onClick=${() => say('n')}>No, it still learns</button></div>`}
        <div aria-live="polite">${explained && html`<${Explained} one=${cases[index]} answer=${newest} />`}
          ${!asked && html`<${Ended} score=${score} again=${again} />`}</div>
        ${explained && html`<button type="button" class="button primary" onClick=${goOn}>
          ${index + 1 < COUNT ? 'Next question' : 'See the score'}</button>`}
      </div>
    </section>`;
}
