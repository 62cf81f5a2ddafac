// Made from docs/metrics.md and docs/checks.md by docs/generate_definitions.py.

/** name -> [what it is, its unit, what a mean is over, good range and what to do]. */
export const METRICS = {
 "reward/mean": [
  "mean reward as earned, weights included; a KL in the reward, penalties and what scoring does to it not",
  "reward",
  "replies that have one",
  "rises. Flat from the start: look at the replies (taut show) before changing a setting"
 ],
 "reward/std": [
  "sample standard deviation of the rewards",
  "reward",
  "replies that have one",
  "above 0. At 0 every reply earned the same and the batch teaches nothing: easier or harder prompts"
 ],
 "reward/shaped": [
  "mean reward as it trains, where scoring or algorithm.overlong_share changed it",
  "reward",
  "replies that have one",
  "near reward/mean. Far below: replies run into sampling.max_new_tokens and pay for it"
 ],
 "reward/NAME": [
  "mean of what the term NAME gave, before its weight; NAME is the function's, and of two of one name the second is NAME-2",
  "reward",
  "replies that have the term",
  "the terms move together. One rising alone is what the policy exploits"
 ],
 "reward/NAME/failed": [
  "replies on which the term NAME failed; absent where it did on none",
  "replies",
  "one count a batch",
  "absent. Why: taut show"
 ],
 "reward/NAME/METRIC": [
  "METRIC as the function NAME logged it",
  "the function's",
  "replies",
  "the function's to say"
 ],
 "reply/excluded": [
  "replies without a reward, left out of training",
  "replies",
  "one count a batch",
  "0"
 ],
 "reply/length": [
  "length of a reply, the end mark included; of several turns, what was sampled",
  "tokens",
  "replies",
  "as long as the task needs. Growing without reward: see loss_normalization, overlong_share"
 ],
 "reply/truncated": [
  "share of the replies that were cut at sampling.max_new_tokens, or at a limit of environment",
  "share",
  "replies",
  "below a few per cent. More: raise the limit, since a cut reply is judged on half an answer"
 ],
 "reply/turns": [
  "turns of a reply; in an environment",
  "turns",
  "replies",
  "the environment's to say. At 1, no reply was answered"
 ],
 "reply/observed": [
  "share of the replies' tokens that the environment wrote, which do not train",
  "share",
  "reply tokens",
  "below a half: the rest is what is learned from"
 ],
 "reply/resampled": [
  "groups with equal rewards that algorithm.dynamic_sampling replaced",
  "groups",
  "one count a batch",
  "small beside prompts_per_step. Large: the prompts are too easy or too hard"
 ],
 "eval/accuracy": [
  "mean reward of eval.samples replies to each held-out prompt, at the training temperature",
  "reward",
  "replies",
  "rises with reward/mean. Falling behind: too few training prompts, or too many steps"
 ],
 "eval/greedy": [
  "mean reward of the likeliest reply to each held-out prompt",
  "reward",
  "prompts",
  "what the model knows, where eval/accuracy is how it answers. A fall means that PPO costs knowledge"
 ],
 "eval/failed": [
  "share of the held-out replies, sampled and greedy, that have no reward and so are in neither mean",
  "share",
  "replies",
  "0. Why: the run's warnings and taut eval say it"
 ],
 "clip/binding": [
  "share that is binding",
  "share",
  "token sightings",
  "0.01 to 0.11. Below: later epochs change little, save them. Above: the batch is over-used, take fewer epochs or smaller steps. 0 by construction with one optimiser step a batch"
 ],
 "clip/high": [
  "the part of it above 1 + ε_high, and below 1 - ε_low; they add up to clip/binding",
  "share",
  "token sightings",
  "a great imbalance says which side to widen"
 ],
 "clip/low": [
  "the part of it above 1 + ε_high, and below 1 - ε_low; they add up to clip/binding",
  "share",
  "token sightings",
  "a great imbalance says which side to widen"
 ],
 "clip/binding_positive": [
  "the part of it with A > 0, and with A < 0; they too add up",
  "share",
  "token sightings",
  "as above; under the clipped surrogate the same two numbers"
 ],
 "clip/binding_negative": [
  "the part of it with A > 0, and with A < 0; they too add up",
  "share",
  "token sightings",
  "as above; under the clipped surrogate the same two numbers"
 ],
 "clip/epoch_1": [
  "share that is binding in each epoch, one metric an epoch",
  "share",
  "tokens",
  "climbs from 0. A steep last epoch is one too many"
 ],
 "clip/epoch_2": [
  "share that is binding in each epoch, one metric an epoch",
  "share",
  "tokens",
  "climbs from 0. A steep last epoch is one too many"
 ],
 "clip/outside_epoch_1": [
  "the same of clip/outside",
  "share",
  "tokens",
  "as above"
 ],
 "clip/outside_epoch_2": [
  "the same of clip/outside",
  "share",
  "tokens",
  "as above"
 ],
 "clip/outside": [
  "share outside the range on either side, whatever A",
  "share",
  "token sightings",
  "not far above clip/binding: the rest was carried there by other tokens' updates and still pushes back"
 ],
 "clip/outside_high": [
  "the parts of it by side, and by sign of A (A = 0 is in neither)",
  "share",
  "token sightings",
  "to see what moves where"
 ],
 "clip/outside_low": [
  "the parts of it by side, and by sign of A (A = 0 is in neither)",
  "share",
  "token sightings",
  "to see what moves where"
 ],
 "clip/outside_positive": [
  "the parts of it by side, and by sign of A (A = 0 is in neither)",
  "share",
  "token sightings",
  "to see what moves where"
 ],
 "clip/outside_negative": [
  "the parts of it by side, and by sign of A (A = 0 is in neither)",
  "share",
  "token sightings",
  "to see what moves where"
 ],
 "clip/dual": [
  "share held by algorithm.dual_clip: A < 0 and ρ above its bound; no gradient, and not binding",
  "share",
  "token sightings",
  "near 0. Otherwise some tokens are far more likely than when they were sampled"
 ],
 "ratio/mean": [
  "mean of ρ",
  "ratio",
  "token sightings",
  "near 1, its expectation when tokens are drawn from π_old; in the world 0.99 at 4 epochs, 0.96 at 8. Far off: a few tokens dominate"
 ],
 "ratio/min": [
  "extremes of ρ",
  "ratio",
  "token sightings",
  "tails, not limits: the clip ends a token's own push, not what other tokens' pushes do to it. In the world 0.02 and 6.6 at 4 epochs"
 ],
 "ratio/max": [
  "extremes of ρ",
  "ratio",
  "token sightings",
  "tails, not limits: the clip ends a token's own push, not what other tokens' pushes do to it. In the world 0.02 and 6.6 at 4 epochs"
 ],
 "ratio/p01": [
  "quantiles of ρ",
  "ratio",
  "token sightings",
  "in the world p01 0.09 and p99 1.8 at 4 epochs, 0.02 and 2.2 at 8. Growing from step to step: smaller steps, fewer epochs"
 ],
 "ratio/p50": [
  "quantiles of ρ",
  "ratio",
  "token sightings",
  "in the world p01 0.09 and p99 1.8 at 4 epochs, 0.02 and 2.2 at 8. Growing from step to step: smaller steps, fewer epochs"
 ],
 "ratio/p99": [
  "quantiles of ρ",
  "ratio",
  "token sightings",
  "in the world p01 0.09 and p99 1.8 at 4 epochs, 0.02 and 2.2 at 8. Growing from step to step: smaller steps, fewer epochs"
 ],
 "kl/old_k1": [
  "k1 estimate of KL(π_old ‖ π), mean of -log ρ, each token as it was last seen in the batch, so short of its last optimiser step",
  "nats a token",
  "tokens",
  "steady. In the world 0.21 at 4 epochs, 0.60 at 8. Exactly 0 with one optimiser step a batch; slightly below 0 is noise"
 ],
 "kl/old_k3": [
  "k3 estimate of the same, mean of ρ - 1 - log ρ",
  "nats a token",
  "token sightings",
  "steady, never below 0; in the world 0.11 and 0.33. algorithm.target_kl is held against each step's own"
 ],
 "kl/ref_k1": [
  "KL(π_old ‖ π_ref), by the estimator that kl.estimator names; with x = log π_ref - log π_old: -x, x²/2, eˣ - 1 - x",
  "nats a token",
  "tokens",
  "grows slowly. Running away with the reward: raise kl.coefficient"
 ],
 "kl/ref_k2": [
  "KL(π_old ‖ π_ref), by the estimator that kl.estimator names; with x = log π_ref - log π_old: -x, x²/2, eˣ - 1 - x",
  "nats a token",
  "tokens",
  "grows slowly. Running away with the reward: raise kl.coefficient"
 ],
 "kl/ref_k3": [
  "KL(π_old ‖ π_ref), by the estimator that kl.estimator names; with x = log π_ref - log π_old: -x, x²/2, eˣ - 1 - x",
  "nats a token",
  "tokens",
  "grows slowly. Running away with the reward: raise kl.coefficient"
 ],
 "kl/ref_k1_reply": [
  "the same estimate summed over a reply; k1's is what an adaptive β steers to kl.target",
  "nats a reply",
  "replies",
  "near kl.target where one is set"
 ],
 "kl/ref_k2_reply": [
  "the same estimate summed over a reply; k1's is what an adaptive β steers to kl.target",
  "nats a reply",
  "replies",
  "near kl.target where one is set"
 ],
 "kl/ref_k3_reply": [
  "the same estimate summed over a reply; k1's is what an adaptive β steers to kl.target",
  "nats a reply",
  "replies",
  "near kl.target where one is set"
 ],
 "kl/coefficient": [
  "β in this batch",
  "1",
  "one number a batch",
  "moves with a kl.target alone"
 ],
 "entropy": [
  "entropy of π_old at the sampled positions and the sampling temperature",
  "nats a token",
  "tokens",
  "falls slowly. At 0 nothing is explored any more: fewer epochs, an entropy bonus, or stop. Below 0.01 over the last 5 steps the terminal says that the policy has collapsed"
 ],
 "mismatch/mean": [
  "absolute difference of log π_old and log π_b: what sampler and learner disagree by",
  "nats",
  "tokens",
  "1e-4 or less in float32. More: the two do not compute the same model. With top-k, top-p or min-p it also holds the truncation"
 ],
 "mismatch/max": [
  "absolute difference of log π_old and log π_b: what sampler and learner disagree by",
  "nats",
  "tokens",
  "1e-4 or less in float32. More: the two do not compute the same model. With top-k, top-p or min-p it also holds the truncation"
 ],
 "advantage/mean": [
  "mean advantage as used",
  "reward, or 1 where standardised",
  "tokens",
  "near 0. Not exactly, where replies differ in length: a baseline centres replies, this counts tokens"
 ],
 "advantage/std": [
  "its sample standard deviation",
  "same",
  "tokens",
  "above 0; at 0 the batch teaches nothing"
 ],
 "value/mean": [
  "mean of the critic's values before the update",
  "reward",
  "tokens",
  "follows reward/mean"
 ],
 "value/explained_variance": [
  "1 - Var(R - V) / Var(R), R the returns the critic learns from",
  "share",
  "tokens",
  "rises towards 1. At 0 the critic is as good as a constant, below 0 worse: raise critic.learning_rate or critic.warmup_steps"
 ],
 "value/loss": [
  "½ (V - R)², or its clipped form, on the scale the critic learns in",
  "reward², or 1 with critic.normalize_values",
  "token sightings",
  "falls"
 ],
 "value/clipped": [
  "share of the tokens held by critic.value_clip",
  "share",
  "token sightings",
  "0 without it. Large: the critic is held back, widen it"
 ],
 "loss/policy": [
  "the surrogate, negated, normalised as algorithm.loss_normalization says",
  "as the advantages",
  "optimiser steps",
  "not a curve to watch: before the first step it is minus the mean advantage, about 0"
 ],
 "loss/kl": [
  "KL term of the loss, before β; with kl.placement: loss",
  "nats",
  "optimiser steps",
  "as kl/ref_*"
 ],
 "loss/entropy": [
  "entropy term, before its coefficient; with algorithm.entropy_coefficient",
  "nats",
  "optimiser steps",
  "as entropy"
 ],
 "grad/norm": [
  "norm of the policy's gradient before optimizer.max_grad_norm",
  "loss a parameter",
  "optimiser steps taken",
  "steady. Spikes: the batch is too small or the step too large"
 ],
 "grad/critic_norm": [
  "the same of the critic",
  "same",
  "optimiser steps",
  "same"
 ],
 "learning_rate": [
  "of the policy's optimiser",
  "1",
  "optimiser steps",
  "as scheduled"
 ],
 "update/steps": [
  "optimiser steps that the policy took",
  "steps",
  "one count a batch",
  "epochs × minibatches"
 ],
 "update/skipped": [
  "scheduled ones that were not taken: target_kl was exceeded, no token of the minibatch trains, or a number was not finite",
  "steps",
  "one count a batch",
  "0. Often more: target_kl ends the batch early, so fewer epochs would do"
 ],
 "update/not_finite": [
  "optimiser steps not taken because a loss, gradient or logprob was NaN or infinite",
  "steps",
  "one count a batch",
  "0. More: see checks.md"
 ],
 "time/sample": [
  "sampling the replies, with an environment's answers; scoring them",
  "s",
  "the batch"
 ],
 "time/reward": [
  "sampling the replies, with an environment's answers; scoring them",
  "s",
  "the batch"
 ],
 "time/score": [
  "old and reference logprobs and values, where they are needed before the update",
  "s",
  "the batch"
 ],
 "time/check": [
  "the standing checks' own forward passes, where they are due",
  "s",
  "the batch"
 ],
 "time/update": [
  "all optimiser steps",
  "s",
  "the batch"
 ],
 "time/sync": [
  "handing the weights to the sampler; about 0 where it shares them",
  "s",
  "the batch"
 ],
 "time/step": [
  "all of the above and what lies between, without evaluation and the store",
  "s",
  "the batch"
 ],
 "rate/tokens": [
  "sampled tokens over time/step",
  "tokens/s",
  "the batch"
 ],
 "system/cores": [
  "computing time of the training process, all its threads, over time/step",
  "cores",
  "the batch",
  "near run.threads on a CPU. Far below: it waits, for rewards or for another program"
 ],
 "system/memory": [
  "what of the training process is in memory at the end of the step, on Linux",
  "GB of 10⁹ bytes",
  "at one moment",
  "steady after some steps. Growing on and on: a reward function or a tracker keeps what it is given"
 ]
};

/** name -> paragraphs, the first saying what holds where the check passes. */
export const CHECKS = {
 "finite": [
  "No optimiser step met a loss, gradient or logprob that is NaN or infinite. Such a step is never taken: policy, critic and optimisers stay as they are to the byte. The message names the reply and the token. Where a gradient alone is bad, it names the first parameter that shows it, and the token is found by halves: the gradient is computed again with ever fewer tokens trained on.",
  "The run ends there, once the batch is stored with its optimiser steps so far and a checkpoint of the step is made, from which taut train --resume RUN goes on past the batch. checks.skip_non_finite: 3 goes on by itself past three such steps in a row; update/not_finite counts them. The message ends with the command that takes the step once more and finds the replies that do it (replay.md). What to do: look at the reply (taut show RUN --step N). A reward or advantage that is huge wants scoring.clip; logprobs that are bad from the first step on, another compute type (model.dtype); those that went bad with time, a smaller learning rate or optimizer.max_grad_norm."
 ],
 "rescoring": [
  "Costly. The old logprobs are those of an independent pass. The first ratio of a batch is exactly 1 by construction, so that it is 1 proves nothing. Here the whole batch is scored once more before the update, cut into other micro-batches, and compared with the old logprobs that the update used. Bound: 1e-4 nats on average in float32, which is ten times what the order of sums makes of it, and 0.05 in bfloat16, whose 8 bits are that coarse.",
  "It fires with dropout on, when logprobs are rounded on their way, or when a pad or a neighbour in the batch changes a reply's logprobs. What to do: put the model into evaluation mode; if the model is a new family, compare a reply alone with the same reply in a batch."
 ],
 "mismatch": [
  "The logprobs that the sampler recorded are the learner's. Both compute the same tokens' logprobs by different code: one token after the other with a cache, and whole replies at once. The bounds are those of rescoring, and this is asked at every step. With top-k, top-p or min-p the sampler's logprobs are of the truncated distribution, and it is not asked.",
  "It fires when sampler and learner use another temperature, another compute type or other weights, when their positions or masks are shifted by one, or when an engine leaves out a softcap. What to do: mismatch/mean at step 1 tells the two apart. High there, the two compute another model; 0 there and growing, the sampler's weights are stale (see weights). algorithm.importance corrects for a gap that cannot be closed."
 ],
 "micro-batches": [
  "Costly. The loss does not depend on how the batch is cut into forward passes. The loss of the whole batch is computed in two cuts, with every advantage 1, since a batch's own advantages would add up to about 0 in any cut. Bound: 1e-4 of the loss in float32.",
  "It fires when a mean is taken over each micro-batch and these means are added up or averaged: short replies then weigh more, and the result changes with the memory of the GPU. What to do: divide by counts of the whole minibatch, taken before the first forward pass, as objective/reduce.py does."
 ],
 "mask": [
  "Every sampled token of a reply with a reward is trained on, the end mark included, and nothing else. The mask that the update used is compared, place by place, with one made from the replies themselves.",
  "It fires when a mask is shifted by one, so that a pad is trained on or the end mark is not (a policy then forgets how to end), and when a mask comes from comparing ids with the pad id, where that is the end mark too."
 ],
 "pads": [
  "Costly. Loss, gradient and advantages read neither what stands where nothing trains, nor how wide the batch is. Advantages, the loss and its gradient with respect to the logprobs are computed with 0 and with NaN in every place that does not train (pads, what an environment told the model, replies without a reward), and must agree to the bit; and with two more columns of pads, and must agree to 1e-5, since sums then come in another order.",
  "It fires when a term forgets the mask or multiplies by it (NaN · 0 is NaN), or a statistic is taken over pads. What to do: pass every [B, T] input through masked."
 ],
 "clip": [
  "Costly. Beyond the clip, on the side that its advantage favours, a token has no gradient. Every token's logprob is moved to 0.1 nats above 1 + clip_high, and to 0.1 below 1 - clip_low; the gradient of the policy's loss at the tokens that the clip must hold there has to be exactly 0. Not asked of CISPO, which keeps the gradient, nor of a side that is open.",
  "It fires when a loss ignores the clip, clips before the minimum is taken, or clips the wrong quantity. Without it the share of held tokens would read 0.0 %, as in a run that hardly moves. What to do: compare with objective/policy.py's clipped_surrogate."
 ],
 "kl-connected": [
  "Partly costly. The KL to the reference reaches what is trained, and the reference stays where it was. With kl.placement: loss the gradient of the loss must change with the KL's weight, at logprobs that are moved by 0.1 nats: where policy and reference still agree the right gradient is 0. With reward the token rewards must change. And after the policy was updated, its KL to the reference cannot be exactly 0.",
  "It fires when the KL is computed without gradient, is left out of the sum, or the reference shares the policy's weights; and where the updates are too small to move weights stored in bfloat16."
 ],
 "weights": [
  "Costly. The sampler samples from the weights that the learner has. After the sync both name a checksum of every weight's name, type, shape and bytes. Trivially true for the local sampler, which shares the learner's weights.",
  "It fires when a sampler with weights of its own did not load them, or not all. The replies are then those of an older policy. What to do: see that the engine takes every name, adapters included, and drops its prefix cache."
 ],
 "rewards-differ": [
  "Within 5 steps some rewards of a batch differ. Where all replies earn the same there is no better and no worse, every advantage is 0, and nothing is learned, whatever the curves show. What to do: easier prompts if all fail, harder ones if none does, a reward with partial credit, or algorithm.dynamic_sampling where some groups still differ."
 ],
 "truncation": [
  "Replies end by themselves. Warns where more than a quarter of the replies of 5 steps were cut, and names the limit: sampling.max_new_tokens, environment.max_turns or the model's positions. A cut reply is judged on half an answer, and the end mark is never rewarded. Warns at once where all replies of a step are cut: mostly the end-of-sequence ids are not the ones the model uses, unless the limit is meant to cut, as in configs/smollm2-addition.yaml. What to do: raise the limit; algorithm.overlong_share or scoring.missing_eos_penalty make long replies cost."
 ],
 "entropy": [
  "The policy still samples more than one reply. Fails where the mean over 5 steps is below 0.01 nats a token: every prompt then gets one reply, all rewards of a group are equal, and there is no way back. The built-in world's runs end at 0.13. What to do: start again from an earlier checkpoint with fewer epochs, a smaller learning rate, an entropy bonus, or a KL to the reference."
 ],
 "critic": [
  "The critic that drives the advantages predicts better than a constant. Warns where value/explained_variance averages below 0 over 20 steps after the warm-up, by more than twice the standard error of that mean: its advantages are then noisier than those without one. Bound 0: there the critic is as good as a constant. What to do: raise critic.learning_rate or critic.warmup_steps, set critic.normalize_values where returns are large, or take a preset without a critic."
 ],
 "clipped-share": [
  "The share of tokens that the clip holds is in its useful range. Warns where clip/binding averages below 0.01 or above 0.11 over 20 steps, by more than twice the mean's standard error. Where the bounds come from: world.md. Not asked with one optimiser step a batch, where the share is 0 by construction, nor of GSPO, CISPO, SAPO and DPPO, for which the range is not meant. What to do: below, fewer epochs give the same for less time, or a larger learning rate more for the same; above, fewer epochs or a smaller one."
 ],
 "repeats": [
  "Replies do not go round in circles. Warns where more than a tenth of the replies of 20 tokens or more are mostly repetition: more than half of their runs of 4 tokens occurred before in the same reply. Text that people write stays well below. What to do: read some (taut show RUN). A reward that grows with length pays for this; so does a policy that has left its reference too far behind."
 ],
 "reward-failures": [
  "What gives the reward fails on few replies of each step, and on no more than before. Warns at once where more than a tenth of a step's replies have no reward, until 5 steps in a row have fewer, and where over 5 steps more than a hundredth have none and twice as many as in the 5 steps before; it names the environment or the reward function. A reply without a reward trains nothing, so one that fails on one kind of reply bends what is learned: the mean of the rest may look perfect. What to do: taut show RUN has one reply of each failure, with why; scoring.timeout and scoring.on_failure say how patient to be."
 ]
};
