"""Tasks of reasoning-gym (2505.24760): rows drawn by name, and a reward by the task's own verifier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import yaml

PREFIX = "reasoning-gym:"


def generate_rows(path: str, seed: int) -> list[dict[str, Any]]:
    """Rows with `prompt`, `answer`, `metadata` and `task` of `reasoning-gym:task?argument=value&argument=value`.

    Arguments are the task's own, read as YAML, and `size`, how many (500 unless given); `seed` is the run's unless
    given. Raises ValueError where the task or an argument is unknown or refused.
    """
    return [
        {"prompt": entry["question"], "answer": entry["answer"], "metadata": entry["metadata"], "task": path}
        for entry in _tasks(path, seed)
    ]


def score(
    completions: Sequence[Any],
    answer: Sequence[Any],
    metadata: Sequence[dict[str, Any]],
    task: Sequence[str],
    **columns: Any,
) -> list[float]:
    """A reward function: what the task's verifier gives for the answer that a reply states."""
    replies = [reply if isinstance(reply, str) else reply[-1]["content"] for reply in completions]
    return [
        _score_one(stated_answer(reply), {"answer": expected, "metadata": about}, path)
        for reply, expected, about, path in zip(replies, answer, metadata, task, strict=True)
    ]


def stated_answer(reply: str) -> str:
    """What stands in the last `<answer>` pair, or else the last line that is not blank; stripped.

    The verifiers are never given a whole reply: some find, and pay for, an answer inside longer text.
    """
    from_tags = _gym().utils.extract_answer(reply)
    lines = [line for line in reply.splitlines() if line.strip()]
    return from_tags if from_tags is not None else (lines[-1].strip() if lines else "")


def _score_one(stated: str, entry: dict[str, Any], path: str) -> float:
    if not stated:
        return 0.0  # some verifiers pay a little for any attempt
    verify = _verifier(path)
    try:
        return float(verify(stated, entry))
    except Exception:  # the verifiers parse whatever a model wrote, and many raise where it makes no sense
        return 0.0


@cache
def _verifier(path: str) -> Any:
    """With the task's arguments: what some accept depends on them."""
    return _tasks(path, seed=0).score_answer


def _tasks(path: str, seed: int) -> Any:
    name, _, query = path.removeprefix(PREFIX).partition("?")
    arguments = {"seed": seed} | {key: yaml.safe_load(value) for key, value in parse_qsl(query)}
    gym = _gym(f"data {path}")
    try:
        return gym.create_dataset(name, **arguments)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(f"data {path}: {error}") from error


def _gym(who: str = "this reward") -> Any:
    try:
        import reasoning_gym
        import reasoning_gym.utils
    except ImportError as error:
        raise ImportError(f"{who} needs reasoning-gym: pip install 'taut[reasoning]'") from error
    return reasoning_gym
