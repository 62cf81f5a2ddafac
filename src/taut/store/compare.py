"""Runs side by side: where their settings differ, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taut.store.run import Run

LAST_STEPS = 5
"""How a run ended is the mean of so many steps: one step's number is mostly sampling noise."""


def config_differences(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """The values, one per run, of every `section.key` in which the runs differ; None where a run lacks it."""
    leaves = [_leaves(run.config) for run in runs]
    keys = dict.fromkeys(key for config in leaves for key in config)
    columns = {key: [config.get(key) for config in leaves] for key in keys}
    return {key: values for key, values in columns.items() if any(value != values[0] for value in values)}


def summary_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row per run; a metric that a run never recorded is None.

    `created` is in seconds since the epoch. `reward/mean` is over the last 5 steps, `eval/accuracy` the last
    measured, `clip/binding` the mean of all steps. `parent` and `parent_step` say what a fork goes on from.
    """
    return [
        {
            "run": run.name,
            "status": run.status,
            "created": run.created,
            "steps": run.step_count,
            "reward/mean": _mean(run.series("reward/mean")[1][-LAST_STEPS:]),
            "eval/accuracy": run.last("eval/accuracy"),
            "clip/binding": _mean(run.series("clip/binding")[1]),
            "parent": run.facts.get("parent"),
            "parent_step": run.facts.get("parent_step"),
        }
        for run in runs
    ]


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves |= _leaves(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
