"""TensorBoard's event files, of a run as it goes and of one that is exported."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from taut.config import to_yaml
from taut.trackers.tracker import TrackedRun


class TensorBoardTracker:
    """Writes to `tensorboard` in the run's directory, so that `tensorboard --logdir runs` shows them all."""

    def __init__(self, run: TrackedRun) -> None:
        self._file = EventFile(run.directory / "tensorboard")
        self._file.add_text("config", f"```yaml\n{to_yaml(run.config)}```")
        self._started = False

    @staticmethod
    def need() -> None:
        need_tensorboard("run.trackers = tensorboard needs it")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if not self._started:
            self._file.start_at(step)
            self._started = True
        self._file.add_scalars(step, metrics, time.time())

    def close(self, error: BaseException | None) -> None:
        self._file.close()


def need_tensorboard(who: str) -> None:
    """Raises ImportError, beginning with `who` needs it, where tensorboard is not installed."""
    if find_spec("tensorboard") is None:
        raise ImportError(f"{who}: pip install 'taut[tensorboard]'")


class EventFile:
    """A new event file in a folder. Each call writes to the disk at once, so it is the one that fails."""

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2
        from tensorboard.plugins.text.metadata import create_summary_metadata
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = event_pb2, summary_pb2
        self._tensor, self._text_metadata = tensor_pb2, create_summary_metadata
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}"
        self._records = RecordWriter(path.open("xb"))
        self._write(file_version="brain.Event:2", wall_time=time.time())

    def start_at(self, step: int) -> None:
        """Has TensorBoard forget what earlier files of the folder say of this step and later ones."""
        log = self._event.SessionLog(status=self._event.SessionLog.START)
        self._write(session_log=log, step=step, wall_time=time.time())

    def add_text(self, tag: str, text: str) -> None:
        """Markdown, at step 0."""
        tensor = self._tensor.TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        tensor.tensor_shape.dim.add(size=1)
        metadata = self._text_metadata(tag, "")
        value = self._summary.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
        self._write(summary=self._summary.Summary(value=[value]), wall_time=time.time())

    def add_scalars(self, step: int, scalars: Mapping[str, float], wall_time: float) -> None:
        """`wall_time` is in seconds since the epoch. Values become float32; NaN and infinities stay."""
        values = [
            self._summary.Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()
        ]
        self._write(summary=self._summary.Summary(value=values), step=step, wall_time=wall_time)

    def close(self) -> None:
        self._records.close()

    def _write(self, **fields: object) -> None:
        self._records.write(self._event.Event(**fields).SerializeToString())
        self._records.flush()
