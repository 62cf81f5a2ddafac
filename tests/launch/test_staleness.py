"""Batches sampled ahead: from exactly the weights that the lag says, corrected, recorded, and the same each time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from taut.config import resolve
from taut.launch.local import make_sampler, prepare, train, wait_for_nothing
from taut.launch.resume import fork
from taut.store import Run
from taut.training.collect import collect
from taut.training.derive import recompute
from taut.training.ppo import train_ppo

AHEAD = {"run.steps": 5, "algorithm.epochs": 2, "algorithm.minibatches": 2, "data.eval_path": None}
PLAIN = {"algorithm.preset": "ppo-batch-mean"}
CRITIC = {"algorithm.preset": "ppo", "critic.learning_rate": 1e-2}
LORA = {"algorithm.preset": "grpo", "lora.rank": 2, "algorithm.dynamic_sampling": 2}


class OneAfterTheOther:
    """The same lag without a thread: keeps every version's weights, and samples where the batch is asked for."""

    def __init__(self, prepared):
        self.config, self.parts, self.policy = prepared.config, prepared.parts, prepared.policy
        self.sampler = make_sampler(prepared.policy.twin(), prepared.tokenizer, prepared.config)
        self.versions = []

    def collect(self, step, watch):
        self.versions.append(self.policy.copied_weights())
        version = max(0, step - 1 - self.config.algorithm.max_staleness)
        self.sampler.load_weights(self.versions[version], version)
        return collect(self.parts.source, self.sampler, self.parts.scorer, self.config, step, watch)

    def wait(self):
        pass


class Kept:
    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(record)


def tokens_of(reply):
    return reply.ids.tolist(), reply.behavior_logprobs.tolist(), reply.old_logprobs.tolist(), reply.reward


@pytest.mark.parametrize(
    "changes", [PLAIN, CRITIC, LORA], ids=["plain", "critic", "lora and dynamic sampling"]
)
@pytest.mark.parametrize("ahead", [1, 2])
def test_a_run_equals_one_that_samples_each_batch_when_it_is_needed(own, changes, ahead):
    config = resolve({**own, **AHEAD, **changes, "algorithm.max_staleness": ahead})[0]
    run = train(config)
    prepared, kept = prepare(config, wait_for_nothing), Kept()
    prepared.parts.ahead.__exit__(None, None, None)
    prepared.parts.ahead = OneAfterTheOther(prepared)
    train_ppo(config, prepared.parts, kept)
    for record in kept.records[1:]:
        replies = run.replies(record.step)
        assert {reply.version for reply in replies} == {max(0, record.step - 1 - ahead)}
        assert [tokens_of(reply) for reply in replies] == [tokens_of(reply) for reply in record.replies]
        stored = [row.get("loss/policy") for row in run.optimizer_steps(record.step)]
        assert stored == [update.scalars.get("loss/policy") for update in record.optimizer_steps]


def test_the_age_of_every_token_and_what_corrects_for_it_are_recorded(own):
    cap = 1.01  # so low that some weights are above it
    settings = {**own, **AHEAD, **PLAIN, "algorithm.max_staleness": 2, "algorithm.importance_cap": cap}
    run = train(resolve(settings)[0])
    rows = run.scalars()[1:]
    assert [row["staleness/mean"] for row in rows] == [0.0, 1.0, 2.0, 2.0, 2.0]
    assert [row["staleness/max"] for row in rows] == [0.0, 1.0, 2.0, 2.0, 2.0]
    for row in rows:
        replies = run.replies(row["step"])
        ratio = np.concatenate(
            [np.exp(r.old_logprobs - r.behavior_logprobs, dtype=np.float64) for r in replies]
        )
        assert row["importance/mean"] == pytest.approx(np.minimum(ratio, cap).mean(), rel=1e-5)
        assert row["importance/capped"] == pytest.approx((ratio > cap).mean(), abs=1e-6)
    first, last = rows[0], rows[-1]
    assert (first["importance/mean"], first["importance/capped"]) == (pytest.approx(1, abs=1e-5), 0.0)
    assert last["importance/capped"] > 0
    assert last["mismatch/mean"] > 1e-3
    told = [event["data"]["verdict"] for event in run.events() if event["name"] == "mismatch"]
    assert told == ["pass"], "asked where the weights are new; older ones are no mismatch"


def test_the_proximal_policy_is_the_learner_at_the_start_of_the_batch(own):
    """ρ is exactly 1 before the first optimiser step, of tokens whose π_old is not what sampled them."""
    run = train(resolve({**own, **AHEAD, **PLAIN, "algorithm.max_staleness": 1})[0])
    for step in (3, 4, 5):
        batch = run.batch(step)
        first = batch.updates[0]
        for row, seen in zip(first.rows, first.logprobs, strict=True):
            reply = run.replies(step)[row]
            assert seen[: len(reply.ids)].tolist() == reply.old_logprobs.tolist()
            assert not np.allclose(reply.old_logprobs, reply.behavior_logprobs, atol=1e-4)


def test_the_stored_batch_gives_the_loss_that_trained(own):
    config = resolve({**own, **AHEAD, **PLAIN, "algorithm.max_staleness": 1})[0]
    run = train(config)
    scalars = run.scalars()[5]
    again = recompute(run.batch(5), config).metrics
    assert again["loss/policy"] == scalars["loss/policy"]
    other = recompute(run.batch(5), config, {"algorithm.importance_cap": 1.0001}).metrics
    assert other["loss/policy"] != scalars["loss/policy"]


def test_importance_truncates_unless_it_is_given_and_cannot_be_off(own):
    assert resolve({"algorithm.max_staleness": 1})[0].algorithm.importance == "truncate"
    assert (
        resolve({"algorithm.max_staleness": 1, "algorithm.importance": "mask"})[0].algorithm.importance
        == "mask"
    )
    assert resolve({"algorithm.max_staleness": 0})[0].algorithm.importance == "none"
    with pytest.raises(
        ValueError, match=r"max_staleness = 1 trains on replies of older weights: set .*importance"
    ):
        train(resolve({**own, "algorithm.max_staleness": 1, "algorithm.importance": "none"})[0])


def test_a_reward_function_that_fails_ahead_ends_the_run_by_name(own):
    broken = own["reward"].replace(":score", ":broken")
    with pytest.raises(ValueError, match="reward function broken raised KeyError: 'oops'"):
        train(resolve({**own, **AHEAD, **PLAIN, "algorithm.max_staleness": 1, "reward": broken})[0])
    assert Run.open(f"{own['run.root']}/own").status == "failed"


def test_a_fork_that_runs_ahead_by_another_number_begins_with_the_checkpoints_weights(own):
    settings = {**own, **AHEAD, **PLAIN, "checkpoint.every": 3, "algorithm.max_staleness": 2}
    run = train(resolve(settings)[0])
    child = fork(run.directory, 3, {"algorithm.max_staleness": 1, "run.name": "child"})
    assert [{r.version for r in child.replies(step)} for step in (4, 5)] == [{3}, {3}]
    same = fork(run.directory, 3, {"run.name": "same"})
    for step in (4, 5):
        assert [tokens_of(r) for r in same.replies(step)] == [tokens_of(r) for r in run.replies(step)]


def test_evaluations_are_of_the_newest_weights(own):
    """At learning rate 0 after the first step both lags end with one policy; the evaluation must not see an older."""
    settings = {
        **own,
        **AHEAD,
        **PLAIN,
        "data.eval_path": own["data.eval_path"],
        "eval.every": 1,
        "run.steps": 1,
    }
    now, ahead = (
        train(resolve({**settings, "algorithm.max_staleness": k, "algorithm.importance": "truncate",
                       "run.name": f"k{k}"})[0])
        for k in (0, 1)
    )  # fmt: skip
    for name in ("eval/accuracy", "eval/greedy"):
        assert now.last(name) == ahead.last(name)
    assert not math.isnan(now.last("eval/accuracy"))


def test_a_twin_shares_what_is_frozen_and_owns_what_is_trained(own):
    for changes, shares in ((PLAIN, False), ({**PLAIN, "lora.rank": 2}, True)):
        policy = prepare(resolve({**own, **changes})[0], wait_for_nothing).policy
        twin = policy.twin()
        mine, theirs = dict(policy.named_parameters()), dict(twin.named_parameters())
        trained = {id(parameter) for parameter in policy.trained_parameters()}
        assert mine.keys() == theirs.keys()
        for name, parameter in mine.items():
            assert torch.equal(parameter, theirs[name])
            assert (parameter is theirs[name]) == (id(parameter) not in trained)
        assert any(mine[name] is theirs[name] for name in mine) == shares
