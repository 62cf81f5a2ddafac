"""The sections below the clip explorer: the walk, ratio or probability, the family, the quiz."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from clip_page import numbers, opened, part, slider
from playwright.sync_api import Page, expect


def test_the_walk_of_one_token_reads_as_in_the_example(page: Page) -> None:
    opened(page)
    rows = part(page, "walk").locator("tbody tr")
    assert [row.split() for row in rows.all_inner_texts()] == [
        ["1", "0.40", "1.00", "Yes"],
        ["2", "0.45", "1.13", "Yes"],
        ["3", "0.49", "1.23", "No,", "past", "1.2"],
    ]
    page.get_by_role("button", name="Play the steps").click()
    expect(part(page, "walk-step")).to_have_text(re.compile("step [2-6] of 6"))
    opened(page, "?walk=3")
    words = page.locator(".word")
    expect(words.nth(3)).to_contain_text("ρ 1.23")
    expect(words.nth(3)).to_contain_text("held: no gradient")
    page.get_by_role("button", name="Next step").click()
    expect(words.nth(3)).to_contain_text("0.49")
    moved = [word.get_attribute("data-moved") for word in words.all()]
    assert moved == ["yes", "yes", "yes", "no", "yes"]
    expect(part(page, "walk-verdict")).to_contain_text("102 is past 1.2 and stands still.")
    page.get_by_role("button", name="Back", exact=True).click()
    expect(part(page, "walk-step")).to_have_text("step 3 of 6")


def test_the_replys_ratio_is_the_geometric_mean(golden) -> None:
    (walk,) = golden("taut/maths/reply_walk.js", [("replyWalk", [])])
    assert [step["tokens"][3]["probability"] for step in walk] == [0.4, 0.45, 0.49, 0.49, 0.49, 0.49]
    for step in walk:
        ratios = [token["ratio"] for token in step["tokens"]]
        assert step["sequence"] == pytest.approx(math.prod(ratios) ** (1 / 5), rel=1e-12)
    # One step of the first token by hand: the step size is what takes 102 from 0.40 to 0.45.
    size = (math.log(0.45 / 0.55) - math.log(0.4 / 0.6)) / 0.6
    assert walk[1]["tokens"][0]["probability"] == pytest.approx(
        1 / (1 + 0.45 / 0.55 * math.exp(-size * 0.45)), rel=1e-12
    )


@pytest.mark.parametrize(("now", "text"), [(40, "1.00"), (45, "1.13"), (49, "1.23"), (43, "1.08")])
def test_ratios_of_decimals_are_rounded_half_up(golden, now: int, text: str) -> None:
    assert golden("taut/pages/clip/words.js", [("ratioOfWhole", [now, 40])]) == [text]


def test_one_ratio_reads_the_same_in_the_walk_and_as_a_move(page: Page) -> None:
    opened(page)
    expect(part(page, "own")).to_contain_text("0.40 → 0.49")
    expect(part(page, "own")).to_contain_text("ρ = 1.23")


def test_a_ratio_is_unequal_where_a_probability_is_not(page: Page) -> None:
    opened(page)
    expect(part(page, "rare")).to_contain_text("0.00001 → 0.001")
    expect(part(page, "rare")).to_contain_text("ρ = 100")
    expect(part(page, "rare")).to_contain_text("PPO: held · DPPO: not held")
    expect(part(page, "sure")).to_contain_text("0.99 → 0.80")
    expect(part(page, "sure")).to_contain_text("ρ = 0.81")
    expect(part(page, "sure")).to_contain_text("PPO: not held · DPPO: held")
    page.get_by_role("radio", name="probability π").check()
    page.wait_for_url(re.compile("axis=pi"))
    slider(page, "sampled at").fill("0.5")
    slider(page, "now").fill("0.55")
    expect(part(page, "own")).to_contain_text("ρ = 1.10")
    expect(part(page, "own")).to_contain_text("PPO: not held · DPPO: not held")


def sapo(ratio: float, tau: float) -> tuple[float, float]:
    gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
    return 4 / tau * gate, ratio * 4 * gate * (1 - gate)


def test_the_gallery_shows_seven_losses_under_one_cursor(page: Page) -> None:
    opened(page)
    expected = {
        "ppo": (1.2, 0),
        "clip-higher": (1.28, 0),
        "dual-clip": (1.2, 0),
        "cispo": (1.3 * math.log(0.26), 1.3),
        "gspo": (1.0004, 0),
        "sapo": sapo(1.3, 1.0),
        "dppo": (1.3, 1.3),
    }
    for name, (objective, weight) in expected.items():
        card = part(page, name)
        assert re.search(r"arXiv \d{4}\.\d{5}", card.inner_text())
        objectives, weights = card.locator("svg").all()
        label = f"objective: {objective:.2f} at ρ = 1.30".replace("-", "−")
        assert label in (objectives.get_attribute("aria-label") or "")
        assert f"gradient weight: {weight:.2f}" in (weights.get_attribute("aria-label") or "")
    page.get_by_role("radio", name="A = −1").check()
    slider(page, "ρ of all seven").fill("3.5")
    label = part(page, "dual-clip").locator("svg").first
    expect(label.locator("[data-part='flat']")).to_have_count(2)
    expect(part(page, "ppo").locator("svg").first.locator("[data-part='flat']")).to_have_count(1)
    expect(label).to_have_attribute("aria-label", re.compile("objective: −3.00 at ρ = 3.50"))
    expect(part(page, "ppo").locator("svg").last).to_have_attribute("aria-label", re.compile("weight: −3.50"))
    part(page, "sapo").locator("svg").first.click(position={"x": 100, "y": 60})
    shown = slider(page, "ρ of all seven").input_value()
    for name in expected:
        cursor = part(page, name).locator("svg").last
        expect(cursor).to_have_attribute("aria-label", re.compile(f"ρ = {float(shown):.2f}"))


def zero_by_the_rule(question: str) -> bool:
    advantage, ratio, epsilon, *dual = numbers(question)
    held = (advantage > 0 and ratio > round(1 + epsilon, 9)) or (advantage < 0 and ratio < 1 - epsilon)
    return held or advantage == 0 or (advantage < 0 and bool(dual) and ratio > dual[0])


def test_the_quiz_is_answered_by_keys_explained_and_counted(page: Page) -> None:
    opened(page)
    quiz = part(page, "quiz")
    quiz.focus()
    kinds = set()
    for index in range(8):
        question = part(page, "question").inner_text()
        advantage, ratio, epsilon, *dual = numbers(question)
        kinds.add(
            (np.sign(advantage), np.sign(round(ratio - 1 - epsilon, 9)), ratio < 1 - epsilon, bool(dual))
        )
        page.keyboard.press("y" if zero_by_the_rule(question) else "n")
        expect(part(page, "verdict")).to_contain_text("Right.")
        expect(part(page, "right")).to_have_text(f"{index + 1} right")
        expect(quiz.locator("svg")).to_have_count(1)
        flat = (advantage > 0) + (advantage < 0) * (1 + bool(dual))
        expect(quiz.locator("[data-part='flat']")).to_have_count(int(flat))
        quiz.focus()
        page.keyboard.press("Enter")
    expect(part(page, "score")).to_contain_text("8 of 8")
    assert {(1, 0, False, False), (0, 1, False, False), (-1, 1, False, True)} <= kinds
    before = page.url
    page.get_by_role("button", name="Eight others").click()
    expect(quiz).to_contain_text("question 1 of 8")
    page.wait_for_url(lambda url: url != before)


def test_a_wrong_answer_of_the_quiz_is_explained(page: Page) -> None:
    opened(page)
    question = part(page, "question").inner_text()
    page.get_by_role(
        "button", name="No, it still learns" if zero_by_the_rule(question) else "Yes, it is zero"
    ).click()
    expect(part(page, "verdict")).to_contain_text("Not so.")
    expect(part(page, "right")).to_have_text("0 right")
    page.wait_for_url(re.compile("answers="))
    page.reload()
    expect(part(page, "verdict")).to_contain_text("Not so.")
    page.get_by_role("button", name="Next question").click()
    expect(part(page, "quiz")).to_contain_text("question 2 of 8")
