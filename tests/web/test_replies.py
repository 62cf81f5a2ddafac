"""A step's replies through the server: lists, one of them, its text, a prompt through training."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from taut.store import ReplyRecord, RetentionPolicy, Run, RunWriter, StepRecord, UpdateRecord
from taut.store.database import connect_for_writing
from taut.web.app import create_app

CONFIG = "model:\n  path: careless-adder\n"
CONSTANTS = {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None, "surrogate": "clipped", "gamma": 1.0}
EVERYTHING = RetentionPolicy()
OLD = np.log(np.array([0.5, 0.5], np.float32))


def made_up_reply(number: int, **changes: object) -> ReplyRecord:
    reply = ReplyRecord(
        prompt_index=10 + number // 2,
        group=number // 2,
        sample=number % 2,
        version=0,
        prompt_text=f"{number // 2}+1=",
        prompt_ids=np.array([1], np.int32),
        text=f"Reply {number};",
        ids=np.array([number, 12], np.int32),
        mask=np.ones(2, bool),
        reward=float(number),
        finish_reason="stop",
        terms={"exact": float(number)},
        behavior_logprobs=OLD,
        old_logprobs=OLD,
        entropy=np.zeros(2, np.float32),
        advantages=np.array([1.0, -1.0], np.float32),
    )
    return replace(reply, **changes)  # type: ignore[arg-type]


def made_up_batch(step: int, replies: list[ReplyRecord]) -> StepRecord:
    """Two epochs of one minibatch: the second saw each first token at ρ = 1 + reply / 10, each second one at 1."""
    moved = [
        (reply.old_logprobs + np.log([1 + number / 10, *[1.0] * (len(reply.ids) - 1)])).astype(np.float32)
        for number, reply in enumerate(replies)
    ]
    rows = np.arange(len(replies))
    updates = [
        UpdateRecord(0, 0, rows, [reply.old_logprobs for reply in replies]),
        UpdateRecord(1, 0, rows, moved),
    ]
    return StepRecord(step, CONSTANTS, {}, replies, updates)


def write(directory: Path, *steps: StepRecord, retention: RetentionPolicy = EVERYTHING) -> None:
    with RunWriter.create(directory, CONFIG, {}, retention) as writer:
        for step in steps:
            writer.append(step)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    clients = []

    def serve(*steps: StepRecord, **options: object) -> TestClient:
        write(tmp_path / "runs" / "a run", *steps, **options)  # type: ignore[arg-type]
        clients.append(TestClient(create_app(tmp_path / "runs"), base_url="http://127.0.0.1:8265"))
        return clients[-1]

    yield serve
    for client in clients:
        client.close()


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    replies = [made_up_reply(number) for number in range(4)]
    replies[1] = replace(replies[1], reward=float("nan"), failures={"exact": "TimeoutError: slow"}, terms={})
    replies[3] = replace(replies[3], finish_reason="length")
    return serve(made_up_batch(1, replies))


def listed(client: TestClient, **query: object) -> list[int]:
    answer = client.get("/api/runs/a run/steps/1/replies", params=query)
    assert answer.status_code == 200, answer.text
    return [row["reply"] for row in answer.json()["replies"]]


def test_a_list_holds_what_a_table_shows(client: TestClient) -> None:
    answer = client.get("/api/runs/a run/steps/1/replies").json()
    assert (answer["size"], answer["matched"], answer["kept"]) == (4, 4, [1])
    row = answer["replies"][3]
    assert row["text"] == "Reply 3;"
    assert (row["length"], row["reward"], row["prompt"], row["text_bytes"]) == (2, 3.0, "1+1=", 8)
    # Held: the first token of reply 3 at its second sighting, ρ = 1.3 with A = 1. One of four sightings of tokens.
    assert row["clip/binding"] == 0.25
    assert row["kl/old_k3"] == pytest.approx((0.3 - np.log(1.3)) / 2, rel=1e-6)
    assert row["kl/ref_k3"] is None
    # ρ = 1.2 in float32 is on the edge, which is inside.
    assert [row["clip/binding"] for row in answer["replies"]] == [0, 0, 0, 0.25]
    assert answer["replies"][1]["reward"] == "NaN"


def test_lists_are_sorted_with_what_has_no_value_last(client: TestClient) -> None:
    assert listed(client, sort="reward", order="desc") == [3, 2, 0, 1]
    assert listed(client, sort="reward", order="asc") == [0, 2, 3, 1]
    assert listed(client, sort="clip", order="desc")[0] == 3
    assert listed(client, sort="failures", order="desc")[0] == 1
    assert listed(client, sort="kl", order="desc") == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("filter", "kept"),
    [
        ("failed", [1]),
        ("cut", [3]),
        ("held", [3]),
        ("reward>=2", [2, 3]),
        ("reward >= 2, cut", [3]),
        ("length<2", []),
        ("clip>0.1", [3]),
        ("kl_ref<1e9", []),
        ("group=0", [0, 1]),
    ],
)
def test_lists_are_filtered(client: TestClient, filter: str, kept: list[int]) -> None:
    assert listed(client, filter=filter) == kept


def test_lists_are_searched_and_paged(client: TestClient) -> None:
    assert listed(client, search="REPLY 2") == [2]
    assert listed(client, search="1+1") == [2, 3]  # in the prompt
    assert listed(client, search="%") == []
    assert listed(client, offset=1, limit=2) == [1, 2]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"sort": "beauty"}, "reward"),
        ({"order": "up"}, "asc or desc"),
        ({"filter": "reward>>2"}, "reward>=0.5"),
        ({"filter": "__class__>2"}, "comparison"),
        ({"offset": "-1"}, "whole number"),
        ({"limit": "501"}, "at most 500"),
    ],
)
def test_a_mistake_in_a_query_is_told(client: TestClient, query: dict[str, str], told: str) -> None:
    answer = client.get("/api/runs/a run/steps/1/replies", params=query)
    assert answer.status_code == 400
    assert told in answer.json()["error"]


def test_one_reply_and_its_text_as_a_file(client: TestClient) -> None:
    reply = client.get("/api/runs/a run/steps/1/replies/1").json()
    assert reply["failures"] == {"exact": "TimeoutError: slow"}
    assert (reply["text"], reply["trained"], reply["prompt"]) == ("Reply 1;", 2, "0+1=")
    file = client.get("/api/runs/a run/steps/1/replies/1/text")
    assert file.text == "Reply 1;"
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20run-step-1-reply-1.txt"
    assert file.headers["content-type"].startswith("text/plain")


def test_what_is_not_there_is_404_and_says_what_is(serve: Callable[..., TestClient]) -> None:
    replies = [made_up_reply(0)]
    client = serve(
        *(made_up_batch(step, replies) for step in range(1, 5)), retention=RetentionPolicy(newest=2)
    )
    assert client.get("/api/runs/a run/steps").json() == {"kept": [3, 4], "dropped": [1, 2], "superseded": []}
    for path, told in {
        "steps/1/replies": "step 1 were dropped to save space; steps kept: 3-4",
        "steps/9/replies": "no step 9",
        "steps/0/tokens": "no step 0",
    }.items():
        answer = client.get(f"/api/runs/a run/{path}")
        assert answer.status_code == 404
        assert told in answer.json()["error"]
    for path in ("steps/3/replies/1", "steps/3/replies/1/text", "steps/3/tokens?replies=0,1"):
        answer = client.get(f"/api/runs/a run/{path}")
        assert answer.status_code == 400
        assert answer.json()["error"] == "step 3 has 1 replies, counted from 0: there is no 1"
    assert "keeps no reply to prompt 7" in client.get("/api/runs/a run/prompts/7").json()["error"]


def test_a_step_that_a_resume_takes_again_says_so(serve: Callable[..., TestClient], tmp_path: Path) -> None:
    client = serve(made_up_batch(1, [made_up_reply(0)]), made_up_batch(2, [made_up_reply(0)]))
    with RunWriter.resume(tmp_path / "runs" / "a run") as writer:
        writer.supersede_after(1)
        assert "taken back by a resume" in client.get("/api/runs/a run/steps/2/replies").json()["error"]
        writer.append(made_up_batch(2, [made_up_reply(0, text="again")]))
    assert client.get("/api/runs/a run/steps/2/replies").json()["replies"][0]["text"] == "again"
    assert client.get("/api/runs/a run/steps").json()["superseded"] == [2]


def test_a_prompt_is_followed_through_training(serve: Callable[..., TestClient]) -> None:
    steps = [[made_up_reply(0), made_up_reply(2)], [made_up_reply(2)], [made_up_reply(0, text="better")]]
    client = serve(*(made_up_batch(step, replies) for step, replies in enumerate(steps, 1)))
    answer = client.get("/api/runs/a run/prompts/10").json()
    assert [(row["step"], row["text"]) for row in answer["replies"]] == [(1, "Reply 0;"), (3, "better")]
    assert answer["prompt"] == "0+1="


def test_previews_are_short_and_whole_texts_whole(serve: Callable[..., TestClient]) -> None:
    long = "ä\0" * 400_000  # a NUL, at which SQLite's functions of text end
    client = serve(made_up_batch(1, [made_up_reply(0, text=long, prompt_text=long)]))
    [row] = client.get("/api/runs/a run/steps/1/replies").json()["replies"]
    assert row["text"] == "ä\0" * 200
    assert row["text_bytes"] == row["prompt_bytes"] == 1_200_000
    assert row["prompt"] == "ä\0" * 200
    assert client.get("/api/runs/a run/steps/1/replies/0/text").text == long
    assert len(client.get("/api/runs/a run/steps/1/replies/0").json()["text"]) == 20_000
    assert client.get("/api/runs/a run/steps/1/replies", params={"search": "Ä"}).json()["matched"] == 0
    assert client.get("/api/runs/a run/steps/1/replies", params={"search": "\0ä"}).json()["matched"] == 1


def test_an_empty_reply_to_an_empty_prompt_is_listed(serve: Callable[..., TestClient]) -> None:
    client = serve(made_up_batch(1, [made_up_reply(0, text="", prompt_text="")]))
    [row] = client.get("/api/runs/a run/steps/1/replies").json()["replies"]
    assert (row["text"], row["text_bytes"], row["prompt"]) == ("", 0, "")


def read_tokens(answer: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """By the layout that `taut.web.tokens` promises."""
    [length] = struct.unpack("<I", answer[:4])
    header = json.loads(answer[4 : 4 + length])
    columns = {}
    for column in header["columns"]:
        start = 4 + length + column["offset"]
        columns[column["name"]] = np.frombuffer(answer, column["dtype"], column["shape"][0], start)
    return header, columns


def test_tokens_travel_as_they_are_stored(serve: Callable[..., TestClient]) -> None:
    advantages = np.array([np.nan, np.inf, -1.5], np.float32)
    longer = made_up_reply(
        1,
        ids=np.array([1, 99, 12], np.int32),
        mask=np.array([True, False, True]),
        behavior_logprobs=np.array([-0.5, np.nan, -2.0], np.float32),
        old_logprobs=np.array([-0.5, -1.0, -2.0], np.float32),
        entropy=np.zeros(3, np.float32),
        advantages=advantages,
    )
    client = serve(made_up_batch(1, [made_up_reply(0), longer]))
    header, columns = read_tokens(client.get("/api/runs/a run/steps/1/tokens?replies=1,0").content)
    assert [(r["reply"], r["start"], r["length"], r["seen"], r["seen_start"]) for r in header["replies"]] == [
        (1, 0, 3, [0, 1], 0),
        (0, 3, 2, [0, 1], 6),
    ]
    assert columns["ids"].tolist() == [1, 99, 12, 0, 12]
    assert columns["mask"].tolist() == [1, 0, 1, 1, 1]
    assert columns["advantages"].tobytes() == np.concatenate([advantages, [1, -1]]).astype("<f4").tobytes()
    assert columns["logprobs"].dtype == np.float32
    np.testing.assert_allclose(
        columns["logprobs"][[3, 6, 7]], [-0.5 + np.log(1.1), OLD[0], OLD[1]], rtol=1e-6
    )
    assert "values" not in columns
    assert "ref_logprobs" not in columns
    assert header["pieces"] == {"0": "0", "1": "1", "12": ";", "99": "⟨#99⟩"}
    assert header["special"] == [12]
    assert header["constants"]["clip_low"] == 0.2
    assert [(s["epoch"], s["minibatch"], s["applied"]) for s in header["optimizer_steps"]] == [
        (0, 0, True),
        (1, 0, True),
    ]


def test_a_batch_too_large_for_one_answer_says_what_it_left_out(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taut.web.tokens.MOST_TOKENS", 5)
    client = serve(made_up_batch(1, [made_up_reply(number) for number in range(4)]))
    header, _ = read_tokens(client.get("/api/runs/a run/steps/1/tokens").content)
    assert [reply["reply"] for reply in header["replies"]] == [0, 1]
    assert header["left_out"] == [2, 3]


@pytest.mark.parametrize("replies", ["", "x", "1,", "-1", "١"])
def test_replies_that_are_no_numbers_are_a_mistake(client: TestClient, replies: str) -> None:
    answer = client.get("/api/runs/a run/steps/1/tokens", params={"replies": replies})
    assert answer.status_code == 400
    assert "0,1,2" in answer.json()["error"]


BEYOND = 2**63


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"steps/{BEYOND}/replies", 404),
        (f"steps/1/replies/{BEYOND}", 400),
        (f"steps/1/replies/{BEYOND}/text", 400),
        (f"prompts/{BEYOND}", 400),
        (f"steps/{BEYOND}/counterfactual", 400),
    ],
)
def test_a_number_beyond_the_stores_is_no_failure_of_the_server(
    client: TestClient, path: str, status: int
) -> None:
    assert client.get(f"/api/runs/a run/{path}").status_code == status


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_failure_in_the_words_of_a_number_stays_text(
    serve: Callable[..., TestClient], tmp_path: Path, text: str
) -> None:
    client = serve(made_up_batch(1, [made_up_reply(0, failures={"exact": text})]))
    [row] = client.get("/api/runs/a run/steps/1/replies").json()["replies"]
    assert row["failures"] == {"exact": text}
    [reply] = Run.open(tmp_path / "runs" / "a run").replies(1)
    assert reply.failures == {"exact": text}
    assert client.get("/api/export/a run/replies.parquet").status_code == 200


@pytest.mark.parametrize(
    ("damage", "path", "words"),
    [
        (
            "UPDATE updates SET logprobs = zeroblob(12)",
            "runs/a run/steps/1/replies",
            "reply 2 has 2 tokens, but 3 entries of logprobs",
        ),
        (
            "UPDATE updates SET logprobs = zeroblob(4)",
            "runs/a run/steps/1/tokens",
            "reply 2 has 2 tokens, but 1 entries of logprobs",
        ),
        (
            "UPDATE replies SET old_logprobs = zeroblob(4)",
            "export/a run/tokens.csv",
            "step 1 is damaged (old_logprobs holds 1 entries for 2 tokens)",
        ),
    ],
)
def test_an_array_of_another_length_is_told_as_damage(
    client: TestClient, tmp_path: Path, damage: str, path: str, words: str
) -> None:
    db = connect_for_writing(tmp_path / "runs" / "a run" / "run.db")
    db.execute(f"{damage} WHERE reply = 2")
    db.close()
    answer = client.get(f"/api/{path}")
    assert answer.status_code == 400
    assert words in answer.json()["error"]
