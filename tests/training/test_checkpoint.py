"""Checkpoint folders: whole or not there, told from damaged ones, and the right ones kept."""

import json

import pytest

from taut.training.checkpoint import (
    NECESSARY,
    checkpoint_folder,
    checkpoint_steps,
    clean_up,
    damage,
    keep_newest_and_best,
    newest_checkpoint,
    write_checkpoint,
)


def write(folder):
    (folder / "training").mkdir()
    for name in NECESSARY:
        (folder / name).write_text("{}")
    (folder / "weights").write_bytes(b"abc")


def test_a_checkpoint_has_a_manifest_of_all_its_files(tmp_path):
    folder = write_checkpoint(tmp_path, 40, write, accuracy=0.5)
    assert folder == tmp_path / "step_000040"
    assert json.loads((folder / "manifest.json").read_text()) == {
        "step": 40,
        "accuracy": 0.5,
        "files": {
            "config.json": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "training/learner.pt": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "training/loop.json": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "weights": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        },
    }
    assert damage(folder) is None
    assert list(tmp_path.iterdir()) == [folder]


def test_damage_is_named(tmp_path):
    folder = write_checkpoint(tmp_path, 1, write)
    (folder / "weights").write_bytes(b"abd")
    assert damage(folder) == "weights is not as it was written"
    (folder / "weights").unlink()
    assert damage(folder) == "weights is not as it was written"
    (folder / "manifest.json").write_text('{"step": 1, "fil')
    assert damage(folder) == "it has no readable manifest.json"


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ("[]", "it has no readable manifest.json"),
        ("null", "it has no readable manifest.json"),
        ('{"files": []}', "it has no readable manifest.json"),
        ('{"step": 1, "files": {}}', "its manifest.json does not name config.json"),
        ('{"step": 1, "accuracy": "high"}', "it has no readable manifest.json"),
    ],
)
def test_a_manifest_of_another_shape_is_damage_and_breaks_nothing(tmp_path, manifest, told):
    folder = write_checkpoint(tmp_path, 1, write)
    (folder / "manifest.json").write_text(manifest)
    assert damage(folder) == told
    write_checkpoint(tmp_path, 2, write, accuracy=0.5)
    keep_newest_and_best(tmp_path, 1)
    assert checkpoint_steps(tmp_path) == [2]


def test_a_checkpoint_under_the_name_of_another_is_damage(tmp_path):
    folder = write_checkpoint(tmp_path, 1, write).rename(tmp_path / "step_000002")
    assert damage(folder) == "its manifest.json is that of step 1"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("file write failed")])
def test_a_checkpoint_that_fails_leaves_nothing_but_the_last(tmp_path, error):
    write_checkpoint(tmp_path, 1, write)

    def fail(folder):
        write(folder)
        raise error

    with pytest.raises(OSError, match=f"step_000002 could not be written, .* MB free.*: .*{error.args[-1]}"):
        write_checkpoint(tmp_path, 2, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000001"]


def test_the_newest_that_is_whole_is_taken_and_the_damaged_are_told(tmp_path):
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step, write)
    (tmp_path / "step_000003" / "weights").unlink()
    (tmp_path / "step_000002" / "weights").write_bytes(b"")
    told = []
    assert newest_checkpoint(tmp_path, told.append).name == "step_000001"
    assert told == [
        f"the checkpoint step_00000{step} is damaged: weights is not as it was written; step_000001 is taken"
        for step in (3, 2)
    ]
    (tmp_path / "step_000001" / "manifest.json").unlink()
    with pytest.raises(
        ValueError, match="no checkpoint that is whole: the checkpoint step_000003 is damaged"
    ):
        newest_checkpoint(tmp_path)


def test_steps_are_numbers(tmp_path):
    for step in (1_000_000, 999_999, 7):
        write_checkpoint(tmp_path, step, write)
    (tmp_path / ".step_000008.writing").mkdir()
    (tmp_path / "damaged_step_000009").mkdir()
    assert checkpoint_steps(tmp_path) == [7, 999_999, 1_000_000]
    assert newest_checkpoint(tmp_path).name == "step_1000000"
    clean_up(tmp_path)
    assert not (tmp_path / ".step_000008.writing").exists()


@pytest.mark.parametrize(
    ("accuracies", "keep", "kept"),
    [
        ({10: 0.5, 20: 0.7, 30: 0.6, 40: 0.65}, 2, [20, 30, 40]),
        ({10: 0.5, 20: 0.7, 30: 0.7, 40: 0.65}, 1, [30, 40]),  # of equals the newest
        ({10: None, 20: None, 30: None}, 1, [30]),
        ({10: 0.1, 20: None, 30: None}, 1, [10, 30]),
        ({10: 0.0, 20: 0.0}, 3, [10, 20]),
    ],
)
def test_the_newest_and_the_best_are_kept(tmp_path, accuracies, keep, kept):
    for step, accuracy in accuracies.items():
        write_checkpoint(tmp_path, step, write, accuracy)
    keep_newest_and_best(tmp_path, keep)
    assert checkpoint_steps(tmp_path) == kept
    assert {path.name for path in tmp_path.iterdir()} == {
        checkpoint_folder(tmp_path, step).name for step in kept
    }
