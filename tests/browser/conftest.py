"""Chromium, a server over made-up runs, and pages that tell what went wrong in them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

sys.path.append(str(Path(__file__).parent))

from made_up_site import Server, make_run

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(
    scope="module"
)  # not the session: while Playwright lives, no other test can run a loop of asyncio
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a file; each page has a context of its own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package chromium, or name one in the variable CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`taut web` over two runs, "first" and "second". What tests add to `server.root` needs a name of its own."""
    root = tmp_path_factory.mktemp("web") / "runs"
    make_run(root / "first", seed=0)
    make_run(root / "second", steps=8, seed=1)
    served = Server(root)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def problems() -> list[str]:
    """Errors in the console, exceptions and requests to other hosts: a test that expects some clears them."""
    return []


@pytest.fixture
def new_page(chromium: Browser, server: Server, problems: list[str]) -> Iterator[Callable[..., Page]]:
    """(width=1280, height=800, theme="light", **context) -> a page of a new context, whose base is the server's."""
    contexts = []

    def make(width: int = 1280, height: int = 800, theme: str = "light", **more: Any) -> Page:
        size = {"width": width, "height": height}
        context = chromium.new_context(base_url=server.url, viewport=size, color_scheme=theme, **more)
        contexts.append(context)
        context.set_default_timeout(15_000)
        context.route("**/*", lambda route: only_the_server(route, server, problems))
        page = context.new_page()
        page.on("console", lambda entry: problems.append(entry.text) if entry.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


def only_the_server(route: Route, server: Server, problems: list[str]) -> None:
    address = urlsplit(route.request.url)
    if address.scheme in ("data", "blob") or f"{address.scheme}://{address.netloc}" == server.url:
        route.continue_()
    else:
        problems.append(f"asked another host: {route.request.url}")
        route.abort()


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page()


@pytest.fixture
def golden(page: Page) -> Callable[[str, Sequence[tuple[str, Sequence[Any]]]], list[Any]]:
    """(module, [(function, arguments), ...]) -> what the page's own functions answer.

    `module` as pages import it, "taut/maths/policy.js". NaN and infinities cross as they are, and so do lists; a
    typed array comes back as a list.
    """

    def ask(module: str, cases: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        if "/static/" not in page.content():
            page.goto("/glossary")
        return page.evaluate(
            """async ([module, cases]) => {
                const plain = (value) => ArrayBuffer.isView(value) ? Array.from(value)
                    : Array.isArray(value) ? value.map(plain)
                    : value && typeof value === "object"
                    ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)])) : value;
                const functions = await import(module);
                return cases.map(([name, values]) => plain(functions[name](...values)));
            }""",
            [module, [[name, list(values)] for name, values in cases]],
        )

    return ask
