"""What a comparison of two steps finds."""

from dataclasses import replace

import numpy as np

from taut.checks.replay import differences
from taut.store import ReplyRecord, StepRecord, UpdateRecord


def step(logprob=-1.0, loss=0.5, **scalars):
    reply = ReplyRecord(
        *(0, 0, 0, 0, "1+1="),
        prompt_ids=np.array([1], np.int32),
        text="2",
        ids=np.array([2, 3], np.int32),
        mask=np.array([True, True]),
        reward=1.0,
        finish_reason="stop",
        old_logprobs=np.array([-1.0, np.nan], np.float32),
    )
    update = UpdateRecord(0, 0, np.array([0]), [np.array([-2.0, logprob], np.float32)], {"loss/policy": loss})
    return StepRecord(3, {}, {"entropy": 1.0, "time/step": 7.0, **scalars}, [reply], [update])


def test_a_step_equals_itself_where_it_holds_nan_too():
    assert differences(step(), step()) == []
    assert differences(step(loss=np.nan), step(loss=-np.nan)) == []


def test_the_smallest_change_is_a_difference_and_says_where():
    off = float(np.nextafter(np.float32(-1), np.float32(0)))
    [found] = differences(step(), step(logprob=off))
    assert (found.step, found.place, found.quantity) == (3, "optimiser step 0, reply 0", "logprobs")
    assert (found.stored, found.replayed) == (-1.0, off)
    assert str(found).endswith("5.96e-08 apart")
    assert [d.quantity for d in differences(step(loss=0.0), step(loss=-0.0))] == ["loss/policy"]


def test_clocks_sampling_and_what_only_the_run_measured_are_not_compared():
    stored = step(**{"eval/accuracy": 0.5, "reply/resampled": 2.0, "reward/own/length": 4.0})
    assert differences(stored, step(**{"time/step": 1.0, "reply/resampled": 0.0})) == []


def test_what_the_replay_lacks_or_has_besides_is_a_difference():
    shorter = replace(step(), optimizer_steps=[])
    assert {d.place for d in differences(step(), shorter)} == {
        "optimiser step 0",
        "optimiser step 0, reply 0",
    }
    assert [d.quantity for d in differences(step(), step(**{"kl/old_k1": 0.1}))] == ["kl/old_k1"]
