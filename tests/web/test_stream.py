"""The stream that a tab listens to: live, after a lost connection, after a restart of the server."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import CONFIG, made_up_run, made_up_step, serving
from starlette.testclient import TestClient

from taut.store import RunWriter
from taut.store.database import connect_for_writing, set_meta
from taut.web import stream
from taut.web.glances import Glances, thinned
from taut.web.stream import Follower, Listing, messages


def parsed(lines: Iterator[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(event, id, data) of each message."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            key, _, value = line.partition(": ")
            fields[key] = value
        elif "data" in fields:
            yield fields["event"], fields["id"], json.loads(fields["data"])
            fields = {}


class Listener:
    """One connection to /api/stream of a real server."""

    def __init__(self, port: int, query: str, last_event_id: str | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        self.connection.request("GET", f"/api/stream?{query}", headers=headers)
        answer = self.connection.getresponse()
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        self.messages = parsed(line.decode().rstrip("\n") for line in answer)

    def until(self, step: int) -> tuple[list[int], str]:
        """The steps told until `step` is among them, and the id of the last message."""
        told: list[int] = []
        for _, last, data in self.messages:
            told += data.get("steps", [])
            if step in told:
                return told, last
        raise AssertionError(f"the stream ended after {told}")

    def close(self) -> None:
        self.connection.close()


def test_steps_arrive_as_they_are_written(root: Path) -> None:
    with serving(root) as port, RunWriter.create(root / "live", CONFIG, facts={}) as writer:
        listener = Listener(port, "runs=live")
        for step in range(4):
            writer.append(made_up_step(step))
            start = time.monotonic()
            assert listener.until(step)[0] == [step]
            assert time.monotonic() - start < 5
        listener.close()


def test_a_reconnect_tells_nothing_twice_and_leaves_nothing_out(root: Path) -> None:
    with serving(root) as port:
        listener = Listener(port, "runs=first")
        told, last = listener.until(3)
        assert told == [0, 1, 2, 3]
        listener.close()
        with RunWriter.resume(root / "first") as writer:
            writer.append(made_up_step(4))
            writer.append(made_up_step(5))
        listener = Listener(port, "runs=first", last)
        assert listener.until(5)[0] == [4, 5]
        listener.close()


def test_the_server_may_be_started_anew_in_the_middle(root: Path) -> None:
    with RunWriter.create(root / "live", CONFIG, facts={}) as writer:
        writer.append(made_up_step(0))
        with serving(root) as port:
            listener = Listener(port, "runs=live&runs=first&list=1")
            last = max(listener.until(0)[1], listener.until(3)[1], key=len)
        writer.append(made_up_step(1))
        with serving(root, port) as again:
            assert again == port
            listener = Listener(port, "runs=live&runs=first&list=1", last)
            assert listener.until(1)[0] == [1]
            listener.close()


def test_cursors_in_the_query_are_where_a_page_goes_on(root: Path) -> None:
    with serving(root) as port:
        _, last = Listener(port, "runs=first").until(3)
        with RunWriter.resume(root / "first") as writer:
            writer.append(made_up_step(4))
        assert Listener(port, f"runs=first&after={last}").until(4)[0] == [4]


def test_one_stream_tells_of_several_runs_and_the_list(root: Path) -> None:
    made_up_run(root / "second", steps=1)
    with serving(root) as port:
        listener = Listener(port, "runs=first&runs=second&list=1")
        kinds = [next(listener.messages) for _ in range(3)]
        listener.close()
    assert [kind for kind, _, _ in kinds] == ["run", "run", "runs"]
    assert [data["run"] for _, _, data in kinds[:2]] == ["first", "second"]
    rows = kinds[2][2]
    assert rows["reset"] is True
    assert [row["run"] for row in rows["rows"]] == ["first", "second"]
    assert kinds[2][1].count(",") == 1  # a cursor a run


def news(source: Follower | Listing) -> list[dict[str, Any]]:
    return list(source.news())


def settle(directory: Path) -> None:
    """As if it had been written ten seconds ago."""
    for path in directory.glob("run.db*"):
        os.utime(path, (time.time() - 10, time.time() - 10))


def test_a_step_that_shows_a_moment_after_it_was_written_is_told(root: Path) -> None:
    # The file's times already are those after the write when a reader comes that does not see it yet.
    follower = Follower(root, "first", None)
    news(follower)
    before = [path.stat() for path in sorted((root / "first").glob("run.db*"))]
    with RunWriter.resume(root / "first") as writer:
        writer.append(made_up_step(4))
    db = root / "first" / "run.db"
    os.utime(db, ns=(before[0].st_atime_ns, before[0].st_mtime_ns))
    assert db.stat().st_size == before[0].st_size
    assert news(follower)[0]["steps"] == [4]


def test_a_run_that_nothing_happens_to_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(root / "first")
    follower = Follower(root, "first", None)
    assert len(news(follower)) == 1
    monkeypatch.setattr(stream, "read_increment", lambda *_: pytest.fail("read without need"))
    assert news(follower) == []


def age_heartbeat(directory: Path, seconds: float, status: str = "running") -> None:
    db = connect_for_writing(directory / "run.db")
    set_meta(db, status=status, heartbeat=time.time() - seconds)
    db.close()


def test_a_killed_run_is_dead_after_a_minute(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age_heartbeat(root / "first", 50)
    follower, glances = Follower(root, "first", None), Glances(root)
    listing = Listing(glances)
    assert news(follower)[0]["status"] == "running"
    assert news(listing)[0]["rows"][0]["status"] == "running"
    assert news(follower) == news(listing) == []
    later = time.time() + 11
    monkeypatch.setattr(time, "time", lambda: later)
    assert [said["status"] for said in news(follower)] == ["dead"]
    assert [row["status"] for row in news(listing)[0]["rows"]] == ["dead"]
    assert news(follower) == news(listing) == []


def test_a_removed_run_is_gone_and_may_come_back_anew(root: Path) -> None:
    follower, listing = Follower(root, "first", None), Listing(Glances(root))
    news(follower), news(listing)
    shutil.rmtree(root / "first")
    assert news(follower) == [{"run": "first", "status": "gone"}]
    assert news(listing) == [{"reset": False, "rows": [], "gone": ["first"]}]
    made_up_run(root / "first", steps=1)
    [anew] = news(follower)
    assert (anew["reset"], anew["steps"]) == (True, [0, 1])
    assert [row["run"] for row in news(listing)[0]["rows"]] == ["first"]


def test_a_run_not_made_yet_is_told_once_it_is(root: Path) -> None:
    follower = Follower(root, "later", None)
    assert news(follower) == [{"run": "later", "status": "gone"}]
    assert news(follower) == []
    made_up_run(root / "later", steps=0)
    assert news(follower)[0]["steps"] == [0]


def test_a_damaged_store_is_told_and_holds_nothing_up(root: Path) -> None:
    (root / "first" / "run.db").write_bytes(b"not a database" * 100)
    [said] = news(Follower(root, "first", None))
    assert said["status"] == "unreadable"
    assert "restore it or remove it" in said["error"]
    assert news(Listing(Glances(root)))[0]["rows"][0]["status"] == "unreadable"


@pytest.mark.parametrize("name", ["..", "../runs/first", "a/b", "", "first\x00"])
def test_a_name_never_leads_out_of_the_folder(root: Path, name: str) -> None:
    assert news(Follower(root, name, None)) == [{"run": name, "status": "gone"}]


def test_the_stream_ends_when_the_server_does(root: Path) -> None:
    async def all_of(source: AsyncIterator[str]) -> list[str]:
        return [text async for text in source]

    answers = iter([False, True])
    texts = asyncio.run(all_of(messages([Follower(root, "first", None)], None, lambda: next(answers))))
    assert texts[0].startswith("retry: ")
    assert [text.splitlines()[0] for text in texts[1:]] == ["event: run"]


def test_a_listener_that_leaves_is_let_go(root: Path) -> None:
    before, listeners = threading.active_count(), 10
    with serving(root) as port:
        for _ in range(listeners):
            listener = Listener(port, "runs=first")
            listener.until(3)
            listener.close()
    # A few are the server's own, for all of its listeners.
    assert threading.active_count() < before + listeners // 2


def test_too_many_runs_are_refused(client: TestClient) -> None:
    answer = client.get("/api/stream?" + "&".join(["runs=first"] * 65))
    assert answer.status_code == 400
    assert "64" in answer.json()["error"]


def test_a_long_course_is_thinned_to_means() -> None:
    import numpy as np

    assert thinned(np.arange(3.0)).tolist() == [0, 1, 2]
    assert thinned(np.arange(80.0)).tolist() == [0.5 + 2 * k for k in range(40)]
    assert len(thinned(np.ones(12_345))) == 40


def test_a_run_that_is_away_for_a_moment_is_told_whole_when_it_is_back(root: Path) -> None:
    follower = Follower(root, "first", None)
    news(follower)
    (root / "first").rename(root / "elsewhere")
    assert news(follower) == [{"run": "first", "status": "gone"}]
    (root / "elsewhere").rename(root / "first")
    [back] = news(follower)
    assert (back["reset"], back["steps"]) == (True, [0, 1, 2, 3])


def test_odd_entries_neither_empty_nor_hold_up_the_list(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "run.db")
    assert list(Glances(root).rows()) == ["first"]


def test_a_locked_store_holds_the_list_up_for_a_moment_only(root: Path) -> None:
    writer = connect_for_writing(root / "first" / "run.db")
    writer.execute("PRAGMA journal_mode=TRUNCATE")
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("UPDATE meta SET value = value")
    start = time.monotonic()
    assert Glances(root).rows()["first"]["status"] == "unreadable"
    assert time.monotonic() - start < 5
    writer.rollback()
    writer.close()


def test_a_run_of_another_taut_is_told_as_unreadable(root: Path) -> None:
    db = connect_for_writing(root / "first" / "run.db")
    set_meta(db, schema_version=99)
    db.close()
    [said] = news(Follower(root, "first", None))
    assert said["status"] == "unreadable"
    assert "schema 99" in said["error"]
