"""Markup in every place that a text can come from is shown as text, and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from made_up_site import HOSTILE, Server, make_run
from playwright.sync_api import Page

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("hostile") / "runs"
    make_run(root / NAME, steps=2, hostile=True)
    make_run(root / "plain", steps=2)
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


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "%2Fetc%2Fpasswd", "..%5C..", "plain%00"])
def test_a_name_that_leads_out_of_the_folder_is_no_run(page: Page, name: str) -> None:
    assert page.request.get(f"/api/runs/{name}").status == 404
    assert page.request.get(f"/api/runs/{name}/scalars").status == 404
    assert page.request.get(f"/static/{name}").status == 404
