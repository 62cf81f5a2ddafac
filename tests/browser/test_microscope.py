"""The microscope on a batch worked out by hand: what is shown at each place of the scrubber, with mouse and keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_site import HOSTILE, Server
from playwright.sync_api import Page, expect

from taut.store import ReplyRecord, RetentionPolicy, RunWriter, StepRecord, UpdateRecord

expect.set_options(timeout=20_000)  # a machine that is busy with other things is no fault

CONFIG = "model:\n  path: careless-adder\n"
CONSTANTS = {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None, "surrogate": "clipped", "gamma": 1.0}
OLD = np.log(np.float32([0.5, 0.25, 0.5, 0.5]))


def reply(number: int, **changes: Any) -> ReplyRecord:
    """Four tokens "12+;" that each had probability 1/2, but 1/4 the second, which is what an environment told."""
    fields: dict[str, Any] = {
        "prompt_index": 5 + number // 2,
        "group": number // 2,
        "sample": number % 2,
        "version": 0,
        "prompt_text": "5+6=",
        "prompt_ids": np.array([5], np.int32),
        "text": f"reply number {number}",
        "ids": np.array([1, 2, 10, 12], np.int32),
        "mask": np.array([True, False, True, True]),
        "reward": 0.5 * number,
        "finish_reason": "stop",
        "terms": {"exact": 0.5 * number},
        "behavior_logprobs": np.where([False, True, False, False], np.float32(np.nan), OLD),
        "old_logprobs": OLD,
        "ref_logprobs": OLD - np.float32([0.5, 0, 0, 0]),
        "values": np.float32([0.25, 9, 0.5, 1]),
        "token_rewards": np.float32([0, 9, 0, 1]),
        "advantages": np.float32([1, 9, -1, 1]),
        "bootstrap_value": 0.0,
    }
    return ReplyRecord(**{**fields, **changes})


def seen_at(*ratios: float) -> np.ndarray:
    return OLD + np.log(np.float32(ratios))


def batch() -> StepRecord:
    """Two epochs of two minibatches, a reply each; in the second epoch reply 0's tokens moved to ratios as below."""
    replies = [reply(0), reply(1)]
    ratios = [(1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0), (1.5, 1.0, 0.7, 0.6), (1.1, 1.0, 1.3, 1.0)]
    updates = [
        UpdateRecord(at // 2, at % 2, np.array([at % 2]), [seen_at(*moved)])
        for at, moved in enumerate(ratios)
    ]
    return StepRecord(1, CONSTANTS, {"reward/mean": 0.25}, replies, updates)


@pytest.fixture(scope="module", autouse=True)
def _runs(server: Server) -> None:
    def write(name: str, *steps: StepRecord, keep: int = 20) -> None:
        with RunWriter.create(server.root / name, CONFIG, {}, RetentionPolicy(newest=keep)) as writer:
            for step in steps:
                writer.append(step)

    write("by hand", batch())
    write("long", long_batch())
    broken = batch()
    broken.optimizer_steps[2].logprobs[0][:] = np.float32([np.nan, np.nan, np.inf, 0])
    write("broken", broken)
    rows = [reply(n, text=f"<b>text {n}</b> {HOSTILE}" if n == 3 else f"text {n}") for n in range(60)]
    rows[7].reward, rows[7].failures = float("nan"), {"exact": "TimeoutError: slow"}
    steps = [
        StepRecord(step, CONSTANTS, {}, rows if step == 6 else rows[: step * 2], []) for step in range(1, 7)
    ]
    write("many", *steps, keep=4)


def long_batch() -> StepRecord:
    """One reply of 16,000 tokens, seen twice: at ratio 1 and 1.5."""
    length = 16_000
    old = np.full(length, np.log(0.5), np.float32)
    whole = {
        "mask": np.ones(length, bool),
        "ids": np.arange(length, dtype=np.int32) % 12,
        "advantages": np.ones(length),
    }
    scored = dict.fromkeys(
        ("behavior_logprobs", "old_logprobs", "ref_logprobs", "values", "token_rewards"), old
    )
    one = reply(0, **whole, **scored)
    updates = [UpdateRecord(at, 0, np.array([0]), [old + np.float32(np.log(1 + at / 2))]) for at in range(2)]
    return StepRecord(1, CONSTANTS, {}, [one], updates)


@pytest.fixture
def scope(page: Page) -> Page:
    page.goto("/runs/by%20hand/steps/1/replies/0?at=0")
    page.wait_for_selector(".t")
    return page


def shown(page: Page) -> list[tuple[str, str, str]]:
    """(text, the number beneath, the mark) of each token."""
    return [
        (
            text,
            beneath,
            next((name for name in classes.split() if name in ("hh", "hl", "fh", "fl", "du")), ""),
        )
        for text, beneath, classes in page.locator(".tokens .t").evaluate_all(
            "(spans) => spans.map((span) => [span.textContent, span.dataset.n, span.className])"
        )
    ]


AT = {
    0: [("1", "1.00", ""), ("2", "·", ""), ("+", "1.00", ""), (";", "1.00", "")],
    2: [("1", "1.50▲", "hh"), ("2", "·", ""), ("+", "0.70▼", "hl"), (";", "0.60▽", "fl")],
}
AT[1], AT[3] = AT[0], AT[2]


def test_each_place_of_the_scrubber_shows_what_that_step_saw(scope: Page) -> None:
    words = [
        "epoch 1 · step 1 of 2",
        "epoch 1 · step 2 of 2",
        "epoch 2 · step 1 of 2",
        "epoch 2 · step 2 of 2",
    ]
    slider = scope.get_by_role("slider", name="Optimiser step")
    for at, told in enumerate(words):
        slider.fill(str(at))
        expect(scope.get_by_test_id("at")).to_have_text(told)
        assert shown(scope) == AT[at]
        # In the second minibatch the reply is not seen: its last values stand, and that is told.
        assert scope.locator(".reply-block[data-stale]").count() == at % 2
        assert ("last values stand" in scope.get_by_test_id("sentence").inner_text()) == bool(at % 2)
    assert scope.get_by_test_id("sentence").inner_text().startswith("2 of 3 tokens held by the clip (66.7 %)")
    cells = (
        scope.get_by_test_id("anatomy")
        .locator("td")
        .evaluate_all("(all) => all.map((one) => one.firstChild.data)")
    )
    assert cells == ["1", "0", "1", "1", "0", "0"]  # A > 0 and A < 0; below, inside, above
    expect(scope).not_to_have_url(re.compile("at="))  # the last place is where the page begins


def test_one_reply_that_was_not_seen_yet(page: Page) -> None:
    page.goto("/runs/by%20hand/steps/1/replies/1?at=0")
    expect(page.get_by_test_id("sentence")).to_contain_text("The reply was not seen yet.")
    assert [beneath for _, beneath, _ in shown(page)] == ["·"] * 4
    page.get_by_role("button", name="Optimiser step on").click()
    assert [beneath for _, beneath, _ in shown(page)] == ["1.00", "·", "1.00", "1.00"]


QUANTITIES = {
    "advantage": ["+1.00", "·", "−1.00", "+1.00"],
    "value": ["+0.25", "·", "+0.50", "+1.00"],
    "td": ["+0.25", "·", "+0.50", "0.00"],  # δ = r + V' - V over trained tokens: .5 - .25, 1 - .5, 1 - 1
    "kl": ["+0.500", "·", "0.000", "0.000"],
    "logprob": ["−0.69", "·", "−0.69", "−0.69"],
    "reward": ["0.00", "·", "0.00", "+1.00"],
}


def test_tokens_are_coloured_by_each_quantity(scope: Page) -> None:
    choice = scope.get_by_label("Colour by")
    for name, beneath in QUANTITIES.items():
        choice.select_option(name)
        assert [number for _, number, _ in shown(scope)] == beneath
    choice.select_option("advantage")
    colours = scope.locator(".tokens .t").evaluate_all(
        "(all) => all.map((one) => one.className.match(/ [ud]4/)?.[0])"
    )
    assert colours == [" u4", None, " d4", " u4"]
    values = choice.locator("option").evaluate_all("(all) => all.map((one) => one.value)")
    assert values == ["ratio", "clip", *("advantage", "value", "td", "kl", "logprob", "gap", "reward")]
    expect(scope).to_have_url(re.compile("color=advantage"))


def test_what_an_environment_told_is_seen_without_colour(scope: Page) -> None:
    told = scope.locator(".tokens .t.told")
    assert told.all_inner_texts() == ["2"]
    styles = "(one) => [getComputedStyle(one).fontStyle, getComputedStyle(one).borderBottomStyle]"
    assert told.evaluate(styles) == ["italic", "dotted"]
    told.click()
    expect(scope.get_by_test_id("detail")).to_contain_text("told by the environment")


def test_hovering_shows_every_number_of_a_token(scope: Page) -> None:
    scope.get_by_role("slider", name="Optimiser step").fill("2")
    scope.locator(".tokens .t").first.hover()
    detail = scope.get_by_test_id("detail")
    rows = dict(
        zip(detail.locator("dt").all_inner_texts(), detail.locator("dd").all_inner_texts(), strict=True)
    )
    assert rows == {
        "ratio ρ": "1.5000",
        "clip": "▲ held above the range: no gradient",
        "log π as seen": "−0.2877 (p 0.75)",
        "log π before the batch": "−0.6931 (p 0.5)",
        "log π of the sampler": "−0.6931 (p 0.5)",
        "sampler–learner gap": "0",
        "advantage A": "+1.0000",
        "token reward": "0.0000",
        "value V": "+0.2500",
        "TD error δ": "+0.2500",
        "log π of the reference": "−1.1931 (p 0.303)",
        "KL, k1": "+0.9055",
        "KL, k2": "+0.4099",
        "KL, k3": "+0.3098",
    }
    expect(detail).to_contain_text("seen in this optimiser step")
    track = scope.get_by_role("group", name="Ratio of the token at each sighting")
    expect(track).to_have_attribute(
        "aria-label", "Ratio of the token at each sighting: step 1: 1.000; step 3: 1.500 held"
    )


def test_keys_walk_through_tokens_steps_and_held_tokens(scope: Page) -> None:
    field = scope.get_by_role("group", name="Tokens, coloured by")
    field.focus()
    for key, token in [("ArrowRight", 0), ("ArrowRight", 1), ("End", 3), ("ArrowLeft", 2), ("Home", 0)]:
        scope.keyboard.press(key)
        expect(scope.get_by_test_id("detail").locator("h2")).to_have_text(f"Token {token + 1} of 4")
    for key, told in [
        ("]", "epoch 1 · step 2 of 2"),
        ("]", "epoch 2 · step 1 of 2"),
        ("[", "epoch 1 · step 2 of 2"),
    ]:
        scope.keyboard.press(key)
        expect(scope.get_by_test_id("at")).to_have_text(told)
    scope.keyboard.press("]")
    for key, token in [("n", 2), ("n", 0), ("b", 2)]:
        scope.keyboard.press(key)
        expect(scope.get_by_test_id("detail").locator("h2")).to_have_text(f"Token {token + 1} of 4")
    said = "Token 3: +, Ratio ρ 0.700, held below the range: no gradient"
    expect(scope.get_by_role("status").filter(has_text=said)).to_have_count(1)
    scope.keyboard.press("Escape")
    expect(scope.get_by_test_id("detail")).to_have_count(0)
    scope.keyboard.press("v")
    assert scope.locator(".field-of-tokens.numbers").count() == 0
    scope.keyboard.press(".")
    expect(scope.get_by_role("heading", level=1)).to_have_text("Reply 1")
    expect(scope).to_have_url(re.compile("at=2"))


def test_of_many_tokens_those_in_sight_are_coloured_and_the_others_as_they_come(page: Page) -> None:
    page.goto("/runs/long/steps/1/replies/0?at=0&numbers=0")
    page.wait_for_selector(".t")
    assert page.locator(".tokens .t").count() == 16_000
    page.evaluate(
        """() => {
            window.changed = 0;
            const watch = new MutationObserver((records) => { window.changed += records.length; });
            watch.observe(document.querySelector(".tokens"), { subtree: true, attributeFilter: ["class"] });
        }"""
    )
    page.keyboard.press("]")
    expect(page.locator(".tokens .t").first).to_have_class("t u4 hh")
    assert 0 < page.evaluate("window.changed") < 8_000
    last = page.locator(".tokens .t").last
    assert "hh" not in last.get_attribute("class")
    last.scroll_into_view_if_needed()
    expect(last).to_have_class("t u4 hh")


def test_a_number_that_is_none_is_marked(page: Page) -> None:
    page.goto("/runs/broken/steps/1/replies/0?at=2&token=0")
    page.wait_for_selector(".t")
    assert [beneath for _, beneath, _ in shown(page)] == ["NaN", "·", "∞△", "2.00▲"]
    assert page.locator(".tokens .t.nan").all_inner_texts() == ["1"]
    rows = page.get_by_test_id("detail").locator("dd").all_inner_texts()
    assert rows[:2] == ["NaN", "NaN"]
    track = page.get_by_role("group", name="Ratio of the token at each sighting")
    expect(track).to_have_attribute("aria-label", re.compile("step 1: 1.000; step 3: NaN"))
    assert track.locator(".track-none").all_text_contents() == ["NaN"]


def test_playing_runs_through_the_batch(scope: Page) -> None:
    scope.get_by_role("button", name="Play the optimiser steps").click()
    expect(scope.get_by_test_id("at")).to_have_text("epoch 2 · step 2 of 2")
    expect(scope.get_by_role("button", name="Play the optimiser steps")).to_be_visible()
    assert shown(scope) == AT[3]


def test_a_link_brings_back_all_that_is_seen(page: Page) -> None:
    page.goto("/runs/by%20hand/steps/1/replies/0?at=2&color=td&token=2&numbers=0&scope=batch")
    expect(page.get_by_role("heading", level=1)).to_have_text("The batch of step 1")
    expect(page.get_by_label("Colour by")).to_have_value("td")
    expect(page.get_by_test_id("detail").locator("h2")).to_contain_text("Token 3 of")
    expect(page.get_by_test_id("at")).to_have_text("epoch 2 · step 1 of 2")
    assert page.locator(".t[data-on]").all_inner_texts() == ["+"]
    assert page.locator(".reply-block").count() == 2
    # Of reply 1 what stands is from the epoch before.
    expect(page.locator(".reply-block[data-stale]")).to_contain_text("as of epoch 1 · step 2 of 2")
    assert [mark for _, _, mark in shown(page)] == ["hh", "", "hl", "fl", "", "", "", ""]


def first_column(page: Page) -> list[str]:
    return page.locator(".table tbody tr td:first-child").all_inner_texts()


def test_the_replies_of_a_step_are_sorted_filtered_and_paged(page: Page) -> None:
    page.goto("/runs/many/steps/6")
    expect(page.locator(".table tbody tr")).to_have_count(50)
    page.get_by_role("button", name="On", exact=True).click()
    expect(page.locator(".table tbody tr")).to_have_count(10)
    page.get_by_role("button", name="Reward").click()
    expect(page.locator(".table tbody td:first-child").first).to_have_text("59")
    page.get_by_role("radio", name="failed").check()
    expect(page.locator(".table tbody tr")).to_have_count(1)
    expect(page.locator(".table tbody")).to_contain_text("exact")
    page.get_by_label("Filter, such as").fill("reward>=29")
    page.keyboard.press("Enter")
    expect(page.locator(".table tbody tr")).to_have_count(2)
    assert first_column(page) == ["59", "58"]
    expect(page).to_have_url(re.compile("sort=reward.*filter=reward%3E%3D29"))
    page.get_by_label("Filter, such as").fill("")
    page.get_by_label("Search prompts").fill("<b>text 3</b>")
    page.keyboard.press("Enter")
    expect(page.locator(".table tbody tr")).to_have_count(1)
    expect(page.locator(".preview", has_text="<b>text 3</b>")).to_have_count(1)
    assert page.title() != "owned"


def test_a_filter_that_makes_no_sense_is_told(page: Page, problems: list[str]) -> None:
    page.goto("/runs/many/steps/6?filter=beauty%3E1")
    expect(page.get_by_role("alert")).to_contain_text("there is no filter 'beauty>1'")
    problems.clear()


def test_groups_stand_side_by_side(page: Page) -> None:
    page.goto("/runs/many/steps/6?view=groups")
    expect(page.locator(".group")).to_have_count(30)
    expect(page.locator(".group").nth(1)).to_contain_text("Mean reward 1.250 over 2.")
    page.locator(".group").nth(1).get_by_role("link", name="This prompt through training").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Prompt 6 through training")
    # Prompt 6 has replies 2 and 3, of which steps from the second on took both; the oldest two steps are gone.
    expect(page.locator(".group")).to_have_count(4)
    assert page.locator(".group h2 a").all_inner_texts() == ["Step 3", "Step 4", "Step 5", "Step 6"]


def test_steps_of_a_run_that_goes_on_appear(page: Page, server: Server) -> None:
    first = batch()
    with RunWriter.create(server.root / "growing", CONFIG, {}) as writer:
        writer.append(first)
        page.goto("/runs/growing/steps/1")
        steps = page.get_by_role("navigation", name="Steps whose replies are kept").get_by_role("link")
        expect(steps).to_have_text(["1"])
        first.step = 2
        writer.append(first)
        expect(steps).to_have_text(["1", "2"])
        steps.nth(1).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Step 2")
        expect(page.locator(".table tbody tr")).to_have_count(2)


def test_steps_that_are_gone_are_told(page: Page, problems: list[str]) -> None:
    page.goto("/runs/many/steps/3")
    expect(page.get_by_text("4 steps have their replies; those of 2 others were dropped")).to_be_visible()
    page.keyboard.press("]")
    expect(page.get_by_role("heading", level=1)).to_have_text("Step 4")
    page.goto("/runs/many/steps/1")
    expect(page.get_by_role("alert")).to_contain_text("dropped to save space; steps kept: 3-6")
    problems.clear()


def test_a_reply_can_be_saved_whole(scope: Page, tmp_path: Path) -> None:
    with scope.expect_download() as saving:
        scope.get_by_role("link", name="save").click()
    saving.value.save_as(tmp_path / "reply.txt")
    assert (tmp_path / "reply.txt").read_text() == "reply number 0"


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_nothing_is_wider_than_the_page(new_page: Callable[..., Page], width: int) -> None:
    page = new_page(width=width)
    for path in (
        "by%20hand/steps/1/replies/0?token=0",
        "many/steps/6",
        "many/steps/6?view=groups",
        "many/prompts/6",
    ):
        page.goto(f"/runs/{path}")
        page.wait_for_selector(".t, .table, .group")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
