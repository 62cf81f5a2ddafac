"""How a run stands, in words and numbers."""

import json
import shlex

import pytest

from taut.cli import DONE, main
from taut.store import Run, RunWriter, StepRecord
from taut.terminal.summary import print_training_summary, summary_row

CONFIG = {"algorithm": {"surrogate": "clipped", "ratio_level": "token", "epochs": 4}}


def run_of(directory, shares, entropies, algorithm=CONFIG["algorithm"]):
    with RunWriter.create(directory, json.dumps({"algorithm": algorithm}), {}) as writer:
        for step, (share, entropy) in enumerate(zip(shares, entropies, strict=True), 1):
            scalars = {"reward/mean": 0.5, "clip/binding": share, "entropy": entropy}
            writer.append(StepRecord(step, {}, scalars))
    return Run.open(directory)


@pytest.mark.parametrize(
    ("entropies", "gauge"),
    [
        ([1.3, 0.0, 0.0, 0.0, 0.0, 0.0], "the policy has collapsed: entropy 0.00"),
        ([0.0, 0.1, 0.1, 0.1, 0.1, 0.1], "in its useful range"),
        (
            [1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            "in its useful range",
        ),  # its last five steps still explore on average
    ],
)
def test_a_policy_that_has_collapsed_is_not_blessed(tmp_path, entropies, gauge):
    """Its clipped share is useful on average: all of it from before."""
    run = run_of(tmp_path / "run", [0.3, 0.0, 0.0, 0.0, 0.0, 0.0], entropies)
    assert summary_row(run)["gauge"] == gauge


def test_collapse_is_told_where_the_clipped_share_says_nothing(tmp_path):
    once = run_of(tmp_path / "once", [0.0], [0.0], {**CONFIG["algorithm"], "epochs": 1})
    cispo = run_of(tmp_path / "cispo", [0.05], [0.0], {**CONFIG["algorithm"], "surrogate": "cispo"})
    for run in (once, cispo):
        assert summary_row(run)["gauge"] == "the policy has collapsed: entropy 0.00"


def test_the_clipped_share_is_said_to_be_a_mean(tmp_path, make_console):
    console = make_console()
    print_training_summary(run_of(tmp_path / "run", [0.02, 0.08], [0.1, 0.1]), console)
    [line] = [line for line in console.file.getvalue().splitlines() if line.startswith(" clipped")]
    assert "5.0 %" in line
    assert line.rstrip().endswith("mean of all steps; in its useful range")


@pytest.mark.parametrize("root", ["runs", "elsewhere", "a folder/of $runs", "deep/" * 20 + "er"])
def test_the_command_at_the_end_works_as_it_stands(tmp_path, monkeypatch, make_console, capsys, root):
    monkeypatch.chdir(tmp_path)
    console = make_console(width=60)
    directory = tmp_path.relative_to(tmp_path) / root / "my run"
    print_training_summary(run_of(directory, [0.05], [0.1]), console)
    [command] = [line for line in console.file.getvalue().splitlines() if line.startswith(" taut show")]
    name = shlex.split(command.partition("   the replies")[0])[2:]
    assert main(["compare", *name]) == DONE
    assert "my run" in capsys.readouterr().out
    assert (name == ["my run"]) == (root == "runs")


@pytest.mark.parametrize(("failed", "line"), [((0, 0), []), ((61, 2), ["failed", "63"])])
def test_failed_replies_are_in_the_summary_where_there_were_any(tmp_path, make_console, failed, line):
    with RunWriter.create(tmp_path / "run", json.dumps(CONFIG), {}) as writer:
        for step, count in enumerate(failed, 1):
            scalars = {"reward/mean": 1.0, "reply/excluded": float(count), "eval/failed": 0.0}
            writer.append(StepRecord(step, {}, scalars))
    console = make_console()
    print_training_summary(Run.open(tmp_path / "run"), console)
    lines = [line.split()[:2] for line in console.file.getvalue().splitlines() if line.startswith(" failed")]
    assert lines == [line] * bool(line)
