// Several runs of one setting as one curve: the mean at each step, and how far the seeds lie apart.

/** Mean and sample standard deviation of the finite numbers; the deviation of one number is 0, the mean of none NaN. */
export function spread(values) {
  const numbers = [...values].filter(Number.isFinite);
  const n = numbers.length;
  const mean = numbers.reduce((sum, value) => sum + value, 0) / n;
  const squares = numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { n, mean, sd: n > 1 ? Math.sqrt(squares / (n - 1)) : 0 };
}

/**
 * {x, y, band: [low, high]} of curves [{x, y}]: at each step the mean over the curves that have come so far, and
 * mean ± standard deviation. One curve has no band.
 */
export function meanCurve(curves) {
  if (curves.length === 1) return { x: Array.from(curves[0].x), y: Array.from(curves[0].y) };
  const at = new Map();
  for (const { x, y } of curves) {
    for (let i = 0; i < x.length; i += 1) {
      if (!at.has(x[i])) at.set(x[i], []);
      at.get(x[i]).push(y[i]);
    }
  }
  const x = [...at.keys()].sort((a, b) => a - b);
  const spreads = x.map((step) => spread(at.get(step)));
  const band = [spreads.map(({ mean, sd }) => mean - sd), spreads.map(({ mean, sd }) => mean + sd)];
  return { x, y: spreads.map(({ mean }) => mean), band };
}

/**
 * A share of each epoch as one curve through the steps: `epochs` is [{x: steps, y}, ...], the first epoch's first.
 * Epoch k of E of step s stands at s - 1 + k/E, so that a step fills the place from s - 1 to s.
 */
export function withinSteps(epochs) {
  const points = epochs.flatMap(({ x, y }, k) => Array.from(x, (step, i) => [step - 1 + (k + 1) / epochs.length, y[i]]));
  points.sort((a, b) => a[0] - b[0]);
  return { x: points.map(([x]) => x), y: points.map(([, y]) => y) };
}

/** The mean over the steps of each epoch's share: {x: [1, ..., E], y}. */
export function byEpoch(epochs) {
  return { x: epochs.map((_, k) => k + 1), y: epochs.map(({ y }) => spread(y).mean) };
}
