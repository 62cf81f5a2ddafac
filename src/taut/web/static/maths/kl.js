// Estimators of KL(π ‖ π_ref) from sampled tokens: the numbers of objective/kl.py, in float64.

// One token, x = log π_ref − log π: its estimate in nats, and what it hands to log π as gradient in the loss.
// `logRatio` is log(π / π_old), which k3-weighted alone looks at.
export const ESTIMATORS = {
  k1: { value: (x) => -x, gradient: () => 1 },
  k2: { value: (x) => (x * x) / 2, gradient: (x) => -x },
  k3: { value: k3, gradient: (x) => -Math.expm1(x) },
  "k3-straight-through": { value: k3, gradient: (x) => -x },
  "k3-weighted": {
    value: (x, logRatio = 0) => Math.exp(logRatio) * k3(x),
    gradient: (x, logRatio = 0) => Math.exp(logRatio) * -x,
  },
};

// {value, gradient} of one token's estimate.
export function estimate(name, x, logRatio = 0) {
  const { value, gradient } = ESTIMATORS[name];
  return { value: value(x, logRatio), gradient: gradient(x, logRatio) };
}

function k3(x) {
  return Math.expm1(x) - x;
}

// KL(p ‖ q) = Σ p log(p / q) in nats; p and q are arrays of probabilities.
export function divergence(p, q) {
  return p.reduce((sum, pi, i) => sum + (pi > 0 ? pi * Math.log(pi / q[i]) : 0), 0);
}

// The mean over tokens drawn from p of an estimator's value: what many samples would average to.
export function expectedValue(estimator, p, q) {
  const { value } = ESTIMATORS[estimator];
  return p.reduce((sum, pi, i) => sum + pi * value(Math.log(q[i]) - Math.log(pi)), 0);
}

// The mean over tokens drawn from p of what an estimator does to p's logits when it is minimised. In the loss it is
// differentiated; in the reward it is a number that its token is paid for, and moves log π of that token by as much.
export function expectedGradient(estimator, placement, p, q) {
  const { value, gradient } = ESTIMATORS[estimator];
  const handed = p.map((pi, i) => (placement === "reward" ? value : gradient)(Math.log(q[i]) - Math.log(pi)));
  const mean = p.reduce((sum, pi, i) => sum + pi * handed[i], 0);
  return p.map((pi, i) => pi * (handed[i] - mean));
}

// ∇ KL(p ‖ q) with respect to p's logits.
export function divergenceGradient(p, q) {
  const kl = divergence(p, q);
  return p.map((pi, i) => pi * (Math.log(pi / q[i]) - kl));
}

// ∇ KL(q ‖ p) with respect to p's logits.
export function reverseDivergenceGradient(p, q) {
  return p.map((pi, i) => pi - q[i]);
}
