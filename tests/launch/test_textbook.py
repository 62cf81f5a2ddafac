"""Memory of well-known shapes: their sizes are the published ones, and a model left out takes its own terms alone."""

import pytest

from taut.launch.textbook import shape_of, textbook_memory, whole_plan
from taut.models.footprint import Footprint

PARAMETERS = {
    "SmolLM2-135M": 134_515_008,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Llama-3.1-8B": 8_030_261_248,
}
"""As the model cards say; the two of Qwen without and with their tied embeddings once."""


@pytest.mark.parametrize("size", PARAMETERS)
def test_a_shape_has_the_published_number_of_parameters(size):
    assert Footprint(shape_of(size, 64)).parameters == PARAMETERS[size]


@pytest.mark.parametrize(
    ("lora", "critic", "rest"), [(False, False, True), (False, True, False), (True, False, False)]
)
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
