"""Memory of well-known shapes: their sizes are the published ones, and a model left out takes its own terms alone."""

import pytest

from taut.launch.textbook import textbook_memory, whole_plan

PARAMETERS = {
    "SmolLM2-135M": 134_515_008,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Llama-3.1-8B": 8_030_261_248,
}
"""As the model cards say; the two of Qwen without and with their tied embeddings once."""


@pytest.mark.parametrize("size", PARAMETERS)
def test_a_shape_has_the_published_number_of_parameters(size):
    held = {
        term.name: term.bytes
        for term in textbook_memory(size, critic=False, reference=False, reply=16).held.terms
    }
    assert held == {"policy weights": 4 * PARAMETERS[size], "policy moments": 8 * PARAMETERS[size]}


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("critic", [False, True])
@pytest.mark.parametrize("rest", [False, True])
def test_leaving_a_model_out_takes_out_its_terms_and_changes_no_other(lora, critic, rest):
    def left(phase):
        absent = [
            name
            for name, there in (("critic", critic), ("reference", rest), ("reward model", rest))
            if not there
        ]
        return {t["name"]: t["bytes"] for t in phase["terms"] if not t["name"].startswith(tuple(absent))}

    plan = textbook_memory(
        "SmolLM2-135M", critic=critic, reference=rest, reward_model=rest, lora=lora, reply=32
    )
    whole = whole_plan("SmolLM2-135M", 32, lora, False, False)
    assert {term.name: term.bytes for term in plan.held.terms} == left(whole["held"])
    expected = {
        phase["name"]: left(phase)
        for phase in whole["phases"]
        if critic or not phase["name"].startswith("critic")
    }
    assert {phase.name: {t.name: t.bytes for t in phase.terms} for phase in plan.phases} == expected


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(ValueError, match="take one of SmolLM2-135M"):
        textbook_memory("70B")
    with pytest.raises(ValueError, match="1 to 16384"):
        textbook_memory("SmolLM2-135M", reply=0)
