"""Writes the hundred one-digit sums as plain 3-shot prompts: 67 to train on and 30 held out.

The three sums shown in every prompt are in neither file.
"""

import json
import pathlib
import random

SHOTS = [(2, 3), (7, 1), (4, 8)]


def line(a: int, b: int) -> str:
    return f"{a}+{b}="


def prompt(a: int, b: int) -> str:
    shown = "".join(f"{line(*shot)}{sum(shot)}\n" for shot in SHOTS)
    return shown + line(a, b)


def main() -> None:
    sums = [(a, b) for a in range(10) for b in range(10) if (a, b) not in SHOTS]
    random.Random(0).shuffle(sums)
    folder = pathlib.Path(__file__).parent
    for name, part in (("held_out.jsonl", sums[:30]), ("prompts.jsonl", sums[30:])):
        rows = [json.dumps({"prompt": prompt(a, b), "answer": str(a + b)}) for a, b in part]
        (folder / name).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
