"""Sweeps: every combination, named by its own values, and what their table says."""

import statistics

import pytest

from taut.launch.sweep import run_sweep, summarize, sweep_configs
from taut.store import Run, RunWriter, StepRecord

AXES = {"algorithm.epochs": [1, 4], "run.seed": [0, 1]}


def test_combinations_in_order_the_last_axis_fastest(tmp_path):
    configs = sweep_configs({"run.name": "try", "run.steps": 3}, AXES, tmp_path)
    assert [(config.algorithm.epochs, config.run.seed) for config in configs] == [
        (1, 0),
        (1, 1),
        (4, 0),
        (4, 1),
    ]
    assert configs[2].run.name == "try_epochs=4_seed=0"
    assert {config.run.root for config in configs} == {str(tmp_path)}
    assert {config.run.steps for config in configs} == {3}


def test_other_spellings_make_an_axis_that_sets_two_keys(tmp_path):
    low, high = sweep_configs({}, {"epsilon": [0.2, 0.5]}, tmp_path)
    assert (low.algorithm.clip_low, low.algorithm.clip_high) == (0.2, 0.2)
    assert (high.algorithm.clip_low, high.algorithm.clip_high) == (0.5, 0.5)


def test_names_hold_no_slashes(tmp_path):
    [config] = sweep_configs({}, {"model.path": ["a/b c"]}, tmp_path)
    assert config.run.name == "sweep_path=a-b-c"


def test_a_value_may_be_a_list(tmp_path):
    axes = {"optimizer.betas": [[0.9, 0.95], [0.8, 0.99]], "run.seed": [0, 1]}
    configs = sweep_configs({"run.name": "try"}, axes, tmp_path)
    assert [config.optimizer.betas for config in configs] == [[0.9, 0.95]] * 2 + [[0.8, 0.99]] * 2
    assert configs[0].run.name == "try_betas=0.9-0.95_seed=0"
    runs = []
    for config in configs:
        with RunWriter.create(tmp_path / config.run.name, "", {}) as writer:
            writer.append(StepRecord(1, {}, {"reward/mean": 0.5}))
        runs.append(Run.open(tmp_path / config.run.name))
    assert [(row["optimizer.betas"], row["runs"]) for row in summarize(runs, axes)] == [
        ([0.9, 0.95], 2),
        ([0.8, 0.99], 2),
    ]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"run.seed": [0, 0]}, "give each value once"),
        ({"algorithm.epoch": [1]}, "did you mean algorithm.epochs"),
        ({"algorithm.minibatches": [1, 7]}, "does not divide"),
        ({"run.seed": [0, 1]}, "exists"),
    ],
)
def test_wrong_before_anything_starts(tmp_path, axes, message):
    (tmp_path / "sweep_seed=1").mkdir()
    with pytest.raises(ValueError, match=message):
        run_sweep({}, axes, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep_seed=1"]


def test_table_is_mean_and_deviation_over_seeds(tmp_path):
    runs = []
    for number, shares in enumerate([(0.0, 0.0), (0.0, 0.0), (0.1, 0.3), (0.2, 0.4)]):
        with RunWriter.create(tmp_path / str(number), "", {}) as writer:
            for step, share in enumerate(shares, 1):
                scalars = {"reward/mean": number / 10, "clip/binding": share, "eval/accuracy": step / 10}
                writer.append(StepRecord(step, {}, scalars))
        runs.append(Run.open(tmp_path / str(number)))
    once, often = summarize(runs, AXES)
    assert once["algorithm.epochs"] == 1
    assert once["runs"] == 2
    assert once["clip/binding"] == (0.0, 0.0)
    assert once["reward/mean"] == pytest.approx((0.05, statistics.stdev([0.0, 0.1])))
    assert often["clip/binding"] == pytest.approx((0.25, statistics.stdev([0.2, 0.3])))
    assert often["eval/accuracy"] == (0.2, 0.0)
    assert often["eval/greedy"] is None
    [alone] = summarize(runs[:1], {"algorithm.epochs": [1]})
    assert alone["reward/mean"] == (0.0, None)


def test_two_processes_make_the_same_runs_as_one(own, tmp_path):
    base = {key: value for key, value in own.items() if key not in ("run.root", "run.name")}
    axes, heard = {"run.seed": [0, 1]}, []
    together = run_sweep(base, axes, tmp_path / "two", jobs=2, on_run=lambda run: heard.append(run.name))
    alone = run_sweep(base, axes, tmp_path / "one", jobs=1)
    assert [run.name for run in together] == [run.name for run in alone] == ["sweep_seed=0", "sweep_seed=1"]
    assert sorted(heard) == ["sweep_seed=0", "sweep_seed=1"]
    for one, two in zip(alone, together, strict=True):
        assert one.series("reward/mean")[1].tolist() == two.series("reward/mean")[1].tolist()
        assert one.replies(2)[0].old_logprobs.tobytes() == two.replies(2)[0].old_logprobs.tobytes()
