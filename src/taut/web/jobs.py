"""Training processes that the server starts and that outlive it, and the queue before them.

What is known of a job lies in `.workshop/` beside the runs: NAME.json, and NAME.log with all that the process prints.
The process holds a lock on its log for as long as it lives, however it ends, so that a server that is started anew
finds those of the one before. The queue itself is in the server's memory, and goes with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = ".workshop"
LAST_LINES = 12
_LOOK_EVERY = 0.25  # seconds, while anything waits


@dataclass(frozen=True)
class Job:
    name: str
    """Of the run that it makes."""
    command: Sequence[str]
    facts: dict[str, Any] = field(default_factory=dict)
    """What the page wants to know of it."""
    alone: Any = None
    """Of jobs with the same value here, the others wait until the first has made its run: it prepares for all."""


class Jobs:
    """The jobs of one folder of runs. At most `limit` run at a time, the others wait in order."""

    def __init__(self, root: Path, limit: int | None = None) -> None:
        self.root = root
        self.limit = limit or os.cpu_count() or 1
        self._queue: list[Job] = []
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._starting: dict[str, Any] = {}
        self._failed: dict[str, dict[str, Any]] = {}
        """Those of which there was never a process, as `list` tells of them."""
        self._prepared: set[Any] = set()
        self.lock = threading.RLock()
        """For who looks and then adds."""
        self._tending = False

    def add(self, jobs: Sequence[Job]) -> None:
        """Queues them, and starts what there is room for."""
        with self.lock:
            self._queue += jobs
            self._start_next()
            if self._queue and not self._tending:
                self._tending = True
                threading.Thread(target=self._tend, name="taut-jobs", daemon=True).start()

    def list(self) -> list[dict[str, Any]]:
        """Those that are queued, starting, running, or failed before they had made a run; each with its facts.

        `message` is the last line of one that starts, and the last lines of one that failed.
        """
        with self.lock:
            self._reap()
            known = [self._look(path) for path in sorted(self._folder.glob("*.json"))]
            waiting = [{"name": job.name, "status": "queued", **job.facts} for job in self._queue]
        return [job for job in known if job is not None] + list(self._failed.values()) + waiting

    def names(self) -> set[str]:
        """That a new job cannot have, besides those of runs."""
        with self.lock:
            known = {path.stem for path in self._folder.glob("*.json")} | self._failed.keys()
            return known | {job.name for job in self._queue}

    def stop(self, name: str) -> str:
        """Asks it to end after its step; a second time, at once. One that waits is taken from the queue.

        One that failed is forgotten. Returns what was done. Raises ValueError where there is no such job.
        """
        with self.lock:
            self._reap()
            if any(job.name == name for job in self._queue):
                self._queue = [job for job in self._queue if job.name != name]
                return "taken from the queue"
            if self._failed.pop(name, None):
                return "it has ended"
            path = self._folder / f"{name}.json"
            if name != Path(name).name or not path.is_file():
                raise ValueError(f"run {name!r} was not started from this page: interrupt it where it runs")
            if not is_locked(path.with_suffix(".log")):
                self._forget(path)
                return "it has ended"
            # What a run hears as it hears Ctrl-C; an interrupt may be ignored by what a shell put into the background.
            try:
                os.kill(read_json(path)["pid"], signal.SIGTERM)
            except ProcessLookupError:  # what it started still holds the lock
                return "it has ended"
            return "asked to end after its step; asked again, it ends at once"

    @property
    def _folder(self) -> Path:
        return self.root / FOLDER

    def _tend(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(_LOOK_EVERY)
            with self.lock:
                self._reap()
                self._start_next()
                if not self._queue:
                    self._tending = False
                    return

    def _start_next(self) -> None:
        alive = [path.stem for path in self._folder.glob("*.json") if is_locked(path.with_suffix(".log"))]
        made = {name for name in self._starting if self._made(name)}
        self._prepared |= {self._starting[name] for name in made}
        self._starting = {
            name: alone for name, alone in self._starting.items() if name in alive and name not in made
        }
        for job in list(self._queue):
            if len(alive) >= self.limit:
                return
            ready = job.alone is None or job.alone in self._prepared
            if ready or job.alone not in self._starting.values():
                self._queue.remove(job)
                if self._could_start(job):
                    alive.append(job.name)

    def _could_start(self, job: Job) -> bool:
        try:
            self._start(job)
        except (OSError, ValueError) as error:  # the others wait, and the thread must go on
            message = f"it could not be started: {error}"
            self._failed[job.name] = {"name": job.name, "status": "failed", "message": message, **job.facts}
            return False
        return True

    def _start(self, job: Job) -> None:
        """Raises OSError where the machine does not let it, ValueError where another server took its name."""
        import fcntl  # Linux and macOS, as training processes of their own need anyway

        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{job.name}.json"
        # Another server on this folder may have started its own by now: nothing of that is touched.
        if is_locked(path.with_suffix(".log")) or (self.root / job.name).exists():
            raise ValueError(f"{job.name!r} was taken by another meanwhile; start it once more")
        with path.with_suffix(".log").open("ab") as log:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the child inherits it
            log.truncate(0)
            child = subprocess.Popen(
                list(job.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                path.write_text(json.dumps({"pid": child.pid, **job.facts}), encoding="utf-8")
            except OSError:  # a full disk: what no one could stop must not run
                child.kill()
                child.wait()
                raise
        self._children[job.name] = child
        self._starting[job.name] = job.alone

    def _look(self, path: Path) -> dict[str, Any] | None:
        """None where the run in the store says all there is to say."""
        name, log = path.stem, path.with_suffix(".log")
        alive, made = is_locked(log), self._made(name)
        if made and not alive:
            path.unlink(missing_ok=True)  # the log stays
            return None
        facts = {key: value for key, value in read_json(path).items() if key != "pid"}
        if made:
            return {"name": name, "status": "running", **facts}
        lines = last_lines(log)
        if alive:
            return {"name": name, "status": "starting", "message": "".join(lines[-1:]), **facts}
        return {"name": name, "status": "failed", "message": "\n".join(lines) or "ended at once", **facts}

    def _made(self, name: str) -> bool:
        return (self.root / name / "run.db").is_file()

    def _forget(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        if not self._made(path.stem):
            path.with_suffix(".log").unlink(missing_ok=True)

    def _reap(self) -> None:
        """Of children that ended nothing stays."""
        self._children = {name: child for name, child in self._children.items() if child.poll() is None}


def is_locked(log: Path) -> bool:
    """Whether the process that prints into `log` lives."""
    import fcntl

    try:
        with log.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_json(path: Path) -> dict[str, Any]:
    """{} where it is gone or was never whole."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def last_lines(log: Path) -> list[str]:
    """What a process printed last."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-LAST_LINES:]
