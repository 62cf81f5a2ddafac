"""Many runs: every combination of the values given for some settings."""

from __future__ import annotations

import itertools
import re
import signal
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from taut.config import WORLD, Config, check, resolve
from taut.launch.local import OnWait, train, wait_for_nothing
from taut.launch.sft import world_model_folder
from taut.store import Run
from taut.store.compare import summary_rows
from taut.store.runs import new_run_directory

Axes = Mapping[str, Sequence[Any]]
SEED = "run.seed"
RESULTS = ("reward/mean", "eval/accuracy", "eval/greedy", "clip/binding")


def run_sweep(
    base: Mapping[str, Any],
    axes: Axes,
    root: Path | str = "runs",
    jobs: int = 1,
    on_run: Callable[[Run], None] = lambda run: None,
    on_wait: OnWait = wait_for_nothing,
) -> list[Run]:
    """Trains every combination, the last axis varying fastest, and returns the runs in that order.

    `base` is the settings they share; its `run.name` begins the runs' names. With `jobs` above 1 that many
    processes each train one run at a time. `on_run` hears of each run as it ends.
    Raises ValueError before anything starts where a combination is impossible or its run exists.
    """
    configs = sweep_configs(base, axes, root)
    if jobs > 1:
        return _train_in_processes(configs, jobs, on_run, on_wait)
    runs = []
    for config in configs:
        runs.append(train(config, on_wait=on_wait))
        on_run(runs[-1])
    return runs


def _train_in_processes(
    configs: Sequence[Config], jobs: int, on_run: Callable[[Run], None], on_wait: OnWait
) -> list[Run]:
    seeds = sorted({config.run.seed for config in configs if config.model.path == WORLD})
    # A forked child would inherit torch's threads as they happen to be. An interrupt reaches every process: one
    # that is idle, or still imports, just dies of it.
    spawn = get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, signal.signal, (signal.SIGINT, signal.SIG_DFL)) as workers:
        if seeds:
            what = f"fine-tuning the world's model for each of {len(seeds)} seeds, where none is cached"
            on_wait(what, 0, len(seeds))
            # Made first: of runs that share a seed, each would make it.
            list(workers.map(partial(_interruptible, world_model_folder), seeds))
        futures = [workers.submit(_interruptible, train, config) for config in configs]
        try:
            for future in as_completed(futures):
                on_run(future.result())
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _interruptible(work: Callable[[Any], Any], argument: Any) -> Any:
    """In a process of a sweep: an interrupt at work raises KeyboardInterrupt, so that a run is ended as such."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return work(argument)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def sweep_configs(base: Mapping[str, Any], axes: Axes, root: Path | str) -> list[Config]:
    """One checked config a combination, each with a run name that says what is its own."""
    name = resolve(base)[0].run.name or "sweep"
    configs = []
    for values in itertools.product(*axes.values()):
        own = dict(zip(axes, values, strict=True))
        run_name = "_".join([name, *(f"{key.rpartition('.')[2]}={_plain(own[key])}" for key in own)])
        new_run_directory(root, run_name)
        config, _ = resolve(base, own, {"run.name": run_name, "run.root": str(root)})
        check(config)
        configs.append(config)
    if len({config.run.name for config in configs}) < len(configs):
        raise ValueError("two combinations of the sweep have the same name: give each value once")
    return configs


def summarize(runs: Sequence[Run], axes: Axes) -> list[dict[str, Any]]:
    """One row per combination of the axes but the seed, over runs in the order of `run_sweep`.

    A row holds the axes' values, the number of `runs`, and of each result its (mean, standard deviation) over the
    runs that have it: the deviation is None for one run, the result for none. `reward/mean` is over a run's last
    5 steps, `clip/binding` over all of them, held-out `eval/accuracy` and `eval/greedy` are the last measured.
    """
    rows: dict[str, tuple[dict[str, Any], list[Run]]] = {}
    for values, run in zip(itertools.product(*axes.values()), runs, strict=True):
        shared = {key: value for key, value in zip(axes, values, strict=True) if key != SEED}
        rows.setdefault(repr(shared), (shared, []))[1].append(run)  # a value may be a list, which is no key
    return [{**shared, "runs": len(group), **_statistics(group)} for shared, group in rows.values()]


def _statistics(runs: Sequence[Run]) -> dict[str, tuple[float, float | None] | None]:
    results = [
        {**row, "eval/greedy": run.last("eval/greedy")}
        for row, run in zip(summary_rows(runs), runs, strict=True)
    ]
    found = {name: [row[name] for row in results if row[name] is not None] for name in RESULTS}
    return {
        name: (statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)
        if values
        else None
        for name, values in found.items()
    }


def _plain(value: Any) -> str:
    """As a folder name may hold it."""
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.+-]+", "-", text)
