"""The microscope's what-if panel: the child process's answer in the table, the tokens and the address."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from made_up_site import Server
from playwright.sync_api import Locator, Page, expect
from test_everywhere import AXE, RULES
from test_everywhere import told as violation

from taut.store import ReplyRecord, RunWriter, StepRecord, UpdateRecord

CONFIG = "algorithm:\n  preset: ppo-batch-mean\n  epochs: 2\n"
CONSTANTS = {"preset": "ppo-batch-mean", "advantage": "batch-mean", "clip_low": 0.2, "clip_high": 0.2}
RATIOS = [[1.1, 1.3], [0.7, 0.96]]
"""Of two replies, in the second epoch. The first has the advantage 0.5, so that 1.3 is held; the other -0.5, and
0.7 is."""


@pytest.fixture(scope="module")
def address(server: Server) -> str:
    half = np.full(2, np.log(0.5), np.float32)
    replies = [
        ReplyRecord(
            *(
                number,
                number,
                0,
                0,
                f"{number}+1=",
                np.array([1], np.int32),
                "ab",
                np.array([3, 4], np.int32),
            ),
            mask=np.ones(2, bool),
            reward=float(1 - number),
            finish_reason="stop",
            behavior_logprobs=half,
            old_logprobs=half,
            token_rewards=np.array([0, 1 - number], np.float32),
            advantages=np.full(2, 0.5 - number, np.float32),
        )
        for number in range(2)
    ]
    seen = [[half, half], [half + np.log(ratio).astype(np.float32) for ratio in RATIOS]]
    updates = [
        UpdateRecord(epoch, 0, np.arange(2), logprobs, {"loss/policy": 0.0})
        for epoch, logprobs in enumerate(seen)
    ]
    with RunWriter.create(server.root / "asked", CONFIG, facts={"threads": 1}) as writer:
        writer.append(StepRecord(1, CONSTANTS, {"reward/mean": 0.5}, replies, updates))
    return "/runs/asked/steps/1/replies/0"


def told(page: Page, what: str) -> Locator:
    """Not the same words as they are said to a screen reader."""
    return page.get_by_text(f"{what}.", exact=True)


def row(page: Page, name: str) -> list[str]:
    return page.get_by_test_id("what-if").get_by_role("row", name=name).get_by_role("cell").all_inner_texts()


def test_another_clip_is_asked_and_shown_in_table_tokens_and_address(page: Page, address: str) -> None:
    page.goto(f"{address}?color=clip")
    page.get_by_role("button", name="Ask").click()
    field = page.get_by_role("spinbutton", name="ε above")
    field.wait_for(timeout=90_000)  # torch is imported
    page.get_by_text("The batch in numbers").click()
    assert row(page, "Clipped share") == ["25.0 %", "–", "–"]
    expect(page.get_by_text("It is not another run")).to_be_visible()
    expect(
        page.get_by_text("λ, γ: this run has no critic: its advantages come from batch-mean")
    ).to_be_visible()
    assert page.locator(".newly-held:not(.legend *)").count() == 0

    field.fill("0.05")
    field.press("Enter")
    expect(told(page, "1 of 8 sightings newly held, 0 freed")).to_be_visible(timeout=15_000)
    assert row(page, "Clipped share") == ["25.0 %", "37.5 %", "+12.5 pts"]
    # The mean over two steps of the mean over four tokens of -min(ρA, clip(ρ)A).
    before = -(0.5 + 0.5 - 0.5 - 0.5) / 4 / 2 - (1.1 * 0.5 + 1.2 * 0.5 - 0.8 * 0.5 - 0.96 * 0.5) / 4 / 2
    after = -(1.05 * 0.5 + 1.05 * 0.5 - 0.8 * 0.5 - 0.96 * 0.5) / 4 / 2
    assert row(page, "Policy loss")[:2] == [f"{x:.5f}".replace("-", "−") for x in (before, after)]
    newly = page.locator(".field-of-tokens .newly-held")
    expect(newly).to_have_count(1)
    expect(page).to_have_url(re.compile("whatif=1.*if=high%3A0.05"))
    expect(page.get_by_text('{"algorithm.clip_high": 0.05}')).to_be_attached()

    page.reload()
    expect(told(page, "1 of 8 sightings newly held, 0 freed")).to_be_visible(timeout=15_000)
    page.get_by_role("button", name="As it was trained").click()
    expect(newly).to_have_count(0)
    expect(page).not_to_have_url(re.compile("if=high"))


def test_a_wider_clip_frees_and_an_open_side_holds_nothing(page: Page, address: str) -> None:
    page.goto(f"{address}?color=clip&whatif=1&if=high:0.5")
    expect(told(page, "0 of 8 sightings newly held, 1 freed")).to_be_visible(timeout=90_000)
    expect(page.locator(".field-of-tokens .freed")).to_have_count(1)
    page.get_by_text("clip below", exact=True).click()
    expect(told(page, "0 of 8 sightings newly held, 2 freed")).to_be_visible(timeout=15_000)
    page.get_by_text("The batch in numbers").click()
    assert row(page, "Clipped share")[1] == "0.0 %"


def test_a_slider_that_is_dragged_ends_with_the_answer_to_where_it_stands(page: Page, address: str) -> None:
    page.goto(f"{address}?whatif=1")
    slider = page.get_by_role("slider", name="ε above")
    slider.wait_for(timeout=90_000)
    for _ in range(12):
        slider.press("ArrowLeft")
    expect(page).to_have_url(re.compile("if=high%3A0.08"))
    expect(told(page, "1 of 8 sightings newly held, 0 freed")).to_be_visible(timeout=15_000)


def test_a_batch_that_was_not_stored_whole_says_why(page: Page, problems: list[str]) -> None:
    page.goto("/runs/first/steps/2/replies/0?whatif=1")
    expect(page.get_by_role("region", name="What if").get_by_role("alert")).to_contain_text(
        "stored without token_rewards", timeout=90_000
    )
    expect(page.get_by_role("region", name="What if").get_by_role("slider")).to_have_count(0)
    assert all("400 (Bad Request)" in text for text in problems)
    problems.clear()


def test_a_replay_says_whether_every_number_came_out(page: Page, address: str) -> None:
    """The child's answer is put in its place: a replay needs a model, and tests/web asks for a real one."""
    differing = {"place": "reply 0", "quantity": "entropy", "stored": 1.5, "replayed": "NaN", "step": 1}
    answers = [
        {"equal": True, "different": 0, "differences": [], "start": 2, "changes_of_machine": ""},
        {
            "equal": False,
            "different": 7,
            "differences": [differing],
            "start": 0,
            "changes_of_machine": "torch is newer",
        },
    ]
    page.route("**/replay", lambda route: route.fulfill(json=answers.pop(0)))
    page.goto(f"{address}?whatif=1")
    page.get_by_text("The step once more").click(timeout=90_000)
    press = page.get_by_role("button", name="Replay this step")
    press.click()
    expect(
        page.get_by_text("Every number of the step is the stored one, from the checkpoint of step 2.")
    ).to_be_visible()
    press.click()
    expect(page.get_by_text("7 quantities came out otherwise")).to_be_visible()
    expect(page.get_by_text("That may be since torch is newer.")).to_be_visible()
    expect(page.get_by_text("reply 0: entropy was 1.5, came out as NaN")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_too_wide(
    new_page: Callable[..., Page], address: str, theme: str
) -> None:
    page = new_page(theme=theme, reduced_motion="reduce")
    page.goto(f"{address}?whatif=1&if=high:0.05")
    told(page, "1 of 8 sightings newly held, 0 freed").wait_for(timeout=90_000)
    for folded in ("The batch in numbers", "The step once more"):
        page.get_by_text(folded).click()
    page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    found = page.evaluate("(rules) => axe.run(document, rules)", RULES)
    serious = [entry for entry in found["violations"] if entry["impact"] in ("serious", "critical")]
    assert [violation(entry) for entry in serious] == []
    for width in (400, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(150)
        assert (
            page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        )
