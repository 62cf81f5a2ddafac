// Eight cases for the quiz, drawn from a seed: each kind once, in any order.

import { fixed, resultOf, signed } from 'taut/pages/clip/words.js';

const DUAL = 2;

/** Numbers in [0, 1) from a seed (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const hundredths = (value) => Number(value.toFixed(2));

// Of each kind: its ratio and its advantage, from ε and numbers drawn in [0, 1).
const KINDS = [
  { kind: 'inside', ratio: (epsilon, a) => hundredths(1 + epsilon * (1.6 * a - 0.8)), sign: (b) => (b < 0.5 ? -1 : 1) },
  { kind: 'raised', ratio: (epsilon, a) => hundredths(1 + epsilon + 0.05 + 0.6 * a), sign: () => 1 },
  { kind: 'lowered', ratio: (epsilon, a) => hundredths(1 - epsilon - 0.05 - 0.4 * a), sign: () => -1 },
  { kind: 'wrong above', ratio: (epsilon, a) => hundredths(1 + epsilon + 0.05 + 0.5 * a), sign: () => -1 },
  { kind: 'wrong below', ratio: (epsilon, a) => hundredths(1 - epsilon - 0.05 - 0.4 * a), sign: () => 1 },
  { kind: 'edge', ratio: (epsilon) => 1 + epsilon, sign: () => 1 },
  { kind: 'zero', ratio: (epsilon, a) => hundredths(1 + epsilon + 0.05 + 0.6 * a), sign: () => 0 },
  { kind: 'dual', ratio: (_, a) => hundredths(DUAL + 0.05 + 0.35 * a), sign: () => -1, dualClip: DUAL },
];

export function quizCases(seed) {
  const draw = random(seed);
  const cases = KINDS.map(({ kind, ratio, sign, dualClip = null }) => {
    const epsilon = [0.1, 0.2, 0.3][Math.floor(3 * draw())];
    const advantage = sign(draw()) * hundredths(0.3 + 1.5 * draw());
    const setting = { ratio: ratio(epsilon, draw()), advantage, clipLow: epsilon, clipHigh: epsilon, dualClip };
    return { kind, setting, zero: resultOf(setting).weight === 0 };
  });
  for (let last = cases.length - 1; last > 0; last -= 1) {
    const other = Math.floor((last + 1) * draw());
    [cases[last], cases[other]] = [cases[other], cases[last]];
  }
  return cases;
}

const text = (value) => fixed(value);

/** Why the gradient is zero here, or isn't. */
export function explanation({ kind, setting }) {
  const { ratio, advantage, clipLow, clipHigh, dualClip } = setting;
  const [low, high] = [text(1 - clipLow), text(1 + clipHigh)];
  return {
    inside: `ρ is between ${low} and ${high}: inside the range PPO is plain policy gradient.`,
    raised: `The advantage favours going up, and ρ is past ${high} already. The clipped term is the smaller one, and it is flat.`,
    lowered: `The advantage favours going down, and ρ is below ${low} already. The clipped term is the smaller one, and it is flat.`,
    'wrong above': `ρ is past ${high}, but a negative advantage wants it lower. ρA = ${text(ratio * advantage)} is smaller than the clipped term, and it has slope: a mistake is always corrected.`,
    'wrong below': `ρ is below ${low}, but a positive advantage wants it higher. ρA = ${text(ratio * advantage)} is smaller than the clipped term, and it has slope: a mistake is always corrected.`,
    edge: `Exactly on the edge still counts as inside: only a ratio beyond ${high} is held.`,
    zero: 'With A = 0 both terms are 0 at every ρ. It is not clipped: there is nothing to learn from it.',
    dual: `Dual clip: with a negative advantage the objective never falls below cA = ${dualClip} × ${signed(advantage)}. Past ρ = ${dualClip} it is flat, though PPO alone would still correct.`,
  }[kind];
}
