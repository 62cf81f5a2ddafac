"""Taut and TRL in turn: the rows of a record, and the claims made from them."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from record import claim, write_record

from peers.models import model_for
from peers.pairs import Row, alternate, ratio_of
from peers.protocol import Answer, Side
from peers.work import Work, as_row

BENCHMARKS = Path(__file__).resolve().parents[1]
Claim = dict[str, Any]


def arguments(description: str | None, works: Sequence[Work]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=[work.name for work in works], nargs="*", help="some of the batches"
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1, help="batches of each side before the first pair")
    parser.add_argument("--no-record", action="store_true")
    return parser.parse_args()


def run(
    options: argparse.Namespace,
    name: str,
    algorithm: str,
    works: Sequence[Work],
    trl: Path,
    claims_of: Callable[[Sequence[Row]], list[Claim]],
) -> None:
    """Measures, prints the claims and writes the record."""
    load = os.getloadavg()[0]
    chosen = [work for work in works if not options.only or work.name in options.only]
    rows = [
        row
        for work in chosen
        for row in compare(work, algorithm, trl, options.pairs, options.warm_up + 2 * (work.name == "a"))
    ]
    for work, row in summaries(rows).items():
        print(
            f"({work}) Taut's seconds: " + ", ".join(f"{name} {s:.3g}" for name, s in row["phases"].items())
        )
        print(
            f"({work}) memory {row['ours_peak_bytes'] / 1e9:.2f} GB, TRL {row['peer_peak_bytes'] / 1e9:.2f} GB"
        )
    claims = claims_of(rows)
    for each in claims:
        print(f"{'holds' if each['holds'] else 'MISSED':7} {each['what']}: {each['value']} ({each['goal']})")
    if not options.no_record:
        print(write_record(name, rows, claims, load))


def compare(work: Work, algorithm: str, trl: Path, pairs: int, warm_up: int) -> list[Row]:
    """A row for each pair, and one of all: ratio, memory, where Taut's seconds go, the machine's ceilings."""
    work = replace(work, threads=work.threads or os.cpu_count())
    folder, weights = model_for(work)
    print(f"({work.name}) {algorithm}, {weights}", flush=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        taut_side(work, algorithm, folder, Path(scratch)) as ours,
        trl_side(trl, work, algorithm, folder, Path(scratch)) as peer,
    ):
        answers = alternate(ours, peer, pairs, warm_up)
        peaks = ours.peak_bytes(), peer.peak_bytes()
        limits = ours.ask("ceilings")
    return rows_of(work, algorithm, weights, answers, peaks, limits)


def taut_side(work: Work, algorithm: str, model: Path, scratch: Path) -> Side:
    paths = {"PYTHONPATH": os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent / "src")])}
    return _side("taut", sys.executable, "peers.taut_side", work, algorithm, model, scratch, paths)


def trl_side(python: Path, work: Work, algorithm: str, model: Path, scratch: Path) -> Side:
    paths = {"PYTHONPATH": str(BENCHMARKS)}
    return _side("trl", str(python), "peers.trl_side", work, algorithm, model, scratch, paths)


def _side(
    name: str,
    python: str,
    module: str,
    work: Work,
    algorithm: str,
    model: Path,
    scratch: Path,
    paths: Mapping[str, str],
) -> Side:
    folder = scratch / f"{name}-side"
    folder.mkdir()
    threads = {"OMP_NUM_THREADS": str(work.threads)} if work.threads else {}
    command = [python, "-m", module, work.name, algorithm, str(model), str(folder)]
    return Side(name, command, {**paths, **threads, "TOKENIZERS_PARALLELISM": "false"})


def rows_of(
    work: Work,
    algorithm: str,
    weights: str,
    answers: Sequence[tuple[Answer, Answer]],
    peaks: tuple[int, int],
    limits: Answer,
) -> list[Row]:
    same = {"work": work.name, "algorithm": algorithm}
    pairs = [
        {**same, "kind": "pair", "pair": number, "ours": ours, "peer": peer}
        for number, (ours, peer) in enumerate(answers)
    ]
    seconds = [(ours["seconds"], peer["seconds"]) for ours, peer in answers]
    phases = {
        phase: statistics.median(ours["phases"].get(phase, 0.0) for ours, _ in answers)
        for phase in sorted({phase for ours, _ in answers for phase in ours["phases"]})
    }
    phases["rest"] = statistics.median(
        ours["seconds"] - ours["phases"]["step"] - ours["phases"]["store"] for ours, _ in answers
    )
    learner = phases.get("update", 0.0) + phases.get("score", 0.0)
    summary = {
        **same,
        "kind": "summary",
        **as_row(work),
        "weights": weights,
        **ratio_of(seconds),
        "ours_batches_per_second": 1 / statistics.median(ours for ours, _ in seconds),
        "peer_batches_per_second": 1 / statistics.median(peer for _, peer in seconds),
        "ours_peak_bytes": peaks[0],
        "peer_peak_bytes": peaks[1],
        "memory_share": peaks[0] / peaks[1],
        "phases": phases,
        "recorded_share": (phases.get("metrics", 0.0) + phases.get("store", 0.0))
        / ratio_of(seconds)["ours_seconds"],
        **limits,
        "learner_share_of_gemm": limits["update_operations"] / learner / limits["gemm_per_second"],
    }
    return [*pairs, summary]


def at_least(row: Row, what: str, key: str, goal: float) -> Claim:
    value = row[key]
    return claim(f"({row['work']}) {what}", round(value, 3), f"at least {goal}", value >= goal)


def at_most(row: Row, what: str, key: str, goal: float) -> Claim:
    value = row[key]
    return claim(f"({row['work']}) {what}", round(value, 3), f"at most {goal}", value <= goal)


def summaries(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["work"]: row for row in rows if row["kind"] == "summary"}
