"""From prompts to a batch, with a sampler and a scorer made of literals."""

import math

import numpy as np
import pytest

from taut.rollout.source import PromptSource
from taut.tasks.rewards.function import FunctionScorer
from taut.tasks.scorer import Term, WeightedSum
from taut.training.collect import collect, sampling_of
from taut.training.evaluate import EVALUATION_STREAM, evaluate
from taut.training.timing import Stopwatch
from taut.types import Prompt, Rollout, Score


class Echo:
    """Replies to every prompt with its index."""

    def __init__(self):
        self.calls = []

    def generate(self, prompts, sampling):
        self.calls.append(([p.index for p in prompts], sampling))
        return [
            Rollout(p, sample, (p.index,), str(p.index), np.zeros(1, np.float32), "stop")
            for p in prompts
            for sample in range(sampling.replies_per_prompt)
        ]

    def load_weights(self, weights, version):
        raise AssertionError("nobody trains here")


class RewardsEvenPrompts:
    """Replies to a prompt with an even index differ in reward, those to an odd one are all 1."""

    def check(self, prompts):
        pass

    def score(self, rollouts, step):
        return [Score(float(r.sample) if r.prompt.index % 2 == 0 else 1.0) for r in rollouts]


def prompts(count):
    return [Prompt(i, f"p{i}", (1,)) for i in range(count)]


def gather(config, count):
    sampler = Echo()
    collected = collect(
        PromptSource(prompts(count), seed=0), sampler, RewardsEvenPrompts(), config, 1, Stopwatch()
    )
    return collected, sampler


def test_without_dynamic_sampling_every_group_is_kept(make_config):
    collected, sampler = gather(make_config(), 8)
    assert len(sampler.calls) == 1
    assert len(collected.rollouts) == len(collected.scores) == 8
    assert collected.resampled == 0
    indices = [r.prompt.index for r in collected.rollouts]
    assert indices[0::2] == indices[1::2], "replies to one prompt lie side by side"


def test_groups_of_equal_rewards_are_sampled_again(make_config):
    collected, sampler = gather(make_config(algorithm__dynamic_sampling=9), 40)
    assert all(r.prompt.index % 2 == 0 for r in collected.rollouts)
    assert len(collected.rollouts) == 8
    assert len({r.prompt.index for r in collected.rollouts}) == 4
    asked = [index for call, _ in sampler.calls for index in call]
    assert len(asked) == len(set(asked)), "no prompt twice in a batch"
    assert collected.resampled == len(asked) - 4 > 0
    assert [len(call) for call, _ in sampler.calls][1] < 4, "only what is missing is sampled again"


def test_sampling_again_is_capped_and_the_batch_stays_full(make_config):
    config = make_config(algorithm__dynamic_sampling=1)
    source = PromptSource([p for p in prompts(40) if p.index % 2], seed=0)
    sampler = Echo()
    collected = collect(source, sampler, RewardsEvenPrompts(), config, 1, Stopwatch())
    assert len(sampler.calls) == 2
    assert len(collected.rollouts) == 8
    assert collected.resampled == 4


def test_dynamic_sampling_ends_when_the_prompts_do(make_config):
    collected, sampler = gather(make_config(algorithm__dynamic_sampling=50), 6)
    assert len({r.prompt.index for r in collected.rollouts}) == 4
    assert {i for call, _ in sampler.calls for i in call} == set(range(6))
    assert collected.resampled == 2


def test_evaluation_scores_sampled_and_greedy_replies_with_noise_of_its_own(make_config):
    sampler = Echo()
    config = make_config(run__seed=3, eval__samples=4, eval__limit=3)
    scores = evaluate(prompts(8), sampler, RewardsEvenPrompts(), config)
    # Prompts 0, 1, 2: even ones average 0+1+2+3 over 4, the odd one is 1; greedy is sample 0.
    assert scores == {
        "eval/accuracy": pytest.approx((1.5 + 1 + 1.5) / 3),
        "eval/greedy": pytest.approx(1 / 3),
        "eval/failed": 0.0,
    }
    (_, sampled), (_, greedy) = sampler.calls
    assert sampled.seed == 3 + EVALUATION_STREAM != sampling_of(config, 1).seed
    assert (sampled.greedy, greedy.greedy, greedy.replies_per_prompt) == (False, True, 1)


def test_a_stopwatch_adds_up_each_phase(monkeypatch):
    ticks = iter([0.0, 1.0, 3.0, 10.0, 14.0, 20.0])
    monkeypatch.setattr("taut.training.timing.time.perf_counter", lambda: next(ticks))
    watch = Stopwatch()
    for _ in range(2):
        with watch("sample"):
            pass
    assert dict(watch.seconds) == {"sample": 6.0}
    assert watch.total == 20.0


class FailsOnLateSamples(RewardsEvenPrompts):
    def score(self, rollouts, step):
        return [
            Score(math.nan, failures={"f": f"hangs on {r.sample}"}) if r.sample else Score(1.0)
            for r in rollouts
        ]


def test_held_out_replies_that_fail_are_told(make_config):
    """Of 3 prompts' 4 sampled replies and the greedy one, only the samples 0 and the greedy ones have a reward."""
    told = []
    config = make_config(eval__samples=4, eval__limit=3)
    warn = lambda *heard: told.append(heard)  # noqa: E731
    scores = evaluate(prompts(8), Echo(), FailsOnLateSamples(), config, 5, warn)
    assert scores == {"eval/accuracy": 1.0, "eval/greedy": 1.0, "eval/failed": 9 / 15}
    assert told == [(5, "9 of 15 held-out replies have no reward: reward function f hangs on 1")]


def test_a_function_in_its_process_is_called_while_replies_are_sampled_and_scores_come_in_order(
    make_config, tmp_path
):
    path = tmp_path / "rewards.py"
    path.write_text("def score(completions, **_):\n    return [float(text) for text in completions]\n")
    scorer = WeightedSum([Term("score", 1.0, FunctionScorer("score", f"{path}:score"))])

    class LastFirst(Echo):
        def generate(self, prompts, sampling, on_done=None):
            rollouts, size = super().generate(prompts, sampling), sampling.replies_per_prompt
            for number in reversed(range(len(prompts))):
                on_done(number, rollouts[number * size : (number + 1) * size])
            return rollouts

    source, watch = PromptSource(prompts(8), seed=0), Stopwatch()
    collected = collect(source, LastFirst(), scorer, make_config(), 1, watch)
    assert [s.reward for s in collected.scores] == [float(r.prompt.index) for r in collected.rollouts]
    assert set(watch.seconds) == {"sample", "reward"}
