"""Each judgement of the preflight, on what it judges."""

import math
from types import SimpleNamespace

import pytest

from taut.checks import preflight
from taut.checks.memory import MemoryPlan, Phase, Term
from taut.config import resolve
from taut.types import Prompt, Score


def tokenizer(**values):
    return SimpleNamespace(**{"bos_token_id": 7, "eos_token_id": 9, "chat_template": None, **values})


@pytest.mark.parametrize(
    ("ids", "own", "verdict", "words"),
    [
        ((7, 1, 2), {}, "pass", "1 of 1 begin with BOS 7"),
        ((1, 2), {"bos_token_id": None}, "pass", "no BOS"),
        ((7, 7, 1), {}, "fail", "two BOS"),
        ((7, 1, 9), {}, "warn", "end-of-sequence"),
        ((7, 1, 2), {"chat_template": "x"}, "warn", "data.as_chat"),
    ],
)
def test_where_prompts_start_and_end(ids, own, verdict, words):
    finding = preflight.prompt_ends([Prompt(0, "", ids)], tokenizer(**own))
    assert finding.verdict == verdict
    assert words in finding.message


def test_a_long_prompt_is_shown_without_its_middle():
    decoding = SimpleNamespace(decode=lambda ids: f"t{ids[0]}")
    shown = preflight.show_prompt(Prompt(4, "", tuple(range(100))), decoding)
    assert shown.startswith("row 5, 100 tokens: 0:'t0' 1:'t1'")
    assert "19:'t19' … 60 more … 80:'t80'" in shown
    assert shown.endswith("99:'t99' | the reply starts here")


@pytest.mark.parametrize(
    ("rewards", "empty", "verdict"),
    [
        ([0.0, 1.0], 0.0, "pass"),
        ([0.5, 0.5], 0.0, "warn"),  # all alike
        ([0.0, 1.0], 2.0, "warn"),  # silence earns the most
        ([float("nan")] * 2, 0.0, "fail"),
    ],
)
def test_sampled_rewards(rewards, empty, verdict):
    assert preflight.sampled_rewards(rewards, {"empty": Score(empty)}).verdict == verdict


def test_sampled_replies_without_a_reward_are_a_warning_that_says_why():
    rewards = [1.0, math.nan, 0.0, math.nan, math.nan]
    finding = preflight.sampled_rewards(
        rewards, {"empty": Score(0.0)}, "the environment gave no answer within 2 s"
    )
    assert finding.verdict == "warn"
    assert "3 have none: the environment gave no answer within 2 s" in finding.message


def test_a_ratio_is_1_within_its_bound():
    config = resolve({})[0]
    assert preflight.unchanged_ratio({"ratio/min": 1 - 9e-6, "ratio/max": 1.0}, config).verdict == "pass"
    assert preflight.unchanged_ratio({"ratio/min": 1 - 2e-5, "ratio/max": 1.0}, config).verdict == "fail"
    assert preflight.unchanged_ratio({"ratio/min": 1.0, "ratio/max": 1.00002}, config).verdict == "fail"


@pytest.mark.parametrize(("free", "verdict"), [(None, "pass"), (2000, "pass"), (1050, "warn"), (999, "fail")])
def test_memory_fits_or_does_not(free, verdict):
    plan = MemoryPlan(
        Phase("held", (Term("moments", "", 700),)), (Phase("update", (Term("activations", "", 300),)),)
    )
    finding = preflight.memory_fits(plan, free)
    assert finding.verdict == verdict
    assert "moments" in finding.message


def test_seconds_grow_with_tokens_and_those_of_updates_with_epochs():
    config = resolve(
        {"algorithm.prompts_per_step": 8, "algorithm.replies_per_prompt": 8, "algorithm.epochs": 4}
    )[0]
    little = resolve(
        {"algorithm.prompts_per_step": 2, "algorithm.replies_per_prompt": 4, "algorithm.epochs": 2}
    )[0]
    scalars = {"time/sample": 1.0, "time/reward": 0.5, "time/score": 0.25, "time/update": 3.0}
    # 64 replies for 8, of one length; and twice the epochs.
    total = 8 * (1.0 + 0.5 + 0.25 + 2 * 3.0)
    assert (
        f"at most about {total:.3g} s a step, 48 of them update, and"
        in preflight.step_seconds(scalars, config, little).message
    )
