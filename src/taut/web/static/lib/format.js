// Numbers as people read them. NaN, infinities and what is absent are words, never 0.
const MINUS = "−";

function special(value) {
  if (value === undefined || value === null) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity) return "∞";
  if (value === -Infinity) return MINUS + "∞";
  return null;
}

/** A fixed number of decimals, with a true minus sign and never "−0.00". */
export function fixed(value, digits = 2) {
  const word = special(value);
  if (word !== null) return word;
  const text = Math.abs(value).toFixed(digits);
  return (value < 0 && Number(text) !== 0 ? MINUS : "") + text;
}

/** As `fixed`, with a plus before what is above zero. */
export function signed(value, digits = 2) {
  const text = fixed(value, digits);
  return value > 0 && Number.isFinite(value) && Number(text) !== 0 ? "+" + text : text;
}

/** About `digits` significant digits, whatever the size: 0.00012, 1.5, 12,300, 1.2e9. */
export function short(value, digits = 3) {
  const word = special(value);
  if (word !== null) return word;
  const size = Math.abs(value);
  if (size === 0) return "0";
  const sign = value < 0 ? MINUS : "";
  if (size >= 1e7 || size < 1e-4) return sign + size.toExponential(digits - 1).replace("e+", "e").replace("-", MINUS);
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return sign + size.toLocaleString("en", { maximumFractionDigits: decimals });
}

/** A share of one as per cent. */
export function percent(value, digits = 1) {
  const word = special(value);
  return word ?? fixed(value * 100, digits) + " %";
}

export function whole(value) {
  return special(value) ?? (value < 0 ? MINUS : "") + Math.round(Math.abs(value)).toLocaleString("en");
}

export function bytes(value) {
  const word = special(value);
  if (word !== null) return word;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${short(size)} ${units[unit]}`;
}

/** Seconds as 0.42 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
export function duration(seconds) {
  const word = special(seconds);
  if (word !== null) return word;
  if (seconds < 10) return `${short(seconds, 2)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const pairs = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const [big, bigName, small, smallName] = pairs.find(([size]) => seconds >= size);
  const rest = Math.floor((seconds % big) / small);
  return `${Math.floor(seconds / big)} ${bigName}` + (rest ? ` ${rest} ${smallName}` : "");
}

/** A moment in seconds since 1970, as about how long ago it was. */
export function ago(moment, now = Date.now() / 1000) {
  const word = special(moment);
  if (word !== null) return word;
  const past = Math.max(0, now - moment);
  if (past < 2) return "now";
  const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([unit]) => past >= unit);
  return `${Math.floor(past / size)} ${name} ago`;
}
