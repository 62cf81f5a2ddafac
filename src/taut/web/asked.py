"""What the application answers, asked from within."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.types import Message


@dataclass(frozen=True)
class Answer:
    kind: str
    """Its media type."""
    body: bytes

    def json(self) -> Any:
        """NaN and the infinities stay the strings that mark them."""
        return json.loads(self.body)


async def answer_of(app: Starlette, address: str) -> Answer:
    """What `app` answers to a GET of `address`, without asking who asks.

    Raises what the route raises: HTTPException, or ValueError for what the user can mend.
    """
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "app": app,
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "query_string": query.encode(),
        "headers": [],
        "server": ("localhost", 80),
    }
    kind, body = "", bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal kind
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"").decode()
        body.extend(message.get("body", b""))

    await app.router(scope, receive, send)
    return Answer(kind.partition(";")[0], bytes(body))
