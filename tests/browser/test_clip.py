"""The clip explorer: what it says at first, its controls, its steps, its table and its map."""

from __future__ import annotations

import re

import numpy as np
from clip_page import numbers, opened, part, slider
from playwright.sync_api import Page, expect

OLD = np.array([0.4, 0.22, 0.14, 0.1, 0.08, 0.06])


def climbed(steps: int, advantage: float, step_size: float, low: float, high: float) -> list[float]:
    """Ratios of token 0 under gradient steps on a softmax, by hand."""
    logits, ratios = np.log(OLD), [1.0]
    for _ in range(steps):
        held = (advantage > 0 and ratios[-1] > 1 + high) or (advantage < 0 and ratios[-1] < 1 - low)
        weight = 0.0 if held else ratios[-1] * advantage
        softmax = np.exp(logits) / np.exp(logits).sum()
        logits = logits + step_size * weight * (np.eye(6)[0] - softmax)
        ratios.append(float(np.exp(logits[0]) / np.exp(logits).sum() / OLD[0]))
    return ratios


def test_it_opens_at_the_first_push(page: Page) -> None:
    opened(page)
    reading = part(page, "reading")
    expect(reading).to_contain_text("At ρ = 1.00: objective 0.80, slope 0.80.")
    expect(reading).to_contain_text("The gradient keeps pushing this token up.")
    expect(part(page, "step")).to_have_text("step 0")
    values = {"advantage A": "0.8", "ε": "0.2", "ρ now": "1", "step size η": "0.25"}
    for name, value in values.items():
        expect(slider(page, name)).to_have_value(value)


def test_sliders_move_the_reading_and_the_address(page: Page) -> None:
    opened(page)
    reading = part(page, "reading")
    slider(page, "ρ now").fill("1.5")
    expect(reading).to_contain_text("At ρ = 1.50: objective 0.96, slope 0.00.")
    expect(reading).to_contain_text("Flat: no gradient. The token has been raised enough.")
    slider(page, "advantage A").fill("-1")
    expect(reading).to_contain_text("objective −1.50, slope −1.00.")
    expect(reading).to_contain_text("A bad token got more likely: the gradient pushes it back down.")
    slider(page, "advantage A").fill("0")
    expect(reading).to_contain_text("no gradient")
    expect(page.locator(".explorer [data-part='flat']")).to_have_count(0)
    page.wait_for_url(re.compile(r"A=0&rho=1\.5|rho=1\.5&A=0"))
    page.reload()
    expect(reading).to_contain_text("At ρ = 1.50: objective 0.00, slope 0.00.")


def test_epsilon_is_one_number_until_it_is_unlinked(page: Page) -> None:
    opened(page, "?rho=0.7&A=-1")
    slider(page, "ε").fill("0.4")
    expect(part(page, "reading")).to_contain_text("objective −0.70, slope −1.00.")
    page.get_by_text("same ε below and above").click()
    slider(page, "ε below").fill("0.2")
    expect(part(page, "reading")).to_contain_text("objective −0.80, slope 0.00.")
    expect(slider(page, "ε above")).to_have_value("0.4")
    page.get_by_text("same ε below and above").click()
    expect(slider(page, "ε")).to_have_value("0.2")


def test_exactly_on_the_edge_is_inside(page: Page) -> None:
    opened(page, "?rho=1.2")
    expect(part(page, "reading")).to_contain_text("objective 0.96, slope 0.80.")
    expect(part(page, "reading")).to_contain_text("exactly on the edge, which counts as inside")


def test_real_gradient_steps_overshoot_and_stay_while_the_twin_runs_on(page: Page) -> None:
    opened(page)
    own = climbed(6, 0.8, 0.25, 0.2, 0.2)
    free = climbed(6, 0.8, 0.25, 9, 9)
    assert own[2] < 1.2 < own[3] == own[6] < free[6]
    reading = part(page, "reading")
    for step in range(1, 7):
        page.get_by_role("button", name="Take a gradient step").click()
        expect(part(page, "step")).to_have_text(f"step {step}")
        expect(reading).to_contain_text(f"At ρ = {own[step]:.2f}:")
    expect(reading).to_contain_text("objective 0.96, slope 0.00.")
    expect(part(page, "twin-ratio")).to_have_text(f"{free[6]:.2f}")
    expect(page.locator(".explorer .trail.own")).to_have_count(6)
    bar = part(page, "vocabulary").get_by_role("listitem").filter(has_text="102")
    assert numbers(bar.inner_text()) == [102, round(own[6] * 0.4, 2), round(free[6] * 0.4, 2)]
    page.wait_for_url(re.compile("steps=6"))
    page.reload()
    expect(part(page, "step")).to_have_text("step 6")
    expect(reading).to_contain_text(f"At ρ = {own[6]:.2f}:")
    page.get_by_role("button", name="Reset").click()
    expect(part(page, "step")).to_have_text("step 0")
    expect(reading).to_contain_text("At ρ = 1.00: objective 0.80, slope 0.80.")


def test_a_step_across_the_edge_is_named(page: Page) -> None:
    opened(page)
    slider(page, "step size η").fill("2")
    page.get_by_role("button", name="Take a gradient step").click()
    expect(part(page, "reading")).to_contain_text(f"At ρ = {climbed(1, 0.8, 2, 0.2, 0.2)[1]:.2f}:")
    expect(part(page, "reading")).to_contain_text("The step carried it past the edge")


def test_a_ratio_set_by_hand_sets_the_softmax(page: Page) -> None:
    opened(page)
    slider(page, "ρ now").fill("1.5")
    expect(part(page, "set-state")).to_contain_text("only the logit of 102 was moved, to P = 0.600")
    bars = part(page, "vocabulary").get_by_role("listitem")
    shown = [numbers(text)[1] for text in bars.all_inner_texts() if re.match(r"\d", text)]
    others = OLD[1:] / OLD[1:].sum() * 0.4
    assert shown == [0.6, *np.round(others, 2)]


def test_it_plays_by_itself_and_pauses(page: Page) -> None:
    opened(page)
    page.get_by_role("button", name="Play", exact=True).click()
    expect(part(page, "step")).to_have_text(re.compile("step [2-9]"))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_keys_step_play_and_reset(page: Page) -> None:
    opened(page)
    page.keyboard.press("s")
    page.keyboard.press("s")
    expect(part(page, "step")).to_have_text("step 2")
    page.keyboard.press("p")
    expect(part(page, "step")).to_have_text(re.compile("step [3-9]"))
    page.keyboard.press("r")
    expect(part(page, "step")).to_have_text("step 0")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_the_curve_can_be_dragged(page: Page) -> None:
    opened(page)
    box = page.locator(".explorer svg").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 200, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(slider(page, "ρ now")).to_have_value("2.49")


def test_the_four_cases_are_the_known_ones_and_set_the_sliders(page: Page) -> None:
    opened(page)
    rows = part(page, "cases").locator("tbody tr")
    cells = [[cell.strip() for cell in row.split("\t")] for row in rows.all_inner_texts()]
    assert cells[0] == ["yours", "+0.80", "1.00", "0.80", "0.80", "0.80", "Yes, inside the range"]
    assert [row[1:] for row in cells[1:]] == [
        ["+2", "1.1", "2.2", "2.2", "2.2", "Yes, inside the range"],
        ["+2", "1.5", "3.0", "1.2 × 2 = 2.4", "2.4", "No, raised enough already"],
        ["−1", "0.5", "−0.5", "0.8 × −1 = −0.8", "−0.8", "No, lowered enough already"],
        ["−1", "1.5", "−1.5", "1.2 × −1 = −1.2", "−1.5", "Yes: a bad token got more likely, keep correcting"],
    ]
    rows.nth(2).click()
    expect(part(page, "reading")).to_contain_text("At ρ = 1.50: objective 2.40, slope 0.00.")
    expect(rows.nth(0)).to_contain_text("1.2 × 2.00 = 2.40")
    rows.nth(4).get_by_role("button").press("Enter")
    expect(part(page, "reading")).to_contain_text("At ρ = 1.50: objective −1.50, slope −1.00.")
    expect(slider(page, "advantage A")).to_have_value("-1")


def test_printed_numbers_are_pythons(golden) -> None:
    values = [0.125, 0.375, 0.285, 1.005, 2.675, 0.8, -0.125, -0.001, 0.5, 1234.565]
    answers = golden("taut/pages/clip/words.js", [("fixed", [value]) for value in values])
    expected = [f"{value:.2f}".replace("-", "−") for value in values]
    expected[7] = "0.00"  # never a minus before nothing
    assert answers == expected


def test_the_map_has_six_regions_and_its_point_moves_by_key_pointer_and_list(page: Page) -> None:
    opened(page)
    seen = []
    for button in page.locator(".region-button").all():
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        seen.append((button.locator("b").inner_text(), numbers(part(page, "reading").inner_text())[2] == 0))
    assert seen == [
        ("Good, but less likely", False),
        ("Good, and near", False),
        ("Good, raised enough", True),
        ("Bad, lowered enough", True),
        ("Bad, and near", False),
        ("Bad, but more likely", False),
    ]
    opened(page, "?A=0.05&rho=1.19")
    point = slider(page, "Point: ratio and advantage")
    point.press("ArrowRight")
    expect(part(page, "region")).to_have_text("Good, raised enough")
    for _ in range(2):
        point.press("ArrowDown")
    expect(part(page, "region")).to_have_text("Bad, but more likely")
    box = page.locator(".regions svg").bounding_box()
    assert box is not None
    page.locator(".regions svg").scroll_into_view_if_needed()
    page.locator(".regions svg").click(position={"x": 100, "y": box["height"] - 80})
    expect(part(page, "region")).to_have_text("Bad, lowered enough")


def test_nonsense_in_the_address_is_the_default(page: Page) -> None:
    opened(page, "?A=abc&rho=&steps=1e9&walk=-4&quiz=x&answers=zz&axis=none&python=nothing")
    expect(part(page, "step")).to_have_text("step 60")
    expect(slider(page, "advantage A")).to_have_value("0.8")
    expect(part(page, "walk-step")).to_have_text("step 1 of 6")
    expect(part(page, "quiz")).to_contain_text("question 1 of 8")


def test_the_back_button_brings_every_section_back(page: Page) -> None:
    opened(page, "?walk=3&A=-1")
    page.evaluate(
        "history.pushState(null, '', '/clip?walk=5&A=2'); dispatchEvent(new PopStateEvent('popstate'))"
    )
    expect(part(page, "walk-step")).to_have_text("step 5 of 6")
    expect(slider(page, "advantage A")).to_have_value("2")
    page.go_back()
    expect(part(page, "walk-step")).to_have_text("step 3 of 6")
    expect(slider(page, "advantage A")).to_have_value("-1")
