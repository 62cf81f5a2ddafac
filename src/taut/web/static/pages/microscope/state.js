// The tokens of a batch at one moment of its updates, derived from what is stored, in one place: what the microscope
// draws, and what a what-if panel overlays. No DOM, no fetching.
import {
  clipStates, gaps, isHeld, klEstimates, ratios, standing, tdErrors,
} from "taut/maths/microscope.js";

export const NEWLY_HELD = 1;
export const FREED = 2;

// The batch (as of maths/token_batch.js) at optimiser step `at`, over the tokens of all replies:
//   logprobs, ratio   Float32Array, as last seen; NaN before the first sighting, and ratio where not trained on
//   states            Uint8Array, the clip states of maths/microscope.js
//   seenAt            by reply, the optimiser step that the above are of; -1 before the first
//   moved             with an overlay's `states`, Uint8Array: NEWLY_HELD or FREED against what was recorded, else 0
// `overlay` replaces what was stored, each part where it is given: `constants`; `advantages` over all tokens; and
// `states(at)`, the clip states over all tokens at an optimiser step, which are else derived here.
export function momentOf(batch, at, overlay = {}) {
  const { tokens, columns, replies } = batch;
  const constants = { ...batch.constants, ...overlay.constants };
  const advantages = overlay.advantages ?? columns.advantages;
  const moment = {
    at,
    constants,
    advantages,
    logprobs: new Float32Array(tokens).fill(NaN),
    ratio: new Float32Array(tokens).fill(NaN),
    states: new Uint8Array(tokens),
    seenAt: [],
  };
  for (const reply of replies) {
    const place = standing(reply.seen, at);
    moment.seenAt.push(place < 0 ? -1 : reply.seen[place]);
    if (place >= 0) fillIn(moment, batch, reply, place);
  }
  if (overlay.states) moment.states = overlay.states(at);
  if (overlay.states) moment.moved = movedBetween(momentOf(batch, at).states, moment.states);
  return moment;
}

function movedBetween(before, after) {
  return after.map((state, t) => (isHeld(state) === isHeld(before[t]) ? 0 : isHeld(state) ? NEWLY_HELD : FREED));
}

function fillIn(moment, batch, reply, place) {
  const { columns } = batch;
  const cut = (array) => array && array.subarray(reply.start, reply.start + reply.length);
  const logprobs = sighting(batch, reply, place);
  moment.logprobs.set(logprobs, reply.start);
  if (!columns.old_logprobs) return;
  const old = cut(columns.old_logprobs);
  const mask = cut(columns.mask);
  const ratio = ratios(logprobs, old, mask, moment.constants.ratio_level);
  moment.ratio.set(ratio, reply.start);
  if (!moment.advantages) return;
  const states = clipStates(ratio, cut(moment.advantages), mask, moment.constants, logprobs, old);
  moment.states.set(states, reply.start);
}

// A reply's logprobs at its sighting number `place`.
export function sighting(batch, reply, place) {
  const start = reply.seen_start + place * reply.length;
  return batch.columns.logprobs.subarray(start, start + reply.length);
}

// Which reply (position in batch.replies) the token belongs to.
export function replyOf(batch, token) {
  let low = 0;
  let high = batch.replies.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (batch.replies[middle].start <= token) low = middle;
    else high = middle - 1;
  }
  return low;
}

// One token's ratio and clip state at every sighting: [{optimizerStep, epoch, ratio, state, logprob}].
export function trackOf(batch, token, overlay = {}) {
  const reply = batch.replies[replyOf(batch, token)];
  return reply.seen.map((optimizerStep) => {
    const moment = momentOf({ ...batch, replies: [reply] }, optimizerStep, overlay);
    return {
      optimizerStep,
      epoch: batch.optimizer_steps[optimizerStep].epoch,
      ratio: moment.ratio[token],
      state: moment.states[token],
      logprob: moment.logprobs[token],
    };
  });
}

// What tokens can be coloured by. `scale`: "ratio" and "diverging" have a middle (1 and 0), "sequential" none.
export const QUANTITIES = [
  { name: "ratio", label: "Ratio ρ", scale: "ratio", digits: 3, needs: ["old_logprobs", "logprobs"] },
  { name: "clip", label: "Clip state", scale: "clip", digits: 0, needs: ["old_logprobs", "logprobs", "advantages"] },
  { name: "advantage", label: "Advantage", scale: "diverging", digits: 2, needs: ["advantages"] },
  { name: "value", label: "Value", scale: "diverging", digits: 2, needs: ["values"] },
  { name: "td", label: "TD error δ", scale: "diverging", digits: 2, needs: ["values", "token_rewards"] },
  { name: "kl", label: "KL to reference (k1)", scale: "diverging", digits: 3, needs: ["ref_logprobs", "old_logprobs"] },
  { name: "entropy", label: "Entropy", scale: "sequential", digits: 2, needs: ["entropy"] },
  { name: "logprob", label: "Log probability", scale: "sequential", digits: 2, needs: ["old_logprobs"] },
  { name: "gap", label: "Sampler–learner gap", scale: "diverging", digits: 5, needs: ["old_logprobs", "behavior_logprobs"] },
  { name: "return", label: "Return", scale: "diverging", digits: 2, needs: ["returns"] },
  { name: "reward", label: "Token reward", scale: "diverging", digits: 2, needs: ["token_rewards"] },
];

export function availableQuantities(batch) {
  return QUANTITIES.filter(({ needs }) => needs.every((column) => batch.columns[column]?.length));
}

// The values of one quantity over all tokens at a moment; NaN where a token has none.
export function valuesOf(batch, moment, name) {
  const { columns, tokens } = batch;
  if (name === "ratio") return moment.ratio;
  if (name === "clip") return moment.states;
  if (name === "advantage") return trained(batch, moment.advantages);
  if (name === "value") return trained(batch, columns.values);
  if (name === "return") return trained(batch, columns.returns);
  if (name === "reward") return trained(batch, columns.token_rewards);
  if (name === "entropy") return trained(batch, columns.entropy);
  if (name === "gap") return gaps(columns.old_logprobs, columns.behavior_logprobs, columns.mask);
  // Before its first sighting a token is as the policy before the batch had it.
  const logprobs = moment.logprobs.map((seen, t) => (Number.isNaN(seen) ? columns.old_logprobs[t] : seen));
  if (name === "logprob") return trained(batch, logprobs);
  if (name === "kl") return klEstimates(logprobs, columns.ref_logprobs, columns.mask).k1;
  const found = new Float32Array(tokens);
  for (const reply of batch.replies) found.set(tdOf(batch, moment, reply), reply.start);
  return found;
}

function tdOf(batch, moment, reply) {
  const { token_rewards: rewards, values, mask } = batch.columns;
  const cut = (array) => array.subarray(reply.start, reply.start + reply.length);
  return tdErrors(cut(rewards), cut(values), cut(mask), moment.constants.gamma ?? 1, reply.bootstrap_value ?? 0);
}

function trained(batch, array) {
  return array.map((value, t) => (batch.columns.mask[t] ? value : NaN));
}

// Every number of one token, by name; a quantity that the run lacks is not there.
export function numbersOf(batch, moment, token) {
  const found = {};
  for (const { name } of availableQuantities(batch)) found[name] = valueAt(batch, moment, name, token);
  const { columns } = batch;
  for (const name of ["old_logprobs", "behavior_logprobs", "ref_logprobs"]) {
    if (columns[name]) found[name] = columns[name][token];
  }
  found.seen_logprob = moment.logprobs[token];
  return found;
}

// By way of the token's reply alone, which is quick in a batch of any size.
function valueAt(batch, moment, name, token) {
  const reply = batch.replies[replyOf(batch, token)];
  const cut = (array) => array && array.subarray(reply.start, reply.start + reply.length);
  const columns = Object.fromEntries(
    Object.entries(batch.columns).map(([key, array]) => [key, key === "logprobs" ? array : cut(array)]),
  );
  const own = { ...batch, columns, tokens: reply.length, replies: [{ ...reply, start: 0 }] };
  const now = {
    ...moment, logprobs: cut(moment.logprobs), ratio: cut(moment.ratio), states: cut(moment.states),
    advantages: cut(moment.advantages),
  };
  return valuesOf(own, now, name)[token - reply.start];
}
