"""Runs side by side: where their settings differ, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taut.store.run import Run

PLACE = ("run.name", "run.root")
"""Where a run is kept: no part of what it does."""


def config_differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """The values, one per run, of every `section.key` in which the runs differ, place apart; None: it lacks it."""
    leaves = [_leaves(run.config) for run in runs]
    keys = dict.fromkeys(key for config in leaves for key in config if key not in PLACE)
    columns = {key: [config.get(key) for config in leaves] for key in keys}
    return {key: values for key, values in columns.items() if any(value != values[0] for value in values)}


def summary_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row per run; a metric that a run never recorded is None.

    The other keys are those of `store.glance.glance`, without its heartbeat and course.
    """
    rows = []
    for run in runs:
        row = {"run": run.name, **run.glance()}
        del row["heartbeat"], row["course"]
        rows.append(row)
    return rows


def _leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves |= _leaves(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
