"""A run as files for other tools: JSON Lines, Parquet or TensorBoard."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from taut.store.batch import StoredBatch, token_rows
from taut.store.codec import to_json
from taut.store.record import ReplyRecord
from taut.store.run import Run
from taut.trackers.tensorboard import EventFile, need_tensorboard

ExportFormat = Literal["jsonl", "parquet", "tensorboard"]
Rows = list[dict[str, Any]]
OpenTable = Callable[[str], AbstractContextManager[Callable[[Rows], None]]]


def export_run(run: Run, directory: Path | str, format: ExportFormat) -> None:
    """Writes the run's tables into a new directory.

    "jsonl" and "parquet" make one file each of `scalars` (a row per step), `replies` (a row per reply of the
    steps that are kept) and `tokens` (a row per token of those: as `Run.tokens`, but `logprobs` lists all that
    was seen of it, and `seen_at` the optimiser steps where). JSON Lines hold NaN and infinities as the strings
    "NaN", "Infinity" and "-Infinity". "tensorboard" holds the scalars.

    Raises:
        ValueError: the directory exists, or the format is unknown.
        ImportError: the format's library is missing; names the `pip install` line that brings it.
    """
    writers = {"jsonl": _export_jsonl, "parquet": _export_parquet, "tensorboard": _export_tensorboard}
    if format not in writers:
        raise ValueError(f"unknown export format {format!r}: choose from {', '.join(writers)}")
    directory = Path(directory)
    if directory.exists():
        raise ValueError(f"{str(directory)!r} exists and is not overwritten: choose another place")
    beside = directory.with_name(f".{directory.name}.writing")
    try:
        writers[format](run, beside)
    except BaseException:  # an interrupt, too, leaves no half of a table
        shutil.rmtree(beside, ignore_errors=True)
        raise
    beside.rename(directory)


def _export_jsonl(run: Run, directory: Path) -> None:
    @contextmanager
    def open_table(name: str) -> Iterator[Callable[[Rows], None]]:
        with (directory / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            yield lambda rows: file.writelines(to_json(row) + "\n" for row in rows)

    directory.mkdir(parents=True)
    _write_tables(run, open_table)


def _export_parquet(run: Run, directory: Path) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'taut[parquet]'") from None
    schemas = _parquet_schemas(pa, sorted({name for row in run.scalars() for name in row} - {"step"}))

    @contextmanager
    def open_table(name: str) -> Iterator[Callable[[Rows], None]]:
        with parquet.ParquetWriter(directory / f"{name}.parquet", schemas[name]) as writer:
            yield lambda rows: writer.write_table(pa.Table.from_pylist(rows, schemas[name]))

    directory.mkdir(parents=True)
    _write_tables(run, open_table)


def _export_tensorboard(run: Run, directory: Path) -> None:
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


def _write_tables(run: Run, open_table: OpenTable) -> None:
    with ExitStack() as stack:
        scalars, replies, tokens = (
            stack.enter_context(open_table(name)) for name in ("scalars", "replies", "tokens")
        )
        scalars(run.scalars())
        for step in run.kept_steps():
            try:
                records, batch = run.replies(step), run.batch(step)
            except ValueError:
                continue  # the run goes on, and its retention dropped the step meanwhile
            replies(_reply_rows(step, records))
            tokens(_token_rows(batch, records))


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
