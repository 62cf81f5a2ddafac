// What the numbers say, in words; and numbers as Python's format writes them.

import { token } from 'taut/maths/policy.js';

/** `value` with so many decimals. Ties go to the even digit, as in Python: the page and its snippets print alike. */
export function fixed(value, digits = 2) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  let text = Math.abs(value).toFixed(digits);
  const exact = Math.abs(value).toFixed(Math.min(digits + 60, 100));
  const tie = /^50*$/.test(exact.slice(exact.indexOf('.') + 1 + digits));
  if (tie && Number(text.at(-1)) % 2) text = (Number(text) - 10 ** -digits).toFixed(digits);
  return value < 0 && Number(text) ? `−${text}` : text;
}

/** With a plus where it is positive: an advantage. */
export const signed = (value, digits = 2) => (value > 0 ? '+' : '') + fixed(value, digits);

/** A ratio of two probabilities given as whole hundredths (or thousandths, ...), to two decimals, half up, from the
 * exact decimals: 45 over 40 is 1.125 and reads 1.13. */
export function ratioOfWhole(now, before) {
  return (Math.floor((200 * now + before) / (2 * before)) / 100).toFixed(2);
}

const EDGE = ' It stands exactly on the edge, which counts as inside.';

/** The token's numbers under PPO's objective, or under the dual clip where the setting has one. */
export function resultOf(setting) {
  return token(setting.dualClip ? 'dual-clip' : 'ppo', setting);
}

/** One sentence on what the gradient does to this token. */
export function pushInWords(setting) {
  const { advantage, ratio, clipLow, clipHigh } = setting;
  const { flat, side, held } = resultOf(setting);
  if (advantage === 0) return 'No advantage, nothing to learn: no gradient.';
  if (held === 'dual') return 'Flat: no gradient. The dual clip bounds what a bad token can cost.';
  if (flat) return `Flat: no gradient. The token has been ${advantage > 0 ? 'raised' : 'lowered'} enough.`;
  const onEdge = advantage > 0 ? ratio === 1 + clipHigh : ratio === 1 - clipLow;
  const edge = onEdge ? EDGE : '';
  if (side === 'inside') return `The gradient keeps pushing this token ${advantage > 0 ? 'up' : 'down'}.${edge}`;
  return advantage > 0
    ? 'A good token got less likely: the gradient pushes it back up.'
    : 'A bad token got more likely: the gradient pushes it back down.';
}

export const REGIONS = [
  { sign: 1, side: 'below', title: 'Good, but less likely', text: 'Wrong direction. Full gradient: push it back up.' },
  { sign: 1, side: 'inside', title: 'Good, and near', text: 'Inside the range. Full gradient: push it up.' },
  { sign: 1, side: 'above', title: 'Good, raised enough', text: 'Flat. No gradient until new replies are sampled.' },
  { sign: -1, side: 'below', title: 'Bad, lowered enough', text: 'Flat. No gradient until new replies are sampled.' },
  { sign: -1, side: 'inside', title: 'Bad, and near', text: 'Inside the range. Full gradient: push it down.' },
  { sign: -1, side: 'above', title: 'Bad, but more likely', text: 'Wrong direction. Full gradient: push it back down.' },
];

export function regionOf(setting) {
  const { side } = token('ppo', setting);
  return REGIONS.find((region) => region.sign === Math.sign(setting.advantage) && region.side === side);
}
