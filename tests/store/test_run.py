"""The tables of a run, its status, and what it refuses."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from made_up import CONFIG, make_run, make_step

from taut.store import Run, RunWriter
from taut.store.database import connect_for_writing, set_journal_mode, set_meta


def set_in_meta(directory, **values):
    db = connect_for_writing(directory / "run.db")
    set_meta(db, **values)
    db.close()


def test_config_facts_and_name(tmp_path):
    run = Run.open(make_run(tmp_path / "run"))
    assert run.name == "run"
    assert run.config == {"algorithm": {"epochs": 2}, "run": {"seed": 0}}
    assert run.facts == {"threads": 1}
    assert (run.directory / "checkpoints").is_dir()


def test_scalars_and_series(tmp_path):
    run = Run.open(make_run(tmp_path / "run"))
    assert run.scalars()[0] == {"step": 1, "reward/mean": 0.01, "clip/binding": 0.07}
    steps, values = run.series("reward/mean")
    assert steps.tolist() == [1, 2, 3]
    assert values.tolist() == [0.01, 0.02, 0.03]
    assert run.series("no/such")[0].shape == (0,)
    assert run.last("reward/mean") == 0.03
    assert run.last("no/such") is None


def test_optimizer_steps(tmp_path):
    rows = Run.open(make_run(tmp_path / "run")).optimizer_steps(1)
    assert len(rows) == 4
    assert rows[2] == {
        "optimizer_step": 2,
        "epoch": 1,
        "minibatch": 0,
        "applied": False,
        "loss/policy": -0.5,
        "grad/norm": 1.25,
    }


def test_tokens_hold_the_last_sighting(tmp_path):
    given = make_step(1)
    run = Run.open(make_run(tmp_path / "run"))
    first, second, third = (run.tokens(1, number) for number in range(3))
    assert len(first) == 3 + 5 + 1 + 4
    # reply 0 is seen at 0 and 2, reply 1 at 1 and 3
    assert [rows[0]["seen_at"] for rows in (first, second, third)] == [0, 0, 2]
    assert [rows[3]["seen_at"] for rows in (first, second, third)] == [None, 1, 1]
    assert [first[3]["logprob"], second[3]["logprob"]] == [None, given.optimizer_steps[1].logprobs[0][0]]
    assert third[0]["logprob"] == given.optimizer_steps[2].logprobs[0][0]


def test_a_token_row(tmp_path):
    given = make_step(1)
    row = Run.open(make_run(tmp_path / "run")).tokens(1, 1)[4]
    reply = given.replies[1]
    assert row == {
        "reply": 1,
        "position": 1,
        "id": reply.ids[1],
        "mask": reply.mask[1],
        "behavior_logprob": reply.behavior_logprobs[1],
        "old_logprob": reply.old_logprobs[1],
        "ref_logprob": None,
        "logprob": given.optimizer_steps[1].logprobs[0][1],
        "seen_at": 1,
        "entropy": reply.entropy[1],
        "value": None,
        "reward": None,
        "advantage": reply.advantages[1],
        "return": None,
    }
    assert [type(row[key]) for key in ("id", "mask", "logprob")] == [int, bool, float]


def test_steps_and_optimizer_steps_that_are_not_there_are_named(tmp_path):
    run = Run.open(make_run(tmp_path / "run"))
    for read in (run.replies, run.batch, run.optimizer_steps, lambda step: run.tokens(step, 0)):
        with pytest.raises(ValueError, match="'run' holds no replies of step 9; steps kept: 1-3"):
            read(9)
    with pytest.raises(ValueError, match="has 4 optimiser steps, counted from 0: there is no 4"):
        run.tokens(1, 4)


def test_events_after_an_id(tmp_path):
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.event("run", "start", "hello\0🙂")
        writer.event("check", "mismatch", "too far", level="error", step=3, data={"worst": 0.5})
    run = Run.open(tmp_path / "run")
    assert [event["message"] for event in run.events()] == ["hello\0🙂", "too far"]
    (event,) = run.events(after_id=1)
    del event["time"]
    assert event == {
        "id": 2,
        "step": 3,
        "kind": "check",
        "level": "error",
        "name": "mismatch",
        "message": "too far",
        "data": {"worst": 0.5},
    }


def test_status(tmp_path):
    writer = RunWriter.create(tmp_path / "run", CONFIG, facts={})
    run = Run.open(tmp_path / "run")
    assert run.status == "running"
    set_in_meta(tmp_path / "run", heartbeat=run.created - 61)
    assert run.status == "dead"
    writer.heartbeat()
    assert run.status == "running"
    writer.finish("interrupted")
    set_in_meta(tmp_path / "run", heartbeat=run.created - 61)
    assert run.status == "interrupted"
    writer.close()
    writer.close()


@pytest.mark.parametrize(
    ("error", "status"), [(None, "finished"), (RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_leaving_the_context_ends_the_run(tmp_path, error, status):
    try:
        with RunWriter.create(tmp_path / "run", CONFIG, facts={}):
            if error:
                raise error
    except (RuntimeError, KeyboardInterrupt):
        pass
    assert Run.open(tmp_path / "run").status == status


def test_existing_directory_is_never_written_into(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(ValueError, match=r"run' exists .* choose another name"):
        RunWriter.create(tmp_path / "run", CONFIG, facts={})
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.parametrize(("version", "what_to_do"), [(3, "pip install"), (1, "the Taut that wrote it")])
def test_another_schema_is_refused_by_name(tmp_path, version, what_to_do):
    set_in_meta(make_run(tmp_path / "mine"), schema_version=version)
    for use in (Run.open, RunWriter.resume):
        with pytest.raises(
            ValueError, match=rf"'mine' has store schema {version}, this Taut reads 2: .*{what_to_do}"
        ):
            use(tmp_path / "mine")


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere' holds no run"):
        Run.open(tmp_path / "nowhere")
    (tmp_path / "run.db").write_bytes(b"not a database at all, but long enough to be looked at" * 10)
    with pytest.raises(ValueError, match="cannot be read"):
        Run.open(tmp_path)


def test_resumed_run_supersedes_what_it_takes_again(tmp_path):
    make_run(tmp_path / "run", range(1, 6))
    with RunWriter.resume(tmp_path / "run") as writer:
        assert Run.open(tmp_path / "run").status == "running"
        writer.supersede_after(3)
        assert [row["step"] for row in Run.open(tmp_path / "run").scalars()] == [1, 2, 3]
        step = make_step(4)
        step.scalars = {"reward/mean": 0.9}
        writer.append(step)
    run = Run.open(tmp_path / "run")
    assert [row["step"] for row in run.scalars()] == [1, 2, 3, 4]
    assert run.step_count == 4
    assert run.series("reward/mean")[1].tolist() == [0.01, 0.02, 0.03, 0.9]
    everything = [(row["step"], row["superseded"]) for row in run.scalars(include_superseded=True)]
    assert everything == [(1, False), (2, False), (3, False), (4, True), (5, True), (4, False)]
    assert len(run.replies(4)) == 4
    with pytest.raises(ValueError, match="step 5; steps kept: 1-4"):
        run.replies(5)


def test_step_that_fails_to_store_leaves_nothing(tmp_path):
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(make_step(1))
        with pytest.raises(sqlite3.IntegrityError):
            writer.append(make_step(1))
        writer.append(make_step(2))
    run = Run.open(tmp_path / "run")
    assert run.step_count == 2
    assert len(run.replies(2)) == 4


def test_file_system_without_wal(tmp_path, monkeypatch):
    def connect(path):  # this locking style has no shared memory, like a network file system
        return sqlite3.connect(f"{path.as_uri()}?vfs=unix-dotfile", uri=True, isolation_level=None)

    db = connect(tmp_path / "probe.db")
    assert set_journal_mode(db) == "truncate"
    db.close()
    monkeypatch.setattr("taut.store.writer.set_journal_mode", lambda db: "truncate")
    make_run(tmp_path / "run")
    (event,) = Run.open(tmp_path / "run").events()
    assert (event["name"], event["level"]) == ("journal_mode", "warning")


def test_closed_run_on_a_read_only_disk(tmp_path, monkeypatch):
    make_run(tmp_path / "run #1?")
    monkeypatch.setattr("taut.store.database.os.access", lambda path, mode: False)
    assert Run.open(tmp_path / "run #1?").step_count == 3
    assert not (tmp_path / "run #1?" / "run.db-shm").exists()


def test_arrays_of_other_types_are_stored_as_float32(tmp_path):
    step = make_step(1)
    step.replies[0].entropy = [0.1, 0.2, 0.3]
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(step)
    assert Run.open(tmp_path / "run").replies(1)[0].entropy.tolist() == np.float32([0.1, 0.2, 0.3]).tolist()


def test_import_needs_no_torch():
    names = "torch", "transformers", "matplotlib", "pyarrow", "tensorboard"
    code = f"import sys, taut.store; print([name for name in {names} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_step_is_forced_to_the_disk_when_it_is_stored(tmp_path):
    """Else a power cut could leave a checkpoint of a step that the store lacks."""
    with RunWriter.create(tmp_path / "run", "", {}) as store:
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,), "2 is FULL"
