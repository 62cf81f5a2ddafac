"""Writes what the pages say of metrics and checks: `python docs/generate_definitions.py`.

It is what metrics.md and checks.md say. A test holds the file to them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
MODULE = DOCS.parent / "src" / "taut" / "web" / "static" / "pages" / "runs" / "definitions.js"

HEAD = """\
// Made from docs/metrics.md and docs/checks.md by docs/generate_definitions.py.

/** name -> [what it is, its unit, what a mean is over, good range and what to do]. */
"""


def plain(text: str) -> str:
    """Markdown of one paragraph or cell as a reader of plain text wants it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return re.sub(r"`([^`]*)`|\*([^*]+)\*", lambda found: found[1] or found[2], text)


def metrics() -> dict[str, list[str]]:
    """Each row of the page's tables, by every name that its first cell has."""
    found = {}
    for line in (DOCS / "metrics.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            names, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
            for name in re.findall(r"`([^`]+)`", names):
                found[name] = [plain(cell) for cell in cells]
    return found


def checks() -> dict[str, list[str]]:
    """Each section's paragraphs: what holds where the check passes, and its story."""
    page = (DOCS / "checks.md").read_text(encoding="utf-8")
    found = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        found[name.strip()] = [plain(part) for part in body.strip().split("\n\n") if not part.startswith("|")]
    return found


def module() -> str:
    def written(entries: dict[str, list[str]]) -> str:
        lines = [
            f"{json.dumps(name)}: {json.dumps(said, ensure_ascii=False)}," for name, said in entries.items()
        ]
        return "\n".join(["{", *lines, "}"])

    return (
        f"{HEAD}export const METRICS = {written(metrics())};\n\n"
        f"/** name -> paragraphs, the first saying what holds where the check passes. */\n"
        f"export const CHECKS = {written(checks())};\n"
    )


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
