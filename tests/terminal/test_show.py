"""Replies token by token, with and without colour, in a console that can show little."""

import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from taut.store import Run, RunWriter, StepRecord, UpdateRecord
from taut.store.codec import to_json
from taut.terminal.show import print_run, run_object, step_view
from taut.terminal.tokens import TokenView, token_lines

CLIPPED = re.compile(r"1\.00\s+1\.50(\S?)\s+0\.50(\S?)")


def page_of(run, console, color="ratio", step=-1, optimizer_step=-1):
    print_run(run, console, step, optimizer_step, color, replies=8)
    return console.file.getvalue()


def test_summary_and_ratios(made_up_run, make_console):
    page = page_of(made_up_run, make_console())
    assert "finished · 3 steps in 0:06" in page
    assert "grpo · [bold]some/model · 4 optimiser steps a batch" in page
    assert "step 3   optimiser step 3 of 0 to 3, epoch 2" in page
    # Advantage +1: the clip holds ρ = 1.5; advantage -1: it holds ρ = 0.5.
    assert CLIPPED.findall(page) == [("▲", "▽"), ("△", "▼")]
    assert page.count("cut") == 1


def test_hostile_text_is_shown_and_not_obeyed(made_up_run, make_console):
    page = page_of(made_up_run, make_console())
    assert r"latvec[0] [/INST] [red]\x1b[31m\u202ebad\n" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize("color", ["ratio", "clip", "advantage"])
def test_ascii_console(made_up_run, make_console, color):
    page = page_of(made_up_run, make_console(encoding="ascii"), color)
    assert page.isascii()
    if color == "ratio":
        assert CLIPPED.findall(page) == [("^", ","), ("'", "v")]


def test_advantages_have_their_sign(made_up_run, make_console):
    page = page_of(made_up_run, make_console(), "advantage")
    assert page.count("+1.00") == page.count("-1.00") == 3


@pytest.mark.parametrize(
    ("optimizer_step", "seen"), [(0, [0, None]), (1, [0, 1]), (2, [2, 1]), (3, [2, 3]), (-4, [0, None])]
)
def test_a_token_is_seen_once_an_epoch(made_up_run, make_console, optimizer_step, seen):
    view = step_view(made_up_run, 2, optimizer_step, replies=8)
    assert [reply.seen_at for reply in view.replies] == seen
    page = page_of(made_up_run, make_console(), step=2, optimizer_step=optimizer_step)
    assert ("not seen yet" in page) == (None in seen)
    assert ("seen at 1" in page) == (optimizer_step == 2)


@pytest.mark.parametrize(
    ("step", "optimizer_step", "message"),
    [
        (0, -1, "no replies"),
        (9, -1, "steps kept: 1-3"),
        (1, 4, "4 optimiser steps"),
        (1, -5, "there is no -5"),
    ],
)
def test_what_is_not_there_is_named(made_up_run, step, optimizer_step, message):
    with pytest.raises(ValueError, match=message):
        step_view(made_up_run, step, optimizer_step, replies=8)


def test_an_error_stands_alone(made_up_run, make_console):
    console = make_console()
    with pytest.raises(ValueError, match="steps kept: 1-3"):
        print_run(made_up_run, console, 9, -1, "ratio", replies=8)
    assert console.file.getvalue() == ""


@pytest.mark.parametrize(
    ("optimizer_step", "order"),
    [(1, ["0.000", "1.000"]), (2, ["0.000", "1.000"]), (3, ["1.000", "0.000"])],
)
def test_replies_with_the_most_clipped_tokens_come_first(
    two_clipped_run, make_console, optimizer_step, order
):
    """Nothing is clipped in the first epoch; in the second one token of reply 0 and then two of reply 1 are."""
    page = page_of(two_clipped_run, make_console(), optimizer_step=optimizer_step)
    assert re.findall(r"reward (\d\.\d+)  ", page)[-2:] == order
    assert "2 of 2 replies, the most clipped first" in page
    view = step_view(two_clipped_run, 1, optimizer_step, replies=1)
    assert [f"{reply.reward:.3f}" for reply in view.replies] == order[:1]


def test_no_blank_line_beneath_a_reply_in_which_nothing_is_clipped(made_up_run, make_console):
    tokens = [TokenView("7", True, 1.0, 1.0, ""), TokenView("8", True, 1.5, 1.0, "high")]
    assert len(token_lines(tokens[:1], "clip", (0, 0), 80, make_console())) == 1
    assert len(token_lines(tokens, "clip", (0, 0), 80, make_console())) == 2


def test_json_object(made_up_run):
    shown = run_object(made_up_run, 1, 3, replies=1)
    assert shown["steps"] == 3
    [reply] = shown["replies_of"]["replies"]
    assert [token["clip"] for token in reply["tokens"]] == ["", "high", "outside-low"]
    assert [token["text"] for token in reply["tokens"]] == ["⟨#7⟩", "⟨#8⟩", "⟨#9⟩"]
    assert reply["tokens"][1]["ratio"] == pytest.approx(1.5)


def test_colour_is_of_the_value(made_up_run):
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)
    tokens = [TokenView(text, True, ratio, 1.0, "") for text, ratio in (("a", 1.0), ("b", 1.3), ("c", 0.7))]
    above, beneath = token_lines(tokens, "ratio", (0.2231, 0.1823), 80, console)
    styles = {span.start: str(span.style) for span in above.spans}
    assert 0 not in styles
    assert len(set(styles.values())) == 2
    assert beneath.plain.split() == ["1.00", "1.30", "0.70"]


def test_untrained_and_odd_tokens_have_a_place(make_console):
    console = make_console()
    tokens = [
        TokenView("", True, 1.0, None, ""),
        TokenView("\x1b[0m", False, None, None, ""),
        TokenView("漢", True, 0.0, 1.0, ""),
    ]
    above, beneath = token_lines(tokens, "ratio", (0.2, 0.2), 80, console)
    assert r"\x1b[0m" in above.plain
    assert beneath.plain.split() == ["1.00", "0.00"]
    assert above.cell_len == beneath.cell_len


@pytest.mark.parametrize("width", [20, 33, 80])
def test_lines_break_at_the_width(width, make_console):
    tokens = [TokenView("token", True, 1.0, 1.0, "")] * 50
    lines = token_lines(tokens, "ratio", (0.2, 0.2), width, make_console())
    assert len(lines) % 2 == 0
    assert all(line.cell_len <= width + 1 for line in lines)
    assert sum(line.plain.count("token") for line in lines) == 50


def test_one_reply_of_each_failure_is_shown_whatever_is_clipped(tmp_path, made_up_run, make_console):
    """Replies 2 to 5 fail in two ways; without them the reply that the clip holds most stands alone."""
    step = made_up_run.replies(1)
    whys = ["hangs: 3 s", "hangs: 4 s", "raised KeyError: 'gold'", "hangs: 5 s"]
    failed = [
        replace(step[0], reward=math.nan, sample=n, failures={"score": why}) for n, why in enumerate(whys)
    ]
    updates = [UpdateRecord(0, 0, np.arange(6), [np.zeros(3, np.float32)] * 6)]
    with RunWriter.create(tmp_path / "failing", to_json(made_up_run.config), {}) as writer:
        constants = {"clip_low": 0.2, "clip_high": 0.2, "surrogate": "clipped"}
        writer.append(StepRecord(1, constants, {}, [*step, *failed], updates))
    run = Run.open(tmp_path / "failing")
    view = step_view(run, 1, -1, replies=1)
    assert [reply.failures for reply in view.replies] == [{}, {"score": whys[0]}, {"score": whys[2]}]
    assert view.without_reward == 4
    console = make_console()
    print_run(run, console, 1, -1, "ratio", replies=1)
    assert "4 have no reward; one of each failure is shown" in console.file.getvalue()
    assert "score raised KeyError: 'gold'" in console.file.getvalue()
    assert step_view(run, 1, -1, replies=0).replies == []


def test_what_the_environment_told_is_apart_from_what_was_sampled(told_run, make_console):
    assert told_run.replies(1)[0].observed.tolist() == [False, True, False]
    rows = told_run.tokens(1, 0)
    assert [row["logprob"] for row in rows[:3]] == [0.0, None, 0.0]
    assert [row["entropy"] for row in rows[:3]] == [0.0, None, 0.0]
    known = {name for name, value in rows[1].items() if value is not None}
    assert known == {"reply", "position", "id", "mask", "seen_at"}
    page = page_of(told_run, make_console())
    assert re.search(r"1\.00 ┈┈┈┈ 0\.50▽", page)
    assert "told by the environment, not trained on ┈┈┈┈" in page
    assert re.search(r"1\.00 :::: 0\.50,", page_of(told_run, make_console(encoding="ascii")))


def test_nothing_is_said_of_environments_where_there_is_none(made_up_run, make_console):
    assert "environment" not in page_of(made_up_run, make_console())
