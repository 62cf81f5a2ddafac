"""A reward function is any function with this signature; further columns of the data arrive by name."""

import re


def score(prompts: list[str], completions: list[str], answer: list[str], **columns: list) -> list[float]:
    """1 where the first line of the reply is the sum, else 0."""
    return [
        float(re.fullmatch(rf"\s*{expected}\s*", completion.split("\n")[0]) is not None)
        for completion, expected in zip(completions, answer, strict=True)
    ]
