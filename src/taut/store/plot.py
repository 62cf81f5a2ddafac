"""Runs as one picture: what was earned on the left, how hard the clip worked on the right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taut.store.run import Run

COLORS = (  # told apart under the common colour blindnesses, and dark enough for thin lines on a light ground
    *("#0072b2", "#d55e00", "#009e73", "#b0568f", "#333333"),
    *("#c98a00", "#3f9fdc", "#7f1d4e", "#7a7a1f", "#4b2e9e"),
)
INK, MUTED, GRID, GROUND = "#222222", "#6b6b6b", "#e4e4e0", "#fcfcfa"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,  # a run's name may hold dollar signs
    "svg.fonttype": "none",
    "svg.hashsalt": "taut",  # ids that do not change: the same runs give the same file
    "figure.facecolor": GROUND,
    "axes.facecolor": GROUND,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.xmargin": 0.02,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 24,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "grid.color": GRID,
    "xtick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.labelcolor": MUTED,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.3,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
}
SMOOTHING_STEPS = 5
LABEL_GAP = 0.055  # least distance between two names, as a share of the axis height


def plot_runs(runs: Sequence[Run], path: Path | str) -> None:
    """Draws 1 to 10 runs into a PNG or SVG, by the suffix of `path`; an existing picture is replaced.

    Left: training reward (`reward/mean`) and held-out accuracy (`eval/accuracy`). Right: clipped share
    (`clip/binding`) in %. Lines are running means of 5 steps; up to 4 runs also show every step, faintly. A
    metric that a run never recorded, or that was not finite at a step, is left out.

    Raises:
        ValueError: another suffix, or another number of runs.
        ImportError: matplotlib is missing; names the `pip install` line that brings it.
    """
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise ValueError(f"cannot draw into {path.name!r}: the name must end in .png or .svg")
    if not 1 <= len(runs) <= len(COLORS):
        raise ValueError(f"cannot draw {len(runs)} runs in one picture: choose 1 to {len(COLORS)}")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'taut[plot]'") from None
    with rc_context(STYLE):
        figure = Figure(figsize=(10, 4))
        earned, clipped = figure.subplots(1, 2, gridspec_kw={"wspace": 0.16})
        _draw_earned(earned, runs)
        _draw_clipped(clipped, runs)
        dated = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.25, metadata=dated)


def _draw_earned(axes: Any, runs: Sequence[Run]) -> None:
    axes.plot([], [], color=MUTED, linewidth=1.8, label=f"training, mean of {SMOOTHING_STEPS} steps")
    axes.plot([], [], "o--", color=MUTED, linewidth=1.1, markersize=3.2, label="held-out accuracy")
    for run, color in zip(runs, COLORS, strict=False):
        _draw_series(axes, *_finite(run, "reward/mean"), color, len(runs))
        axes.plot(*_finite(run, "eval/accuracy"), "o--", color=color, linewidth=1.1, markersize=3.2)
    if axes.dataLim.ymin >= 0 and axes.dataLim.ymax <= 1:
        axes.set_ylim(0, 1.02)
    _dress(axes, "Reward")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2)


def _draw_clipped(axes: Any, runs: Sequence[Run]) -> None:
    ends = []
    for run, color in zip(runs, COLORS, strict=False):
        steps, share = _finite(run, "clip/binding")
        _draw_series(axes, steps, 100 * share, color, len(runs))
        ends.append(100 * running_mean(share)[-1] if len(share) else 0.0)
    axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
    _dress(axes, "Clipped share")
    axes.text(
        0, 1.03, f"% of reply tokens, mean of {SMOOTHING_STEPS} steps", transform=axes.transAxes, color=MUTED
    )
    for run, color, y in zip(runs, COLORS, spread(ends, LABEL_GAP * axes.get_ylim()[1]), strict=False):
        axes.text(1.01, y, run.name, transform=axes.get_yaxis_transform(), color=color, va="center")


def _draw_series(axes: Any, steps: np.ndarray, values: np.ndarray, color: str, runs: int) -> None:
    """The running mean and, where few runs leave room for it, each step behind."""
    if runs <= 4:
        axes.plot(steps, values, color=color, linewidth=0.8, alpha=0.25)
    (mean,) = axes.plot(steps, running_mean(values), color=color, linewidth=1.8 if runs <= 4 else 1.2)
    mean.set(clip_on=False, zorder=3)  # a share of exactly 0 lies on the axis, and must show
    if len(steps) == 1:
        mean.set_marker("o")


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("step", loc="right", labelpad=2)
    axes.locator_params(axis="x", nbins=8, integer=True)
    axes.locator_params(axis="y", nbins=6)


def _finite(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    steps, values = run.series(name)
    finite = np.isfinite(values)
    return steps[finite], values[finite]


def running_mean(values: np.ndarray) -> np.ndarray:
    """[N] means of up to SMOOTHING_STEPS values, each ending where it stands."""
    return np.array([values[max(0, end - SMOOTHING_STEPS) : end].mean() for end in range(1, len(values) + 1)])


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """The positions, moved up as little as needed so that neighbours are `gap` apart."""
    spread_out = [0.0] * len(positions)
    floor = -np.inf
    for index in np.argsort(positions, kind="stable"):
        spread_out[index] = max(positions[index], floor)
        floor = spread_out[index] + gap
    return spread_out
