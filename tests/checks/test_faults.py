"""Each fault that is known to go unnoticed makes the check of its name fire; a healthy run makes none."""

import copy

import pytest
import torch

from taut.checks import standing
from taut.checks.faults import FAULTS, use_another_temperature
from taut.launch import local
from taut.models.checksum import weights_checksum
from taut.rollout.local import LocalSampler
from taut.store import Run
from taut.training.inspector import CheckFailedError, NoInspector

ARITHMETIC = {"finite", "rescoring", "mismatch", "micro-batches", "mask", "pads", "weights"}
"""What every run of the world is asked at its first step; a run with a reference is asked `kl-connected` too."""


@pytest.mark.parametrize(
    "preset",
    ["ppo", "ppo-batch-mean", "grpo", "rloo", "dapo", "gspo", "cispo", "sapo", "dppo", "reinforce++"],
)
def test_a_healthy_run_passes(run_world, verdicts, preset):
    seen = verdicts(run_world(algorithm__preset=preset, algorithm__minibatches=2))
    assert set(seen.values()) == {"pass"}
    assert set(seen) >= ARITHMETIC
    assert ("clip" in seen) == (preset not in ("cispo", "sapo", "dppo"))
    assert ("kl-connected" in seen) == (preset in ("ppo", "grpo", "rloo", "reinforce++"))


@pytest.mark.learning
@pytest.mark.parametrize(
    ("preset", "epochs"), [("ppo", 2), ("grpo", 3), ("rloo", 3), ("gspo", 3), ("dapo", 3)]
)
def test_a_healthy_run_of_the_whole_length_passes(run_world, verdicts, monkeypatch, preset, epochs):
    """With so many epochs: at one more some of them clip 12 % of the tokens, and `clipped-share` says so."""
    monkeypatch.setattr(standing, "COSTLY_EVERY", 10)
    settings = {"run__steps": 40, "algorithm__epochs": epochs, "algorithm__replies_per_prompt": 8}
    run = run_world(algorithm__preset=preset, **settings)
    events = [(e["step"], e["name"], e["message"]) for e in run.events() if e["level"] != "info"]
    assert events == []
    assert set(verdicts(run)) >= {*ARITHMETIC, "rewards-differ", "truncation", "entropy"}


class CopySampler(LocalSampler):
    """Holds weights of its own, as an engine in another process does."""

    def __init__(self, policy, *rest):
        super().__init__(copy.deepcopy(policy), *rest)

    def load_weights(self, weights, version):
        super().load_weights(weights, version)
        self.policy.model.load_state_dict(weights)


FIRES = {
    "no clip": ({}, {"clip"}),
    "temperature mismatch": ({}, {"mismatch"}),
    "dropout on": ({}, {"rescoring", "mismatch"}),
    "mask shifted right": ({}, {"mask", "pads"}),
    "mask shifted left": ({}, {"mask"}),
    "missing end of sequence": ({}, {"truncation"}),
    "bfloat16 logprobs": ({}, {"mismatch"}),
    "bfloat16 old logprobs": ({"algorithm__minibatches": 2}, {"rescoring", "mismatch"}),
    "stale weights": ({}, {"weights", "mismatch"}),
    "KL in the loss without gradient": ({"algorithm__preset": "grpo"}, {"kl-connected"}),
    "KL left out of the reward": ({"algorithm__preset": "rloo"}, {"kl-connected"}),
    "reference that moves along": ({"algorithm__preset": "grpo"}, {"kl-connected"}),
    "mean of each micro-batch": ({}, {"micro-batches"}),
    "pads in a statistic": ({"algorithm__preset": "ppo"}, {"pads"}),
}
"""Under which settings each fault shows, and which checks see it."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_makes_its_check_fire(run_world, verdicts, monkeypatch, fault):
    settings, expected = FIRES[fault]
    FAULTS[fault](monkeypatch)
    seen = verdicts(run_world(**settings))
    assert {name for name, verdict in seen.items() if verdict != "pass"} == expected
    # Replies may be meant to be cut.
    assert all(seen[name] == ("warn" if name == "truncation" else "fail") for name in expected)


def test_a_sampler_with_a_copy_of_its_own_that_loads_weights_passes(run_world, verdicts, monkeypatch):
    monkeypatch.setattr(local, "LocalSampler", CopySampler)
    assert set(verdicts(run_world()).values()) == {"pass"}


def test_strict_ends_the_run_once_the_step_is_stored(run_world, tmp_path, monkeypatch):
    use_another_temperature(monkeypatch)
    with pytest.raises(CheckFailedError, match=r"step 1, check mismatch: .* differ by .* nats on average"):
        run_world(checks__strict=True)
    run = Run.open(tmp_path / "run-0")
    assert run.status == "failed"
    assert run.step_count == 1
    assert (run.directory / "checkpoints" / "step_000001" / "manifest.json").is_file()


def test_the_checks_change_nothing(run_world, monkeypatch):
    """The run is the same to the bit with the costly ones at every step and with none at all."""
    monkeypatch.setattr(standing, "COSTLY_EVERY", 1)
    runs = [run_world(algorithm__preset="ppo")]
    monkeypatch.setattr(local, "StandingChecks", lambda *_: NoInspector())
    runs.append(run_world(algorithm__preset="ppo"))
    assert [len(run.checks()) > 0 for run in runs] == [True, False]
    rows = [
        [
            {k: v for k, v in row.items() if not k.startswith(("time/", "rate/", "system/"))}
            for row in run.scalars()
        ]
        for run in runs
    ]
    assert rows[0] == rows[1]


def test_a_checksum_sees_every_byte_and_name():
    weights = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3, dtype=torch.bfloat16)}
    whole = weights_checksum(weights)
    assert weights_checksum(dict(reversed(weights.items()))) == whole
    assert weights_checksum({**weights, "a": torch.tensor([2.0, 1.0])}) != whole
    assert weights_checksum({"b": weights["a"], "a": weights["b"]}) != whole
    assert weights_checksum({**weights, "a": torch.tensor([1.0, 2.0 + 2**-22])}) != whole
