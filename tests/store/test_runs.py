"""Listing, finding, naming and comparing runs."""

import pytest
from made_up import CONFIG, make_run

from taut.store import Run, RunWriter, StepRecord
from taut.store.compare import config_differences, summary_rows
from taut.store.runs import UNREADABLE, find_run, list_runs, new_run_directory


def test_list_oldest_first(tmp_path):
    make_run(tmp_path / "b")
    with RunWriter.create(tmp_path / "a", CONFIG, facts={}) as writer:
        writer.append(StepRecord(1, {}, {"reward/mean": 0.5, "eval/accuracy": 0.25}))
        writer.append(StepRecord(2, {}, {"reward/mean": 0.75}))
        writer.finish("failed")
    first, second = list_runs(tmp_path)
    assert [first, second] == summary_rows([Run.open(tmp_path / "b"), Run.open(tmp_path / "a")])
    assert (first["run"], first["status"], first["steps"], first["eval/accuracy"]) == (
        "b",
        "finished",
        3,
        None,
    )
    assert (second["run"], second["status"], second["steps"], second["eval/accuracy"]) == (
        "a",
        "failed",
        2,
        0.25,
    )
    assert second["reward/mean"] == pytest.approx((0.5 + 0.75) / 2)


def test_list_goes_on_past_what_it_cannot_read(tmp_path):
    make_run(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.db").write_text("nonsense")
    (tmp_path / "not a run").mkdir()
    bad, good = list_runs(tmp_path)
    assert bad == {"run": "bad", **UNREADABLE}
    assert list(bad) == list(good)
    assert (good["run"], good["status"]) == ("good", "finished")


def test_list_of_no_folder_is_empty(tmp_path):
    assert list_runs(tmp_path / "nowhere") == []


def test_find_by_name_and_path(tmp_path):
    path = make_run(tmp_path / "runs" / "adder")
    assert find_run(tmp_path / "runs", "adder").directory == path
    assert find_run(tmp_path, path).directory == path
    with pytest.raises(ValueError, match=r"no run 'ader' in '.*runs': did you mean 'adder'\?"):
        find_run(tmp_path / "runs", "ader")
    with pytest.raises(ValueError, match=r"no run 'zzz' in .*: `taut runs` lists"):
        find_run(tmp_path / "runs", "zzz")


def test_new_directory_is_never_an_existing_one(tmp_path):
    assert new_run_directory(tmp_path, "fresh") == tmp_path / "fresh"
    names = {new_run_directory(tmp_path) for _ in range(5)}
    assert len(names) == 5
    assert not any(path.exists() for path in names)
    make_run(tmp_path / "taken")
    with pytest.raises(ValueError, match=r"run 'taken' exists in .*: choose another name"):
        new_run_directory(tmp_path, "taken")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", "/etc/run", "x/"])
def test_run_name_is_a_plain_folder_name(tmp_path, name):
    with pytest.raises(ValueError, match="not a plain folder name"):
        new_run_directory(tmp_path, name)


def test_config_differences(tmp_path):
    first = "algorithm: {epochs: 1, clip_low: 0.2}\nrun: {seed: 0, tags: [a]}\nreward: {arguments: {}}\n"
    second = "algorithm: {epochs: 8, clip_low: 0.2}\nrun: {seed: 0, tags: [b]}\nsampling: {top_k: 5}\n"
    runs = [
        Run.open(make_run(tmp_path / name, config=config)) for name, config in (("1", first), ("2", second))
    ]
    assert config_differences(runs) == {
        "algorithm.epochs": [1, 8],
        "run.tags": [["a"], ["b"]],
        "reward.arguments": [{}, None],
        "sampling.top_k": [None, 5],
    }
    assert config_differences([runs[0], runs[0]]) == {}
    assert config_differences([]) == {}


def test_summary_rows(tmp_path):
    run = Run.open(make_run(tmp_path / "run", range(1, 11)))
    (row,) = summary_rows([run])
    assert row["reward/mean"] == pytest.approx((6 + 7 + 8 + 9 + 10) / 5 / 100)
    assert row["clip/binding"] == pytest.approx(0.07)
    assert row["eval/accuracy"] is None
    assert (row["run"], row["status"], row["steps"]) == ("run", "finished", 10)
