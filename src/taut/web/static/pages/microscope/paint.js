// How a token looks: its colour from a value, its mark from its clip state, the number beneath it. No DOM.
import { fixed, signed } from "taut/lib/format.js";
import { DUAL, FREE_HIGH, FREE_LOW, HELD_HIGH, HELD_LOW } from "taut/maths/microscope.js";

// Signs say what the colours say: filled where a token is held, hollow where it is outside and keeps its gradient.
export const MARKS = {
  [HELD_HIGH]: { name: "hh", sign: "▲", words: "held above the range: no gradient" },
  [HELD_LOW]: { name: "hl", sign: "▼", words: "held below the range: no gradient" },
  [FREE_HIGH]: { name: "fh", sign: "△", words: "above the range, and keeps its gradient" },
  [FREE_LOW]: { name: "fl", sign: "▽", words: "below the range, and keeps its gradient" },
  [DUAL]: { name: "du", sign: "◆", words: "held by the dual clip: no gradient" },
};

/** What a clip state is called, as the surrogate has it. */
export function stateWords(state, surrogate) {
  if (!MARKS[state]) return "inside the range";
  if (surrogate === "cispo" && (state === HELD_HIGH || state === HELD_LOW)) {
    return `weight capped, ${state === HELD_HIGH ? "above" : "below"} the range: keeps its gradient`;
  }
  return MARKS[state].words;
}

export function heldWords(surrogate) {
  return surrogate === "cispo" ? "weight-capped" : "held by the clip";
}

const STEPS = 4; // strengths of a colour on either side of the middle

/**
 * The colours of a quantity: {low, high, bin(value)}. `bin` is −4…4 with a middle, 0…8 without, NaN for no value.
 * A ratio is strongest at the clip; other scales reach to where 2 % of the values lie beyond.
 */
export function scaleOf(values, { scale }, constants) {
  if (scale === "ratio") {
    const { surrogate, clip_low: below, clip_high: above } = constants;
    const bounded = surrogate !== "dppo"; // whose clip is of probabilities
    const high = Math.log1p(bounded ? above ?? 0.2 : 0.2) || Number.MIN_VALUE;
    const low = -Math.log1p(-(bounded && below != null && below < 1 ? below : 0.2)) || Number.MIN_VALUE;
    const bin = (ratio) => diverging(Math.log(ratio) / (ratio > 1 ? high : low));
    return { low: Math.exp(-low), high: Math.exp(high), middle: 1, bin };
  }
  if (scale === "clip") return { bin: () => 0 };
  const sorted = Float64Array.from(values.filter((value) => Number.isFinite(value))).sort();
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  if (scale === "diverging") {
    const reach = Math.max(Math.abs(at(0.02)), Math.abs(at(0.98)));
    return { low: -reach, high: reach, middle: 0, bin: (value) => diverging(reach ? value / reach : 0) };
  }
  const [low, high] = [at(0.02), at(0.98)];
  const bin = (value) => Math.min(8, Math.max(0, Math.round((8 * (value - low)) / (high - low || 1))));
  return { low, high, bin };
}

function diverging(amount) {
  const size = Math.abs(amount);
  if (Number.isNaN(size)) return NaN;
  const strength = size < 0.1 ? 0 : size < 0.4 ? 1 : size < 0.7 ? 2 : size < 0.999 ? 3 : STEPS;
  return amount < 0 ? -strength : strength;
}

/** The class of a colour. */
export function binClass(bin, { scale, name }) {
  if (Number.isNaN(bin) || scale === "clip") return "";
  if (scale !== "sequential") return bin > 0 ? `u${bin}` : bin < 0 ? `d${-bin}` : "";
  const dark = name === "logprob" ? 8 - bin : bin; // what was unlikely stands out
  return dark ? `q${dark}` : "";
}

/** A value as it stands beneath its token, with the mark of its clip state. */
export function beneath(value, state, { scale, digits }) {
  const sign = MARKS[state]?.sign ?? "";
  if (scale === "clip") return sign;
  if (Number.isNaN(value)) return "";
  if (scale === "ratio") return fixed(value, 2) + sign;
  const shown = scale === "diverging" ? signed : fixed;
  return shown(value, Math.min(digits, 3)) + sign;
}

/** A piece of text as it is drawn: what would not be seen gets a sign. */
export function drawn(text) {
  const shown = text.replaceAll("\r", "␍").replaceAll("\t", "⇥").replaceAll("\n", "↵\n");
  return shown.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, hidden) || "∅";
}

function hidden(character) {
  return `⟨U+${character.codePointAt(0).toString(16).padStart(4, "0")}⟩`;
}
