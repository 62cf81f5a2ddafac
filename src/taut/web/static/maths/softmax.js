// A softmax over a small vocabulary, and one exact gradient step on its logits.

export function softmax(logits) {
  const top = Math.max(...logits);
  const scaled = logits.map((logit) => Math.exp(logit - top));
  const total = scaled.reduce((sum, value) => sum + value, 0);
  return scaled.map((value) => value / total);
}

/** The same logits with only that of `token` moved, so that its probability is `probability`, inside (0, 1).
 * The other tokens keep their proportions among each other. */
export function moved(logits, token, probability) {
  const now = softmax(logits)[token];
  const shift = Math.log(probability / (1 - probability)) - Math.log(now / (1 - now));
  return logits.map((logit, index) => (index === token ? logit + shift : logit));
}

/** θ + η · w · ∇ log π(token), where ∇ log π(token) is 1[token] − π. `weight` w is d objective / d log π. */
export function ascended(logits, token, weight, stepSize) {
  const probabilities = softmax(logits);
  return logits.map((logit, index) => logit + stepSize * weight * ((index === token) - probabilities[index]));
}
