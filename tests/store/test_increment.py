"""What a reader is told of a run that goes on, is taken up again, or is made anew."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_up import CONFIG, make_run, make_step

from taut.store import Run, RunWriter, increment
from taut.store.database import connect_for_writing, set_meta
from taut.store.increment import Cursor, read_increment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run") / "run.db"


def test_the_first_increment_is_all_there_is(path: Path) -> None:
    news, told = read_increment(path, None)
    assert news["reset"] is True
    assert news["status"] == "finished"
    assert news["steps"] == [1, 2, 3]
    assert news["scalars"]["reward/mean"] == [0.01, 0.02, 0.03]
    assert news["more"] is False
    assert told == (int(Run(path.parent).created * 1e6), 3, 0, 0)


def test_then_only_what_is_new_is_told(path: Path) -> None:
    _, told = read_increment(path, None)
    with RunWriter.resume(path.parent) as writer:
        writer.append(make_step(4))
        writer.event("note", "hello", "a message")
        news, later = read_increment(path, told)
    assert (news["reset"], news["status"]) == (False, "running")
    assert (news["ids"], news["steps"], news["scalars"]["reward/mean"]) == ([4], [4], [0.04])
    assert [event["name"] for event in news["events"]] == ["hello"]
    assert news["superseded"] is None
    again, same = read_increment(path, later)
    assert (again["ids"], again["events"], again["scalars"], same) == ([], [], {}, later)


def test_steps_that_are_taken_again_are_told_by_their_ids(path: Path) -> None:
    _, told = read_increment(path, None)
    with RunWriter.resume(path.parent) as writer:
        writer.supersede_after(1)
        writer.append(make_step(2))
        news, later = read_increment(path, told)
    assert news["superseded"] == [2, 3]
    assert (news["ids"], news["steps"]) == ([4], [2])
    assert read_increment(path, later)[0]["superseded"] is None


def test_who_comes_later_never_hears_of_superseded_steps(path: Path) -> None:
    with RunWriter.resume(path.parent) as writer:
        writer.supersede_after(1)
        writer.append(make_step(2))
    news, _ = read_increment(path, None)
    assert (news["ids"], news["steps"]) == ([1, 4], [1, 2])


def test_a_run_made_anew_under_the_same_name_is_told_from_the_start(path: Path) -> None:
    _, told = read_increment(path, None)
    shutil.rmtree(path.parent)
    make_run(path.parent, range(1, 3))
    news, _ = read_increment(path, told)
    assert news["reset"] is True
    assert news["steps"] == [1, 2]


def test_absent_nan_and_infinite_scalars_differ(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        for step, scalars in enumerate([{"a": 1.0}, {"b": math.nan}, {"a": -math.inf, "b": 2.0}]):
            record = make_step(step)
            record.scalars = scalars
            writer.append(record)
    scalars = read_increment(tmp_path / "run" / "run.db", None)[0]["scalars"]
    assert scalars["a"] == [1.0, None, -math.inf]
    assert scalars["b"][0] is None
    assert math.isnan(scalars["b"][1])
    assert scalars["b"][2] == 2.0


def test_a_long_run_comes_in_parts_that_make_the_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(increment, "MOST_BATCHES", 2)
    first, told = read_increment(path, None)
    second, told = read_increment(path, told)
    assert (first["ids"], first["more"]) == ([1, 2], True)
    assert (second["ids"], second["more"]) == ([3], False)
    assert read_increment(path, told)[0]["ids"] == []


@pytest.mark.parametrize(
    "text", ["", "-", "1.2.3", "1.2.3.4.5", "1.2.3.x", "1.-2.3.4", "1.2.3.²", "9" * 30 + ".0.0.0"]
)
def test_what_is_no_cursor_is_none(text: str) -> None:
    assert Cursor.parse(text) is None


def test_a_cursor_is_read_as_it_is_written() -> None:
    cursor = Cursor(1_790_000_000_123_456, 7, 8, 9)
    assert Cursor.parse(str(cursor)) == cursor


def test_a_glance_has_the_numbers_of_the_rows(tmp_path: Path) -> None:
    run = Run.open(make_run(tmp_path / "run", range(9)))
    seen = run.glance()
    assert seen["steps"] == 8
    assert seen["course"].tolist() == [step / 100 for step in range(9)]
    assert seen["reward/mean"] == pytest.approx((4 + 5 + 6 + 7 + 8) / 500)
    assert seen["clip/binding"] == pytest.approx(0.07)
    assert seen["eval/accuracy"] is None
    assert isinstance(seen["course"], np.ndarray)


def test_a_glance_at_a_closed_run_leaves_no_trace(path: Path) -> None:
    def trace() -> list[tuple[str, int]]:
        return sorted((file.name, file.stat().st_mtime_ns) for file in [path.parent, *path.parent.iterdir()])

    before = trace()
    assert Run(path.parent).glance()["steps"] == 3
    assert trace() == before


def test_a_glance_sees_what_a_writer_has_not_put_into_the_file_yet(path: Path) -> None:
    with RunWriter.resume(path.parent) as writer:
        writer.append(make_step(4))
        assert path.with_name("run.db-wal").stat().st_size > 0
        assert Run(path.parent).glance()["steps"] == 4
        assert Run(path.parent).glance()["status"] == "running"


def test_a_glance_refuses_what_another_taut_wrote(path: Path) -> None:
    db = connect_for_writing(path)
    set_meta(db, schema_version=1)
    db.close()
    with pytest.raises(ValueError, match="schema 1"):
        Run(path.parent).glance()


def test_a_run_that_is_gone_by_now_is_told(path: Path) -> None:
    shutil.rmtree(path.parent)
    with pytest.raises(ValueError, match="cannot be opened"):
        read_increment(path, None)


def test_an_increment_refuses_what_another_taut_wrote(path: Path) -> None:
    db = connect_for_writing(path)
    set_meta(db, schema_version=99)
    db.close()
    with pytest.raises(ValueError, match="schema 99"):
        read_increment(path, None)
