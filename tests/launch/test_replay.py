"""A stored step is taken once more, to the last bit; under other settings; and to find what ruins it."""

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch

from taut import cli
from taut.config import resolve
from taut.launch.local import train
from taut.launch.replay import replay
from taut.launch.resume import fork, resume
from taut.objective.policy import clip_statistics
from taut.store import Run
from taut.training.derive import clip_states
from taut.training.non_finite import NonFiniteError

CRITIC = {
    "algorithm.preset": "ppo",
    "algorithm.epochs": 2,
    "algorithm.minibatches": 2,
    "algorithm.whiten_advantages": True,
    "critic.normalize_values": True,
    "critic.learning_rate": 1e-2,
    "kl.target": 0.05,
    "kl.horizon": 8,
    "scoring.normalize": True,
    "optimizer.schedule": "cosine",
    "optimizer.warmup_steps": 3,
    "store.final_pass": True,
}  # fmt: skip
GROUPS = {"algorithm.preset": "grpo", "algorithm.dynamic_sampling": 2, "algorithm.epochs": 2}
LORA = {**CRITIC, "lora.rank": 2, "critic.shared": True}


@pytest.fixture
def small(own):
    """5 steps of 2 prompts, with checkpoints of the steps 2, 4 and 5, all kept."""
    return {
        **own, "run.steps": 5, "algorithm.prompts_per_step": 2, "data.eval_path": None,
        "checkpoint.every": 2, "checkpoint.keep": 9,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [CRITIC, GROUPS, LORA, {**CRITIC, "algorithm.max_staleness": 1}],
    ids=["critic", "groups", "lora", "sampled ahead"],
)
def test_a_step_repeats_to_the_last_bit_from_a_checkpoint_and_from_the_start(small, changes):
    run = train(resolve({**small, **changes})[0])
    torch.set_num_threads(1)
    found = replay(run.directory, 5)
    assert (found.start.step, found.differences, found.changes_of_machine) == (4, [], "")
    stored = run.optimizer_steps(5)
    losses = [update.scalars.get("loss/policy") for update in found.last.replayed.optimizer_steps]
    assert losses == [row.get("loss/policy") for row in stored]
    assert len(stored) > 1
    shutil.rmtree(run.directory / "checkpoints")
    found = replay(run.directory, 2)
    assert (found.start.step, found.differences) == (0, [])


@pytest.fixture
def plain(small):
    """The cheapest run there is."""
    return {**small, "algorithm.preset": "ppo-batch-mean", "algorithm.epochs": 2, "algorithm.minibatches": 2}


def test_other_settings_hold_in_the_step_alone_as_in_a_fork_on_the_same_replies(plain):
    run = train(resolve({**plain, "run.steps": 3})[0])
    changes = {"algorithm.clip_low": 0.0, "algorithm.clip_high": 0.001}
    found = replay(run.directory, 3, changes)
    assert (found.start.step, found.differences) == (2, [])
    assert {d.place for d in found.last.differences} >= {"optimiser step 1", "the batch"}
    forked = fork(
        run.directory, 2, {**changes, "run.name": "fork"}
    )  # its first step samples the same replies
    assert forked.facts["begun_anew"] == ["algorithm"]
    theirs = forked.optimizer_steps(3)
    ours = found.last.replayed.optimizer_steps
    for name in ("loss/policy", "grad/norm"):
        assert [update.scalars[name] for update in ours] == [row[name] for row in theirs]
    # Until its first step the update is the run's own: there the stored logprobs say what another clip would hold.
    [first, *_] = clip_states(run.batch(3), {"clip_low": 0.0, "clip_high": 0.001})
    assert clip_statistics(first)["clip/binding"] == 0.0
    assert found.last.replayed.scalars["clip/binding"] > found.last.stored.scalars["clip/binding"]
    assert replay(forked.directory, 3).differences == []

    from_start = replay(run.directory, 2, {"algorithm.epochs": 1})  # step 1 as recorded, step 2 otherwise
    assert from_start.differences == []
    assert len(from_start.last.replayed.optimizer_steps) == 2
    assert (
        from_start.last.replayed.optimizer_steps[0].scalars
        == from_start.last.stored.optimizer_steps[0].scalars
    )


def test_settings_that_ask_for_other_replies_or_weights_are_refused(plain):
    run = train(resolve({**plain, "run.steps": 1})[0])
    for key, value in {
        "sampling.temperature": 0.5,
        "algorithm.replies_per_prompt": 3,
        "model.path": "elsewhere",
        "lora.rank": 2,
        "run.seed": 3,
    }.items():
        with pytest.raises(ValueError, match=f"keeps the replies and weights that there were, and {key}"):
            replay(run.directory, 1, {key: value})


def forget(run, *steps):
    """As retention does."""
    with sqlite3.connect(run.directory / "run.db") as db:
        db.execute(f"UPDATE batches SET kept = 0 WHERE step IN ({', '.join(map(str, steps))})")


def test_steps_that_are_not_kept_are_named(plain):
    run = train(resolve(plain)[0])
    forget(run, 1, 3)
    with pytest.raises(
        ValueError,
        match=r"since the checkpoint of step 2, and those of steps 3 are not kept; kept are 2, 4-5\. ",
    ):
        replay(run.directory, 4)
    assert replay(run.directory, 5).start.step == 4
    weights = run.directory / "checkpoints/step_000004/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])  # a damaged checkpoint is none
    with pytest.raises(
        ValueError, match=r"since the checkpoint of step 2, and those of steps 3 are not kept"
    ):
        replay(run.directory, 5)
    shutil.rmtree(run.directory / "checkpoints")
    with pytest.raises(ValueError, match=r"since the beginning.*and those of steps 1, 3 are not kept"):
        replay(run.directory, 5)
    for step in (0, 6):
        with pytest.raises(ValueError, match=rf"has no step {step}; those whose replies are kept: 2, 4-5$"):
            replay(run.directory, step)


POISONED = """
def poisoned(prompts, completions, trainer_state, **columns):
    rewards = [float(number % 2) for number in range(len(prompts))]
    if trainer_state.global_step == 3:
        rewards[1] = 3e38  # of each call, of which there is one a prompt here
    return rewards
"""


def test_a_run_that_stops_names_the_command_that_finds_the_reply(plain, tmp_path, capsys):
    (tmp_path / "poison.py").write_text(POISONED)
    settings = {"reward": f"{tmp_path / 'poison.py'}:poisoned", "algorithm.advantage": "reward"}
    config = resolve({**plain, **settings})[0]
    with pytest.raises(NonFiniteError) as stopped:
        train(config)
    run = Run.open(Path(plain["run.root"]) / "own")
    command = str(stopped.value).splitlines()[-1].partition(" --bisect")[0]
    assert command == f"taut replay {run.directory} --step 3"

    assert cli.main([*command.split()[1:], "--bisect", "--json"]) == cli.DONE
    answer = json.loads(capsys.readouterr().out)
    assert answer["equal"]
    [row] = answer["culprits"]["rows"]
    assert row in (1, 3)
    assert answer["culprits"]["of"] == 2
    assert answer["culprits"]["replies"][0]["text"] == run.replies(3)[row].text
    assert answer["culprits"]["why"].startswith(f"the policy's loss on replies [{row}] is not finite")
    assert cli.main([*command.split()[1:], "--bisect"]) == cli.DONE
    shown = capsys.readouterr().out
    assert "every number is the stored one, bit for bit" in shown
    assert "1 reply alone brings it about" in shown

    cured = replay(run.directory, 3, {"scoring.clip": 1.0})
    assert cured.last.stopped == ""
    assert np.isfinite(cured.last.replayed.scalars["loss/policy"])
    with pytest.raises(ValueError, match="step 2 met only finite numbers"):
        replay(run.directory, 2, bisect=True)

    resumed = resume(run.directory)  # goes on past the step
    assert resumed.step_count == 5
    (run.directory / "checkpoints/step_000003").rename(run.directory / "aside")
    assert replay(run.directory, 4).differences == []


def test_a_step_that_was_tampered_with_is_told(plain, capsys):
    run = train(resolve({**plain, "run.steps": 2})[0])
    with sqlite3.connect(run.directory / "run.db") as db:
        db.execute("UPDATE scalars SET value = value + 1 WHERE name = 'entropy' AND batch_id = 3")
    assert cli.main(["replay", str(run.directory), "--step", "2"]) == cli.FAILED
    out = capsys.readouterr().out
    assert "1 quantities are not as they were stored" in out
    assert "step 2, the batch: entropy is" in out
