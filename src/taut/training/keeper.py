"""Makes a run's checkpoints while its loop goes on, and ends it where that was asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from taut.config import Config
from taut.training.checkpoint import keep_newest_and_best, write_checkpoint
from taut.training.inspector import CheckFailedError
from taut.training.metrics import Metrics
from taut.training.non_finite import NonFiniteError
from taut.training.ppo import Parts
from taut.training.progress import snapshot


class Keeper:
    """An observer of the loop: a checkpoint every `checkpoint.every` steps, after the last, and on being asked to stop.

    So does a step that the run cannot go on after: one with numbers that are not finite, or a failed check.

    Each is copied before the next step begins and written by a thread of its own, one at a time. Where one could not
    be written, the loop ends at the next step with the OSError that says so.
    """

    def __init__(
        self,
        config: Config,
        parts: Parts,
        directory: Path,
        stop_asked: Callable[[], bool] = lambda: False,
        store_written: Callable[[], None] = lambda: None,
    ) -> None:
        """Once `stop_asked()`, the step at hand is saved and KeyboardInterrupt ends the run.

        `store_written` returns when the store holds every step so far: no checkpoint is ahead of it.
        """
        self.config, self.parts, self.directory = config, parts, directory
        self.stop_asked, self.store_written = stop_asked, store_written
        self._writing: Future[None] | None = None
        self._unsaved: tuple[int, float | None] | None = None

    def __call__(self, step: int, metrics: Metrics) -> None:
        if self._writing is not None and self._writing.done():
            self.wait()
        stopping, every = self.stop_asked(), self.config.checkpoint.every
        due = step == self.config.run.steps or (step and every and step % every == 0)
        self._unsaved = step, metrics.get("eval/accuracy")
        if due or stopping:
            self._save()
        if stopping:
            self.wait()
            raise KeyboardInterrupt

    def _save(self, remove_old: bool = True) -> None:
        """The step that was last taken, unless that is done or under way."""
        if self._unsaved is not None:
            self.parts.on_phase("checkpoint")
            self.wait()
            self._write(*self._unsaved, remove_old)
            self._unsaved = None

    def _write(self, step: int, accuracy: float | None, remove_old: bool) -> None:
        write, done = snapshot(self.parts, step), Future[None]()

        def work() -> None:
            try:
                self.store_written()
                write_checkpoint(self.directory, step, write, accuracy)
                if remove_old:
                    keep_newest_and_best(self.directory, self.config.checkpoint.keep)
            except BaseException as error:  # whatever it is, it is raised where the loop hears of it
                done.set_exception(error)
            else:
                done.set_result(None)

        self._writing = done
        # A daemon: a run that is told to stop at once does not wait for it.
        threading.Thread(target=work, name="taut-checkpoint", daemon=True).start()

    def wait(self) -> None:
        """Until nothing is being written. Raises what writing raised."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is being written is finished first, unless the run was told to stop at once."""
        if isinstance(error, NonFiniteError | CheckFailedError):
            self._save(remove_old=False)  # a replay of this step begins at the one before
        if error is None:
            self.wait()
        elif self._writing is not None and not isinstance(error, KeyboardInterrupt):
            self._writing.exception()  # the loop's own error is the one to tell
