"""The formulas again, in float64 NumPy and plain loops, written from the papers: slow, and independent of taut."""

from __future__ import annotations

import math

import numpy as np


def token_logprobs(hidden, weight, targets, temperature=1.0, bias=None, softcap=None, logit_scale=1.0):
    logprobs, entropies = [], []
    for h, target in zip(hidden, targets, strict=True):
        logits = []
        for v, row in enumerate(weight):
            z = logit_scale * (float(np.dot(row, h)) + (0.0 if bias is None else float(bias[v])))
            logits.append((z if softcap is None else softcap * math.tanh(z / softcap)) / temperature)
        total = math.fsum(math.exp(z - max(logits)) for z in logits)
        log_p = [z - max(logits) - math.log(total) for z in logits]
        logprobs.append(log_p[target])
        entropies.append(-math.fsum(math.exp(lp) * lp for lp in log_p if lp > -math.inf))
    return np.array(logprobs), np.array(entropies)


def per_token(mask, formula):
    """formula(b, t) at each trained token, else 0."""
    result = np.zeros(mask.shape)
    for b, t in zip(*np.nonzero(mask), strict=True):
        result[b, t] = formula(b, t)
    return result


def sequence_log_ratio(log_ratio, mask):
    return per_token(mask, lambda b, t: np.mean(log_ratio[b][mask[b]]))


def surrogate(ratio, advantage, clip_low, clip_high, dual_clip=None):
    """PPO's own min-and-clip form: (loss, d loss / d log ratio, binding, outside, dual) of one token."""
    clipped = min(max(ratio, 1 - clip_low), 1 + clip_high)
    objective = min(ratio * advantage, clipped * advantage)
    dual = dual_clip is not None and advantage < 0 and dual_clip * advantage > objective
    if dual:
        objective = dual_clip * advantage
    outside = clipped != ratio
    binding = clipped * advantage < ratio * advantage
    slope = 0.0 if dual or binding else -ratio * advantage
    return -objective, slope, binding, outside, dual


def cispo(logprob, ratio, advantage, clip_low, clip_high):
    return -min(max(ratio, 1 - clip_low), 1 + clip_high) * advantage * logprob


def sapo(ratio, advantage):
    """f(ρ) A with f(x) = σ(τ (x - 1)) · 4 / τ: (loss, d loss / d log ratio) of one token."""
    tau = 1.0 if advantage > 0 else 1.05
    sigma = 1 / (1 + math.exp(-tau * (ratio - 1)))
    return -4 / tau * sigma * advantage, -4 * sigma * (1 - sigma) * ratio * advantage


def dppo(probability, old_probability, advantage, low, high):
    """M ρ A, M by the total variation of (token, any other): (loss, d loss / d log ratio, held, outside)."""
    ratio = probability / old_probability
    variation = (abs(probability - old_probability) + abs((1 - probability) - (1 - old_probability))) / 2
    pushed_on = (advantage > 0 and ratio > 1) or (advantage < 0 and ratio < 1)
    outside = variation > (high if ratio > 1 else low)
    held = pushed_on and outside
    loss = 0.0 if held else -ratio * advantage
    return loss, loss, held, outside


def importance_weights(old, behavior, mask, mode, cap, level):
    def weight(b, t):
        gaps = [old[b, s] - behavior[b, s] for s in range(mask.shape[1]) if mask[b, s]]
        w = math.exp(math.fsum(gaps)) if level == "sequence" else math.exp(old[b, t] - behavior[b, t])
        if mode == "truncate":
            return min(w, cap)
        return w if 1 / cap <= w <= cap else 0.0

    return per_token(mask, weight)


def reduce_loss(loss, mask, normalization, constant_length):
    rows = [[loss[b, t] for t in range(mask.shape[1]) if mask[b, t]] for b in range(len(mask))]
    rows = [row for row in rows if row]
    if normalization == "token":
        return sum(map(sum, rows)) / sum(map(len, rows))
    if normalization == "sequence":
        return sum(sum(row) / len(row) for row in rows) / len(rows)
    return sum(map(sum, rows)) / (len(rows) * constant_length)


def whiten(x, mask, shift_mean):
    trained = x[mask]
    mean, var = np.mean(trained), np.var(trained, ddof=1)
    return per_token(
        mask, lambda b, t: (x[b, t] - mean) / math.sqrt(var + 1e-8) + (0 if shift_mean else mean)
    )


def baseline(name, rewards, groups, valid):
    advantages = np.zeros(len(rewards))
    for i in range(len(rewards)):
        whole_batch = name in ("batch_mean", "global_normalized")
        peers = [j for j in range(len(rewards)) if valid[j] and (whole_batch or groups[j] == groups[i])]
        if not valid[i] or len({rewards[j] for j in peers}) < 2:
            continue
        if name == "leave_one_out":
            advantages[i] = rewards[i] - np.mean([rewards[j] for j in peers if j != i])
            continue
        advantages[i] = rewards[i] - np.mean([rewards[j] for j in peers])
        if name in ("group_standardized", "global_normalized"):
            advantages[i] /= np.std([rewards[j] for j in peers], ddof=1)
    return advantages


def gae(rewards, values, mask, gamma, lam, bootstrap):
    """Advantages by the definition, Σ_k (γλ)^k δ_{t+k}, over the list of a reply's trained tokens."""
    advantages = np.zeros(mask.shape)
    for b in range(len(mask)):
        trained = [t for t in range(mask.shape[1]) if mask[b, t]]
        r, v = [rewards[b, t] for t in trained], [values[b, t] for t in trained] + [bootstrap[b]]
        delta = [r[i] + gamma * v[i + 1] - v[i] for i in range(len(trained))]
        for i, t in enumerate(trained):
            decay = [(gamma * lam[b]) ** k for k in range(len(trained) - i)]
            advantages[b, t] = math.fsum(d * x for d, x in zip(decay, delta[i:], strict=True))
    return advantages


def value_loss(value, old, target, clip):
    clipped = min(max(value, old - clip), old + clip)
    plain, held = (value - target) ** 2, (clipped - target) ** 2
    return max(plain, held) / 2, held > plain


def token_kl(logprob, ref, estimator, log_ratio):
    r = math.exp(ref - logprob)
    k3 = r - 1 - math.log(r)
    return {
        "k1": -math.log(r),
        "k2": math.log(r) ** 2 / 2,
        "k3": k3,
        "k3-straight-through": k3,
        "k3-weighted": math.exp(log_ratio) * k3,
    }[estimator]
