// A reply of five tokens under PPO's steps, each token with a softmax of its own: itself against the rest.
// The step sizes are such that `102` goes 0.40, 0.45, 0.49; the others follow by their gradients.

import { sequenceRatio, token as surrogate } from 'taut/maths/policy.js';

export const REPLY = ['The', 'answer', 'is', '102', '.'];
export const REPLY_OLD = [0.55, 0.6, 0.85, 0.4, 0.7];
export const WATCHED = 3;
/** Of `102`, in hundredths, at steps 1, 2 and 3. */
export const HUNDREDTHS = [40, 45, 49];
export const WALK_STEPS = 6;
export const SETTING = { advantage: 1, clipLow: 0.2, clipHigh: 0.2 };

const logit = (probability) => Math.log(probability / (1 - probability));
const sigmoid = (value) => 1 / (1 + Math.exp(-value));
const shift = (probability, old) => {
  const { weight } = surrogate('ppo', { ...SETTING, ratio: probability / old });
  return weight * (1 - probability);
};

function stepSize(step) {
  const [from, to] = step === 0 ? HUNDREDTHS : HUNDREDTHS.slice(1);
  const push = shift(from / 100, REPLY_OLD[WATCHED]);
  return (logit(to / 100) - logit(from / 100)) / push;
}

function next(probabilities, step) {
  return probabilities.map((probability, index) => {
    if (index === WATCHED && step < 2) return HUNDREDTHS[step + 1] / 100;
    const push = shift(probability, REPLY_OLD[index]);
    return push === 0 ? probability : sigmoid(logit(probability) + stepSize(step) * push);
  });
}

/** The reply at steps 1 … WALK_STEPS: per token probability, ratio and whether it is held; and the reply's ratio,
 * the geometric mean of its tokens' (GSPO, 2507.18071). */
export function replyWalk() {
  const walk = [REPLY_OLD];
  while (walk.length < WALK_STEPS) walk.push(next(walk.at(-1), Math.min(walk.length - 1, 1)));
  return walk.map((probabilities) => {
    const tokens = probabilities.map((probability, index) => {
      const ratio = probability / REPLY_OLD[index];
      return { probability, ratio, held: surrogate('ppo', { ...SETTING, ratio }).flat };
    });
    return { tokens, sequence: sequenceRatio(tokens.map((one) => Math.log(one.ratio))) };
  });
}
