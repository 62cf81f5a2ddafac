"""The comparison picture is drawn for whatever runs there are."""

import math
import sys

import numpy as np
import pytest
from made_up import CONFIG, make_run

from taut.store import Run, RunWriter, StepRecord
from taut.store.plot import plot_runs, running_mean, spread


def run_with(directory, *scalars):
    with RunWriter.create(directory, CONFIG, facts={}) as writer:
        for step, values in enumerate(scalars, start=1):
            writer.append(StepRecord(step, {}, values))
    return Run.open(directory)


def test_running_mean():
    assert running_mean(np.array([1.0, 3.0, 5.0, 7.0, 9.0, 11.0])).tolist() == [1, 2, 3, 4, 5, 7]
    assert running_mean(np.array([])).tolist() == []


def test_spread_keeps_names_apart():
    assert spread([0.0, 5.0, 5.0, 5.5], gap=1.0) == [0.0, 5.0, 6.0, 7.0]
    assert spread([7.0, 1.0], gap=1.0) == [7.0, 1.0]


def test_png_and_svg(tmp_path):
    pytest.importorskip("matplotlib")
    runs = [Run.open(make_run(tmp_path / name)) for name in ("$one$", "two")]
    plot_runs(runs, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    plot_runs(runs, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert all(word in text for word in ("$one$", "two", "Clipped share", "held-out accuracy"))


def test_ten_runs(tmp_path):
    pytest.importorskip("matplotlib")
    plot_runs([run_with(tmp_path / str(n), {"reward/mean": n}) for n in range(10)], tmp_path / "plot.svg")


@pytest.mark.filterwarnings("error")
def test_runs_with_little_or_odd_data(tmp_path):
    pytest.importorskip("matplotlib")
    runs = [
        run_with(tmp_path / "empty"),
        run_with(tmp_path / "one step", {"reward/mean": -3.0, "clip/binding": 0.0}),
        run_with(
            tmp_path / "odd", *({"reward/mean": x, "clip/binding": x} for x in (math.nan, math.inf, 0.1))
        ),
    ]
    plot_runs(runs[:1], tmp_path / "plot.svg")
    plot_runs(runs, tmp_path / "plot.svg")


def test_refusals(tmp_path):
    run = run_with(tmp_path / "run")
    with pytest.raises(ValueError, match=r"cannot draw into 'plot.pdf': the name must end in .png or .svg"):
        plot_runs([run], tmp_path / "plot.pdf")
    for count in (0, 11):
        with pytest.raises(ValueError, match=f"cannot draw {count} runs .* choose 1 to 10"):
            plot_runs([run] * count, tmp_path / "plot.png")


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[plot\]'"):
        plot_runs([run_with(tmp_path / "run")], tmp_path / "plot.png")
