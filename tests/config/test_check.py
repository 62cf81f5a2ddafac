"""Settings that are each valid and cannot work together: told with their numbers, before any model loads."""

from __future__ import annotations

import pytest

from taut.config import check, resolve

CONTRADICTIONS = [
    (
        {"algorithm.minibatches": 5},
        r"minibatches = 5 does not divide the batch of 64 replies \(8 prompts × 8 replies\): set it to 4 or 8",
    ),
    ({"algorithm.minibatches": 65}, r"= 65 does not divide the batch of 64 .* set it to 64"),
    (
        {"algorithm.prompts_per_step": 1, "algorithm.replies_per_prompt": 7, "algorithm.minibatches": 3},
        r"batch of 7 replies \(1 prompts × 7 replies\): set it to 1 or 7",
    ),
    *(
        (
            {"algorithm.preset": preset, "algorithm.replies_per_prompt": 1},
            rf"advantage = {advantage} compares replies to one prompt, and .*replies_per_prompt is 1: set it to 2",
        )
        for preset, advantage in (
            ("grpo", "group-standardized"),
            ("rloo", "leave-one-out"),
            ("dr-grpo", "group-mean"),
        )
    ),
    *(
        (
            {
                "algorithm.advantage": advantage,
                "algorithm.prompts_per_step": 1,
                "algorithm.replies_per_prompt": 1,
            },
            rf"advantage = {advantage} compares the replies of a batch, and .* is 1: set either to 2",
        )
        for advantage in ("batch-mean", "global-normalized")
    ),
    (
        {"algorithm.dynamic_sampling": 2, "algorithm.replies_per_prompt": 1},
        r"with algorithm\.replies_per_prompt = 1 every group is one: set it to 2 or more",
    ),
    ({"kl.placement": "loss", "kl.estimator": "k1"}, r"k1 in the loss has a gradient that is 0.* use k3"),
    (
        {"kl.placement": "reward", "kl.estimator": "k3-weighted"},
        "k3-weighted differs from k3 only in its gradient",
    ),
    ({"kl.placement": "reward", "kl.estimator": "k3-straight-through"}, "use k1, k2 or k3"),
    (
        {"kl.target": 6, "kl.placement": "reward", "kl.horizon": 10},
        r"kl\.horizon = 10 is less than the 64 replies of a batch.*set it to 64 or more",
    ),
    (
        {"kl.target": 6},
        r"kl\.target = 6 has no KL to steer: set kl\.placement to reward or loss, or kl\.target to null",
    ),
    (
        {"kl.target": 6, "kl.placement": "reward", "kl.coefficient": 0.0},
        "0 stays 0: set it above 0",
    ),
    (
        {"data.path": "a.jsonl", "data.eval_path": "b.jsonl", "data.held_out": 5},
        r"eval_path names the held-out prompts and data\.held_out would draw some: set one to null",
    ),
    ({"data.path": ["a", "b"], "data.weights": [1]}, "weights has 1 numbers and data.path names 2: give one"),
    ({"data.path": "a", "data.weights": [1, 2]}, "weights has 2 numbers and data.path names 1: give one"),
    ({"algorithm.preset": "cispo", "algorithm.dual_clip": 3.0}, "with cispo set it to null"),
    ({"algorithm.preset": "sapo", "algorithm.dual_clip": 3.0}, "with sapo set it to null"),
    ({"algorithm.preset": "dppo", "algorithm.ratio_level": "sequence"}, "set ratio_level to token"),
    (
        {"optimizer.warmup_steps": 41},
        r"warmup_steps = 41 is longer than the run of run\.steps = 40: set it to 40",
    ),
    (
        {"algorithm.preset": "ppo", "critic.warmup_steps": 40},
        r"critic\.warmup_steps = 40 leaves the policy no step .*run\.steps = 40: set it to 39 or less",
    ),
    (
        {"sampling.top_k": 5},
        r"sampling\.top_k = 5 samples from a truncated distribution .*truncate or mask",
    ),
    (
        {"sampling.top_p": 0.9, "sampling.min_p": 0.1},
        r"sampling\.top_p = 0\.9 and sampling\.min_p = 0\.1 samples",
    ),
]


@pytest.mark.parametrize(("settings", "message"), CONTRADICTIONS)
def test_a_contradiction_is_told_with_its_numbers_and_the_nearest_fix(settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        check(resolve(settings)[0])
    assert "\n" not in str(caught.value), "one mistake, one line"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"algorithm.minibatches": 64},
        {"algorithm.preset": "ppo", "algorithm.prompts_per_step": 1, "algorithm.replies_per_prompt": 1},
        {"algorithm.advantage": "reward", "algorithm.prompts_per_step": 1, "algorithm.replies_per_prompt": 1},
        {"algorithm.advantage": "batch-mean", "algorithm.replies_per_prompt": 1},
        {"sampling.top_p": 0.9, "algorithm.importance": "mask"},
        {"optimizer.warmup_steps": 40},
        {"algorithm.preset": "ppo", "critic.warmup_steps": 39},
        {"critic.warmup_steps": 40},  # there is no critic to warm up
        {"kl.placement": "loss", "kl.estimator": "k2"},
        {"kl.placement": "reward", "kl.target": 6},
    ],
    ids=str,
)
def test_what_works_passes(settings):
    check(resolve(settings)[0])


def test_every_contradiction_is_told_at_once():
    with pytest.raises(ValueError, match=r"minibatches = 5 .*\n.*top_k = 5"):
        check(resolve({"algorithm.minibatches": 5, "sampling.top_k": 5})[0])


def test_a_shared_critic_needs_a_frozen_base_and_starts_from_it():
    with pytest.raises(ValueError, match=r"lora\.rank = 0 .* set lora\.rank to 16"):
        check(resolve({"critic.shared": True})[0])
    with pytest.raises(ValueError, match=r"critic\.path names another"):
        check(resolve({"critic.shared": True, "critic.path": "elsewhere", "lora.rank": 8})[0])
    check(resolve({"critic.shared": True, "lora.rank": 8})[0])


def test_a_critic_is_no_copy_of_weights_in_four_bits():
    settings = {"model.dtype": "nf4", "lora.rank": 8, "algorithm.preset": "ppo"}
    with pytest.raises(ValueError, match=r"model\.dtype = nf4 .* set critic\.shared to true"):
        check(resolve(settings)[0])
    check(resolve({**settings, "critic.shared": True})[0])
    check(resolve({**settings, "algorithm.preset": "rloo"})[0])
