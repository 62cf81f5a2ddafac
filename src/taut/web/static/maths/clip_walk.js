// One sampled token under repeated gradient steps: its softmax, and a twin whose ratio is never clipped.

import { token as surrogate } from 'taut/maths/policy.js';
import { ascended, moved, softmax } from 'taut/maths/softmax.js';

export const VOCABULARY = ['102', '112', '92', '96', '108', '107'];
export const OLD = [0.4, 0.22, 0.14, 0.1, 0.08, 0.06];
export const SAMPLED = 0;
/** Where the sampled token's probability would be 1. */
export const MOST = 1 / OLD[SAMPLED];

const OLD_LOGITS = OLD.map(Math.log);

/** The logits at which the sampled token has this ratio: its own logit moved, the others as they were. */
export function logitsAt(ratio) {
  return ratio === 1 ? OLD_LOGITS : moved(OLD_LOGITS, SAMPLED, ratio * OLD[SAMPLED]);
}

function state(ratio, logits, setting) {
  const { objective, slope, weight, flat } = surrogate('ppo', { ratio, ...setting });
  return { ratio, logits, probabilities: softmax(logits), objective, slope, weight, flat };
}

/** The states from `start` on, one more than `steps`: each a step of size η along the exact gradient of the
 * clipped objective. `clipLow` and `clipHigh` may be Infinity: then nothing is clipped. */
export function walk({ start, steps, stepSize, advantage, clipLow, clipHigh }) {
  const setting = { advantage, clipLow, clipHigh };
  const states = [state(start, logitsAt(start), setting)];
  while (states.length <= steps) {
    const { ratio, logits, weight } = states.at(-1);
    const next = ascended(logits, SAMPLED, weight, stepSize);
    // Where nothing moves, the ratio stays the very number it was.
    const there = weight === 0 || stepSize === 0 ? ratio : softmax(next)[SAMPLED] / OLD[SAMPLED];
    states.push(state(there, weight === 0 ? logits : next, setting));
  }
  return states;
}
