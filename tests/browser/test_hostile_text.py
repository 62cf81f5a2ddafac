"""Markup in every place that a text can come from is shown as text, and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from made_up_site import HOSTILE, Server, make_run, step_record
from playwright.sync_api import Page

from taut.store import RunWriter
from taut.store.database import connect_for_writing, set_meta

NAME = "<img src=x onerror=\"document.title='owned'\">"
RUN = f"/runs/{quote(NAME)}"
PAGES = {
    "/": [NAME],
    "/runs": [NAME],
    RUN: [NAME, HOSTILE],
    f"{RUN}/steps/2": [HOSTILE],
    f"{RUN}/steps/2/replies/1": [HOSTILE],
    f"{RUN}/prompts/0": [HOSTILE],
    f"/compare?runs={quote(quote(NAME, safe=''))},plain": [NAME],
    f"/runs/{quote('<script>alert(1)</script>', safe='')}": [],
    "/glossary?q=" + quote(HOSTILE): [HOSTILE],
}
FOREIGN = (
    "document.querySelectorAll('img, iframe, script:not([src]):not([type=importmap]), [onerror]').length"
)
SHOWN = """(text) => document.querySelector("main").innerText.includes(text)
    || [...document.querySelectorAll("input")].some((field) => field.value.includes(text))"""


ODD = ("__proto__", "constructor", "toString")
"""Names that every object of JavaScript has something under."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("hostile") / "runs"
    make_run(root / NAME, steps=2, hostile=True)
    make_run(root / "plain", steps=2)
    make_run(root / "odd", steps=2)
    with RunWriter.resume(root / "odd") as writer:
        writer.append(
            step_record(3, **{f"{name}/{name}": 1.0 for name in ODD}, **{f"time/{name}": 1.0 for name in ODD})
        )
        for name in ODD:
            writer.event("check", name, f"says {name}", name, 3)
    db = connect_for_writing(root / "odd" / "run.db")
    set_meta(db, status="__proto__")
    db.close()
    served = Server(root)
    served.start()
    yield served
    served.stop()


@pytest.mark.parametrize("path", PAGES)
def test_nothing_executes_and_the_text_is_seen(page: Page, problems: list[str], path: str) -> None:
    page.goto(path)
    page.get_by_role("heading", level=1).first.wait_for()
    page.wait_for_timeout(1000)
    for text in PAGES[path]:
        assert page.evaluate(SHOWN, text[:20]), f"{text!r} isn't seen"
    assert page.evaluate(FOREIGN) == 0
    assert page.title() != "owned"
    problems[:] = [problem for problem in problems if "404" not in problem]  # of the run that there isn't


def test_names_that_objects_inherit_are_names(page: Page, problems: list[str]) -> None:
    page.goto("/runs/odd")
    for name in ODD:
        page.locator(".checks").get_by_text(name, exact=True).click()
        page.locator(".check-story").get_by_text(f"says {name}").first.wait_for()
    page.get_by_text("__proto__").first.wait_for()
    page.goto("/runs")
    page.get_by_role("link", name="odd").first.wait_for()
    assert problems == []


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "%2Fetc%2Fpasswd", "..%5C..", "plain%00"])
def test_a_name_that_leads_out_of_the_folder_is_no_run(page: Page, name: str) -> None:
    assert page.request.get(f"/api/runs/{name}").status == 404
    assert page.request.get(f"/api/runs/{name}/scalars").status == 404
    assert page.request.get(f"/static/{name}").status == 404
