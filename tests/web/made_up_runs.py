"""Made-up runs and a server over them, for the tests of this folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import uvicorn

from taut.store import ReplyRecord, RunWriter, StepRecord
from taut.web.app import create_app
from taut.web.serve import open_port

CONFIG = "algorithm:\n  epochs: 2\nrun:\n  seed: 0\n"


def made_up_step(step: int, **scalars: float) -> StepRecord:
    reply = ReplyRecord(
        *(0, 0, 0, 0, "1+1=", np.array([1], np.int32), "2", np.array([7, 8], np.int32), np.ones(2, bool)),
        reward=1.0,
        finish_reason="stop",
    )
    return StepRecord(step, {}, {"reward/mean": step / 10, **scalars}, [reply] if step else [])


def made_up_run(directory: Path, steps: int = 3, config: str = CONFIG, **facts: object) -> Path:
    with RunWriter.create(directory, config, facts={"threads": 1, **facts}) as writer:
        for step in range(steps + 1):
            writer.append(made_up_step(step))
    return directory


@contextmanager
def serving(root: Path, port: int = 0) -> Iterator[int]:
    """A real server over `root`; gives its port."""
    listening = open_port("127.0.0.1", port)
    app = create_app(root)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    app.state.leaving = lambda: server.should_exit
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
