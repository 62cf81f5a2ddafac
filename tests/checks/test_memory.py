"""A plan's terms, by numbers worked out by hand."""

from dataclasses import dataclass, replace

import pytest

from taut.checks.memory import Models, Setting, Shape, learner_memory, sampler_memory, size


@dataclass(frozen=True)
class Weighed:
    """Stands for a footprint: 1000 parameters, of which 200 in the head, in 4 layers."""

    parameters: int = 1000
    bytes: int = 4000
    backbone: int = 800
    head: int = 200
    trained: int = 1000
    largest_trained: int = 200
    trained_bytes: int = 4
    weight_bytes: int = 4
    adapted: bool = False
    autocast: bool = False
    layers: int = 4
    hidden: int = 10
    vocabulary: int = 20
    cache_per_token: int = 8

    def kept(self, rows: int, width: int) -> int:
        return 400 * rows * width


SHAPE = Shape(rows=2, minibatch=4, decoded=6, prefilled=3, prompt=5, reply=7)
FULL = Weighed()
LORA = Weighed(trained=100, largest_trained=30, adapted=True)


def bytes_of(plan, phase):
    [found] = [each for each in (plan.held, *plan.phases) if each.name == phase]
    return {term.name: term.bytes for term in found.terms}


def test_adamw_holds_weights_and_two_moments():
    plan = learner_memory(Models(FULL), SHAPE, Setting())
    assert bytes_of(plan, "held") == {"policy weights": 4000, "policy moments": 8000}


def test_the_backward_pass_of_the_policy():
    plan = learner_memory(Models(FULL), SHAPE, Setting())
    assert bytes_of(plan, "policy's backward pass") == {
        "policy gradients": 4000,  # of the micro-batches before
        "activations": 400 * 2 * 11,  # the last token is not fed
        "gradient of the LM head": 800,
        "logits of a tile": 2 * 14 * 20 * 4,  # all of 2 × 7 tokens fit
    }
    alone = replace(SHAPE, minibatch=2)
    assert "policy gradients" not in bytes_of(
        learner_memory(Models(FULL), alone, Setting()), "policy's backward pass"
    )


def test_replies_that_share_a_row_hold_their_prompt_once_and_a_mask():
    """Two rows of a prompt of 5 and two replies of 7, of each of which the policy is not fed the last token."""
    shared = replace(SHAPE, rows=4, shared=2)
    plan = learner_memory(Models(FULL, critic=FULL), shared, Setting())
    terms = bytes_of(plan, "policy's backward pass")
    assert (terms["activations"], terms["mask of shared rows"]) == (400 * 2 * 17, 2 * 17**2 * 4)
    assert terms["logits of a tile"] == 2 * 28 * 20 * 4
    terms = bytes_of(plan, "critic's backward pass")
    assert (terms["activations"], terms["mask of shared rows"]) == (400 * 2 * 19, 2 * 19**2 * 4)
    halved = replace(FULL, autocast=True)
    plan = learner_memory(Models(halved), shared, Setting())
    assert bytes_of(plan, "policy's backward pass")["mask of shared rows"] == 2 * 17**2 * 2


def test_an_entropy_bonus_takes_one_more_copy_of_the_logits():
    plan = learner_memory(Models(FULL), SHAPE, Setting(entropy_bonus=True))
    assert bytes_of(plan, "policy's backward pass")["logits of a tile"] == 3 * 14 * 20 * 4


def test_layers_that_are_recomputed_keep_their_inputs():
    terms = bytes_of(learner_memory(Models(FULL), SHAPE, Setting(recompute=True)), "policy's backward pass")
    assert terms["inputs of the layers"] == 4 * 22 * 10 * 4
    assert terms["one layer at work"] == 100 * 22


def test_a_critic_has_a_backbone_and_is_fed_the_last_token():
    plan = learner_memory(Models(FULL, critic=FULL), SHAPE, Setting())
    held = bytes_of(plan, "held")
    assert (held["critic weights"], held["critic moments"]) == (3200, 6400)
    assert bytes_of(plan, "critic's backward pass") == {
        "policy gradients": 4000,
        "critic gradients": 3200,
        "activations": 400 * 2 * 12,
    }
    assert bytes_of(plan, "optimiser's step") == {
        "policy gradients": 4000,
        "critic gradients": 3200,
        "AdamW at work": 2 * 200 * 4,
    }


def test_with_adapters_one_base_serves_policy_critic_and_reference():
    plan = learner_memory(Models(LORA, shared_critic=True, reference=True), SHAPE, Setting())
    assert bytes_of(plan, "held") == {
        "policy weights": 4000,
        "policy adapter": 400,
        "policy moments": 800,
        "critic adapter": 400,
        "critic moments": 800,
    }
    assert "gradient of the LM head" not in bytes_of(plan, "policy's backward pass")


def test_a_reference_is_a_copy_and_reward_models_are_held():
    plan = learner_memory(
        Models(FULL, reference=True, reward_models={"reward model x": 77}), SHAPE, Setting()
    )
    held = bytes_of(plan, "held")
    assert (held["reference"], held["reward model x"]) == (4000, 77)


@pytest.mark.parametrize(("model", "trained"), [(FULL, 4000), (LORA, 400)])
def test_sampling_ahead_holds_copies_of_what_is_trained(model, trained):
    plan = learner_memory(Models(model), SHAPE, Setting(ahead=2))
    assert bytes_of(plan, "held")["weights sampled from"] == 3 * trained


def test_decoding_holds_the_cache_and_draws_from_logits():
    terms = bytes_of(learner_memory(Models(FULL), SHAPE, Setting()), "replies decoded")
    assert terms == {
        "KV cache": 6 * 12 * 8 * 4,
        "logits drawn from": 6 * 20 * 8,
    }


def test_the_peak_is_what_is_held_and_the_fullest_phase():
    plan = learner_memory(Models(FULL), SHAPE, Setting())
    assert plan.fullest.name == "policy's backward pass"
    assert plan.peak == 12000 + 4000 + 8800 + 800 + 2240
    assert plan.dominant.name == "activations"


def test_ranks_share_weights_gradients_and_moments_and_gather_what_runs():
    plan = learner_memory(Models(FULL, reference=True), SHAPE, Setting(ranks=4))
    assert bytes_of(plan, "held") == {"policy weights": 1000, "policy moments": 2000, "reference": 1000}
    terms = bytes_of(plan, "policy's backward pass")
    assert (terms["policy gradients"], terms["activations"]) == (1000, 8800)
    assert terms["gathered weights"] == (2 * 150 + 200) * 4  # two of four layers of 800 - 200, and the head
    assert bytes_of(plan, "replies decoded")["sampler's weights"] == 4000


def test_samplers_of_their_own_leave_the_learner():
    plan = learner_memory(Models(FULL), SHAPE, Setting(ranks=2, samplers_apart=True))
    assert "replies decoded" not in {phase.name for phase in plan.phases}
    sampler = sampler_memory(Models(FULL), SHAPE)
    assert sampler.held.bytes == 4000
    assert {phase.name for phase in sampler.phases} == {"prompts read by the sampler", "replies decoded"}


@pytest.mark.parametrize(("fused", "expected"), [(True, 4000), (False, 1600)])
def test_adamw_works_on_all_tensors_at_once_on_cuda(fused, expected):
    plan = learner_memory(Models(FULL), SHAPE, Setting(fused_optimizer=fused))
    assert bytes_of(plan, "optimiser's step")["AdamW at work"] == expected


def test_sizes_are_read_at_a_glance():
    assert [size(count) for count in (17, 1234, 5.6e8, 1.2e12)] == ["17 B", "1.2 kB", "560.0 MB", "1.2 TB"]
