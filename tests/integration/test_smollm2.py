"""A pretrained model through the same door: SmolLM2-135M-Instruct on one-digit sums."""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from taut.config import read_yaml, resolve
from taut.launch.local import train

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".models" / "smollm2-135m-instruct"

pytestmark = [
    pytest.mark.smollm2,
    pytest.mark.skipif(
        not list(FOLDER.glob("*.gguf")), reason="SmolLM2 is not here: bash scripts/fetch_smollm2.sh"
    ),
]


@pytest.mark.parametrize("preset", ["ppo", "ppo-batch-mean"])
def test_two_steps_with_and_without_a_critic(tmp_path, monkeypatch, preset):
    monkeypatch.chdir(ROOT)
    torch.set_num_threads(2)
    settings = read_yaml("examples/smollm2_addition/config.yaml")
    config, _ = resolve(
        settings,
        {"run.root": str(tmp_path), "run.steps": 2, "algorithm.preset": preset, "algorithm.epochs": 2},
        {"eval.limit": 4, "eval.samples": 2},
    )
    run = train(config)
    first, second = run.scalars()[1:]
    assert first["update/steps"] == 2
    for row in (first, second):
        assert all(math.isfinite(value) for value in row.values())
        assert row["clip/epoch_1"] == 0
        assert row["mismatch/max"] < 1e-3
        assert 0 < row["reply/length"] <= 4
    assert ("value/mean" in first) == (preset == "ppo")
    if preset == "ppo":
        assert abs(first["kl/ref_k1"]) < 1e-6, "before the first update the policy is its reference"
        assert second["kl/ref_k1"] != 0
    assert len(run.replies(2)) == 16
    checkpoint = run.directory / "checkpoints" / "step_000002"
    assert AutoModelForCausalLM.from_pretrained(checkpoint).num_parameters() > 1e8
