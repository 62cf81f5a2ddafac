"""What compares Taut with its peers, without any peer: the pipe, the turns, the counts, the claims."""

import os
import sys
from pathlib import Path

import pytest
from peers.against_trl import rows_of, taut_side
from peers.models import model_for
from peers.pairs import alternate, check_same_work, ratio_of
from peers.protocol import Side, SideError
from peers.work import GRPO, TINY, named, prompts_of, score
from trl_grpo import claims_of
from trl_ppo import claims_of as ppo_claims_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FAKE = """
import sys
from peers.protocol import Requests
requests = Requests({"size": lambda: {"size": 7}})
done = 0
while requests.batch_done(lambda: {"done": done, "replies": 4, "prompt_tokens": 8, "reply_tokens": 12,
                                   "optimizer_steps": 2}):
    done += 1
    print("not an answer")
    if done == 9:
        sys.exit("out of batches")
"""


def fake_side(name: str) -> Side:
    return Side(name, [sys.executable, "-c", FAKE], {"PYTHONPATH": str(BENCHMARKS)})


def test_a_side_answers_between_what_it_prints_and_says_why_it_ended():
    with fake_side("fake") as side:
        first = side.ask("batch")
        assert first["done"] == 1
        assert 0 < first["seconds"] < 60
        assert side.ask("size") == {"size": 7}
        assert [side.ask("batch")["done"] for _ in range(7)] == list(range(2, 9))
        assert side.peak_bytes() > 1e6
        with pytest.raises(SideError, match="out of batches"):
            side.ask("batch")


def test_sides_take_turns_and_warm_up_does_not_count():
    with fake_side("taut") as ours, fake_side("peer") as peer:
        answers = alternate(ours, peer, pairs=2, warm_up=1, tell=lambda line: None)
    assert [(a["done"], b["done"]) for a, b in answers] == [(2, 2), (3, 3)]


def test_sides_that_did_different_work_are_refused():
    same = {"prompt_tokens": 8, "reply_tokens": 12, "replies": 4, "optimizer_steps": 2}
    check_same_work(same, dict(same))
    with pytest.raises(ValueError, match="reply_tokens 12 here and 11 there"):
        check_same_work(same, {**same, "reply_tokens": 11})


def test_the_ratio_is_of_medians_and_its_spread_of_pairs():
    ratio = ratio_of([(1.0, 3.0), (2.0, 8.0), (4.0, 10.0)])
    assert ratio == {"ours_seconds": 2.0, "peer_seconds": 8.0, "ratio": 4.0, "lowest": 2.5, "highest": 4.0}


@pytest.mark.parametrize("work", GRPO, ids=lambda work: work.name)
def test_prompts_differ_and_are_enough_for_a_batch(work):
    prompts = [str(prompt) for prompt in prompts_of(work)]
    assert len(set(prompts)) == len(prompts) >= work.prompts


def test_the_reward_counts_characters_of_texts_and_of_messages():
    assert score(["", ""], ["aab", [{"role": "assistant", "content": "abc"}]]) == [2.0, 3.0]


@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_tauts_side_does_the_batch_that_is_described(tmp_path, algorithm):
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    model, _ = model_for(TINY, tmp_path / "models")
    with taut_side(TINY, algorithm, model, tmp_path) as side:
        answers = [side.ask("batch") for _ in range(2)]
        limits = side.ask("ceilings")
    for answer in answers:
        assert answer["replies"] == 4
        assert answer["prompt_tokens"] == 4 * len("11+21=")
        assert answer["reply_tokens"] == 4 * 3  # none ended before
        assert answer["optimizer_steps"] == 2
        assert answer["phases"]["update"] > 0
        assert answer["phases"]["store"] > 0
        assert answer["phases"]["metrics"] > 0
    peer = {**answers[0], "seconds": 3 * answers[0]["seconds"]}
    rows = rows_of(TINY, algorithm, "random", [(answers[0], peer)], (1, 2), limits)
    assert [row["kind"] for row in rows] == ["pair", "summary"]
    assert rows[-1]["ratio"] == pytest.approx(3)
    assert rows[-1]["learner_share_of_gemm"] > 0


def summary(work: str, **values: float) -> dict:
    held = {"ratio": 3.5, "learner_share_of_gemm": 0.6, "recorded_share": 0.03, "memory_share": 0.6}
    return {"kind": "summary", "work": work, **held, **values}


def test_claims_come_from_rows_and_are_there_when_missed():
    rows = [{"kind": "pair", "work": "a"}, summary("a"), summary("b"), summary("c", ratio=3.4)]
    claims = claims_of(rows)
    assert [claim["holds"] for claim in claims] == [True] * 5 + [False]
    assert claims[-1] == {
        "what": "(c) times as many batches a second as TRL",
        "value": 3.4,
        "goal": "at least 3.5",
        "holds": False,
    }
    missed = [summary("b", ratio=2.1, learner_share_of_gemm=0.59, recorded_share=0.04, memory_share=0.7)]
    assert not any(claim["holds"] for claim in claims_of(missed))
    assert [claim["holds"] for claim in ppo_claims_of([summary("a", ratio=2.9), summary("b")])] == [
        False,
        True,
    ]


def test_works_are_found_by_name():
    assert named("b").new_tokens == 32
    assert named("tiny") is TINY
