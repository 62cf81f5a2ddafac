"""A recorded step under other settings and once more, asked of the server; the child process is a real one."""

from __future__ import annotations

import json
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from taut.config import resolve
from taut.launch.local import train
from taut.launch.replay import replay
from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.objective.policy import ClipState
from taut.objective.reduce import whiten
from taut.store import Run, StoredBatch
from taut.tasks.adder import CHARACTERS, END
from taut.tasks.process.worker import LostError
from taut.training.derive import clip_states, gae_advantages
from taut.web.app import create_app
from taut.web.counterfactual import Child, OvertakenError

REWARD = """
def distinct(prompts, completions, **columns):
    return [float(len(set(completion))) for completion in completions]
"""
STEP = "/api/runs/critic/steps/3"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three steps with a critic, two epochs of two minibatches each, and a final pass."""
    folder = tmp_path_factory.mktemp("counterfactual")
    model = tiny_gpt2(len(CHARACTERS), 12, seed=0, width=16, heads=2)
    save_model(model, character_tokenizer(CHARACTERS, END), folder / "model")
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(3) for b in range(3)]
    (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "rewards.py").write_text(REWARD)
    settings = {
        "run.root": str(folder / "runs"),
        "run.name": "critic",
        "run.steps": 3,
        "run.threads": 1,
        "model.path": str(folder / "model"),
        "data.path": str(folder / "prompts.jsonl"),
        "reward": f"{folder / 'rewards.py'}:distinct",
        "sampling.max_new_tokens": 4,
        "algorithm.preset": "ppo",
        "algorithm.prompts_per_step": 4,
        "algorithm.replies_per_prompt": 2,
        "algorithm.epochs": 2,
        "algorithm.minibatches": 2,
        "optimizer.learning_rate": 3e-2,
        "store.final_pass": True,
        "checkpoint.every": 2,
    }
    return train(resolve(settings)[0])


@pytest.fixture(scope="module")
def client(run: Run) -> Iterator[TestClient]:
    app = create_app(run.directory.parent)
    with TestClient(app, base_url="http://127.0.0.1:8265") as client:
        yield client


def unpack(answer: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    [length] = struct.unpack("<I", answer[:4])
    header = json.loads(answer[4 : 4 + length])
    columns = {
        column["name"]: np.frombuffer(
            answer,
            np.dtype(column["dtype"]).newbyteorder("<"),
            column["shape"][0],
            4 + length + column["offset"],
        )
        for column in header["columns"]
    }
    return header, columns


def ask(
    client: TestClient, changes: dict[str, object], replies: list[int]
) -> tuple[dict, dict[str, np.ndarray]]:
    answer = client.post(f"{STEP}/counterfactual", json={"changes": changes, "replies": replies})
    assert answer.status_code == 200, answer.text
    return unpack(answer.content)


def test_the_panel_begins_with_what_the_run_stored(run, client):
    found = client.get(f"{STEP}/counterfactual").json()
    assert found["settings"]["algorithm.clip_low"] == 0.2
    assert found["settings"]["algorithm.lam"] == 0.95
    assert "algorithm.lam" not in found["fixed"]
    assert found["not_replayed"] == ""
    stored = {name: run.last(name) for name in found["before"]["metrics"]}
    assert found["before"]["metrics"] == stored
    losses = [row.get("loss/policy") for row in run.optimizer_steps(3)]
    assert [row.get("loss/policy") for row in found["before"]["optimizer_steps"]] == losses


def test_without_changes_the_tokens_are_those_that_trained(run, client):
    header, columns = ask(client, {}, [5, 0])
    batch = run.batch(3)
    assert (header["moved"]["held"], header["moved"]["freed"]) == (0, 0)
    assert header["before"] == header["after"]
    wanted = [batch.advantages[reply, : batch.lengths[reply]] for reply in (5, 0)]
    assert columns["advantages"].tolist() == np.concatenate(wanted).tolist()
    assert len(columns["states"]) == 3 * sum(batch.lengths[[5, 0]])  # an epoch each, and the final pass


def codes_of(batch: StoredBatch, states: list[ClipState], reply: int) -> list[int]:
    """Of the reply's tokens, sighting after sighting: inside 0; held above 1, below 2; free above 3, below 4."""
    found = []
    for update, state in zip(batch.updates, states, strict=True):
        for row in np.flatnonzero(update.rows == reply):
            for at in range(batch.lengths[reply]):
                high, low, binding = (bool(x[row, at]) for x in (state.high, state.low, state.binding))
                found.append(
                    0 if not (high or low) else (1 if high else 2) if binding else (3 if high else 4)
                )
    return found


def test_another_clip_and_lambda_are_what_the_objective_makes_of_the_recorded_updates(run, client):
    changes = {"algorithm.clip_low": 0.001, "algorithm.clip_high": 0.002, "algorithm.lam": 0.3}
    replies = list(range(8))
    header, columns = ask(client, changes, replies)
    batch = run.batch(3)
    raw, _ = gae_advantages(batch, {"lam": 0.3})
    advantages = whiten(raw, torch.from_numpy(batch.response_mask))
    assert columns["advantages"].tolist() == [
        value for reply in replies for value in advantages[reply, : batch.lengths[reply]].tolist()
    ]
    batch.advantages = advantages.numpy()
    states = clip_states(batch, {"clip_low": 0.001, "clip_high": 0.002})
    codes = [code for reply in replies for code in codes_of(batch, states, reply)]
    assert columns["states"].tolist() == codes
    assert {1, 2, 3, 4} <= set(codes)
    taken = [state for update, state in zip(batch.updates, states, strict=True) if update.applied]
    share = sum(int(state.binding.sum()) for state in taken) / sum(int(state.mask.sum()) for state in taken)
    assert header["after"]["metrics"]["clip/binding"] == share
    assert header["moved"]["held"] > 0
    assert header["after"]["metrics"]["loss/policy"] != header["before"]["metrics"]["loss/policy"]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"changes": {"algorithm.epochs": 9}}, 400, "decides which updates there were"),
        ({"changes": {"algorithm.clip_low": "much"}}, 400, "algorithm.clip_low"),
        ({"changes": {"algorithm.clip_low": float("nan")}}, 400, "algorithm.clip_low"),
        ({"changes": []}, 400, "changes"),
        ({"replies": [True]}, 400, "replies"),
        ({"turn": "1"}, 400, "turn"),
        ({"panel": 3}, 400, "panel"),
        ({"panel": "p" * 101}, 400, "panel"),
        ({"replies": [8]}, 400, "step 3 has 8 replies, counted from 0: there is no 8"),
        ({"replies": [-1]}, 400, "there is no -1"),
        ([], 400, "JSON object"),
    ],
)
def test_a_mistake_is_told_and_is_no_failure_of_the_server(client, body, status, told):
    answer = client.post(f"{STEP}/counterfactual", content=json.dumps(body))
    assert (answer.status_code, told in answer.json()["error"]) == (status, True), answer.text


def test_a_step_whose_replies_are_not_kept_is_told(client):
    answer = client.post("/api/runs/critic/steps/9/counterfactual", json={})
    assert answer.status_code == 400
    assert "steps kept: 1-3" in answer.json()["error"]
    assert client.post("/api/runs/none/steps/1/counterfactual", json={}).status_code == 404


def test_a_replay_says_whether_it_came_out_bit_for_bit(run, client):
    found = client.post(f"{STEP}/replay").json()
    assert (found["equal"], found["different"], found["differences"], found["start"]) == (True, 0, [], 2)
    mine = replay(run.directory, 3)
    assert found["stored"]["metrics"]["loss/policy"] == mine.last.stored.scalars["loss/policy"]


def test_of_a_panels_waiting_questions_only_the_newest_is_asked():
    asked: list[int] = []
    busy, go_on = threading.Event(), threading.Event()

    class Slow:
        def ask(self, request: tuple[str, dict], seconds: float, on_wait: object) -> dict:
            asked.append(request[1]["number"])
            busy.set()
            assert go_on.wait(20)
            return {}

    child, outcomes = Child(), {}
    child._worker = Slow()

    def question(number: int, panel: str, turn: int) -> None:
        try:
            child.ask("recompute", {"number": number}, 1, panel, turn)
            outcomes[number] = "answered"
        except OvertakenError:
            outcomes[number] = "overtaken"

    # The newest of "a", its fourth, comes before its third.
    order = [("a", 1), ("a", 2), ("a", 4), ("a", 3), ("b", 1), ("", 0), ("", 0)]
    threads = [threading.Thread(target=question, args=(n, *asking)) for n, asking in enumerate(order)]
    threads[0].start()
    assert busy.wait(20)
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        while child.count <= number:  # so that the questions come in this order
            time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert {number for number, outcome in outcomes.items() if outcome == "overtaken"} == {1, 3}
    assert sorted(asked) == [0, 2, 4, 5, 6]


def test_of_panels_only_the_newest_are_remembered():
    class Quick:
        def ask(self, request: tuple[str, dict], seconds: float, on_wait: object) -> dict:
            return {}

    child = Child()
    child._worker = Quick()
    for number in range(1_005):
        child.ask("recompute", {}, 1, f"panel {number}", 1)
        child.ask("recompute", {}, 1, "kept", number)
    assert len(child._newest) == 1_000
    assert "panel 1004" in child._newest
    with pytest.raises(OvertakenError):
        child.ask("recompute", {}, 1, "kept", 3)


def test_what_is_asked_as_the_server_ends_is_given_up():
    leaving = threading.Event()

    class Waiting:
        def ask(self, request: tuple[str, dict], seconds: float, on_wait: Callable[[float], None]) -> dict:
            for second in range(5):
                on_wait(float(second))
                leaving.set()
            return {}

    child = Child(leaving.is_set)
    child._worker = Waiting()
    for _ in range(2):  # the second is not even asked
        with pytest.raises(LostError, match="ends with the server"):
            child.ask("recompute", {}, 1)


def test_a_child_that_died_is_told_and_starts_again(client):
    os.kill(client.get(f"{STEP}/counterfactual").json()["process"], signal.SIGKILL)
    lost = client.get(f"{STEP}/counterfactual")
    assert (lost.status_code, "ask again" in lost.json()["error"]) == (503, True)
    assert client.get("/api/runs/critic/steps/9/counterfactual").status_code == 400
