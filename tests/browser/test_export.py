"""A run and a step as one HTML file, opened from the disk in a browser that is offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from made_up_site import HOSTILE, Server, make_run
from playwright.sync_api import Browser, Page, Request, expect

from taut.store import Run
from taut.web.app import create_app
from taut.web.export import write_page

expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int | None], str]:
    """(run, step) -> the address of its file."""
    folder = tmp_path_factory.mktemp("saved")
    make_run(folder / "runs" / "plain run", steps=6)
    make_run(folder / "runs" / "hostile", steps=3, hostile=True)
    make_run(folder / "runs" / "bad", steps=8, bad=True)
    app = create_app(folder / "runs")

    def save(name: str, step: int | None) -> str:
        place = folder / f"{name}-{step}.html"
        if not place.exists():
            write_page(app, Run.open(folder / "runs" / name), place, step)
        return place.as_uri()

    return save


@pytest.fixture
def alone(chromium: Browser) -> Iterator[Page]:
    """A page without a network, that fails the test for an error, and for a request to anything but a file."""
    context = chromium.new_context(offline=True, viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    page = context.new_page()
    page.on("console", lambda entry: problems.append(entry.text) if entry.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: problems.append(request.url) if leaves(request) else None)
    yield page
    context.close()
    assert problems == []


def leaves(request: Request) -> bool:
    return not request.url.startswith(("file:", "data:", "blob:"))


def test_a_step_opens_and_its_microscope_works(alone: Page, saved: Callable[[str, int | None], str]) -> None:
    alone.goto(saved("plain run", 4))
    expect(alone.get_by_role("heading", name="Step 4", level=1)).to_be_visible()
    assert alone.title().startswith("Step")
    rows = alone.get_by_role("table", name="Replies").get_by_role("row")
    expect(rows).to_have_count(1 + 4)

    alone.get_by_role("searchbox", name="Search").fill("is 6")
    alone.keyboard.press("Enter")
    expect(rows).to_have_count(1 + 1)
    alone.get_by_role("table", name="Replies").get_by_role("link", name="2", exact=True).click()
    expect(alone.get_by_role("heading", name="Reply 2")).to_be_visible()
    expect(alone.locator(".field-of-tokens .t")).to_have_count(len("47+2= is 6"))
    expect(alone.get_by_test_id("at")).to_have_text("epoch 2 · step 2 of 2")
    alone.get_by_role("button", name="Optimiser step back").click()
    expect(alone.get_by_test_id("at")).to_have_text("epoch 2 · step 1 of 2")
    assert "#/runs/plain%20run/steps/4/replies/2" in alone.url
    expect(alone.get_by_role("region", name="What if")).to_have_count(0)
    expect(alone.get_by_role("link", name="save")).to_have_count(0)

    alone.get_by_role("radio", name="Whole batch").check()
    expect(alone.get_by_role("heading", name="The batch of step 4")).to_be_visible()
    expect(alone.locator(".reply-block")).to_have_count(4)
    alone.go_back()
    alone.get_by_role("link", name="plain run").first.click()
    expect(alone.get_by_role("heading", name="plain run", level=1)).to_be_visible()


def test_a_run_opens_with_its_charts(alone: Page, saved: Callable[[str, int | None], str]) -> None:
    alone.goto(saved("bad", None))
    expect(alone.get_by_role("heading", name="bad", level=1)).to_be_visible()
    expect(alone.locator(".chart canvas").first).to_be_visible()
    expect(alone.get_by_text("finished").first).to_be_visible()


def test_what_is_not_in_the_file_says_so(alone: Page, saved: Callable[[str, int | None], str]) -> None:
    alone.goto(saved("plain run", 4) + f"#/runs/{quote('plain run')}/steps/5")
    expect(alone.get_by_text("This isn't in the exported file")).to_be_visible()


def test_hostile_text_stays_text(alone: Page, saved: Callable[[str, int | None], str]) -> None:
    alone.goto(saved("hostile", 2))
    expect(alone.get_by_text(HOSTILE).first).to_be_visible()
    alone.get_by_role("table", name="Replies").get_by_role("link", name="0", exact=True).click()
    expect(alone.locator(".field-of-tokens .t").first).to_be_visible()
    expect(alone.get_by_label("Prompt")).to_have_text(HOSTILE)
    alone.get_by_role("link", name="hostile").first.click()
    expect(alone.get_by_role("heading", name="hostile", level=1)).to_be_visible()
    assert "owned" not in alone.title()
    assert alone.locator("main img, main script").count() == 0


def test_the_page_saves_what_the_command_writes(page: Page, server: Server) -> None:
    page.goto("/runs/first/steps/3")
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as begun:
        page.get_by_role("link", name="This step as one HTML file").click()
    assert begun.value.suggested_filename == "first-step-3.html"
    assert "taut-embedded" in Path(begun.value.path()).read_text(encoding="utf-8")
    with page.expect_download() as begun:
        page.get_by_role("link", name="Replies as CSV").click()
    assert begun.value.suggested_filename == "first-step-3-replies.csv"
