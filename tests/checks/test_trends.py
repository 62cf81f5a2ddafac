"""What is judged over several steps, from histories written by hand."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from taut.checks import trends
from taut.checks.finding import Evidence
from taut.config import resolve
from taut.training.batch import collate
from taut.types import Episode, Prompt, Rollout, Schedule, Score, Trace


def evidence(history, settings=None, replies=((1, 2),), scores=None):
    rollouts = [
        Rollout(Prompt(row, "", (1,)), 0, tuple(ids), "", np.zeros(len(ids), np.float32), "stop")
        for row, ids in enumerate(replies)
    ]
    batch = collate(rollouts, scores or [Score(1.0) for _ in rollouts])
    config, _ = resolve({"algorithm.preset": "ppo", **(settings or {})})
    trace = Trace([], torch.zeros(batch.reply_ids.shape), torch.zeros(batch.reply_ids.shape))
    return Evidence(config, batch, Schedule(len(history), []), trace, history)


def of(metric, values):
    return [{metric: value} for value in values]


@pytest.mark.parametrize(
    ("check", "history", "verdict"),
    [
        (trends.rewards_differ, of("reward/std", [0, 0, 0, 0]), None),
        (trends.rewards_differ, of("reward/std", [0, 0, 0, 0, 0]), "fail"),
        (trends.rewards_differ, of("reward/std", [0, 0, 0.1, 0, 0]), "pass"),
        (trends.truncation, of("reply/truncated", [1.0]), "warn"),
        (trends.truncation, of("reply/truncated", [0.9]), None),
        (trends.truncation, of("reply/truncated", [0.2, 0.2, 0.3, 0.3, 0.3]), "warn"),
        (trends.truncation, of("reply/truncated", [0.2, 0.2, 0.25, 0.3, 0.3]), "pass"),
        (trends.entropy, of("entropy", [0.5, 0.005, 0.005, 0.005, 0.005, 0.005]), "fail"),
        (trends.entropy, of("entropy", [0.05, 0.005, 0.005, 0.005, 0.005]), "pass"),
        # mean -0.05, standard deviation 0.154, so an error of 0.034
        (trends.critic, of("value/explained_variance", [0.1] * 10 + [-0.2] * 10), "pass"),
        # mean -0.1, standard deviation 0.205, so an error of 0.046
        (trends.critic, of("value/explained_variance", [0.1] * 10 + [-0.3] * 10), "warn"),
        (trends.critic, of("value/explained_variance", [-0.1] * 10 + [0.2] * 10), "pass"),
        (trends.critic, of("value/explained_variance", [-1.0] * 19), None),
        (trends.clipped_share, of("clip/binding", [0.005] * 20), "warn"),
        (trends.clipped_share, of("clip/binding", [0.05] * 20), "pass"),
        (trends.clipped_share, of("clip/binding", [0.15] * 20), "warn"),
        (trends.clipped_share, of("clip/binding", [0.15] * 19), None),
        # mean 0.115, standard deviation 0.0205, so an error of 0.0046; then mean 0.125 with the same
        (trends.clipped_share, of("clip/binding", [0.095] * 10 + [0.135] * 10), "pass"),
        (trends.clipped_share, of("clip/binding", [0.105] * 10 + [0.145] * 10), "warn"),
        # of 1 reply a batch
        (trends.reward_failures, of("reply/excluded", [0, 0, 0, 0]), None),
        (trends.reward_failures, of("reply/excluded", [0, 0, 0, 0, 0]), "pass"),
        (trends.reward_failures, of("reply/excluded", [0.04] * 5 + [0.07] * 5), "pass"),
        (trends.reward_failures, of("reply/excluded", [0.04] * 5 + [0.09] * 5), "warn"),
        (trends.reward_failures, of("reply/excluded", [0.004] * 5 + [0.009] * 5), "pass"),
        (trends.reward_failures, of("reply/excluded", [0.1]), None),
        (trends.reward_failures, of("reply/excluded", [0.11]), "warn"),
        (trends.reward_failures, of("reply/excluded", [0.11, 0, 0, 0, 0]), "warn"),
        (trends.reward_failures, of("reply/excluded", [0.11, 0, 0, 0, 0, 0]), "pass"),
        (trends.reward_failures, of("reply/excluded", [0.15] * 10), "warn"),
        (trends.reward_failures, of("reply/excluded", [0.15] * 5), "warn"),
    ],
)  # fmt: skip
def test_verdicts(check, history, verdict):
    finding = check(evidence(history))
    assert (None if finding is None else finding.verdict) == verdict


def test_failures_of_the_first_steps_are_not_rising():
    """There is nothing before them to compare with."""
    assert trends.reward_failures(evidence(of("reply/excluded", [0.05] * 5))).verdict == "pass"


@pytest.mark.parametrize(
    ("name", "what"), [("environment", "the environment"), ("score", "reward function score")]
)
def test_the_first_step_with_many_failures_names_what_failed(name, what):
    scores = [Score(math.nan, failures={name: "took longer than 2 s"})] * 3 + [Score(1.0)]
    finding = trends.reward_failures(evidence([{"reply/excluded": 3.0}], replies=[(1,)] * 4, scores=scores))
    assert finding.message.startswith(
        f"3 of the step's 4 replies have no reward: {what} took longer than 2 s"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm.epochs": 1, "algorithm.minibatches": 1},
        {"algorithm.preset": "gspo"},
        {"algorithm.preset": "cispo"},
        {"algorithm.preset": "sapo"},
        {"algorithm.preset": "dppo"},
    ],
)
def test_the_clipped_share_is_silent_where_its_range_does_not_apply(settings):
    assert trends.clipped_share(evidence(of("clip/binding", [0.0] * 20), settings)) is None


def test_the_critic_is_not_judged_while_it_warms_up():
    history = of("value/explained_variance", [-1.0] * 20)
    assert trends.critic(evidence(history, {"critic.warmup_steps": 20})) is None
    assert trends.critic(evidence(history, {"critic.warmup_steps": 19})).verdict == "warn"


def test_a_statistic_is_judged_over_the_steps_that_have_it():
    history = [{"entropy": 0.0}, {}, *of("entropy", [0.0] * 4)]
    assert trends.entropy(evidence(history)).verdict == "fail"
    assert trends.entropy(replace(evidence(history), history=history[1:])) is None


def test_the_share_of_repeats_in_a_reply():
    assert trends.repeated_share([1, 2, 3, 4, 5, 6, 7]) == 0
    assert trends.repeated_share([1, 2, 1, 2, 1, 2, 1]) == 0.5  # 1212, 2121, 1212, 2121
    assert trends.repeated_share([7] * 23) == 1 - 1 / 20


def test_replies_that_go_round_in_circles():
    varied, circling, short = list(range(30)), [1, 2, 3] * 10, [1] * 19
    assert trends.repeats(evidence([{}], replies=[short] * 10)) is None
    assert trends.repeats(evidence([{}], replies=[varied] * 9 + [circling])).verdict == "pass"
    finding = trends.repeats(evidence([{}], replies=[varied] * 8 + [circling] * 2 + [short] * 10))
    assert finding.verdict == "warn"
    assert finding.message.startswith("20% of the replies")


@pytest.mark.parametrize(
    ("lengths", "turns", "limit"),
    [
        ((3, 2), 3, r"environment\.max_turns = 3: "),  # its last turn ended by itself
        ((3, 4), 2, r"sampling\.max_new_tokens = 4: "),
        ((3, 2), 2, "the model's positions: "),
    ],
)
def test_the_limit_that_cut_is_named(lengths, turns, limit):
    """Of replies whose last turn has so many tokens, in as many turns, with an observation before it."""
    own, last = lengths
    mask = np.array([True] * own + [False] + [True] * last)
    settings = {
        "environment.path": "a.py:B",
        "environment.max_turns": 3,
        "reward": "environment",
        "sampling.max_new_tokens": 4,
    }
    found = evidence(of("reply/truncated", [1.0]), settings, replies=[[1] * len(mask)])
    cut = replace(found.batch.rollouts[0], finish_reason="length", sampled=mask, episode=Episode(turns, 0.0))
    found.batch.rollouts[0] = cut
    assert re.match(f"every reply is cut at {limit}", trends.truncation(found).message)
