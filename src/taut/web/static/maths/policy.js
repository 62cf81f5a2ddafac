// One token under each member of the clipped family: the numbers of objective/policy.py, in float64.
// A browser test holds every function here to the Python.

// Temperatures of SAPO's gate, as in objective/policy.py: constants of its paper.
export const SAPO_TAU_POSITIVE = 1.0;
export const SAPO_TAU_NEGATIVE = 1.05;

export const FAMILY = [
  {
    loss: "ppo", title: "PPO", arxiv: "1707.06347",
    defaults: { clipLow: 0.2, clipHigh: 0.2 },
    sentence: "Flat once the ratio is out of the range on the side that the advantage favours.",
  },
  {
    loss: "clip-higher", title: "PPO, clip-higher", arxiv: "2503.14476",
    defaults: { clipLow: 0.2, clipHigh: 0.28 },
    sentence: "The range is wider above than below, so that unlikely tokens can still gain.",
  },
  {
    loss: "dual-clip", title: "PPO, dual clip", arxiv: "1912.09729",
    defaults: { clipLow: 0.2, clipHigh: 0.2, dualClip: 3 },
    sentence: "With a negative advantage the objective is flat above the bound c too: no token costs more than cA.",
  },
  {
    loss: "cispo", title: "CISPO", arxiv: "2506.13585",
    defaults: { clipLow: null, clipHigh: 4 },
    sentence: "The ratio is a constant weight on log π. It is capped, and the gradient is never lost.",
  },
  {
    loss: "gspo", title: "GSPO", arxiv: "2507.18071",
    defaults: { clipLow: 3e-4, clipHigh: 4e-4 },
    sentence: "ρ is one number for the whole reply, the geometric mean of its tokens’ ratios; its range is narrow.",
  },
  {
    loss: "sapo", title: "SAPO", arxiv: "2511.20347",
    defaults: { clipLow: 0.2, clipHigh: 0.2 },
    sentence: "A smooth gate in place of the clip: the gradient fades away from ρ = 1, and is nowhere cut off.",
  },
  {
    loss: "dppo", title: "DPPO", arxiv: "2602.04879",
    defaults: { clipLow: 0.15, clipHigh: 0.15 },
    sentence: "Held by how far the probability itself has moved, π − π_old, not by the ratio.",
  },
];

// token(loss, {ratio, advantage, clipLow, clipHigh, dualClip, oldProbability}) of one token:
//   objective   to maximise            slope   d objective / dρ       weight   d objective / d log π = ρ · slope
//   flat        held: no gradient      held    'clip', 'dual' or null  capped   CISPO's weight is at its cap
//   side        'below', 'inside' or 'above' the range; a ratio on the edge is inside
//   unclipped   ρA                     clipped clip(ρ)A
// A missing or null clip leaves that side open; other settings that are missing are the loss's own (FAMILY).
// `oldProbability`, π_old of the token, matters to CISPO (log π) and DPPO (π − π_old). Under GSPO `ratio` is the
// reply's, and `weight` what one token of it gets, before the division by the reply's length.
export function token(loss, settings) {
  const member = FAMILY.find((one) => one.loss === loss);
  if (!member) throw new Error(`no loss ${loss}: it is one of ${FAMILY.map((one) => one.loss).join(", ")}`);
  const given = { oldProbability: 0.4, dualClip: null, ...member.defaults, ...settings };
  const state = anatomy(loss, given);
  if (loss === "cispo") return cispo(given, state);
  if (loss === "sapo") return sapo(given, state);
  return loss === "dppo" ? dppo(given, state) : clippedSurrogate(given, state);
}

// Where the token stands, and the two terms of PPO's minimum.
function anatomy(loss, { ratio, advantage, clipLow, clipHigh, oldProbability }) {
  // DPPO measures in probability, the others in ratio; both compare as Python does, so that edges agree.
  const moved = loss === "dppo" ? ratio * oldProbability - oldProbability : ratio;
  const middle = loss === "dppo" ? 0 : 1;
  const high = moved > middle + (clipHigh ?? Infinity);
  const low = moved < middle - (clipLow ?? Infinity);
  const bound = loss === "dppo"
    ? (high ? 1 + clipHigh / oldProbability : low ? 1 - clipLow / oldProbability : ratio)
    : (low ? 1 - clipLow : high ? 1 + clipHigh : ratio);
  return {
    side: high ? "above" : low ? "below" : "inside",
    bound,
    binding: (advantage > 0 && high) || (advantage < 0 && low),
    unclipped: ratio * advantage,
    clipped: bound * advantage,
  };
}

function result({ ratio }, { side, unclipped, clipped }, objective, slope, held = null, capped = false) {
  return {
    objective, slope, weight: slope * ratio, flat: held !== null, held, capped, side, unclipped, clipped,
  };
}

function clippedSurrogate(given, state) {
  const { ratio, advantage, dualClip } = given;
  if (advantage < 0 && ratio > (dualClip ?? Infinity)) return result(given, state, dualClip * advantage, 0, "dual");
  if (state.binding) return result(given, state, state.clipped, 0, "clip");
  return result(given, state, state.unclipped, advantage);
}

function cispo(given, state) {
  const { ratio, advantage, oldProbability } = given;
  if (advantage === 0) return result(given, state, 0, 0);
  const objective = state.clipped * Math.log(ratio * oldProbability);
  return result(given, state, objective, state.clipped / ratio, null, state.side !== "inside");
}

// f(ρ) A with f = 4/τ · σ(τ(ρ − 1)); its slope is A · 4σ(1 − σ), which is A at ρ = 1.
function sapo(given, state) {
  const { ratio, advantage } = given;
  const tau = advantage > 0 ? SAPO_TAU_POSITIVE : SAPO_TAU_NEGATIVE;
  const gate = 1 / (1 + Math.exp(-tau * (ratio - 1)));
  const rest = 1 / (1 + Math.exp(tau * (ratio - 1)));
  return result(given, state, (4 / tau) * gate * advantage, advantage * 4 * gate * rest);
}

function dppo(given, state) {
  if (state.binding) return result(given, state, 0, 0, "clip");
  return result(given, state, state.unclipped, given.advantage);
}

// The reply's ratio: exp of the mean log ratio of its tokens (GSPO, 2507.18071).
export function sequenceRatio(logRatios) {
  if (!logRatios.length) return 1;
  return Math.exp(logRatios.reduce((sum, x) => sum + x, 0) / logRatios.length);
}
