"""A language model as the judge of replies, over an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

FIRST_PAUSE = 0.5
"""Seconds before the first retry; each further pause is twice as long."""


def last_number(answer: str) -> float:
    """Raises ValueError where there is none."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", answer)
    if not numbers:
        raise ValueError(f"the judge's answer has no number: {answer[:80]!r}")
    return float(numbers[-1])


class Judge:
    """A reward function: what `model` says of each reply, as `parse` reads it.

    `question` is the message it is sent, with {prompt}, {completion} and any column of the data by name filled in.
    At most `concurrency` requests run at once, each for at most `timeout` seconds. One that fails to connect, or is
    answered 429 or 5xx, is sent up to `retries` times more, after pauses that double. Equal questions are asked
    once for as long as the judge lives. The model answers at temperature 0.
    """

    def __init__(
        self,
        url: str,
        model: str,
        question: str,
        parse: Callable[[str], float] = last_number,
        api_key: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        concurrency: int = 16,
    ) -> None:
        """`url` ends before `/chat/completions`, as in http://localhost:8000/v1."""
        self.url = url.rstrip("/") + "/chat/completions"
        self.model = model
        self.question = question
        self.parse = parse
        self.api_key = api_key
        self.timeout = timeout
        self.retries = retries
        self.concurrency = concurrency
        self._known: dict[str, float] = {}
        self._client: httpx.AsyncClient | None = None

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float]:
        """Raises the first error there was; what was answered is kept for the next call."""
        given = {
            **columns,
            "prompt": list(map(_text, prompts)),
            "completion": list(map(_text, completions)),
        }
        questions = [self._fill_in(given, row) for row in range(len(completions))]
        new = [question for question in dict.fromkeys(questions) if question not in self._known]
        room = asyncio.Semaphore(self.concurrency)
        answers = await asyncio.gather(*(self._ask(q, room) for q in new), return_exceptions=True)
        for question, answer in zip(new, answers, strict=True):
            if not isinstance(answer, BaseException):
                self._known[question] = answer
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [self._known[question] for question in questions]

    def _fill_in(self, given: dict[str, Any], row: int) -> str:
        def value(name: re.Match[str]) -> str:
            return str(given[name[1]][row]) if name[1] in given else name[0]

        return re.sub(r"\{(\w+)\}", value, self.question)

    async def _ask(self, question: str, room: asyncio.Semaphore) -> float:
        content = {
            "model": self.model,
            "temperature": 0,
            "messages": [{"role": "user", "content": question}],
        }
        async with room:
            response = await self._post(content)
        return self.parse(response.json()["choices"][0]["message"]["content"])

    async def _post(self, content: dict[str, Any]) -> httpx.Response:
        try:
            import httpx
        except ImportError as error:
            raise ImportError("a judge needs httpx: pip install 'taut[judge]'") from error
        if self._client is None:
            headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
            self._client = httpx.AsyncClient(timeout=self.timeout, headers=headers)
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                response = await self._client.post(self.url, json=content)
                if last or not (response.status_code == 429 or response.status_code >= 500):
                    return response.raise_for_status()
            except httpx.TransportError:
                if last:
                    raise
            await asyncio.sleep(FIRST_PAUSE * 2**attempt)
        raise AssertionError("the last attempt returns or raises")


def _text(part: Any) -> str:
    """A conversation as lines of `role: content`; a reply to one, alone in its list, as its content."""
    if isinstance(part, str):
        return part
    if len(part) == 1 and part[0]["role"] == "assistant":
        return part[0]["content"]
    return "\n".join(f"{message['role']}: {message['content']}" for message in part)
