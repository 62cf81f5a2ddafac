// The objective as MathML, each symbol tied to its meaning by a key.
const i = (name) => ["mi", {}, name];
const o = (sign) => ["mo", {}, sign];
const n = (digits) => ["mn", {}, digits];
const row = (...parts) => ["mrow", {}, ...parts];
const sub = (base, below) => ["msub", {}, base, below];
const frac = (above, below) => ["mfrac", {}, above, below];
const word = (text) => ["mi", { mathvariant: "normal" }, text];
const key = (symbol, ...parts) => ["mrow", { symbol }, ...parts];

const rho = () => key("ρ", sub(i("ρ"), i("t")));
const adv = () => key("A", sub(i("A"), i("t")));
const delta = (at = i("t")) => key("δ", sub(i("δ"), at));
const value = (at = i("t")) => key("V", sub(i("V"), at));
const given = (head) => row(head, o("("), sub(i("y"), i("t")), o("|"), sub(i("s"), i("t")), o(")"));
const pi = () => key("π", given(sub(i("π"), i("θ"))));
const old = () => key("π_old", given(sub(i("π"), word("old"))));
const epsilon = () => key("ε", i("ε"));
const later = () => row(i("t"), o("+"), n("1"));

/** What each key stands for, in the order in which it's read. */
export const SYMBOLS = {
  E: ["𝔼", "the mean over the reply tokens of the batch; prompts and pads are not in it", "batch"],
  min: ["min", "the smaller of the two: the clip can lower the objective, never raise it", "clipping"],
  ρ: ["ρ", "how much likelier the token is now than under the old policy", "probability ratio"],
  A: ["A", "how much better than expected the token turned out; it doesn't change during the batch's updates", "advantage"],
  clip: ["clip", "ρ, held within the range: nothing outside changes it, so its gradient there is 0", "clipping"],
  ε: ["ε", "how far a ratio may go; below 1 and above it can be set apart", "clip range"],
  π: ["π_θ", "the policy being updated: its probability of the sampled token y after everything before it, s", "policy"],
  π_old: ["π_old", "the policy when the updates of this batch began, which sampled the batch", "old policy"],
  δ: ["δ", "the outcome of one token against the critic's prediction", "TD error"],
  r: ["r", "the token's reward; with one reward a reply it stands at the last token", "reward"],
  V: ["V", "the critic's prediction of what is still to be earned", "value function"],
  γ: ["γ", "what a reward counts one token earlier", "γ (discount)"],
  λ: ["λ", "how far to look before trusting the critic", "λ"],
  β: ["β", "how strongly the policy is held near the reference", "KL in the reward"],
  π_ref: ["π_ref", "the frozen model that training began with", "reference"],
};

export const FORMULAS = [
  {
    title: "What PPO maximises",
    text: "L of theta is the mean over tokens of the smaller of rho A and clip of rho between one minus epsilon and one plus epsilon, times A",
    tree: row(i("L"), o("("), i("θ"), o(")"), o("="), key("E", sub(i("𝔼"), i("t"))), o("["), key("min", word("min")), o("("), rho(), adv(), o(","), key("clip", word("clip"), o("("), rho(), o(","), n("1"), o("−"), epsilon(), o(","), n("1"), o("+"), epsilon(), o(")")), adv(), o(")"), o("]")),
    symbols: ["E", "min", "ρ", "A", "clip", "ε"],
  },
  {
    title: "The ratio",
    text: "rho is pi theta of the token over pi old of the token",
    tree: row(rho(), o("="), frac(pi(), old())),
    symbols: ["ρ", "π", "π_old"],
  },
  {
    title: "The advantage, with a critic",
    text: "delta t is r t plus gamma V at t plus one minus V at t; A t is delta t plus gamma lambda A at t plus one",
    tree: row(delta(), o("="), key("r", sub(i("r"), i("t"))), o("+"), key("γ", i("γ")), value(later()), o("−"), value(), ["mspace", { width: "2em" }], adv(), o("="), delta(), o("+"), key("γ", i("γ")), key("λ", i("λ")), key("A", sub(i("A"), later()))),
    symbols: ["δ", "r", "γ", "V", "A", "λ"],
  },
  {
    title: "The KL, in the reward",
    text: "the reward of a token less beta times the logarithm of pi old over pi ref",
    tree: row(key("r", sub(i("r"), i("t"))), o("−"), key("β", i("β")), word("log"), frac(old(), key("π_ref", given(sub(i("π"), word("ref")))))),
    symbols: ["r", "β", "π_old", "π_ref"],
  },
];
