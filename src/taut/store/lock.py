"""One process drives a run: whoever writes to its directory holds a lock on it, which readers never ask for."""

from __future__ import annotations

import os
from pathlib import Path


class RunLock:
    """Held until `release`, or until the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Raises ValueError where another writer holds it."""
        import fcntl  # reading runs must not need what Windows lacks

        self._descriptor = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise ValueError(
                f"run {directory.name!r} is being trained by another process: wait for its end, or interrupt it"
            ) from None
        except OSError:  # a file system without locks
            pass

    def release(self) -> None:
        """Releasing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def refuse_if_driven(directory: Path) -> None:
    """Raises ValueError where a process holds the run's lock now."""
    RunLock(directory).release()
