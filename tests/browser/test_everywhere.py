"""What holds on every page: accessible, reachable by the keyboard, whole at any width."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up_site import Server
from playwright.sync_api import Page, expect

PATHS = [
    "/",
    "/clip",
    "/workshop",
    "/benches",
    "/runs",
    "/runs/first",
    "/runs/first/steps/12",
    "/runs/first/steps/12/replies/1",
    "/runs/first/prompts/0",
    "/compare?runs=first,second",
    "/glossary",
    "/nothing",
]
FURTHER = [
    "/benches?bench=baselines",
    "/benches?bench=kl",
    "/benches?bench=loss",
    "/benches?bench=memory",
    "/runs/first/steps/12?view=groups",
    "/runs/first/steps/12/replies/1?scope=batch",
]
AXE = Path(__file__).with_name("vendor") / "axe" / "axe.min.js"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
FOCUSABLE = "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), [tabindex='0']"


def settle(page: Page, path: str) -> None:
    """Opens a page and waits until it has its data."""
    page.goto(path)
    page.get_by_role("heading", level=1).first.wait_for()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    page.wait_for_timeout(400)


@pytest.mark.parametrize("path", PATHS + FURTHER)
def test_axe_finds_nothing_serious_in_light_and_dark(new_page: Callable[..., Page], path: str) -> None:
    page = new_page(reduced_motion="reduce")
    settle(page, path)
    page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(100)
        found = page.evaluate("(rules) => axe.run(document, rules)", RULES)
        assert [
            told(entry) for entry in found["violations"] if entry["impact"] in ("serious", "critical")
        ] == []


def told(violation: dict[str, Any]) -> str:
    nodes = "\n".join(
        f"    {node['html'][:200]}\n      {node['failureSummary']}" for node in violation["nodes"][:4]
    )
    return f"{violation['id']}: {violation['help']} ({len(violation['nodes'])})\n{nodes}"


@pytest.mark.parametrize("path", PATHS + FURTHER)
def test_nothing_is_wider_than_a_phone_or_lost_on_a_large_screen(
    new_page: Callable[..., Page], path: str
) -> None:
    page = new_page(400, 800)
    settle(page, path)
    for width in (400, 760, 1280, 2560, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(150)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px too wide at {width}: {culprits(page)}"


def culprits(page: Page) -> list[str]:
    return page.evaluate(
        """() => [...document.querySelectorAll("main *, header *")]
            .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
            .slice(0, 5).map((e) => e.outerHTML.slice(0, 120))"""
    )


@pytest.mark.parametrize("path", PATHS)
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(page: Page, path: str) -> None:
    settle(page, path)
    wanted = page.evaluate(
        """(selector) => [...document.querySelectorAll(selector)].filter((e) => {
            const radio = e.type === "radio" && !e.checked;  // a group is one stop
            return !radio && e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true });
        }).map((e, at) => { e.dataset.stop = at; return e.outerHTML.slice(0, 120); })""",
        FOCUSABLE,
    )
    reached: set[int] = set()
    for _ in range(len(wanted) + 20):
        page.keyboard.press("Tab")
        stop, visible = page.evaluate(SEEN)
        if stop is not None:
            assert visible, f"no sign of the focus on {wanted[stop]}"
            reached.add(stop)
        if len(reached) == len(wanted):
            break
    assert [html for at, html in enumerate(wanted) if at not in reached] == []


SEEN = """() => {
    const at = document.activeElement;
    const shown = (e) => e && (getComputedStyle(e).outlineStyle !== "none" || getComputedStyle(e).boxShadow !== "none");
    const near = [at, at.parentElement, at.nextElementSibling, at.querySelector?.(".handle-reach")];
    const ring = at.querySelector?.(".handle-reach");
    const visible = near.some(shown) || (ring && getComputedStyle(ring).stroke !== "none");
    return [at.dataset?.stop === undefined ? null : Number(at.dataset.stop), visible];
}"""


def test_the_clip_is_played_by_keys_alone(page: Page) -> None:
    page.goto("/")
    page.get_by_role("heading", level=1).first.wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Clip":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The clip", level=1)).to_be_visible()
    before = page.get_by_role("slider", name="advantage").first
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "range":
            break
    value = page.evaluate("document.activeElement.value")
    page.keyboard.press("ArrowRight")
    assert float(page.evaluate("document.activeElement.value")) > float(value)
    expect(before).to_be_attached()


def test_a_mangled_address_costs_no_page(page: Page) -> None:
    page.goto("/compare?runs=%25ff,second,%25")
    expect(page.get_by_role("link", name="second").first).to_be_visible()


def test_pages_go_on_after_the_server_was_restarted(page: Page, server: Server, problems: list[str]) -> None:
    settle(page, "/")
    server.stop()
    server.start()
    page.get_by_role("navigation").get_by_role("link", name="Runs").click()
    expect(page.get_by_role("link", name="second").first).to_be_visible()
    problems.clear()  # what was asked for while the server was away
