"""`taut check` and `taut plan` as a user types them."""

import json

import pytest

from taut.cli import DONE, FAILED, WRONG_INPUT, main
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.adder import CHARACTERS, END

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


@pytest.fixture
def small(tmp_path):
    """A tiny random model and ten sums, as arguments."""
    model = tiny_gpt2(len(CHARACTERS), CHARACTERS.index(END), seed=0, width=16, heads=2)
    save_model(model, character_tokenizer(CHARACTERS, END), tmp_path / "model")
    rows = [{"prompt": f"{a}+0=", "answer": str(a)} for a in range(10)]
    (tmp_path / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [
        *("--model.path", str(tmp_path / "model"), "--data.path", str(tmp_path / "sums.jsonl")),
        *("--sampling.max_new_tokens", "3", "--algorithm.preset", "ppo-batch-mean"),
    ]


def test_a_run_is_checked_line_by_line(small, capsys):
    assert main(["check", *small]) == DONE
    lines = capsys.readouterr().out.splitlines()
    begun = [line.split()[:2] for line in lines if line[:4] in ("pass", "warn", "fail", "skip")]
    assert [name for _, name in begun[:5]] == ["settings", "tokenizer", "data", "batch", "prompts"]
    assert ["warn", "data"] in begun  # nothing is held out
    assert "fail" not in {verdict for verdict, _ in begun}


def test_a_check_that_fails_ends_with_1_and_the_fix(small, capsys):
    assert main(["check", *small, "--algorithm.minibatches", "7", "--json"]) == FAILED
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["settings"]["verdict"] == "fail"
    assert "set it to 4 or 8" in lines["settings"]["message"]
    assert lines["data"]["verdict"] == "warn"
    assert lines["little step"]["verdict"] == "skip"
