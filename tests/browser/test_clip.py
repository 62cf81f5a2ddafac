"""The clip explorer: what it says at first, every control, and that its Python prints what it shows."""

from __future__ import annotations

import io
import math
import re
from contextlib import redirect_stdout

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

OLD = np.array([0.4, 0.22, 0.14, 0.1, 0.08, 0.06])


def opened(page: Page, query: str = "") -> Page:
    page.goto(f"/clip{query}")
    page.get_by_role("heading", name="The clip", exact=True).wait_for()
    return page


def part(page: Page, name: str) -> Locator:
    return page.locator(f"[data-part='{name}']")


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=name, exact=True)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text.replace("−", "-"))]


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


def printed_by(page: Page, section: str) -> list[str]:
    """What the section's Python prints, taken from the page as a person would copy it."""
    box = part(page, f"python-{section}")
    box.get_by_role("button", name="The same in Python").click()
    source = box.locator("code").inner_text()
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(source, f"{section} on the page", "exec"), {})
    return out.getvalue().splitlines()


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
    assert golden("taut/pages/clip/words.js", [("ratioOfHundredths", [now, 40])]) == [text]


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
    assert printed_by(page, "explorer") == [shown.partition(": ")[2].rstrip(".").replace("−", "-")]


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
        assert numbers(line)[0] == numbers(text[text.index("ρ =") :])[0]
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
