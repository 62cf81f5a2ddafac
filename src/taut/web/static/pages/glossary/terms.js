// The glossary's entries; filled in by topic.
export const TERMS = new Map([
  ["clipped share", { short: "The share of tokens whose ratio is outside the range on the favoured side." }],
]);
