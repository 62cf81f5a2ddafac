// Lists of numbers in the URL, and numbers as Python writes them.

/** A codec for useUrlState: `length` numbers within [low, high], or of any length up to `most`. */
export function numbersCodec({ length, most = 64, low = -1e6, high = 1e6 }) {
  return {
    parse: (text) => {
      const list = text.split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
      const fits = length === undefined ? list.length <= most : list.length === length;
      return fits && list.every((value) => value >= low && value <= high) ? list : undefined;
    },
    print: (list) => list.map(tidy).join(","),
  };
}

/** Lists of lists: groups are parted by semicolons. */
export function groupsCodec(options) {
  const one = numbersCodec(options);
  return {
    parse: (text) => {
      const groups = text.split(";").map(one.parse);
      return groups.length <= 8 && groups.every(Boolean) ? groups : undefined;
    },
    print: (groups) => groups.map(one.print).join(";"),
  };
}

/** Without the noise of the last bits: 0.30000000000000004 -> 0.3. */
export function tidy(value) {
  return Number(value.toPrecision(6));
}

/** A list of numbers, or lists of them, as Python. */
export function python(value) {
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

export const within = (value, low, high) => Math.min(high, Math.max(low, value));

/** The list with `value` at `index`. */
export function replaced(list, index, value) {
  return list.map((old, at) => (at === index ? value : old));
}
