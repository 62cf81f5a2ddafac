"""What every page shares: addresses, the bar, theme, state in the address, keys."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_each_page_of_the_bar_opens_and_the_back_button_returns(page: Page) -> None:
    page.goto("/")
    for name in ("Clip", "Workshop", "Benches", "Runs", "Glossary"):
        link = page.get_by_role("navigation").get_by_role("link", name=name)
        link.click()
        expect(page).to_have_url(re.compile(f"/{name.lower()}"))
        expect(link).to_have_attribute("aria-current", "page")
        expect(page).to_have_title(re.compile(name))
    page.go_back()
    expect(page).to_have_url(re.compile("/runs"))


def test_an_address_that_is_none_says_so(page: Page) -> None:
    page.goto("/nothing/of/the/kind")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_the_theme_is_kept_and_overrides_the_systems(page: Page) -> None:
    page.goto("/glossary")
    root = page.locator("html")
    page.get_by_role("button", name="Theme: as the system").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Theme: light").click()
    expect(root).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(236, 235, 230)"


def test_the_question_mark_lists_keys_and_escape_closes(page: Page) -> None:
    page.goto("/glossary")
    page.get_by_role("heading", level=1).wait_for()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys of this page")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_first_tab_skips_to_the_content(page: Page) -> None:
    page.goto("/glossary")
    page.get_by_role("heading", level=1).wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_text("To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_numbers_are_printed_as_people_read_them(golden) -> None:
    cases = {
        ("fixed", 0.8): "0.80",
        ("fixed", -0.001): "0.00",
        ("fixed", -1.5): "−1.50",
        ("fixed", float("nan")): "NaN",
        ("fixed", float("-inf")): "−∞",
        ("signed", 0.25): "+0.25",
        ("percent", 0.0712): "7.1 %",
        ("short", 0.000123): "0.000123",
        ("short", 1234567.0): "1,234,567",
        ("short", 2e-7): "2.00e−7",
        ("bytes", 2_500_000): "2.5 MB",
        ("duration", 3725): "1 h 2 min",
        ("duration", 59.6): "60 s",
    }
    assert golden("taut/lib/format.js", [(name, [value]) for name, value in cases]) == list(cases.values())
    moments = {0.5: "now", 59: "59 s ago", 61: "1 min ago", 7300: "2 h ago", 200_000: "2 d ago"}
    asked = [("ago", [1_000_000 - past, 1_000_000]) for past in moments]
    assert golden("taut/lib/format.js", asked) == list(moments.values())


def test_marked_numbers_are_read_back_and_others_are_absent(golden) -> None:
    answers = golden(
        "taut/lib/number.js", [("number", [value]) for value in ("NaN", "Infinity", "-Infinity", 1.5)]
    )
    assert str(answers[0]) == "nan"
    assert answers[1:] == [float("inf"), float("-inf"), 1.5]
    assert golden("taut/lib/number.js", [("number", [value]) for value in (None, "1", "toString", [])]) == [
        None,
        None,
        None,
        None,
    ]
