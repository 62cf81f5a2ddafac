"""Whether the run goes well: rewards, replies, entropy, critic, clip. Judged over several steps, never on one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import stdev

import numpy as np

from taut.checks.finding import Evidence, Finding, judge
from taut.checks.gauge import COLLAPSED_BELOW, OVERUSED_ABOVE, WASTED_BELOW, describe_clipped_share, is_judged
from taut.tasks.scorer import first_failure
from taut.types import Rollout

FEW, MANY = 5, 20
"""Steps. What shows at once is judged over the few, what is noisy from step to step over the many."""

TRUNCATED_ABOVE = 0.25
FAILED_ABOVE, FAILURES_FROM = 0.1, 0.01
REPEATED_ABOVE, REPEATING_ABOVE = 0.5, 0.1
REPEATS_OF = 4
SHORTEST_JUDGED = 20


def rewards_differ(evidence: Evidence) -> Finding | None:
    """Some rewards of a batch differ; where all are equal nothing is learned from it."""
    spread = evidence.recent("reward/std", FEW)
    if not spread:
        return None
    reward = evidence.metrics.get("reward/mean", float("nan"))
    advice = f"in {FEW} steps in a row every reply earned {reward:.3g}: easier or harder prompts, or a finer reward"
    return judge(max(spread) > 0, f"standard deviation of the rewards {_mean(spread):.3g}", advice)


def truncation(evidence: Evidence) -> Finding | None:
    """Replies end by themselves."""
    now = evidence.metrics["reply/truncated"]
    limit = " or ".join(_limits_that_cut(evidence))
    if now == 1:
        measured = f"every reply is cut at {limit}"
        advice = "see that the model's end-of-sequence ids are known, or raise the limit"
        return Finding("warn", f"{measured}: {advice}, unless that is meant")
    shares = evidence.recent("reply/truncated", FEW)
    if not shares:
        return None
    measured = f"{_mean(shares):.0%} of the replies of {FEW} steps are cut at {limit}"
    return judge(_mean(shares) <= TRUNCATED_ABOVE, measured, "raise it, or shorten the replies", "warn")


def _limits_that_cut(evidence: Evidence) -> list[str]:
    """Those that cut replies of this step, the one that cut most of them first; all there are, where none is cut."""
    config = evidence.config
    turn, turns = config.sampling.max_new_tokens, config.environment.max_turns
    a_turn, all_turns = f"sampling.max_new_tokens = {turn}", f"environment.max_turns = {turns}"
    if config.environment.path is None:
        return [a_turn]
    cut_by: Counter[str] = Counter()
    for rollout in evidence.batch.rollouts:
        if rollout.truncated:
            last = _tokens_of_last_turn(rollout)
            by_turns = rollout.episode is not None and rollout.episode.turns == turns and last < turn
            cut_by[a_turn if last >= turn else all_turns if by_turns else "the model's positions"] += 1
    return [limit for limit, _ in cut_by.most_common()] or [a_turn, all_turns]


def _tokens_of_last_turn(rollout: Rollout) -> int:
    if rollout.sampled is None or rollout.sampled.all():
        return len(rollout.ids)
    return len(rollout.ids) - 1 - int(np.flatnonzero(~rollout.sampled)[-1])


def entropy(evidence: Evidence) -> Finding | None:
    """The policy still samples more than one reply."""
    values = evidence.recent("entropy", FEW)
    if not values:
        return None
    measured = f"entropy {_mean(values):.3g} nats a token over {FEW} steps"
    advice = (
        "the policy has collapsed: go back to an earlier checkpoint, with fewer epochs or an entropy bonus"
    )
    return judge(_mean(values) >= COLLAPSED_BELOW, measured, advice)


def critic(evidence: Evidence) -> Finding | None:
    """The critic that drives the advantages predicts returns better than a constant."""
    values = evidence.recent("value/explained_variance", MANY)
    if not values or evidence.schedule.step <= evidence.config.critic.warmup_steps:
        return None
    error = stdev(values) / MANY**0.5
    measured = f"explained variance {_mean(values):.2f} ± {error:.2f} over {MANY} steps"
    advice = "worse than a constant: raise critic.learning_rate or critic.warmup_steps, or drop the critic"
    return judge(_mean(values) + 2 * error >= 0, measured, advice, "warn")


def clipped_share(evidence: Evidence) -> Finding | None:
    """The share of tokens that the clip holds is in its useful range."""
    shares = evidence.recent("clip/binding", MANY)
    if not shares or not is_judged(evidence.config.algorithm.model_dump()):
        return None
    share, error = _mean(shares), stdev(shares) / MANY**0.5
    measured = f"clipped share {share:.1%} ± {error:.1%} over {MANY} steps"
    useful = share + 2 * error >= WASTED_BELOW and share - 2 * error <= OVERUSED_ABOVE
    return judge(useful, measured, describe_clipped_share(share), "warn")


def repeats(evidence: Evidence) -> Finding | None:
    """Replies do not go round in circles."""
    replies = [rollout.sampled_ids for rollout in evidence.batch.rollouts]
    judged = [ids for ids in replies if len(ids) >= SHORTEST_JUDGED]
    if not judged:
        return None
    share = sum(repeated_share(ids) > REPEATED_ABOVE for ids in judged) / len(judged)
    measured = f"{share:.0%} of the replies of {SHORTEST_JUDGED} tokens or more repeat most of what they say"
    advice = (
        "read them (taut show); the reward pays for length, or the policy has left what it was trained on"
    )
    return judge(share <= REPEATING_ABOVE, measured, advice, "warn")


def repeated_share(ids: Sequence[int]) -> float:
    """Share of the runs of 4 tokens that occurred before in the same reply."""
    runs = [tuple(ids[start : start + REPEATS_OF]) for start in range(len(ids) - REPEATS_OF + 1)]
    return 1 - len(set(runs)) / len(runs)


def reward_failures(evidence: Evidence) -> Finding | None:
    """What gives the reward fails on few replies of each step, and on no more than before."""
    size, failed = evidence.batch.size, evidence.metrics["reply/excluded"]
    why = first_failure(score.failures for score in evidence.batch.scores) or "a reward function fails"
    advice = f"{why} (taut show has each failure); such replies train nothing"
    if failed / size > FAILED_ABOVE:
        return Finding("warn", f"{failed:.0f} of the step's {size} replies have no reward: {advice}")
    counts = evidence.recent("reply/excluded", FEW)
    if not counts:
        return None
    earlier = evidence.recent("reply/excluded", 2 * FEW)[:FEW]
    share, before = _mean(counts) / size, _mean(earlier) / size
    rising = bool(earlier) and share > FAILURES_FROM and share > 2 * before
    measured = f"{share:.1%} of the replies of {FEW} steps have no reward"
    measured += f", {before:.1%} of the {FEW} before" if earlier else ""
    return judge(max(counts) / size <= FAILED_ABOVE and not rising, measured, advice, "warn")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))
