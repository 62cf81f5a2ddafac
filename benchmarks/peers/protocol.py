"""A side of a comparison: a long-lived process that does one batch on request, over a pipe of JSON lines.

Standard library only, since it also runs in a peer's own environment. Requests are words: "batch" asks for one
more batch, any other word for what the side offers by that name; closing the pipe ends the side.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

Answer = dict[str, Any]


class SideError(RuntimeError):
    """A side ended or said what no side says."""


class Side:
    """The parent's end: `with Side(name, command) as side: side.ask("batch")`."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = Path(os.environ.get("TMPDIR", "/tmp")) / f"taut-side-{os.getpid()}-{name}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **environment},
            )
        self._answer()  # "ready": loaded, and before its first batch

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.unlink(missing_ok=True)

    def ask(self, request: str) -> Answer:
        """The side's answer, a JSON object. Raises SideError, with the end of its log, where there is none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._error() from None
        return self._answer()

    def peak_bytes(self) -> int:
        """What the process and those it started held in memory at their highest, added up."""
        return sum(high_water(pid) for pid in with_descendants(self._process.pid))

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._error()
        answer: Answer = json.loads(line)
        return answer

    def _error(self) -> SideError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._process.kill()
        self._process.wait()
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-25:])
        return SideError(f"{self.name} ended with {self._process.returncode}:\n{tail}")


class Requests:
    """The side's own end. What else the process prints goes to standard error, not between the answers."""

    def __init__(self, offers: Mapping[str, Callable[[], Answer]] | None = None) -> None:
        self._out: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._in: TextIO = sys.stdin
        self._offers = dict(offers or {})
        self._asked: float | None = None

    def batch_done(self, answer: Callable[[], Answer]) -> bool:
        """To be called before the first batch and after each: waits until the next is asked for; False at the end.

        Answers the request before, with its seconds. `answer` is called after the clock was read.
        """
        if self._asked is None:
            self._say({"ready": True})
        else:
            seconds = time.perf_counter() - self._asked
            self._say({"seconds": seconds, **answer()})
        for line in self._in:
            request = line.strip()
            if request == "batch":
                self._asked = time.perf_counter()
                return True
            self._say(self._offers[request]())
        return False

    def _say(self, answer: Answer) -> None:
        self._out.write(json.dumps(answer) + "\n")
        self._out.flush()


def with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                yield from with_descendants(int(child))


def high_water(pid: int) -> int:
    """VmHWM in bytes; 0 of a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
