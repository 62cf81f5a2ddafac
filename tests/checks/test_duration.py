"""Operations and seconds of a step, by numbers worked out by hand."""

from types import SimpleNamespace

import pytest

from taut.checks.duration import Machine, Work, forward_flops, machine_of, measure_machine, step_time
from taut.checks.memory import Models, Setting, Shape

POLICY = SimpleNamespace(
    parameters=1200, backbone=1000, head=200, layers=4, attention_width=10, cache_per_token=8, weight_bytes=4,
    adapted=False,
)  # fmt: skip
SHAPE = Shape(rows=2, minibatch=4, decoded=6, prefilled=3, prompt=5, reply=7)
WORK = Work(prompts=3, replies=6, scored=0.5, epochs=2)
FORWARD = 2 * 800 + 2 * 12 * 10 * 4  # a token: matrices but the embedding, and attention
HEAD = 6 * 7 * 2 * 200


FAST_MEMORY = Machine(1e3, 1e12)


def times(models=None, recompute=False, machine=FAST_MEMORY):
    phases = step_time(models or Models(POLICY), SHAPE, Setting(recompute), WORK, machine)
    return {phase.name: phase for phase in phases}


def test_a_token_costs_two_operations_a_weight_and_attention_to_half_of_the_others():
    assert forward_flops(POLICY, 12) == FORWARD


def test_a_backward_pass_costs_two_forward_passes_and_the_head_is_computed_again():
    updates = times()["policy's updates"]
    assert updates.flops == 2 * (72 * 3 * FORWARD + 4 * HEAD)
    assert updates.seconds == updates.flops / 1e3


def test_recomputed_layers_cost_one_more_and_a_frozen_base_one_less():
    recomputed = times(recompute=True)["policy's updates"].flops
    assert recomputed == 2 * (72 * 4 * FORWARD + 4 * HEAD)
    frozen = SimpleNamespace(**{**vars(POLICY), "adapted": True})
    assert times(Models(frozen))["policy's updates"].flops == 2 * (72 * 2 * FORWARD + 3 * HEAD)


def test_scoring_is_half_a_pass_of_the_policy_and_one_of_the_reference():
    scored = times(Models(POLICY, reference=True))["old and reference logprobs"]
    assert scored.flops == 1.5 * (72 * FORWARD + HEAD)
    assert "values" not in times()


def test_a_critic_reads_values_and_is_updated_without_a_head():
    both = times(Models(POLICY, critic=POLICY))
    assert both["values"].flops == 72 * FORWARD
    assert both["critic's updates"].flops == 2 * 72 * 3 * FORWARD


def test_sampling_is_bound_by_products_or_by_reading_the_weights():
    sampling = times()["sampling"]
    assert sampling.seconds == (57 * FORWARD + HEAD) / 1e3
    # Seven rounds, each of which reads the weights and half a full cache.
    slow = times(machine=Machine(1e12, 100.0))["sampling"]
    assert slow.seconds == 7 * (1200 * 4 + 6 * 12 * 8 * 4 / 2) / 100


def test_speeds_are_given_together_or_measured():
    assert machine_of(None, None) is None
    assert machine_of(2, 0.5) == Machine(2e12, 5e8)
    for speeds in ((2, None), (0, 1), ("fast", 1)):
        with pytest.raises(ValueError, match="above 0"):
            machine_of(*speeds)
    measured = measure_machine("cpu", 64)
    assert measured.flops > 1e6
    assert measured.bandwidth > 1e6
