"""Commands that look at runs. Their arguments are read from their signatures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from taut.commands.arguments import ROOT
from taut.terminal.console import make_console


def runs(*, root: str = ROOT, json: bool = False) -> None:
    """List the runs of a folder.

    Args:
        root: Folder that holds the run directories.
        json: One JSON object a run instead of the table.
    """
    from taut.store.codec import to_json
    from taut.store.runs import list_runs
    from taut.terminal.tables import runs_table

    found = list_runs(root)
    if json:
        for row in found:
            print(to_json(row))
    else:
        console = make_console()
        console.print(runs_table(found, console) if found else f"no runs in {root}; taut train makes one")


def show(
    run: str,
    /,
    *,
    step: int = -1,
    optimizer_step: int = -1,
    color: Literal["ratio", "clip", "advantage"] = "ratio",
    replies: int = 8,
    browse: bool = False,
    root: str = ROOT,
    json: bool = False,
) -> None:
    """Show a run, and the replies of one step token by token.

    Args:
        run: Name or directory of the run.
        step: Step of the loop; -1 is the newest whose replies are kept.
        optimizer_step: Optimiser step inside that step, from 0; -1 is the last.
        color: What the tokens are coloured by, and show beneath.
        replies: How many replies to show.
        browse: Walk through steps, replies and tokens on this terminal; --step is where to begin.
        root: Folder that holds the run directories.
        json: One JSON object instead.
    """
    from taut.store.codec import to_json
    from taut.store.runs import find_run
    from taut.terminal.show import print_run, run_object

    if browse and json:
        raise ValueError("--browse is for people and --json for programs: leave one out")
    found = find_run(root, run)
    if browse:
        from taut.terminal.browse.app import browse_run

        browse_run(found, step)
    elif json:
        print(to_json(run_object(found, step, optimizer_step, replies)))
    else:
        print_run(found, make_console(), step, optimizer_step, color, replies)


def compare(
    runs: tuple[str, ...], /, *, plot: str | None = None, root: str = ROOT, json: bool = False
) -> None:
    """Compare runs: results, the settings that differ, and a plot.

    Args:
        runs: Names or directories of the runs.
        plot: Picture to draw, .svg or .png.
        root: Folder that holds the run directories.
        json: One JSON object instead of the tables.
    """
    from taut.store.codec import to_json
    from taut.store.compare import config_differences, summary_rows
    from taut.store.plot import plot_runs
    from taut.store.runs import find_run
    from taut.terminal.tables import differences_table, results_table

    if not runs:
        raise ValueError("name the runs to compare; taut runs lists them")
    found = [find_run(root, name) for name in runs]
    results, differences = summary_rows(found), config_differences(found)
    if plot is not None:
        plot_runs(found, plot)
    console = make_console()
    if json:
        print(to_json({"results": results, "differences": differences}))
        return
    console.print(results_table(results, console))
    if differences:
        console.print(differences_table([run.name for run in found], differences, console))
    if plot is not None:
        console.print(f"drawn into {plot}", soft_wrap=True)


def export(
    run: str,
    place: str,
    /,
    *,
    format: Literal["jsonl", "csv", "parquet", "tensorboard", "html"] = "jsonl",
    step: int | None = None,
    root: str = ROOT,
) -> None:
    """Write a run's tables for other tools, or its pages as one HTML file.

    Args:
        run: Name or directory of the run.
        place: Folder to write, or HTML file, which must not exist.
        format: Of its files; html needs no server to look at.
        step: This step alone; in an HTML file the step whose replies it holds.
        root: Folder that holds the run directories.
    """
    from taut.store.export import export_run
    from taut.store.runs import find_run

    found = find_run(root, run)
    if format == "html":
        from taut.web.app import create_app
        from taut.web.export import write_page

        write_page(create_app(Path(os.path.abspath(found.directory)).parent), found, place, step)
    else:
        export_run(found, place, format, step=step)
    make_console().print(f"written into {place}", soft_wrap=True)
