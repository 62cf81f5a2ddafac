"""One stream of server-sent events a tab: the list of runs, and the runs that its page watches.

Each message's id says how far every watched run was told, so that a browser that lost the connection, or whose
server was started anew, goes on where it was: nothing twice, nothing missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from taut.store.glance import Signature, signature, status_of
from taut.store.increment import Cursor, read_increment
from taut.web.glances import Glances
from taut.web.requests import directory_of, root_of
from taut.web.strict_json import encode

POLL_SECONDS = 0.5
ROUNDS_A_LIST = 2
"""The list of runs is looked at every so many polls."""
ROUNDS_A_PING = 30
"""A comment now and then lets either side notice that the other is gone."""
RETRY_MILLISECONDS = 1_000
MOST_RUNS = 64


def stream(request: Request) -> Response:
    """`?runs=NAME` for each run to watch, `after=CURSOR` for each in that order, `list=1` for the list of runs."""
    names = request.query_params.getlist("runs")
    if len(names) > MOST_RUNS:
        raise ValueError(f"a page watches at most {MOST_RUNS} runs, not {len(names)}")
    last = request.headers.get(
        "last-event-id"
    )  # a browser that reconnects sends the query of the first time, too
    told = last.split(",") if last else request.query_params.getlist("after")
    told += ["-"] * (len(names) - len(told))
    root = root_of(request)
    followers = [Follower(root, name, Cursor.parse(text)) for name, text in zip(names, told, strict=False)]
    listing = Listing(request.app.state.glances) if request.query_params.get("list") == "1" else None
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    told_as_it_comes = messages(followers, listing, request.app.state.leaving)
    return StreamingResponse(told_as_it_comes, media_type="text/event-stream", headers=headers)


class Follower:
    """What happens to one run."""

    def __init__(self, root: Path, name: str, told: Cursor | None) -> None:
        self.name = name
        self.directory = directory_of(root, name)
        self.told = told
        self._seen: Signature | None = None
        self._said: dict[str, Any] = {}

    def news(self) -> Iterator[dict[str, Any]]:
        """Increments as of `read_increment`, or only a new status; each with the `run` and its `cursor`."""
        now = None if self.directory is None else signature(self.directory)
        if now is None:
            yield from self._status({"status": "gone"})
            self._seen = self.told = None  # one that comes back is told whole, to a page that forgot it
        elif now != self._seen:
            self._seen = now if now.is_settled else None
            yield from self._read()
        elif self._said.get("status") == "running":  # only the clock says that a run is dead
            yield from self._status({"status": status_of(self._said)})

    def _read(self) -> Iterator[dict[str, Any]]:
        assert self.directory is not None
        more = True
        while more:
            try:
                increment, self.told = read_increment(self.directory / "run.db", self.told)
            except ValueError as error:
                yield from self._status({"status": "unreadable", "error": str(error)})
                return
            more = increment.pop("more")
            unchanged = self._said.get("status") == increment["status"]
            self._said = {key: increment[key] for key in ("status", "heartbeat")}
            if not (unchanged and is_empty(increment)):
                yield {"run": self.name, "cursor": str(self.told), **increment}

    def _status(self, said: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if said["status"] != self._said.get("status"):
            self._said = self._said | said
            yield {"run": self.name, **said}


def is_empty(increment: dict[str, Any]) -> bool:
    return not (increment["reset"] or increment["ids"] or increment["events"] or increment["superseded"])


class Listing:
    """What happens to the list of runs."""

    def __init__(self, glances: Glances) -> None:
        self.glances = glances
        self._said: dict[str, dict[str, Any]] | None = None

    def news(self) -> Iterator[dict[str, Any]]:
        """{"reset": whether these are all, "rows": the new and changed, "gone": names}."""
        rows, before = self.glances.rows(), self._said
        self._said = rows
        known = before or {}
        changed = [row for name, row in rows.items() if known.get(name) is not row and known.get(name) != row]
        gone = [name for name in known if name not in rows]
        if before is None or changed or gone:
            yield {"reset": before is None, "rows": changed, "gone": gone}


async def messages(
    followers: Sequence[Follower], listing: Listing | None, leaving: Callable[[], bool] = lambda: False
) -> AsyncIterator[str]:
    """Until the browser leaves, or the server: `leaving`, asked at every poll."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    turn = 0
    while not leaving():
        sources: list[tuple[str, Follower | Listing]] = [("run", follower) for follower in followers]
        if listing is not None and turn % ROUNDS_A_LIST == 0:
            sources.append(("runs", listing))
        for kind, source in sources:
            news = source.news()
            # A message at a time, each read in a thread: a long run's first telling holds no one up.
            while (data := await run_in_threadpool(_next_message, news)) is not None:
                told = ",".join(str(follower.told or "-") for follower in followers)
                yield f"event: {kind}\nid: {told}\ndata: {data}\n\n"
        turn += 1
        if turn % ROUNDS_A_PING == 0:
            yield ": still here\n\n"
        await asyncio.sleep(POLL_SECONDS)


def _next_message(news: Iterator[dict[str, Any]]) -> str | None:
    message = next(news, None)
    return None if message is None else encode(message)


ROUTES = [Route("/api/stream", stream)]
