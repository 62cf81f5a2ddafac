"""What a reward function is given, by TRL's contract and verl's, and what it may return."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch

from taut.tasks.process.load import load_reference
from taut.tasks.process.worker import RefusedError
from taut.tasks.rewards.contract import Call, call_function, check_signature

TWO = Call(
    prompts=["prompt 0", "prompt 1"],
    texts=["a", "b"],
    completion_ids=[[1, 2], [3]],
    columns={"answer": ["x", "y"], "level": [1, None]},
    step=3,
    max_steps=9,
)


def scores(function, call=TWO):
    with asyncio.Runner() as runner:
        return call_function(function, "my_score", call, runner)


def rewards(function, call=TWO):
    found = [score.reward for score in scores(function, call)]
    assert all(type(reward) is float for reward in found)
    return found


def test_trls_keywords_reach_a_function_that_takes_them_all():
    seen = {}

    def score(**keywords):
        seen.update(keywords)
        return [1, 2]

    assert rewards(score) == [1.0, 2.0]
    state = seen.pop("trainer_state")
    assert (state.global_step, state.max_steps) == (3, 9)
    assert callable(seen.pop("log_extra"))
    assert callable(seen.pop("log_metric"))
    assert seen == {
        "prompts": ["prompt 0", "prompt 1"],
        "completions": ["a", "b"],
        "completion_ids": [[1, 2], [3]],
        "answer": ["x", "y"],
        "level": [1, None],
    }


def test_a_function_is_given_what_it_names():
    assert rewards(lambda completions, answer: [len(completions), len(answer)]) == [2.0, 2.0]


def test_a_conversation_is_answered_by_a_conversation():
    messages = [{"role": "user", "content": "hi"}]
    call = Call([messages], ["hello"], [[1]], {})

    def score(prompts, completions):
        assert prompts == [messages]
        assert completions == [[{"role": "assistant", "content": "hello"}]]
        return [1.0]

    assert rewards(score, call) == [1.0]


def test_async_functions_are_awaited():
    async def score(completions, **_):
        await asyncio.sleep(0)
        return [0.5 for _ in completions]

    assert rewards(score) == [0.5, 0.5]


def test_what_is_logged_comes_back_with_the_scores():
    def score(completions, log_extra, log_metric, **_):
        log_extra("parsed", [np.int64(4), {"no": "scalar"}])
        log_metric("share", 0.25)
        log_metric("share", np.float32(0.75))
        return [1.0, 0.0]

    first, second = scores(score)
    assert first.logged == second.logged == {"my_score/share": 0.5}
    assert (first.extra, second.extra) == ({"parsed": 4}, {"parsed": "{'no': 'scalar'}"})


def test_a_logged_column_of_another_length_is_refused():
    def score(log_extra, **_):
        log_extra("parsed", [1, 2, 3])
        return [1.0, 0.0]

    with pytest.raises(RefusedError, match="my_score logged 3 values in column 'parsed' for 2 replies"):
        rewards(score)


def test_none_is_not_scored_and_no_failure():
    first, second = scores(lambda **_: [None, 0.0])
    assert (first.scored, first.failures) == (False, {})
    assert second.reward == 0.0


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ([math.nan, 1.0], "returned nan"),
        ([-math.inf, 1.0], "returned -inf"),
        ([1e39, 1.0], "returned 1e+39"),
        ([10**400, 1.0], "returned an integer beyond float32"),
        (np.array([np.inf, 1.0], dtype=np.float16), "returned inf"),
    ],
)
def test_a_number_that_is_not_finite_is_a_failure_on_its_reply(returned, text):
    first, second = scores(lambda **_: returned)
    assert (first.scored, first.failures) == (False, {"my_score": text})
    assert second.reward == 1.0


@pytest.mark.parametrize(
    "returned",
    [
        [1, 0.5],
        (1.0, 0.5),
        np.array([1, 0.5]),
        np.array([1, 0.5], dtype=np.float16),
        torch.tensor([1, 0.5], dtype=torch.bfloat16),
        torch.tensor([1, 0.5], requires_grad=True),
        [np.float32(1), np.float64(0.5)],
        [np.int64(1), torch.tensor(0.5)],
        [True, 0.5],
        [np.bool_(True), 0.5],
    ],
    ids=repr,
)
def test_numbers_of_any_kind_are_taken(returned):
    assert rewards(lambda **_: returned) == [1.0, 0.5]


def test_true_and_false_are_1_and_0():
    assert rewards(lambda **_: [True, False]) == [1.0, 0.0]
    assert rewards(lambda **_: np.array([True, False])) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0], "returned 1 numbers for 2 replies"),
        ([1.0, 2.0, 3.0], "returned 3 numbers for 2 replies"),
        ([], "returned 0 numbers for 2 replies"),
        ([1.0, "0.5"], "returned '0.5' for reply 1"),
        ([[1.0], [0.5]], r"returned \[1.0\] for reply 0"),
        (np.array([[1.0], [0.5]]), r"returned \[1.0\] for reply 0"),
        ([torch.tensor([1.0, 2.0]), 1.0], r"returned \[1.0, 2.0\] for reply 0"),
        ([1.0, 1j], "returned 1j for reply 1"),
        (None, "must return a list of 2 numbers, one a reply, not a NoneType"),
        (0.5, "a list of 2 numbers, one a reply, not a float"),
        (np.float64(0.5), "a list of 2 numbers, one a reply, not a float"),
        ("ab", "a list of 2 numbers, one a reply, not a str"),
        ({0: 1.0, 1: 2.0}, "a list of 2 numbers, one a reply, not a dict"),
        pytest.param(
            (x for x in (1.0, 2.0)), "a list of 2 numbers, one a reply, not a generator", id="generator"
        ),
    ],
    ids=repr,
)
def test_what_is_no_list_of_numbers_is_refused_by_name(returned, message):
    with pytest.raises(RefusedError, match=f"reward function my_score .*{message}"):
        rewards(lambda **_: returned)


VERL = Call(
    prompts=["1+1=", "2+2="],
    texts=["2", "5"],
    completion_ids=[[1], [2]],
    columns={
        "data_source": ["sums", "sums"],
        "reward_model": [{"ground_truth": "2"}, {"ground_truth": "4"}],
        "extra_info": [{"index": 0}, {"index": 1}],
    },
)


def test_verls_contract_is_called_once_a_reply():
    calls = []

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        calls.append((data_source, solution_str, ground_truth, extra_info))
        return float(solution_str == ground_truth)

    assert rewards(compute_score, VERL) == [1.0, 0.0]
    assert calls == [("sums", "2", "2", {"index": 0}), ("sums", "5", "4", {"index": 1})]


def test_verls_dict_gives_the_score_and_logs_the_rest():
    def compute_score(solution_str, ground_truth, **_):
        return {"score": np.float32(0.5), "acc": solution_str == ground_truth, "pred": solution_str}

    first, second = scores(compute_score, VERL)
    assert (first.reward, first.logged, first.extra) == (0.5, {"my_score/acc": 1.0}, {"pred": "2"})
    assert second.logged == {"my_score/acc": 0.0}


def test_verls_dict_without_a_score_is_refused():
    with pytest.raises(RefusedError, match="my_score returned a dict without score; it has acc"):
        rewards(lambda solution_str, ground_truth: {"acc": 1.0}, VERL)


@pytest.mark.parametrize("column", ["ground_truth", "answer"])
def test_verls_ground_truth_may_be_a_column_of_its_own(column):
    call = Call(["p"], ["2"], [[1]], {column: ["2"]})
    assert rewards(lambda solution_str, ground_truth: solution_str == ground_truth, call) == [1.0]


def test_what_a_function_asks_for_is_checked_before_any_reply_exists():
    columns = ["answer", "level"]
    check_signature(lambda prompts, completions, **columns: [], "f", columns)
    check_signature(lambda completions, answer: [], "f", columns)
    check_signature(lambda completions, gold=None: [], "f", columns)
    check_signature(lambda *, log_metric, trainer_state, completion_ids: [], "f", [])
    check_signature(lambda data_source, solution_str, ground_truth, extra_info: 0, "f", columns)
    with pytest.raises(RefusedError, match=r"f asks for gold, and is given prompts.*\(answer, level\)"):
        check_signature(lambda completions, gold, **columns: [], "f", columns)
    with pytest.raises(RefusedError, match="no column of the data can have that name: rename it"):
        check_signature(lambda **_: [], "f", ["completions"])
    with pytest.raises(
        RefusedError, match="follows verl's contract, and the data has no column reward_model"
    ):
        check_signature(lambda solution_str, ground_truth: 0, "f", ["level"])


REWARDS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Weights:  # looks its own module up
    right: float = 2.0

def score(prompts, completions, **columns):
    return [Weights().right] * len(prompts)

scale = 3
"""


@pytest.fixture
def rewards_file(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", ["untouched"])
    path = tmp_path / "math.py"  # a name that the standard library has too
    path.write_text(REWARDS)
    return str(path)


def test_a_function_is_loaded_from_a_file(rewards_file):
    assert rewards(load_reference(f"{rewards_file}:score", "reward function")) == [2.0, 2.0]
    import math as untouched

    assert untouched is math


def test_a_function_is_loaded_from_a_module():
    assert load_reference("statistics:fmean", "reward function") is __import__("statistics").fmean


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.py:score", r"there is no file nowhere\.py"),
        ("no_such_module:score", "No module named 'no_such_module'"),
        ("FILE:scor", r"has no scor; it has .*score"),
        ("FILE:scale", r"has no scale; it has .*score"),
    ],
)
def test_what_cannot_be_loaded_is_named(rewards_file, reference, message):
    with pytest.raises(RefusedError, match=message):
        load_reference(reference.replace("FILE", rewards_file), "reward function")


def test_what_a_file_raises_is_reported(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("1 / 0")
    with pytest.raises(RefusedError, match=r"importing .*broken\.py raised ZeroDivisionError"):
        load_reference(f"{path}:score", "reward function")
