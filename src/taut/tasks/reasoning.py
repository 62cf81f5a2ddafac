"""Tasks of reasoning-gym (2505.24760): rows drawn by name, and a reward by the task's own verifier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import yaml

PREFIX = "reasoning-gym:"


def generate_rows(path: str, seed: int) -> list[dict[str, Any]]:
    """Rows with `prompt`, `answer` and `metadata` of `reasoning-gym:task?argument=value&argument=value`.

    Arguments are the task's own, read as YAML, and `size`, how many (500 unless given); `seed` is the run's unless
    given. Raises ValueError where the task or an argument is unknown or refused.
    """
    name, _, query = path.removeprefix(PREFIX).partition("?")
    arguments = {"seed": seed} | {key: yaml.safe_load(value) for key, value in parse_qsl(query)}
    gym = _gym()
    try:
        tasks = gym.create_dataset(name, **arguments)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(f"data {path}: {error}") from error
    return [
        {"prompt": task["question"], "answer": task["answer"], "metadata": task["metadata"]} for task in tasks
    ]


def score(
    completions: Sequence[Any], answer: Sequence[Any], metadata: Sequence[dict[str, Any]], **columns: Any
) -> list[float]:
    """A reward function: what the task's verifier gives for the answer that a reply states."""
    replies = [reply if isinstance(reply, str) else reply[-1]["content"] for reply in completions]
    return [
        _score_one(stated_answer(reply), {"answer": expected, "metadata": about})
        for reply, expected, about in zip(replies, answer, metadata, strict=True)
    ]


def stated_answer(reply: str) -> str:
    """What stands in the last `<answer>` pair, or else the last line that is not blank; stripped.

    The verifiers are never given a whole reply: some find, and pay for, an answer inside longer text.
    """
    from_tags = _gym().utils.extract_answer(reply)
    lines = [line for line in reply.splitlines() if line.strip()]
    return from_tags if from_tags is not None else (lines[-1].strip() if lines else "")


def _score_one(stated: str, entry: dict[str, Any]) -> float:
    if not stated:
        return 0.0  # some verifiers pay a little for any attempt
    try:
        return float(_verifier(entry["metadata"]["source_dataset"])(stated, entry))
    except Exception:  # the verifiers parse whatever a model wrote, and many raise where it makes no sense
        return 0.0


@cache
def _verifier(task: str) -> Any:
    return _gym().get_score_answer_fn(task)


def _gym() -> Any:
    try:
        import reasoning_gym
        import reasoning_gym.utils
    except ImportError as error:
        raise ImportError("these tasks need reasoning-gym: pip install 'taut[reasoning]'") from error
    return reasoning_gym
