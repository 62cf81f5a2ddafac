// From token losses to one number: the denominators of objective/reduce.py.

// What a minibatch's summed loss is divided by, from its replies' lengths in trained tokens.
export function denominator(lengths, normalization, constantLength) {
  const replies = lengths.filter((length) => length > 0).length;
  if (normalization === "token") return lengths.reduce((sum, length) => sum + length, 0);
  if (normalization === "sequence") return replies;
  return replies * constantLength;
}

// The weight of each token's loss in the sum, per reply: all tokens of a reply weigh the same.
export function tokenWeights(lengths, normalization, constantLength) {
  const below = Math.max(denominator(lengths, normalization, constantLength), 1);
  return lengths.map((length) => 1 / below / (normalization === "sequence" ? Math.max(length, 1) : 1));
}
