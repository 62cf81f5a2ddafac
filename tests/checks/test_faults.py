"""Each fault that is known to go unnoticed makes the check of its name fire; a healthy run makes none."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from taut.checks import standing
from taut.launch import local
from taut.models.checksum import weights_checksum
from taut.models.policy import Policy
from taut.objective.advantage import place_rewards
from taut.rollout.local import LocalSampler
from taut.store import Run
from taut.training import advantages, ppo, update
from taut.training import loss as loss_module
from taut.training.inspector import CheckFailedError, NoInspector
from taut.training.learner import LocalLearner

ARITHMETIC = {"finite", "rescoring", "mismatch", "micro-batches", "mask", "pads", "weights"}
"""What every run of the world is asked at its first step; a run with a reference is asked `kl-connected` too."""


@pytest.mark.parametrize(
    "preset", ["ppo", "ppo-batch-mean", "grpo", "rloo", "dapo", "gspo", "cispo", "reinforce++"]
)
def test_a_healthy_run_passes(run_world, verdicts, preset):
    seen = verdicts(run_world(algorithm__preset=preset, algorithm__minibatches=2))
    assert set(seen.values()) == {"pass"}
    assert set(seen) >= ARITHMETIC
    assert ("kl-connected" in seen) == (preset in ("ppo", "grpo", "rloo", "reinforce++"))


@pytest.mark.learning
@pytest.mark.parametrize("preset", ["ppo", "grpo", "rloo", "gspo", "dapo"])
def test_a_healthy_run_of_the_whole_length_passes(run_world, verdicts, monkeypatch, preset):
    """With 3 epochs: at 4 some of them clip 12 % of the tokens, and `clipped-share` says so."""
    monkeypatch.setattr(standing, "COSTLY_EVERY", 10)
    settings = {"run__steps": 40, "algorithm__epochs": 3, "algorithm__replies_per_prompt": 8}
    run = run_world(algorithm__preset=preset, **settings)
    events = [(e["step"], e["name"], e["message"]) for e in run.events() if e["level"] != "info"]
    assert events == []
    assert set(verdicts(run)) >= {*ARITHMETIC, "rewards-differ", "truncation", "entropy"}


class TemperatureSampler(LocalSampler):
    def generate(self, prompts, sampling):
        return super().generate(prompts, replace(sampling, temperature=1.3))


class CopySampler(LocalSampler):
    """Holds weights of its own, as an engine in another process does."""

    def __init__(self, policy, *rest):
        super().__init__(copy.deepcopy(policy), *rest)

    def load_weights(self, weights, version):
        super().load_weights(weights, version)
        self.policy.model.load_state_dict(weights)


class StaleSampler(CopySampler):
    def load_weights(self, weights, version):
        LocalSampler.load_weights(self, weights, version)


class DeafSampler(LocalSampler):
    """Knows no end of sequence, so that every reply is cut."""

    def __init__(self, policy, tokenizer, end_ids, *rest):
        super().__init__(policy, tokenizer, [], *rest)


def use_sampler(kind):
    return lambda patch: patch.setattr(local, "LocalSampler", kind)


def use_dropout(patch):
    init = LocalLearner.__init__

    def with_dropout(learner, *arguments):
        init(learner, *arguments)
        for module in learner.policy.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.1
                module.train()

    patch.setattr(LocalLearner, "__init__", with_dropout)


def shift_mask(by):
    def use(patch):
        collate = ppo.collate

        def shifted(rollouts, scores):
            batch = collate(rollouts, scores)
            mask, width = batch.response_mask, batch.response_mask.shape[1]
            return replace(batch, response_mask=F.pad(mask, (1, 1))[:, 1 - by : 1 - by + width])

        patch.setattr(ppo, "collate", shifted)

    return use


def round_logprobs(patch):
    forward = Policy.forward

    def rounded(policy, *arguments):
        logprobs, entropy = forward(policy, *arguments)
        return logprobs.bfloat16().float(), entropy

    patch.setattr(Policy, "forward", rounded)


def round_old_logprobs(patch):
    """Those that are stored for the minibatches after the first."""
    score = LocalLearner.score

    def rounded(learner, *arguments):
        batch = score(learner, *arguments)
        return replace(batch, old_logprobs=batch.old_logprobs.bfloat16().float())

    patch.setattr(LocalLearner, "score", rounded)


def detach_kl(patch):
    kl = loss_module.token_kl
    patch.setattr(loss_module, "token_kl", lambda *arguments: kl(*arguments).detach())


def forget_kl_in_reward(patch):
    patch.setattr(
        advantages, "kl_penalized_rewards", lambda rewards, _, mask, __: place_rewards(rewards, mask)
    )


def let_the_reference_move(patch):
    patch.setattr(Policy, "reference", lambda policy: policy)


def average_each_micro_batch(patch):
    policy_loss = update.policy_loss

    def averaged(logprobs, entropy, old, part, config, beta, _):
        return policy_loss(logprobs, entropy, old, part, config, beta, part.mask.sum().item())

    patch.setattr(update, "policy_loss", averaged)


def forget_the_mask(patch):
    """A statistic over pads: the advantages' mean."""
    patch.setattr(advantages, "whiten", lambda x, mask: (x - x.mean()) / x.std())


def spoil_a_gradient(patch):
    init = LocalLearner.__init__

    def spoiled(learner, *arguments):
        init(learner, *arguments)
        learner.policy.model.get_output_embeddings().weight.register_hook(lambda g: g * float("nan"))

    patch.setattr(LocalLearner, "__init__", spoiled)


FAULTS = {
    "temperature mismatch": (use_sampler(TemperatureSampler), {}, {"mismatch"}),
    "dropout on": (use_dropout, {}, {"rescoring", "mismatch"}),
    "mask shifted right": (shift_mask(1), {}, {"mask", "pads"}),
    "mask shifted left": (shift_mask(-1), {}, {"mask"}),
    "missing end of sequence": (use_sampler(DeafSampler), {}, {"truncation"}),
    "bfloat16 logprobs": (round_logprobs, {}, {"mismatch"}),
    "bfloat16 old logprobs": (round_old_logprobs, {"algorithm__minibatches": 2}, {"rescoring", "mismatch"}),
    "stale weights": (use_sampler(StaleSampler), {}, {"weights", "mismatch"}),
    "KL in the loss without gradient": (detach_kl, {"algorithm__preset": "grpo"}, {"kl-connected"}),
    "KL left out of the reward": (forget_kl_in_reward, {"algorithm__preset": "rloo"}, {"kl-connected"}),
    "reference that moves along": (let_the_reference_move, {"algorithm__preset": "grpo"}, {"kl-connected"}),
    "mean of each micro-batch": (average_each_micro_batch, {}, {"micro-batches"}),
    "pads in a statistic": (forget_the_mask, {"algorithm__preset": "ppo"}, {"pads"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_makes_its_check_fire(run_world, verdicts, monkeypatch, fault):
    inject, settings, expected = FAULTS[fault]
    inject(monkeypatch)
    seen = verdicts(run_world(**settings))
    assert {name for name, verdict in seen.items() if verdict != "pass"} == expected
    # Replies may be meant to be cut.
    assert all(seen[name] == ("warn" if name == "truncation" else "fail") for name in expected)


def test_a_sampler_with_a_copy_of_its_own_that_loads_weights_passes(run_world, verdicts, monkeypatch):
    monkeypatch.setattr(local, "LocalSampler", CopySampler)
    assert set(verdicts(run_world()).values()) == {"pass"}


def test_strict_ends_the_run_once_the_step_is_stored(run_world, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "LocalSampler", TemperatureSampler)
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
        [{k: v for k, v in row.items() if not k.startswith(("time/", "rate/"))} for row in run.scalars()]
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
