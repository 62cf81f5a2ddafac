"""The Python of the clip explorer prints the numbers that stand beside it."""

from __future__ import annotations

import re

import pytest
from clip_page import numbers, opened, part, printed_by
from playwright.sync_api import Page


@pytest.mark.parametrize(
    "query",
    [
        "?",
        "?rho=1.2",
        "?A=-1.3&rho=0.35&low=0.7",
        "?A=0.5&rho=0.25",
        "?A=0&rho=1.5",
        "?A=-1&rho=0.35&low=0.65",
        "?A=2&high=0.05&linked=0&rho=1.7",
    ],
)
def test_the_python_of_a_point_prints_the_reading(page: Page, query: str) -> None:
    opened(page, query)
    shown = part(page, "reading").locator(".numbers").inner_text()
    expected = [shown.partition(": ")[2].rstrip(".").replace("−", "-")]
    assert printed_by(page, "explorer") == expected
    assert printed_by(page, "regions") == expected


@pytest.mark.parametrize(
    "query",
    ["?steps=5", "?steps=4&A=-1.5&low=0.3", "?steps=3&rho=1.2&eta=0.1", "?steps=2&A=-2&rho=1.9&eta=1"],
)
def test_the_python_of_a_walk_prints_its_newest_step(page: Page, query: str) -> None:
    opened(page, query)
    ratio, objective, slope = numbers(part(page, "reading").locator(".numbers").inner_text())
    step = numbers(part(page, "step").inner_text())[0]
    assert numbers(printed_by(page, "explorer")[-1]) == [step, ratio, objective, slope]


def test_the_python_of_the_table_and_the_reply_prints_theirs(page: Page) -> None:
    opened(page, "?walk=4")
    assert printed_by(page, "cases") == [
        "objective 2.2, still learning",
        "objective 2.4, held",
        "objective -0.8, held",
        "objective -1.5, still learning",
    ]
    lines = printed_by(page, "walk")
    assert lines[3] == "102: ρ 1.225, held"
    assert lines[5] == f"sequence ratio {part(page, 'sequence-ratio').inner_text()}"
    for line, word in zip(lines[:5], page.locator(".word").all_inner_texts(), strict=True):
        assert abs(numbers(line)[-1] - numbers(word)[-1]) <= 0.0051
        assert ("held" in line) == ("held" in word)


def test_the_python_of_moves_and_of_the_family_prints_theirs(page: Page) -> None:
    opened(page, "?g-rho=2.1&g-A=-1")
    for line, name in zip(printed_by(page, "probability"), ("rare", "sure", "own"), strict=True):
        text = part(page, name).inner_text()
        ppo, dppo = re.findall(r"(?:PPO|DPPO): (not held|held)", text)
        assert line.endswith(f"PPO {ppo}, DPPO {dppo}")
        assert abs(numbers(line)[0] - numbers(text[text.index("ρ =") :])[0]) <= 0.0051
    for line in printed_by(page, "gallery"):
        name, _, values = line.partition(":")
        labels = " ".join(
            svg.get_attribute("aria-label") or "" for svg in part(page, name).locator("svg").all()
        )
        shown = [numbers(text)[0] for text in re.findall(r": (−?[\d.]+) at", labels)]
        assert shown == numbers(values)


def test_the_python_of_a_question_prints_its_answer(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Yes, it is zero").click()
    shown = numbers(part(page, "verdict").inner_text())
    assert [numbers(line) for line in printed_by(page, "quiz")] == [shown]
