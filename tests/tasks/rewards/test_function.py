"""A reward function in its process: it may keep state, raise, hang and die."""

from __future__ import annotations

import os
import time

import cloudpickle
import numpy as np
import pytest

from taut.tasks.rewards.function import Care, FunctionScorer
from taut.types import Prompt, Rollout

FUNCTIONS = """
import os, sys, time
calls = 0

def process(completions, **_):
    return [os.getpid()] * len(completions)

def count(completions, **_):
    global calls
    calls += 1
    return [calls] * len(completions)

def size(completions, **_):
    return [len(completions)] * len(completions)

def behave(completions, **_):
    if "raise" in completions:
        raise KeyError("gold")
    if "hang" in completions:
        time.sleep(60)
    if "die" in completions:
        os._exit(3)
    if "exit" in completions:
        sys.exit("bye")
    if "end of file" in completions:
        input()
    return [float("nan") if text == "nan" else len(text) for text in completions]

def once(completions, **_):
    global calls
    calls += 1
    if calls <= 2 and "odd" in completions:
        raise RuntimeError("the first times")
    return [1.0] * len(completions)

def prints(completions, **_):
    print("to the output")
    return [1.0] * len(completions)
"""


@pytest.fixture
def scorer(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)

    def make(name, **care):
        return FunctionScorer(name, f"{path}:{name}", Care(**care))

    return make


def replies(*texts):
    return [
        Rollout(Prompt(i, f"p{i}", (1,), {"answer": i}), 0, (1,), text, np.zeros(1, np.float32), "stop")
        for i, text in enumerate(texts)
    ]


def rewards(scores):
    return [score.reward if score.scored else None for score in scores]


def test_it_runs_in_one_process_that_keeps_its_state(scorer):
    process = scorer("process")
    first = rewards(process.score(replies("a", "b")))
    assert first == rewards(process.score(replies("c", "d")))
    assert first[0] == first[1] != os.getpid()
    count = scorer("count")
    assert [rewards(count.score(replies("a")))[0] for _ in range(3)] == [1.0, 2.0, 3.0]


def test_several_workers_share_a_batch_in_order(scorer):
    assert rewards(scorer("size", workers=2).score(replies(*"abc"))) == [2.0, 2.0, 1.0]
    assert len(set(rewards(scorer("process", workers=2).score(replies(*"abc"))))) == 2
    assert rewards(scorer("size", workers=4).score(replies("a"))) == [1.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise", "raised KeyError: 'gold'"),
        ("hang", "gave no answer within 1 s"),
        ("die", "ended its process"),
        ("exit", "raised SystemExit: bye"),
        ("end of file", "raised EOFError"),
        ("nan", "returned nan"),
    ],
)
def test_only_the_reply_at_fault_fails(scorer, text, why):
    scores = scorer("behave", timeout=1.0).score(replies("ab", text, "abc"))
    assert rewards(scores) == [2.0, None, 3.0]
    assert [score.failures.get("behave", "")[: len(why)] for score in scores] == ["", why, ""]


def test_a_function_that_compares_replies_is_not_called_reply_by_reply(scorer):
    one, other = scorer("behave", isolate=False).score(replies("ab", "raise"))
    assert one.failures == other.failures
    assert one.failures["behave"].startswith("raised KeyError: 'gold', at ")


def test_one_that_hangs_on_reply_after_reply_is_not_waited_for_forever(scorer):
    started = time.monotonic()
    why = [score.failures["behave"] for score in scorer("behave", timeout=0.5).score(replies(*["hang"] * 9))]
    assert (
        why == ["gave no answer within 0.5 s"] * 3 + ["was not called: it was lost on 3 replies in a row"] * 6
    )
    assert time.monotonic() - started < 20


def test_on_failure_stop_ends_the_run(scorer):
    with pytest.raises(
        ValueError, match=r"raised KeyError: 'gold', at .*:\d+ \(on 1 of 2 replies, the first is reply 1"
    ):
        scorer("behave", on_failure="stop").score(replies("ab", "raise"))


def test_on_failure_retry_tries_a_failed_reply_once_more(scorer):
    excluded = scorer("once").score(replies("odd", "even"))
    assert rewards(excluded) == [None, 1.0]
    assert rewards(scorer("once", on_failure="retry").score(replies("odd", "even"))) == [1.0, 1.0]


def test_it_is_loaded_and_checked_before_any_reply_exists(scorer, tmp_path):
    prompts = [reply.prompt for reply in replies("a")]
    scorer("behave").check(prompts)
    with pytest.raises(ValueError, match=r"has no nothing; it has .*behave"):
        scorer("nothing").check(prompts)
    path = tmp_path / "exits.py"
    path.write_text("import sys; sys.exit('bye')")
    with pytest.raises(ValueError, match="reward function f, on being loaded, raised SystemExit: bye"):
        FunctionScorer("f", f"{path}:f").check(prompts)


def test_the_line_of_the_user_s_file_is_named(tmp_path):
    path = tmp_path / "lines.py"
    path.write_text(
        "import json\n\ndef inner(text):\n    return json.loads(text)\n\n"
        "def f(completions, **kw):\n    return [inner(text) for text in completions]\n"
    )
    [score] = FunctionScorer("f", f"{path}:f").score(replies("{"))
    assert score.failures["f"].startswith("raised JSONDecodeError: ")
    assert score.failures["f"].endswith(f", at {path}:4")
    path.write_text("import json\n\nnothing_here\n")
    with pytest.raises(ValueError, match=rf"importing {path} raised NameError: .*, at {path}:3$"):
        FunctionScorer("f", f"{path}:f").check([replies("a")[0].prompt])


def test_a_function_of_a_notebook_travels_by_value():
    offset = 40

    def score(completions, answer, **_):
        return [offset + number for number in answer]

    assert rewards(FunctionScorer("score", cloudpickle.dumps(score)).score(replies("a", "b"))) == [40.0, 41.0]


def test_what_does_not_load_in_another_process_is_told():
    with pytest.raises(ValueError, match="reward function f does not load in a process of its own"):
        FunctionScorer("f", b"no pickle").check([])


def test_what_it_prints_stays_out_of_the_runs_output(scorer, capfd):
    scorer("prints").score(replies("a"))
    out, err = capfd.readouterr()
    assert (out, "to the output" in err) == ("", True)


def test_waiting_is_told_with_the_seconds(scorer, monkeypatch):
    monkeypatch.setattr("taut.tasks.process.worker.PATIENCE", 0.0)
    hanging, heard = scorer("behave", timeout=1.5, isolate=False), []
    hanging.on_wait = heard.append
    assert "gave no answer" in hanging.score(replies("hang"))[0].failures["behave"]
    assert any(waited >= 1.0 for waited in heard)


def test_its_process_ends_with_the_scorer(scorer):
    process = scorer("process")
    pid = int(rewards(process.score(replies("a")))[0])
    del process
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_prompt_of_a_conversation_is_its_messages():
    messages = ({"role": "user", "content": "hi"},)
    prompt = Prompt(0, "<user>hi", (1,), messages=messages)
    reply = Rollout(prompt, 0, (1,), "hello", np.zeros(1, np.float32), "stop")

    def score(prompts, completions):
        assert prompts == [[{"role": "user", "content": "hi"}]]
        assert completions == [[{"role": "assistant", "content": "hello"}]]
        return [1.0]

    assert rewards(FunctionScorer("score", cloudpickle.dumps(score)).score([reply])) == [1.0]


def test_one_that_was_given_up_is_not_called_on_the_other_parts_of_the_batch(scorer):
    own = scorer("behave", timeout=0.5)
    own.score(replies(*["hang"] * 3), step=4)
    given_up = "was not called: it was lost on 3 replies in a row"
    assert [score.failures for score in own.score(replies("ab", "raise"), step=4)] == [
        {"behave": given_up}
    ] * 2
    assert rewards(own.score(replies("ab"), step=5)) == [2.0]
