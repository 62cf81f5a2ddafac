"""`taut plan` as a user types it."""

import json

import pytest

from taut.cli import DONE, WRONG_INPUT, main

SPEED = ["--teraflops", "1", "--bandwidth", "100"]


def test_the_worlds_plan_as_a_table(capsys):
    assert main(["plan", *SPEED]) == DONE
    page = capsys.readouterr().out
    for words in ("policy moments", "policy's backward pass", "KV cache", "peak", "policy's updates"):
        assert words in page


def test_a_plan_as_an_object(capsys):
    assert main(["plan", "--algorithm.preset", "ppo", "--json", *SPEED]) == DONE
    plan = json.loads(capsys.readouterr().out)
    learner = plan["memory"]["learner"]
    phases = learner["phases"]
    assert learner["peak"] == sum(learner["held"].values()) + max(sum(p.values()) for p in phases.values())
    assert learner["held"]["reference"] == learner["held"]["policy weights"]
    assert plan["machine"] == {"flops": 1e12, "bandwidth": 1e11}
    assert set(plan["time"]) == {
        "sampling", "old and reference logprobs", "values", "policy's updates", "critic's updates"
    }  # fmt: skip


def test_several_ranks_and_samplers_of_their_own(capsys):
    assert main(["plan", "--ranks", "4", "--apart", "--json", *SPEED]) == DONE
    assert set(json.loads(capsys.readouterr().out)["memory"]) == {"learner", "sampler"}


def test_dpo_samples_nothing(capsys):
    assert main(["plan", "dpo", "--json", *SPEED]) == DONE
    plan = json.loads(capsys.readouterr().out)
    assert set(plan["time"]) == {"policy's updates"}
    assert "replies decoded" not in plan["memory"]["learner"]["phases"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algorithm.minibatches", "7"], "does not divide"),
        (["--ranks", "0"], "whole number"),
        (["--apart"], "--ranks"),
        (["--teraflops", "3"], "--bandwidth"),
    ],
)
def test_wrong_input_is_told(capsys, arguments, words):
    assert main(["plan", *arguments]) == WRONG_INPUT
    assert words in capsys.readouterr().err
