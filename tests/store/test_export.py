"""Exports are read again by the formats' own readers."""

import csv
import json
import math
import sqlite3
import sys
from contextlib import closing

import pytest
from made_up import CONFIG, make_run, make_step

from taut.store import Run, RunWriter, StepRecord
from taut.store.export import export_run


def read_jsonl(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def run(tmp_path):
    return Run.open(make_run(tmp_path / "run"))


def check_tables(run, scalars, replies, tokens):
    assert scalars == run.scalars()
    assert len(replies) == 3 * 4
    assert replies[5]["step"] == 2
    assert (replies[5]["reply"], replies[5]["text"], replies[5]["reward"]) == (1, "46;", 1.0)
    assert replies[5]["bootstrap_value"] is None
    assert dict(replies[5]["terms"]) == {"exact": 0.1, "format": 1.0}
    assert len(tokens) == 3 * 13
    given = make_step(1)
    token = tokens[4]  # the second token of the second reply, which optimiser steps 1 and 3 saw
    assert (token["step"], token["reply"], token["position"]) == (1, 1, 1)
    assert token["id"] == given.replies[1].ids[1]
    assert token["old_logprob"] == given.replies[1].old_logprobs[1]
    assert token["ref_logprob"] is None
    assert token["seen_at"] == [1, 3]
    assert token["logprobs"] == [given.optimizer_steps[number].logprobs[0][1] for number in (1, 3)]


def test_jsonl(tmp_path, run):
    export_run(run, tmp_path / "out", "jsonl")
    check_tables(
        run, *(read_jsonl(tmp_path / "out" / f"{t}.jsonl") for t in ("scalars", "replies", "tokens"))
    )


def test_parquet(tmp_path, run):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_run(run, tmp_path / "out", "parquet")
    tables = [parquet.read_table(tmp_path / "out" / f"{t}.parquet") for t in ("scalars", "replies", "tokens")]
    check_tables(run, *(table.to_pylist() for table in tables))


def test_csv_holds_every_cell(tmp_path, run):
    export_run(run, tmp_path / "csv", "csv")
    export_run(run, tmp_path / "jsonl", "jsonl")
    for table in ("scalars", "replies", "tokens"):
        with (tmp_path / "csv" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file))
        wanted = read_jsonl(tmp_path / "jsonl" / f"{table}.jsonl")
        assert set(found[0]) == {name for row in wanted for name in row}
        for row, same in zip(found, wanted, strict=True):
            for name, cell in row.items():
                value = same.get(name)
                plain = cell if isinstance(value, str) else json.loads(cell) if cell else None
                assert plain == value, (table, name)


def test_csv_marks_what_is_not_finite_and_quotes_a_line_feed(tmp_path):
    step = make_step(1)
    step.replies[0].text = 'a "b",\nc'
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(StepRecord(1, {}, {"a": math.nan, "b": -math.inf, "c": 0.5}, step.replies))
    export_run(Run.open(tmp_path / "run"), tmp_path / "out", "csv")
    assert (tmp_path / "out" / "scalars.csv").read_text() == "step,a,b,c\n1,NaN,-Infinity,0.5\n"
    with (tmp_path / "out" / "replies.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["text"] == 'a "b",\nc'


def test_one_table_of_one_step(tmp_path, run):
    export_run(run, tmp_path / "out", "jsonl", tables=["replies"], step=2)
    (file,) = (tmp_path / "out").iterdir()
    assert {row["step"] for row in read_jsonl(file)} == {2}
    with pytest.raises(ValueError, match="holds no replies of step 9; steps kept: 1-3"):
        export_run(run, tmp_path / "more", "csv", step=9)
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    ("table", "column", "cell", "words"),
    [
        ("replies", "advantages", b"\0" * 8, r"advantages holds 2 entries for \d tokens"),
        ("replies", "old_logprobs", b"\0" * 7, "old_logprobs holds 7 bytes, no multiple of 4"),
        ("replies", "mask", b"\1" * 9, r"mask holds 9 entries for \d tokens"),
        ("replies", "ids", b"\0" * 6, "ids holds 6 bytes, no multiple of 4"),
        ("updates", "logprobs", b"\0" * 400, r"logprobs holds 100 entries for \d tokens"),
    ],
)
def test_a_step_that_is_damaged_is_told_and_not_left_out(tmp_path, run, table, column, cell, words):
    with closing(sqlite3.connect(run.directory / "run.db")) as db, db:
        step = db.execute("SELECT id FROM batches WHERE step = 2").fetchone()[0]
        db.execute(f"UPDATE {table} SET {column} = ? WHERE batch_id = ? AND reply = 0", (cell, step))
    with pytest.raises(ValueError, match=f"run 'run': step 2 is damaged .{words}.*restore it"):
        export_run(run, tmp_path / "out", "jsonl")
    assert not (tmp_path / "out").exists()
    export_run(run, tmp_path / "out", "jsonl", step=1)


def test_tensorboard(tmp_path, run):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    export_run(run, tmp_path / "out", "tensorboard")
    (file,) = (tmp_path / "out").iterdir()
    events = [event for event in reader.EventFileLoader(str(file)).Load() if event.HasField("summary")]
    assert [event.step for event in events] == [1, 2, 3]
    values = {value.tag: value.tensor.float_val[0] for value in events[2].summary.value}
    assert values == pytest.approx({"reward/mean": 0.03, "clip/binding": 0.07})


def test_jsonl_is_strict(tmp_path):
    step = make_step(1)
    step.replies[0].text = "\0 \u2028 🙂"
    step.replies[0].entropy[0] = math.nan
    with RunWriter.create(tmp_path / "run", CONFIG, facts={}) as writer:
        writer.append(StepRecord(1, {}, {"loss/policy": math.inf}, step.replies))
    export_run(Run.open(tmp_path / "run"), tmp_path / "out", "jsonl")
    assert read_jsonl(tmp_path / "out" / "scalars.jsonl") == [{"step": 1, "loss/policy": "Infinity"}]
    assert read_jsonl(tmp_path / "out" / "replies.jsonl")[0]["text"] == "\0 \u2028 🙂"
    assert read_jsonl(tmp_path / "out" / "tokens.jsonl")[0]["entropy"] == "NaN"


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "tensorboard"])
def test_nothing_is_overwritten(tmp_path, run, format):
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="out' exists and is not overwritten"):
        export_run(run, tmp_path / "out", format)
    assert not list((tmp_path / "out").iterdir())


def test_unknown_format(tmp_path, run):
    with pytest.raises(
        ValueError, match="unknown export format 'xlsx': choose from jsonl, csv, parquet, tensorboard"
    ):
        export_run(run, tmp_path / "out", "xlsx")


@pytest.mark.parametrize(("format", "library"), [("parquet", "pyarrow"), ("tensorboard", "tensorboard")])
def test_missing_library_names_the_extra(tmp_path, run, monkeypatch, format, library):
    for module in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'taut\[{format}\]'"):
        export_run(run, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()
