// The server writes numbers that JSON has no word for as "NaN", "Infinity" and "-Infinity".
const WORDS = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** A JSON value as a number; undefined where it is absent (null), and where it is no number at all. */
export function number(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" && Object.hasOwn(WORDS, value) ? WORDS[value] : undefined;
}

/** A JSON array of numbers as a Float64Array. What is absent becomes NaN. */
export function numbers(values) {
  return Float64Array.from(values, (value) => number(value) ?? NaN);
}
