// What a stored batch's arrays say of each token: ratio, clip state, TD error, KL. Pure functions on arrays; tests hold
// them to taut.training.derive and taut.objective. The update ran in float32, and where a ratio is compared with an edge
// the rounding decides: so the difference, its exponential and the edges are rounded to float32 here too.
// Where a token is not trained on (mask 0) there is no value: NaN.

export const INSIDE = 0;
export const HELD_HIGH = 1; // outside, and the clip holds it (CISPO: its weight is capped)
export const HELD_LOW = 2;
export const FREE_HIGH = 3; // outside on the side that the advantage does not favour: it keeps its gradient
export const FREE_LOW = 4;
export const DUAL = 5; // held by the dual clip

const { exp, expm1, fround } = Math;

// Which of the ascending optimiser steps `seen` is the latest at or before `at`; -1 before the first.
export function standing(seen, at) {
  let found = -1;
  while (found + 1 < seen.length && seen[found + 1] <= at) found += 1;
  return found;
}

// ρ of one reply; at the sequence level (GSPO) each token has the reply's own, exp of the mean log ratio.
export function ratios(logprobs, old, mask, level = "token") {
  const found = new Float32Array(mask.length).fill(NaN);
  let sum = 0;
  let count = 0;
  for (let t = 0; t < mask.length; t += 1) {
    if (!mask[t]) continue;
    const logRatio = fround(logprobs[t] - old[t]);
    found[t] = exp(logRatio);
    sum += logRatio;
    count += 1;
  }
  if (level !== "sequence") return found;
  const whole = exp(fround(sum / count));
  return found.map((ratio, t) => (mask[t] ? whole : NaN));
}

// The state of each token as one of the numbers above. `constants` are those stored with the batch: clip_low, clip_high,
// dual_clip, surrogate. DPPO measures how far the probability moved, so it needs the logprobs.
export function clipStates(ratio, advantages, mask, constants, logprobs = null, old = null) {
  const states = new Uint8Array(mask.length);
  const { surrogate = "clipped", clip_low: low, clip_high: high, dual_clip: dual } = constants;
  const middle = surrogate === "dppo" ? 0 : 1;
  const top = fround(middle + (high ?? Infinity));
  const bottom = fround(middle - (low ?? Infinity));
  const bound = fround(dual ?? Infinity);
  for (let t = 0; t < mask.length; t += 1) {
    if (!mask[t]) continue;
    const moved = surrogate === "dppo" ? fround(fround(exp(logprobs[t])) - fround(exp(old[t]))) : ratio[t];
    const above = moved > top;
    if (surrogate === "clipped" && advantages[t] < 0 && ratio[t] > bound) states[t] = DUAL;
    else if (above || moved < bottom) {
      states[t] = holds(surrogate, advantages[t], above) ? (above ? HELD_HIGH : HELD_LOW) : above ? FREE_HIGH : FREE_LOW;
    }
  }
  return states;
}

// Whether a token outside the range is held there; SAPO's gate only fades, and holds none.
function holds(surrogate, advantage, above) {
  if (surrogate === "sapo") return false;
  if (surrogate === "cispo") return advantage !== 0;
  return above ? advantage > 0 : advantage < 0;
}

export function isHeld(state) {
  return state === HELD_HIGH || state === HELD_LOW || state === DUAL;
}

// δ_t = r_t + γ V_{t+1} − V_t over the trained tokens of one reply; after the last, V is the bootstrap value.
export function tdErrors(rewards, values, mask, gamma, bootstrap) {
  const found = new Float32Array(mask.length).fill(NaN);
  let next = bootstrap;
  for (let t = mask.length - 1; t >= 0; t -= 1) {
    if (!mask[t]) continue;
    found[t] = rewards[t] + gamma * next - values[t];
    next = values[t];
  }
  return found;
}

// Estimates of KL(π ‖ π_ref) from the sampled tokens, in nats; x = log π_ref − log π.
export function klEstimates(logprobs, ref, mask) {
  const found = { k1: empty(mask), k2: empty(mask), k3: empty(mask) };
  for (let t = 0; t < mask.length; t += 1) {
    if (!mask[t]) continue;
    const x = fround(ref[t] - logprobs[t]);
    found.k1[t] = -x;
    found.k2[t] = (x * x) / 2;
    found.k3[t] = expm1(x) - x;
  }
  return found;
}

// log π_old − log π_behavior: how far learner and sampler disagree about a token, in nats.
export function gaps(old, behavior, mask) {
  return empty(mask).map((_, t) => (mask[t] ? old[t] - behavior[t] : NaN));
}

function empty(mask) {
  return new Float32Array(mask.length).fill(NaN);
}

// How many trained tokens stand where, by the sign of the advantage and the side of the range:
// {positive, zero, negative: {below, inside, above, held}}, and tokens, held and outside over all.
export function anatomy(states, advantages, ratio, constants) {
  const top = fround(1 + (constants.clip_high ?? Infinity));
  const row = () => ({ below: 0, inside: 0, above: 0, held: 0 });
  const found = { positive: row(), zero: row(), negative: row(), tokens: 0, held: 0, outside: 0 };
  for (let t = 0; t < states.length; t += 1) {
    if (Number.isNaN(ratio[t])) continue;
    const sign = advantages[t] > 0 ? "positive" : advantages[t] < 0 ? "negative" : "zero";
    const side = sideOf(states[t], ratio[t] > top);
    found.tokens += 1;
    found[sign][side] += 1;
    if (side !== "inside") found.outside += 1;
    if (isHeld(states[t])) {
      found[sign].held += 1;
      found.held += 1;
    }
  }
  return found;
}

// The dual clip may lie below 1 + ε: what it holds is `above` only if the ratio is.
function sideOf(state, above) {
  if (state === INSIDE || (state === DUAL && !above)) return "inside";
  return state === HELD_LOW || state === FREE_LOW ? "below" : "above";
}

// Counts of log ρ in bins of equal width that have ρ = 1 on an edge; what lies beyond goes to the outermost.
export function ratioHistogram(ratio, reach, bins = 40) {
  const counts = new Uint32Array(bins);
  for (const value of ratio) {
    if (Number.isNaN(value)) continue;
    const place = Math.floor(((Math.log(value) + reach) / (2 * reach)) * bins);
    counts[Math.min(bins - 1, Math.max(0, place))] += 1;
  }
  return counts;
}
