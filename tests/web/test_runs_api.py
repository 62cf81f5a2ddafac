"""Runs as the pages get them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from made_up_runs import CONFIG, made_up_run, made_up_step
from starlette.testclient import TestClient

from taut.store import RunWriter, increment
from taut.web.glances import left_out
from taut.web.strict_json import encode


def strict(text: str) -> object:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_list_has_a_row_a_run(client: TestClient, root: Path) -> None:
    made_up_run(root / "second", parent="first", parent_step=2)
    rows = client.get("/api/runs").json()["runs"]
    assert [row["run"] for row in rows] == ["first", "second"]
    assert (rows[1]["parent"], rows[1]["parent_step"]) == ("first", 2)
    assert rows[0]["status"] == "finished"
    assert rows[0]["steps"] == 3
    assert rows[0]["course"] == [0.0, 0.1, 0.2, 0.3]


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    from taut.web.app import create_app

    client = TestClient(create_app(tmp_path / "none"), base_url="http://localhost")
    assert client.get("/api/runs").json()["runs"] == []


def test_one_run_says_which_settings_are_not_the_default(client: TestClient) -> None:
    run = client.get("/api/runs/first").json()
    assert run["config"] == {"algorithm.epochs": 2, "run.seed": 0}
    from taut.config import Config

    expected = {} if Config().algorithm.epochs == 2 else {"algorithm.epochs": Config().algorithm.epochs}
    assert run["defaults"] == expected
    assert run["facts"]["threads"] == 1
    assert run["kept_steps"] == [1, 2, 3]


def test_numbers_that_json_lacks_are_marked(client: TestClient, root: Path) -> None:
    with RunWriter.create(root / "bad", CONFIG, facts={}) as writer:
        writer.append(made_up_step(0, odd=math.nan))
        writer.append(made_up_step(1, odd=math.inf))
        writer.append(made_up_step(2))
    answer = client.get("/api/runs/bad/scalars")
    assert strict(answer.text)["scalars"]["odd"] == ["NaN", "Infinity", None]
    strict(client.get("/api/runs").text)


def test_scalars_go_on_from_a_cursor(client: TestClient, root: Path) -> None:
    first = client.get("/api/runs/first/scalars").json()
    assert (first["steps"], first["reset"]) == ([0, 1, 2, 3], True)
    with RunWriter.resume(root / "first") as writer:
        writer.append(made_up_step(4))
    later = client.get(f"/api/runs/first/scalars?after={first['cursor']}").json()
    assert (later["steps"], later["reset"]) == ([4], False)


def test_the_parts_of_a_long_run_are_one_answer(
    client: TestClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunWriter.resume(root / "first") as writer:
        writer.append(made_up_step(4, late=4.0))
    monkeypatch.setattr(increment, "MOST_BATCHES", 2)
    answer = client.get("/api/runs/first/scalars").json()
    assert answer["steps"] == [0, 1, 2, 3, 4]
    assert answer["scalars"]["late"] == [None] * 4 + [4.0]
    assert answer["scalars"]["reward/mean"] == [0.0, 0.1, 0.2, 0.3, 0.4]


def test_events_after_an_id(client: TestClient, root: Path) -> None:
    with RunWriter.resume(root / "first") as writer:
        writer.event("note", "one", "first")
        writer.event("note", "two", "second", level="warning")
    events = client.get("/api/runs/first/events").json()["events"]
    assert [event["name"] for event in events] == ["one", "two"]
    later = client.get(f"/api/runs/first/events?after={events[0]['id']}").json()["events"]
    assert [event["level"] for event in later] == ["warning"]


def test_compared_runs_show_where_they_differ(client: TestClient, root: Path) -> None:
    made_up_run(root / "second", config="algorithm:\n  epochs: 4\nrun:\n  seed: 0\n  root: /elsewhere\n")
    answer = client.get("/api/compare?runs=first&runs=second").json()
    assert answer["differences"] == {"algorithm.epochs": [2, 4]}
    assert "run.root" not in client.get("/api/runs/second").json()["defaults"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/runs/none", 404),
        ("/api/runs/none/scalars", 404),
        ("/api/compare?runs=first&runs=none", 404),
        ("/api/nothing", 404),
        ("/api/runs/first/events?after=x", 400),
        ("/api/runs/first/events?after=-1", 400),
    ],
)
def test_mistakes_are_answered_with_what_to_do(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert len(answer.json()["error"]) > 10


def test_a_damaged_run_is_an_answer_and_no_crash(client: TestClient, root: Path) -> None:
    (root / "broken").mkdir()
    (root / "broken" / "run.db").write_bytes(b"nothing" * 999)
    assert client.get("/api/runs/broken").status_code == 400
    assert [row["status"] for row in client.get("/api/runs").json()["runs"]] == ["unreadable", "finished"]


@pytest.mark.parametrize("name", ["a b", "ü-run", "100%", "<img src=x onerror=alert(1)>", "a&b=c?d#e", "[x]"])
def test_any_name_is_found_by_its_percent_encoding(client: TestClient, root: Path, name: str) -> None:
    from urllib.parse import quote

    made_up_run(root / name)
    assert client.get(f"/api/runs/{quote(name, safe='')}").json()["run"] == name


def test_strict_json_of_numpy_and_hostile_text() -> None:
    text = encode({"a": np.float32("nan"), "b": np.array([1.0, -np.inf]), "c": "\ud800</script>\x00"})
    assert strict(text) == {"a": "NaN", "b": [1.0, "-Infinity"], "c": "\ud800</script>\x00"}
    text.encode("ascii")


@pytest.mark.parametrize("text", [None, "model: x\nalgorithm: y\n", "- 1\n"])
def test_a_run_without_its_settings_keeps_its_microscope(
    client: TestClient, root: Path, text: str | None
) -> None:
    file = root / "first" / "config.yaml"
    if text is None:
        file.unlink()
    else:
        file.write_text(text, encoding="utf-8")
    [*_, step] = client.get("/api/runs/first").json()["kept_steps"]
    assert client.get(f"/api/runs/first/steps/{step}/tokens?replies=0").status_code == 200
    assert client.get("/api/workshop").status_code == 200


def test_a_name_that_cannot_be_printed_is_neither_listed_nor_found(client: TestClient, root: Path) -> None:
    made_up_run(root / "a\u202eb")
    assert [row["run"] for row in client.get("/api/runs").json()["runs"]] == ["first"]
    assert client.get("/api/runs/a%E2%80%AEb").status_code == 404
    assert left_out(root) == ["a\u202eb"]
