// From series with x's of their own to the columns that a chart draws.

/** Exponential moving average of weight `w` in [0, 1), started without bias: s_t = Σ wⁱ y_{t-i} / Σ wⁱ. Gaps stay. */
export function smooth(values, weight) {
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    sum = weight * sum + value;
    mass = weight * mass + 1;
    return sum / mass;
  });
}

/** Every x of any series, once, in order. */
function union(series) {
  const all = new Set();
  for (const { x } of series) for (const value of x) all.add(value);
  return [...all].sort((a, b) => a - b);
}

/** Values at the x's of `where`: undefined between a series' own points (joined over), null where not finite (a gap). */
function spread(where, x, y) {
  const column = new Array(where.size);
  for (let at = 0; at < x.length; at += 1) {
    const value = y[at];
    column[where.get(x[at])] = Number.isFinite(value) ? value : null;
  }
  return column;
}

/**
 * {x, shown, raw, low, high, bad}: a column a series each, `raw` only where smoothed, `low` and `high` only with a
 * band. `bad` lists what can't be drawn as {series, x, value}. On a logarithmic axis that's also what isn't above 0.
 */
export function columns(series, { smoothing = 0, log = false } = {}) {
  const x = union(series);
  const where = new Map(x.map((value, at) => [value, at]));
  const bad = [];
  const drawable = (entry) => Array.from(entry.y, (value, at) => {
    const given = value ?? NaN;
    if (Number.isFinite(given) && !(log && given <= 0)) return given;
    bad.push({ series: entry.label, x: entry.x[at], value: given });
    return NaN;
  });
  const given = series.map(drawable);
  const put = (entry, values) => spread(where, entry.x, values);
  return {
    x,
    shown: series.map((entry, at) => put(entry, smoothing ? smooth(given[at], smoothing) : given[at])),
    raw: smoothing ? series.map((entry, at) => put(entry, given[at])) : [],
    low: series.map((entry) => entry.band && put(entry, entry.band[0])),
    high: series.map((entry) => entry.band && put(entry, entry.band[1])),
    bad,
  };
}

/** What isn't drawn, in words: "3 values of loss are NaN (at 4, 7, 9)". */
export function tell(bad, xLabel) {
  const groups = new Map();
  for (const { series, x, value } of bad) {
    const kind = Number.isNaN(value) ? "NaN" : value === Infinity ? "∞" : value === -Infinity ? "−∞" : "not above 0";
    const key = `${series}\n${kind}`;
    if (!groups.has(key)) groups.set(key, { series, kind, at: [] });
    groups.get(key).at.push(x);
  }
  return [...groups.values()].map(({ series, kind, at }) => {
    const places = at.slice(0, 5).join(", ") + (at.length > 5 ? ", …" : "");
    return `${at.length} ${at.length === 1 ? "value" : "values"} of ${series} ${at.length === 1 ? "is" : "are"} ${kind} (${xLabel ?? "at"} ${places})`;
  });
}
