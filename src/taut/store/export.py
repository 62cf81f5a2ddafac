"""A run as files for other tools: JSON Lines, CSV, Parquet or TensorBoard."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from taut.store.batch import StoredBatch, token_rows
from taut.store.codec import to_json
from taut.store.record import ReplyRecord
from taut.store.run import Run
from taut.trackers.tensorboard import EventFile, need_tensorboard

ExportFormat = Literal["jsonl", "csv", "parquet", "tensorboard"]
TABLES = ("scalars", "replies", "tokens")
REPLY_COLUMNS = (
    *("step", "reply", "prompt_index", "group", "sample", "version", "prompt", "text", "length"),
    *("reward", "terms", "failures", "extra", "finish_reason", "bootstrap_value"),
)
TOKEN_COLUMNS = (
    *("step", "reply", "position", "id", "mask", "behavior_logprob", "old_logprob", "ref_logprob"),
    *("entropy", "value", "reward", "advantage", "return", "seen_at", "logprobs"),
)
Rows = list[dict[str, Any]]
OpenTable = Callable[[str], AbstractContextManager[Callable[[Rows], None]]]


def export_run(
    run: Run,
    directory: Path | str,
    format: ExportFormat,
    tables: Collection[str] = TABLES,
    step: int | None = None,
) -> None:
    """Writes the run's tables, or those of them that are named, into a new directory; with a `step` only that one's.

    "jsonl", "csv" and "parquet" make one file each of `scalars` (a row per step), `replies` (a row per reply of the
    steps that are kept) and `tokens` (a row per token of those: as `Run.tokens`, but `logprobs` lists all that
    was seen of it, and `seen_at` the optimiser steps where). JSON Lines and CSV hold NaN and infinities as the strings
    "NaN", "Infinity" and "-Infinity"; in CSV what is absent is an empty cell, and a list or a mapping is JSON.
    "tensorboard" holds the scalars.

    Raises:
        ValueError: the directory exists, the format is unknown, the step is not kept, or one that is kept is damaged.
        ImportError: the format's library is missing; names the `pip install` line that brings it.
    """
    choice = _Choice(tables, step)
    writers: dict[str, Callable[[Run, Path, _Choice], None]] = {
        "jsonl": _export_jsonl,
        "csv": _export_csv,
        "parquet": _export_parquet,
        "tensorboard": _export_tensorboard,
    }
    if format not in writers:
        raise ValueError(f"unknown export format {format!r}: choose from {', '.join(writers)}")
    if step is not None and step not in run.kept_steps():
        run.replies(step)  # says which steps are kept
    directory = Path(directory)
    if directory.exists():
        raise ValueError(f"{str(directory)!r} exists and is not overwritten: choose another place")
    beside = directory.with_name(f".{directory.name}.writing")
    try:
        writers[format](run, beside, choice)
    except BaseException:  # an interrupt, too, leaves no half of a table
        shutil.rmtree(beside, ignore_errors=True)
        raise
    beside.rename(directory)


@dataclass(frozen=True)
class _Choice:
    tables: Collection[str]
    step: int | None


def _export_jsonl(run: Run, directory: Path, choice: _Choice) -> None:
    @contextmanager
    def open_table(name: str) -> Iterator[Callable[[Rows], None]]:
        with (directory / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            yield lambda rows: file.writelines(to_json(row) + "\n" for row in rows)

    directory.mkdir(parents=True)
    _write_tables(run, open_table, choice)


def _export_csv(run: Run, directory: Path, choice: _Choice) -> None:
    columns = {"scalars": ("step", *_scalar_names(run)), "replies": REPLY_COLUMNS, "tokens": TOKEN_COLUMNS}

    @contextmanager
    def open_table(name: str) -> Iterator[Callable[[Rows], None]]:
        with (directory / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns[name])
            yield lambda rows: writer.writerows(
                [_cell(row.get(key)) for key in columns[name]] for row in rows
            )

    directory.mkdir(parents=True)
    _write_tables(run, open_table, choice)


def _cell(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    return to_json(value).strip('"')  # the words for what is not finite stand without the quotes of JSON


def _export_parquet(run: Run, directory: Path, choice: _Choice) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'taut[parquet]'") from None
    schemas = _parquet_schemas(pa, _scalar_names(run))

    @contextmanager
    def open_table(name: str) -> Iterator[Callable[[Rows], None]]:
        with parquet.ParquetWriter(directory / f"{name}.parquet", schemas[name]) as writer:
            yield lambda rows: writer.write_table(pa.Table.from_pylist(rows, schemas[name]))

    directory.mkdir(parents=True)
    _write_tables(run, open_table, choice)


def _scalar_names(run: Run) -> list[str]:
    return sorted({name for row in run.scalars() for name in row} - {"step"})


def _export_tensorboard(run: Run, directory: Path, choice: _Choice) -> None:
    need_tensorboard("--format tensorboard needs it")
    file = EventFile(directory)
    for row in run.scalars():
        file.add_scalars(row.pop("step"), row, run.created)
    file.close()


def _parquet_schemas(pa: Any, scalars: list[str]) -> dict[str, Any]:
    integer, real, real32, text = pa.int64(), pa.float64(), pa.float32(), pa.string()
    replies = {
        **dict.fromkeys(("step", "reply", "prompt_index", "group", "sample", "version", "length"), integer),
        **dict.fromkeys(("prompt", "text", "finish_reason"), text),
        **dict.fromkeys(("reward", "bootstrap_value"), real),
        "terms": pa.map_(text, real),
        "failures": pa.map_(text, text),
        "extra": text,
    }
    tokens = {
        **dict.fromkeys(("step", "reply", "position", "id"), integer),
        **dict.fromkeys(("behavior_logprob", "old_logprob", "ref_logprob"), real32),
        **dict.fromkeys(("entropy", "value", "reward", "advantage", "return"), real32),
        "mask": pa.bool_(),
        "seen_at": pa.list_(integer),
        "logprobs": pa.list_(real32),
    }
    tables = {
        "scalars": {"step": integer} | dict.fromkeys(scalars, real),
        "replies": replies,
        "tokens": tokens,
    }
    return {name: pa.schema(list(columns.items())) for name, columns in tables.items()}


def _write_tables(run: Run, open_table: OpenTable, choice: _Choice) -> None:
    with ExitStack() as stack:
        write = {name: stack.enter_context(open_table(name)) for name in TABLES if name in choice.tables}
        if "scalars" in write:
            write["scalars"]([row for row in run.scalars() if choice.step in (None, row["step"])])
        steps = run.kept_steps() if choice.step is None else [choice.step]
        for step in steps if {"replies", "tokens"} & write.keys() else ():
            try:
                records, batch = run.replies(step), run.batch(step)
            except ValueError:
                if step in run.kept_steps():
                    raise
                continue  # the run goes on, and its retention dropped the step meanwhile
            if "replies" in write:
                write["replies"](_reply_rows(step, records))
            if "tokens" in write:
                write["tokens"](_token_rows(batch, records))


def _reply_rows(step: int, replies: list[ReplyRecord]) -> Rows:
    return [
        {
            "step": step,
            "reply": number,
            "prompt_index": reply.prompt_index,
            "group": reply.group,
            "sample": reply.sample,
            "version": reply.version,
            "prompt": reply.prompt_text,
            "text": reply.text,
            "length": len(reply.ids),
            "reward": reply.reward,
            "terms": dict(reply.terms),
            "failures": dict(reply.failures),
            "extra": to_json(reply.extra),
            "finish_reason": reply.finish_reason,
            "bootstrap_value": reply.bootstrap_value,
        }
        for number, reply in enumerate(replies)
    ]


def _token_rows(batch: StoredBatch, replies: list[ReplyRecord]) -> Rows:
    """As `Run.tokens`, with every sighting in place of the latest."""
    seen_at: list[list[int]] = [[] for _ in replies]
    seen: list[list[list[float]]] = [[] for _ in replies]
    for optimizer_step, update in enumerate(batch.updates):
        for reply, logprobs in zip(update.rows, update.logprobs, strict=True):
            seen_at[reply].append(optimizer_step)
            seen[reply].append(logprobs.tolist())
    rows, told = token_rows(replies, latest={}), [reply.observed.tolist() for reply in replies]
    for row in rows:
        del row["logprob"]
        row["step"] = batch.step
        row["seen_at"] = seen_at[row["reply"]]
        row["logprobs"] = [
            None if told[row["reply"]][row["position"]] else logprobs[row["position"]]
            for logprobs in seen[row["reply"]]
        ]
    return rows
