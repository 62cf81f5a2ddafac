"""How tests speak of the clip explorer's page."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

from playwright.sync_api import Locator, Page


def opened(page: Page, query: str = "") -> Page:
    page.goto(f"/clip{query}")
    page.get_by_role("heading", name="The clip", exact=True).wait_for()
    return page


def part(page: Page, name: str) -> Locator:
    return page.locator(f"[data-part='{name}']")


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=name, exact=True)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text.replace("−", "-"))]


def printed_by(page: Page, section: str) -> list[str]:
    """What the section's Python prints, taken from the page as a person would copy it."""
    box = part(page, f"python-{section}")
    box.get_by_role("button", name="The same in Python").click()
    source = box.locator("code").inner_text()
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(source, f"{section} on the page", "exec"), {})
    return out.getvalue().splitlines()
