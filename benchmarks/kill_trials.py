"""Kills runs with SIGKILL at random moments, resumes each, and holds it to a run that was left alone.

The moments are spread evenly over sampling, update, checkpoint and store write, and drawn at random within. A run is
PPO with a critic on a small random model, 12 steps with a checkpoint every 3. One warm process forks each of them, so
that none waits for torch to be imported.

    python benchmarks/kill_trials.py [--trials 100] [--seed 0] [--no-record]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from record import claim, write_record

from taut.config import Config, resolve
from taut.launch.local import train
from taut.launch.resume import resume
from taut.launch.torch_setup import prepare_torch
from taut.launch.watchdog import Watchdog
from taut.launch.world import untrained_world_policy, world_tokenizer
from taut.models.save import save_model
from taut.store import Run, RunWriter, StepRecord
from taut.training import keeper
from taut.training.checkpoint import checkpoint_folder, checkpoint_steps, damage

STEPS, EVERY = 12, 3
SETTINGS = {
    "run.steps": STEPS,
    "run.threads": 1,
    "sampling.max_new_tokens": 5,
    "algorithm.preset": "ppo",
    "algorithm.prompts_per_step": 8,
    "algorithm.replies_per_prompt": 8,
    "algorithm.epochs": 2,
    "algorithm.minibatches": 2,
    "critic.normalize_values": True,
    "critic.learning_rate": 1e-3,
    "optimizer.learning_rate": 1e-3,
    "optimizer.schedule": "cosine",
    "kl.target": 6.0,
    "scoring.normalize": True,
    "checkpoint.every": EVERY,
    "eval.every": EVERY,
    "eval.limit": 4,
}
WRITING, WRITTEN = "writing a checkpoint", "checkpoint written"
STORING, STORED = "writing a step", "step written"
ENDS = {WRITING: WRITTEN, STORING: STORED}
"""What threads of their own do beside the loop's phases: by the event that begins it the one that ends it."""
BESIDE = {*ENDS, *ENDS.values()}
MOMENTS = {"sampling": "sample", "update": "update", "checkpoint": WRITING, "store write": STORING}
"""What is aimed at, by the event that begins it."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """Something that a run under trial told, `at` seconds of the system's own clock."""

    name: str
    at: float


class Child:
    """A forked process that does `work`, and tells of the loop's phases through a pipe."""

    def __init__(self, work: Callable[[], object]) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            _run_in_child(work, writer)
        os.close(writer)
        self._lines = os.fdopen(reader)

    def events(self) -> Iterator[Event]:
        for line in self._lines:
            at, _, name = line.strip().partition(" ")
            yield Event(name, float(at))

    def wait(self) -> int:
        """The exit status; negative where a signal ended it."""
        with self._lines:
            self._lines.read()  # it may have more to tell
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _run_in_child(work: Callable[[], object], writer: int) -> None:
    def tell(event: str) -> None:
        os.write(writer, f"{time.monotonic()} {event}\n".encode())

    tell_phase, write_checkpoint, append = Watchdog.phase, keeper.write_checkpoint, RunWriter.append

    def phase(watchdog: Watchdog, name: str) -> None:
        tell(name)
        tell_phase(watchdog, name)

    def write(*arguments: Any) -> Path:
        tell(WRITING)
        folder = write_checkpoint(*arguments)
        tell(WRITTEN)
        return folder

    def store(writer: RunWriter, record: StepRecord) -> None:
        tell(STORING)
        append(writer, record)
        tell(STORED)

    Watchdog.phase, keeper.write_checkpoint = phase, write  # type: ignore[method-assign, assignment]
    RunWriter.append = store  # type: ignore[method-assign]
    try:
        work()
    except BaseException:  # a fork must never return into its parent's code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        rows = list(run_trials(Path(folder), options.trials, options.seed))
    claims = make_claims(rows)
    for each in claims:
        print(
            f"{'holds' if each['holds'] else 'MISSED':7} {each['what']}: {each['value']} (goal: {each['goal']})"
        )
    if not options.no_record:
        print(write_record("kill_trials", rows, claims, load))
    sys.exit(not all(each["holds"] for each in claims))


def run_trials(root: Path, trials: int, seed: int) -> Iterator[Row]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not survive a fork
    assert (
        Child(lambda: save_model(untrained_world_policy(0).model, world_tokenizer(), root / "model")).wait()
        == 0
    )
    base = resolve(SETTINGS, {"run.root": str(root), "model.path": str(root / "model")})[0]
    prepare_torch(base.run)
    left_alone = Child(lambda: train(_named(base, "undisturbed")))
    events = list(left_alone.events())
    assert left_alone.wait() == 0
    undisturbed, rng = Run.open(root / "undisturbed"), random.Random(seed)
    for trial in range(trials):
        moment = list(MOMENTS)[trial % len(MOMENTS)]
        config = _named(base, f"trial-{trial}")
        row = {"trial": trial, "seed": seed} | run_trial(config, moment, events, undisturbed, rng)
        print(json.dumps(row), flush=True)
        yield row


def run_trial(config: Config, moment: str, events: list[Event], undisturbed: Run, rng: random.Random) -> Row:
    # Not in the last step: a kill that comes late would find the run over.
    last = max(number for number, event in enumerate(events) if event.name == MOMENTS["sampling"])
    occurrences = [number for number, event in enumerate(events[:last]) if event.name == MOMENTS[moment]]
    aimed = rng.choice(occurrences)
    length = statistics.median(_end(events, number) - events[number].at for number in occurrences)
    struck = kill(config, MOMENTS[moment], occurrences.index(aimed), rng.uniform(0, length))
    directory = Path(config.run.root) / str(config.run.name)
    after_kill = what_is_there(directory)
    started = time.monotonic()
    resumed = Child(lambda: resume(directory)).wait() == 0
    return {
        "aimed_at": moment,
        **struck,
        **after_kill,
        "resumed": resumed,
        "seconds_to_resume_and_finish": round(time.monotonic() - started, 2),
        **compare(Run.open(directory), undisturbed),
    }


def _end(events: list[Event], begun: int) -> float:
    """When what began with that event was over: at the next phase, or once the checkpoint was written."""
    end, later = ENDS.get(events[begun].name), events[begun + 1 :]
    ends = [event for event in later if (event.name == end if end else event.name not in BESIDE)]
    return ends[0].at if ends else events[-1].at


def kill(config: Config, event_name: str, occurrence: int, delay: float) -> Row:
    """Kills a run `delay` seconds after it told of the event for the so many-th time, and says what it was at."""
    child = Child(lambda: train(config))
    told: list[str] = []
    stream = child.events()
    for event in stream:
        told.append(event.name)
        if told.count(event_name) > occurrence:
            time.sleep(delay)
            break
    os.kill(child.pid, signal.SIGKILL)
    told += [event.name for event in stream]  # what it told while we slept
    status = child.wait()
    phases = [name for name in told if name not in BESIDE]
    return {
        "delay_ms": round(1000 * delay, 2),
        "killed": status == -signal.SIGKILL,
        "struck": phases[-1],
        "was_writing_checkpoint": told.count(WRITING) > told.count(WRITTEN),
        "was_writing_step": told.count(STORING) > told.count(STORED),
    }


def what_is_there(directory: Path) -> Row:
    """Of a run that was just killed; the first to open its store."""
    with _opened(directory / "run.db") as db:
        intact = db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        stored = db.execute("SELECT MAX(step) FROM batches").fetchone()[0]
    checkpoints = directory / "checkpoints"
    steps = checkpoint_steps(checkpoints)
    whole = [step for step in steps if damage(checkpoint_folder(checkpoints, step)) is None]
    newest = max(whole, default=None)
    return {
        "store_intact": intact,
        "stored_step": stored,
        "checkpoint": newest,
        "lost_steps": 0 if stored is None else stored - (newest or 0),
        "half_checkpoints_by_name": len(steps) - len(whole),
        "left_in_the_making": len(list(checkpoints.glob(".step_*"))),
    }


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(path)
    try:
        yield db
    finally:
        db.close()


def compare(run: Run, undisturbed: Run) -> Row:
    """Whether a resumed run is what it would have been, and its steps that were run again are what they were."""
    rows = run.scalars(include_superseded=True)
    now = {row["step"]: _untimed(row) for row in rows if not row["superseded"]}
    before = [_untimed(row) for row in rows if row["superseded"]]
    [resumption] = [event for event in run.events() if event["name"] == "from"]
    return {
        "resumed_from": resumption["step"],
        "reran": len(before),
        "rerun_equal": all(row == now.get(row["step"]) for row in before),
        "steps_equal": list(now.values()) == [_untimed(row) for row in undisturbed.scalars()],
        "checkpoint_equal": _files(run) == _files(undisturbed),
    }


def _untimed(row: Row) -> Row:
    return {
        name: x
        for name, x in row.items()
        if name != "superseded" and not name.startswith(("time/", "rate/", "system/"))
    }


def _files(run: Run) -> Any:
    """The checksums of every file of the last checkpoint: weights, optimisers, the loop's state."""
    folder = checkpoint_folder(run.directory / "checkpoints", STEPS)
    return json.loads((folder / "manifest.json").read_text())["files"] if folder.is_dir() else None


def make_claims(rows: list[Row]) -> list[dict[str, Any]]:
    count = len(rows)
    struck = {
        "sampling": sum(row["struck"] == "sample" for row in rows),
        "update": sum(row["struck"] == "update" for row in rows),
        "store write": sum(row["was_writing_step"] for row in rows),
        "checkpoint": sum(row["was_writing_checkpoint"] for row in rows),
    }

    def all_of(what: str, holds: Callable[[Row], bool]) -> dict[str, Any]:
        value = sum(map(holds, rows))
        return claim(f"{what}, of {count} trials", value, str(count), value == count)

    lost = [row["lost_steps"] for row in rows]
    return [
        all_of("killed before they were done", lambda row: row["killed"]),
        *(
            claim(f"struck during {moment}", times, f"at least {count // 10}", times >= count // 10)
            for moment, times in struck.items()
        ),
        all_of("the store opens clean", lambda row: row["store_intact"]),
        all_of("no half checkpoint bears a name", lambda row: row["half_checkpoints_by_name"] == 0),
        all_of("no checkpoint is ahead of the store", lambda row: row["lost_steps"] >= 0),
        all_of("resumed and finished", lambda row: row["resumed"]),
        all_of("from the newest whole checkpoint", lambda row: row["resumed_from"] == row["checkpoint"]),
        all_of("steps run again equal the superseded ones", lambda row: row["rerun_equal"]),
        all_of("every step equals the undisturbed run's", lambda row: row["steps_equal"]),
        all_of("the last checkpoint equals the undisturbed run's, byte for byte", lambda row: row["checkpoint_equal"]),
        claim(
            f"most steps lost (mean {statistics.fmean(lost):.1f})",
            max(lost),
            f"at most {2 * EVERY}: one interval, and one more while a checkpoint is written",
            max(lost) <= 2 * EVERY,
        ),
    ]  # fmt: skip


def _named(config: Config, name: str) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update={"name": name})})


if __name__ == "__main__":
    main()
