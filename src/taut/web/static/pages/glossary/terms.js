// The glossary: what each word means here. `short` stands beneath the pointer, `more` on the glossary's page alone.

const TOPICS = {
  "The clip": [
    ["probability ratio", "π(y)/π_old(y): how much likelier a sampled token is now than under the old policy.", "Written ρ. 1 means that nothing has changed; 1.2 is a fifth likelier. It weights the token's advantage, because the token was drawn by a policy that is a little older.", "1707.06347"],
    ["clipping", "Stopping a token's gradient once its ratio leaves [1 − ε, 1 + ε] on the side that its advantage favours.", "The objective is flat there, and what is flat has no slope. A ratio exactly on the edge is still inside.", "1707.06347"],
    ["clip range", "How far a ratio may go before its token stops: ε below 1 and ε above, 0.2 each unless set.", "The settings are algorithm.clip_low and algorithm.clip_high. A wider upper side (clip-higher) lets rare tokens grow.", "2503.14476"],
    ["favoured side", "Above the range for an advantage above 0, below it for one below 0: where the update pushes towards.", "Outside the range on the other side a token is still corrected: a bad token that became likelier is pushed back."],
    ["clipped share", "The share of reply tokens whose ratio is outside the range on the favoured side, averaged over the optimiser steps of a batch.", "The metric is clip/binding. It is a gauge of how hard a batch is worked: near 0 the later epochs are wasted, above 0.11 the batch is over-used. With one optimiser step a batch it is 0 by construction."],
    ["outside", "The share of tokens whose ratio is outside the range on either side, whatever the advantage.", "The metric is clip/outside. What is outside but not binding was carried there by other tokens' updates, and still pushes back."],
    ["binding", "Said of a token that the clip holds: outside on the favoured side, so without a gradient.", "A token of advantage 0 is never binding."],
    ["dual clip", "A second bound for tokens of negative advantage: past it, a far too likely bad token stops too.", "Without it such a token's weight grows with its ratio, without limit. Counted apart, as clip/dual.", "1912.09729"],
    ["surrogate", "What is maximised in place of the expected reward: its gradient is right at the old policy and near it.", "PPO's is min(ρA, clip(ρ)A), the mean over tokens.", "1707.06347"],
    ["trust region", "The policies near enough to the old one that its batch still says something about them.", "TRPO bounds the KL for it, PPO each token's ratio.", "1502.05477"],
    ["sequence-level ratio", "One ratio a reply: the geometric mean of its tokens' ratios. A reply then stops as a whole.", "GSPO's, with a narrow range of 0.0003 below and 0.0004 above.", "2507.18071"],
    ["CISPO", "The weight of a token is capped, its gradient kept: no token falls silent.", "So the gauge is called weight-capped there.", "2506.13585"],
    ["SAPO", "A smooth gate in the clip's place: the weight falls off with the distance of ρ from 1, and is never exactly 0.", "", "2511.20347"],
    ["DPPO", "A token stops when its probability itself has moved too far, instead of its ratio.", "A ratio treats rare tokens harshly: 0.00001 to 0.001 is ρ = 100 and hardly moves the policy; 0.99 to 0.80 is ρ = 0.81 and moves it much.", "2602.04879"],
  ],
  "Rewards and advantages": [
    ["reward", "What a reply earns, one number, from a function or a reward model.", "Its parts, if it has several, are called terms."],
    ["advantage", "How much better than expected a token, or its reply, turned out. Above 0 it is made likelier.", "Written A. What was expected is the baseline: a mean of rewards, or a critic's value."],
    ["baseline", "The expected reward that is taken off, so that half of the replies are pushed up and half down.", "It changes no expected gradient, only its noise."],
    ["batch mean", "The baseline that is the mean reward of all replies of the batch.", "Every token of a reply has the same advantage."],
    ["group", "The replies to one prompt within a step.", "GRPO takes the group's mean off and divides by its standard deviation. A group in which all earn the same has advantages of 0: it teaches nothing.", "2402.03300"],
    ["leave-one-out", "The baseline that is the mean of the prompt's other replies.", "Unbiased, since a reply isn't part of its own baseline.", "2402.14740"],
    ["value function", "A network that predicts, at each token, the reward still to come; also called the critic.", "Its prediction is the baseline of that token. In full PPO it is as large as the policy."],
    ["TD error", "δ = r + γ V(next) − V(now): how far one step's outcome was from the critic's prediction.", "GAE sums them up.", "1506.02438"],
    ["GAE", "Generalised advantage estimation: TD errors summed with weights (γλ)ˡ into one advantage a token.", "λ = 0 trusts the critic alone, λ = 1 the rewards alone.", "1506.02438"],
    ["γ (discount)", "How much a reward counts one token earlier; 1 for language models, mostly.", ""],
    ["λ", "How far GAE looks before it trusts the critic: 0 not at all, 1 to the reply's end.", "", "1506.02438"],
    ["bootstrap value", "The critic's prediction at the end of a reply that was cut, in place of the rewards that are missing.", "0 for a reply that ended by itself."],
    ["explained variance", "How much of the returns' variance the critic accounts for: 1 is all, 0 no more than a constant.", "The metric is value/explained_variance."],
    ["whitening", "Shifting and scaling the advantages of a batch to mean 0 and standard deviation 1.", ""],
  ],
  "The KL": [
    ["KL divergence", "How far one distribution is from another: the mean of log π − log π_ref over what π draws. 0 where they agree.", "Given in nats a token. The policy is held near the reference by it."],
    ["reference", "The frozen model that training began with, which the KL holds the policy near.", "Written π_ref."],
    ["k1", "The estimator −x with x = log π_ref − log π: right on average, negative at times; its gradient is 0 on average.", "So it belongs in the reward, not in the loss."],
    ["k2", "The estimator x²/2: a little off in value, right in gradient when tokens come from π itself.", ""],
    ["k3", "The estimator eˣ − 1 − x: never negative, right on average; its gradient is that of the KL the other way round.", ""],
    ["KL in the reward", "β log(π_old/π_ref) is taken off each token's reward: the KL is part of what is earned.", "", "2203.02155"],
    ["KL in the loss", "β times an estimate of the KL is added to the loss: here its gradient counts.", "", "2402.03300"],
    ["entropy", "How undecided the policy is at a position, in nats: 0 where one token is certain.", "It falls as training goes on. At 0 nothing is explored any more."],
  ],
  "The loop": [
    ["policy", "The language model that is trained: a probability for each next token, given those before.", "Written π, or π_θ with its weights θ."],
    ["old policy", "The policy as it was when the updates of this batch began. Its probabilities are the ratio's denominator.", "Written π_old. It also sampled the batch, so “when it was sampled” means the same, unless the sampler differs from the learner: then what sampled is the behaviour policy."],
    ["behaviour policy", "What the sampler drew the tokens from. It should be the old policy; where the sampler differs from the learner, the difference is measured.", "Written π_b; the metrics are mismatch/mean and mismatch/max."],
    ["logprob", "The natural logarithm of a token's probability, at the sampling temperature.", ""],
    ["batch", "The replies of one step of the loop.", "Each is seen once an epoch."],
    ["epoch", "One pass over the batch's replies. Sampling is slow, so a batch is used for several.", ""],
    ["minibatch", "The part of the batch that one optimiser step takes.", ""],
    ["optimiser step", "One change of the weights. A batch has epochs × minibatches of them.", ""],
    ["micro-batch", "The part of a minibatch that goes through the model at once, to save memory. The result doesn't depend on it.", ""],
    ["loss normalisation", "What divides the sum over tokens: all tokens, each reply's own length, or a constant.", "It decides what a token of a long reply weighs."],
    ["truncated", "Said of a reply that was cut at the limit of new tokens.", ""],
    ["observation token", "A token that an environment wrote into a reply. It is read, and not trained on.", ""],
    ["reward model", "A network that was trained on preferences and scores a reply.", "", "2203.02155"],
    ["stale", "Said of a token's ratio between two sightings: the token is seen once an epoch, and until then the last value stands.", ""],
    ["standing check", "A question asked at every step, such as whether the first ratio is 1. A failed one is an event with its reason.", ""],
    ["superseded", "Said of stored steps that a resumed run took again.", ""],
    ["fork", "A run that goes on from another run's checkpoint, with other settings.", ""],
  ],
};

const ALIASES = { ratio: "probability ratio", ρ: "probability ratio", ε: "clip range", critic: "value function", "dual-clip": "dual clip", KL: "KL divergence", γ: "γ (discount)", A: "advantage", δ: "TD error", "policy ratio": "probability ratio", clip: "clipping", "group mean": "group", "optimizer step": "optimiser step", "held-out accuracy": "reward" };

const LISTED = Object.entries(TOPICS).flatMap(([topic, entries]) => entries.map(([name, short, more, arxiv]) => ({ name, topic, short, more, arxiv })));

/** Every entry by its name and by its other names. */
export const TERMS = new Map(LISTED.map((term) => [term.name, term]));
for (const [alias, name] of Object.entries(ALIASES)) TERMS.set(alias, TERMS.get(name));

/** [[topic, entries], ...] of what `wanted` occurs in, in order. */
export function find(wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = ({ name, short, more }) => words.every((word) => `${name} ${short} ${more}`.toLowerCase().includes(word));
  return Object.keys(TOPICS).map((topic) => [topic, LISTED.filter((term) => term.topic === topic && holds(term))]).filter(([, found]) => found.length);
}
