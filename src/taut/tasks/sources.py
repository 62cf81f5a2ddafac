"""Rows of data, wherever they are: files, folders, the hub, or generated tasks."""

from __future__ import annotations

import csv
import json
import logging
import re
from pathlib import Path
from typing import Any

from taut.tasks.reasoning import PREFIX, generate_rows

Row = dict[str, Any]

READERS = {".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
HUB_ID = re.compile(r"[a-zA-Z0-9][\w.-]*/[\w.-]+(:[\w.-]*){0,2}")


def read_rows(path: str, seed: int = 0) -> list[Row]:
    """Every row of one source, in its order.

    `path` is a file (.json, .csv, .tsv, .parquet, anything else JSONL), a folder of such files or one that
    `datasets` saved, a hub id as `name`, `name:config` or `name:config:split` (the split is `train` when not
    named), or `reasoning-gym:task?argument=value`, whose tasks are drawn with `seed`.
    Raises ValueError where it is missing, unreadable or empty, and ImportError where a library for it is.
    """
    file = Path(path)
    if path.startswith(PREFIX):
        rows = generate_rows(path, seed)
    elif file.is_dir():
        rows = _read_folder(file)
    elif file.is_file() and file.suffix in READERS:
        options = {"delimiter": "\t"} if file.suffix == ".tsv" else {}
        _check_file(file, options.get("delimiter", ","))
        rows = _load(path, READERS[file.suffix], data_files=str(file), **options)
    elif not file.exists() and HUB_ID.fullmatch(path) and not file.suffix.startswith((*READERS, ".jsonl")):
        name, config, split = (*path.split(":"), "", "")[:3]
        rows = _load(path, name, config or None, split=split or "train")
    else:
        rows = read_jsonl(path)
    if not rows:
        raise ValueError(f"data {path} holds no rows")
    return rows


def read_jsonl(path: str) -> list[Row]:
    """One JSON object a line; blank lines are skipped.

    Raises ValueError where the file is missing, empty, or a line is not a JSON object, naming the line.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"data file {path} does not exist")
    with file.open("rb") as lines:
        rows = [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ValueError(f"data file {path} holds no rows")
    return rows


def _row(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_each_once)
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error.msg}") from error
    except RecursionError:
        raise ValueError(f"{where} nests too deeply to be read: write it flat") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object, not a {type(row).__name__}")
    return row


def _each_once(pairs: list[tuple[str, Any]]) -> Row:
    """json itself would keep the last of two values and say nothing."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)!r} is there twice: rename one"
        )
    return row


def _check_file(file: Path, delimiter: str) -> None:
    """Raises ValueError for what `datasets` fails on with no reason, or renames and says nothing."""
    if not file.stat().st_size:
        raise ValueError(f"data file {file} holds no rows")
    if READERS[file.suffix] == "csv":
        with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            names = next(csv.reader(lines, delimiter=delimiter), [])
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"data file {file} has the column {twice[0]!r} twice: rename one")


def _read_folder(folder: Path) -> list[Row]:
    if (folder / "state.json").is_file():
        return _datasets().load_from_disk(str(folder)).to_list()
    if not any(folder.iterdir()):
        raise ValueError(f"data folder {folder} is empty")
    return _load(str(folder), str(folder))


def _load(path: str, *arguments: str | None, split: str = "train", **options: str) -> list[Row]:
    datasets = _datasets()
    try:
        return datasets.load_dataset(*arguments, split=split, **options).to_list()
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise ValueError(f"data {path} could not be read: {reason}") from error


def _datasets() -> Any:
    """The library, without its progress bars, and without the log of errors that it also raises."""
    try:
        import datasets
    except ImportError as error:
        raise ImportError("data other than JSONL files needs datasets: pip install 'taut[data]'") from error
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(logging.CRITICAL)
    return datasets
