"""Words, linked symbols, sources; the start page."""

from __future__ import annotations

import re
from pathlib import Path

from made_up_site import Server
from playwright.sync_api import Page, expect

PAGES = Path(__file__).parents[2] / "src" / "taut" / "web" / "static"


def test_every_term_that_a_page_explains_is_in_the_glossary(page: Page) -> None:
    page.goto("/glossary")
    known = page.evaluate("import('taut/pages/glossary/terms.js').then(({ TERMS }) => [...TERMS.keys()])")
    symbols = page.evaluate("import('taut/pages/glossary/formulas.js').then(({ SYMBOLS }) => SYMBOLS)")
    used = [term for _, _, term in symbols.values()]
    for path in PAGES.rglob("*.js"):
        used += re.findall(r"\$\{Term\} name=\"([^\"]+)\"", path.read_text(encoding="utf-8"))
    assert len(used) >= 15
    assert set(used) - set(known) == set()


def test_a_term_shows_its_meaning_and_leads_to_its_entry(page: Page) -> None:
    page.goto("/glossary")
    term = page.get_by_role("link", name="clip range").first
    term.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("How far a ratio may go")
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    term.click()
    expect(page).to_have_url(re.compile(r"\?term=clip"))
    expect(page.locator(".entry[data-current]")).to_contain_text("clip range")
    expect(page.locator(".entry[data-current]")).to_be_in_viewport()


def test_a_search_stays_in_the_address(page: Page) -> None:
    page.goto("/glossary")
    page.get_by_label("Search").fill("leave-one-out")
    expect(page.locator(".entry")).to_have_count(1)
    expect(page).to_have_url(re.compile("q=leave-one-out"))
    page.reload()
    expect(page.locator(".entry dt")).to_have_text(["leave-one-out"])
    page.get_by_label("Search").fill("no such word")
    expect(page.get_by_text("No entry has")).to_be_visible()


def test_a_symbol_and_its_meaning_point_at_each_other(page: Page) -> None:
    page.goto("/glossary")
    card = page.get_by_role("region", name="What PPO maximises")
    symbols = card.locator("math [data-symbol='ε']")
    expect(symbols).to_have_count(2)
    card.locator("li[data-symbol='ε'] a").focus()
    expect(card.locator("math [data-symbol='ε'][data-chosen]")).to_have_count(2)
    card.locator("math [data-symbol='A']").first.hover()
    expect(card.locator("li[data-symbol='A'][data-chosen]")).to_have_count(1)
    name = page.evaluate("document.querySelector('math mrow').namespaceURI")
    assert name == "http://www.w3.org/1998/Math/MathML"


def test_sources_are_links_that_nothing_follows_by_itself(page: Page) -> None:
    page.goto("/glossary")
    links = page.get_by_role("link", name="arXiv:1707.06347")
    expect(links.last).to_have_attribute("href", "https://arxiv.org/abs/1707.06347")
    expect(links.last).to_have_attribute("rel", "noreferrer noopener")


def test_the_start_page_has_two_doors(page: Page, server: Server) -> None:
    page.goto("/")
    page.get_by_role("region", name="Look at a run").get_by_role("link", name=re.compile("^second")).click()
    expect(page).to_have_url(server.url + "/runs/second")
    page.goto("/")
    page.get_by_role("region", name="Learn").get_by_role("link", name="The clip").click()
    expect(page).to_have_url(server.url + "/clip")
