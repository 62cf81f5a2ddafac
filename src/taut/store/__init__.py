"""One run directory: append, read while it grows, list, compare, export. No torch in here."""

from taut.store.batch import StoredBatch, StoredUpdate
from taut.store.record import ReplyRecord, StepRecord, UpdateRecord
from taut.store.retention import RetentionPolicy
from taut.store.run import Run
from taut.store.writer import RunWriter

__all__ = [
    "ReplyRecord",
    "RetentionPolicy",
    "Run",
    "RunWriter",
    "StepRecord",
    "StoredBatch",
    "StoredUpdate",
    "UpdateRecord",
]
