"""The browser, key by key, in a terminal of 80 × 24 that is none."""

import asyncio
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from taut.cli import main
from taut.store import Run, RunWriter, StepRecord, UpdateRecord
from taut.store.codec import to_json
from taut.terminal.browse import app as browse_app
from taut.terminal.browse.app import Browser
from taut.terminal.browse.pages import StepsPage
from taut.terminal.browse.step import StepReplies, td_errors

BACK, ON = "left_square_bracket", "right_square_bracket"


def walk(run, *presses, size=(80, 24), step=-1):
    """What the screen shows, as lines: at first, and after each press. A press that is a function is called."""

    async def go():
        app = Browser(run, step)
        async with app.run_test(size=size) as pilot:
            frames = [await frame(pilot)]
            for press in presses:
                if callable(press):
                    press(app)
                else:
                    await pilot.press(press)
                frames.append(await frame(pilot))
            return frames

    return asyncio.run(go())


async def frame(pilot):
    await pilot.pause()
    await pilot.pause()  # what is drawn after the next refresh
    lines = pilot.app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def words(lines):
    return [line.split() for line in lines]


def cells(lines, heading):
    """The rows of a table beneath the line that begins with this heading."""
    start = next(n for n, line in enumerate(lines) if line.split()[:1] == [heading])
    return [line.split() for line in lines[start + 1 : -1] if line[:6].strip().isdigit()]


def test_from_steps_to_replies_to_tokens_and_back(made_up_run):
    steps, *_, replies, _, tokens, _, back = walk(
        made_up_run, "up", "enter", "down", "enter", "escape", "escape"
    )
    assert " ".join(steps[0].split()) == "[red]made-up · finished · 3 steps; those with replies can be opened"
    assert cells(steps, "step") == [
        [str(step), f"0.{step}00", "0.500", "5.0", "%", "1.000", "kept"] for step in (1, 2, 3)
    ]
    assert steps[-1].split() == ["⏎", "open", "q", "quit"]
    assert " ".join(replies[0].split()) == "step 2 2 replies, in the order of the batch"
    rows = cells(replies, "reply")
    # Of the 6 trained tokens that each reply's 2 sightings showed, the clip bound one.
    assert [row[:5] for row in rows] == [["0", "0.000", "3", "16.7", "%"], ["1", "1.000", "3", "16.7", "%"]]
    assert [row[6] == "cut" for row in rows] == [False, True]
    place = "step 2, reply 1 reward 1.000, cut optimiser step 4 of 4, epoch 2"
    assert " ".join(tokens[0].split()) == place
    assert ["1.00", "1.50△", "0.50▼"] in words(tokens)
    assert "3 steps" in back[0]


def test_hostile_text_is_shown_and_not_obeyed(made_up_run):
    frames = walk(made_up_run, "enter", "enter")
    for text in map("\n".join, frames):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "[red]made-up" in frames[0][0]
    assert any(r"[/INST] [red]\x1b[31m\u202ebad\n" in line for line in frames[2])


def test_scrubbing_replays_how_the_ratios_moved(made_up_run):
    frames = walk(made_up_run, "enter", "enter", *[BACK] * 4, ON, "full_stop", BACK)[2:]
    ones, moved = ["1.00", "1.00", "1.00"], ["1.00", "1.50▲", "0.50▽"]
    for lines, place, stale, beneath in zip(
        frames,
        ("4 of 4, epoch 2", "3 of 4, epoch 2", "2 of 4, epoch 1", "1 of", "1 of", "2 of"),
        (", as of step 3", "", ", as of step 1", "", "", ", as of step 1"),
        (moved, moved, ones, ones, ones, ones),
        strict=False,
    ):
        assert f"optimiser step {place}" in lines[0]
        head = " ".join(" ".join(lines[:2]).split())
        assert ("as of" in head, stale in head) == (bool(stale), True)
        assert beneath in words(lines)
    assert "reply 1 " in frames[6][0]
    assert "not seen yet" in " ".join(" ".join(frames[7][:2]).split())
    assert not any("1.00" in line for line in frames[7][1:-4]), "no ratio before the first sighting"


def test_the_colour_goes_round_what_the_run_has(made_up_run):
    frames = walk(made_up_run, "enter", "enter", *"cccccC")[2:]
    found = [next(line for line in lines if "coloured by" in line) for lines in frames]
    names = [line.split("coloured by ")[1].split(":")[0] for line in found]
    assert names == ["ratio", "clip", "advantage", "logprob", "sampler gap", "ratio", "sampler gap"]
    assert ["+1.00", "+1.00", "+1.00"] in words(frames[2])
    assert ["▲", "▽"] in words(frames[1])


def test_a_token_has_all_its_numbers_on_a_line(made_up_run):
    keys = ("n", "right", "right", "left", "n", BACK, BACK, "b")
    found = [" ".join(" ".join(lines).split()) for lines in walk(made_up_run, "enter", "enter", *keys)[2:]]
    assert "1/3 '⟨#7⟩' id 7 ratio 1.000 advantage +1.000" in found[0]
    held = "2/3 '⟨#8⟩' id 8 held above ratio 1.500 advantage +1.000 logprob 0.405 sampler gap +0e+00"
    assert held in found[1]
    assert "3/3 '⟨#9⟩' id 9 outside below, not held ratio 0.500" in found[3]
    assert held in found[4]
    assert held in found[5], "from the last that is held to the first"
    assert "the clip holds no token of this reply here" in found[8]


def test_one_goes_from_reply_to_reply_in_the_order_of_the_list(made_up_run):
    frames = walk(
        made_up_run, "enter", "enter", "full_stop", "full_stop", "comma", "escape", "o", "enter", "full_stop"
    )
    shown = {place: frames[place][0].split()[3] for place in (2, 3, 4, 5, 8, 9)}
    assert shown == {2: "0", 3: "1", 4: "0", 5: "1", 8: "1", 9: "0"}, "the best reward is first in the end"


@pytest.fixture
def varied_run(tmp_path, made_up_run):
    """Rewards 0, 1, none, 2; lengths 3, 1, 3, 2; replies 1 and 3 are clipped in all and half of their tokens."""
    base = made_up_run.replies(1)[0]

    def reply(row, length, reward):
        arrays = {
            name: getattr(base, name)[:length] for name in ("ids", "mask", "old_logprobs", "advantages")
        }
        arrays["behavior_logprobs"] = base.behavior_logprobs[:length]
        mask = arrays["mask"] & (not math.isnan(reward))
        return replace(base, sample=row, reward=reward, **{**arrays, "mask": mask})

    replies = [reply(0, 3, 0.0), reply(1, 1, 1.0), reply(2, 3, math.nan), reply(3, 2, 2.0)]
    ratios = [[1.0, 1.1, 1.0], [1.5], [1.0, 1.0, 1.0], [1.0, 2.0]]
    logprobs = [np.log(np.array(row, np.float32)) for row in ratios]
    with RunWriter.create(tmp_path / "varied", to_json(made_up_run.config), {}) as writer:
        constants = {"clip_low": 0.2, "clip_high": 0.2, "surrogate": "clipped"}
        writer.append(StepRecord(1, constants, {}, replies, [UpdateRecord(0, 0, np.arange(4), logprobs)]))
    return Run.open(tmp_path / "varied")


def test_replies_are_sorted_and_what_has_no_number_is_last(varied_run):
    frames = walk(varied_run, "enter", *"ooooo")[1:]
    found = [("".join(row[0] for row in cells(lines, "reply")), lines[0].split(", ")[1]) for lines in frames]
    assert found == [
        ("0123", "in the order of the batch"),
        ("3102", "largest reward first"),
        ("0231", "largest length first"),
        ("1302", "largest clipped first"),
        ("3102", "largest KL first"),
        ("0123", "in the order of the batch"),
    ]
    assert [row[1] for row in cells(frames[0], "reply") if row[0] == "2"] == ["none"]


def test_shares_and_kl_of_replies_by_hand(varied_run):
    rows = StepReplies(varied_run, 1, str).rows
    assert [row.clipped for row in rows[:2]] + [rows[3].clipped] == [0.0, 1.0, 0.5]
    assert math.isnan(rows[2].clipped)
    k3 = [(0.1 - math.log(1.1)) / 3, 0.5 - math.log(1.5), math.nan, (1 - math.log(2)) / 2]
    np.testing.assert_allclose([row.kl for row in rows], k3, rtol=1e-4)


def test_td_errors_pass_over_what_is_not_trained(made_up_run):
    reply = replace(
        made_up_run.replies(1)[0],
        mask=np.array([True, False, True]),
        values=np.array([1.0, np.nan, 3.0], np.float32),
        token_rewards=np.array([0.5, np.nan, 10.0], np.float32),
        bootstrap_value=4.0,
    )
    errors = td_errors(reply, gamma=0.5)
    np.testing.assert_allclose(errors, [0.5 + 0.5 * 3 - 1, np.nan, 10 + 0.5 * 4 - 3])
    assert td_errors(replace(reply, values=None), 0.5) is None


def test_what_an_environment_told_is_dotted(told_run):
    lines = walk(told_run, "enter", "enter", "right")[-1]
    assert ["1.00", "┈┈┈┈", "0.50▽"] in words(lines)
    assert any("told by the environment, not trained on ┈┈┈┈" in line for line in lines)
    assert any("2/3 '⟨#8⟩' id 8  told by the environment" in line for line in lines)


def test_it_follows_a_run_that_goes_on(made_up_run):
    """The cursor stays at the end, or where the user has put it."""
    record = made_up_run.record(3)

    def goes_on(step):
        def append_and_look(app):
            with RunWriter.resume(made_up_run.directory) as writer:
                writer.append(replace(record, step=step))
            app.screen.look()

        return append_and_look

    first, followed, _, _, stayed, opened = walk(made_up_run, goes_on(4), "up", "up", goes_on(5), "enter")
    assert ["3 steps" in first[0], "4 steps" in followed[0], "5 steps" in stayed[0]] == [True] * 3
    assert [row[0] for row in cells(stayed, "step")] == list("12345")
    assert "step 2 " in opened[0]
    assert "step 4 " in walk(made_up_run, lambda app: app.screen.look(), "up", "enter")[-1][0]


def test_the_browser_looks_by_itself(made_up_run, monkeypatch):
    looked = []
    monkeypatch.setattr(browse_app, "EVERY", 0.01)
    monkeypatch.setattr(StepsPage, "has_gone_on", lambda page: bool(looked.append(page)))
    monkeypatch.setattr(StepsPage, "__init__", lambda page, *_: None)
    monkeypatch.setattr(StepsPage, "head", lambda page: "")
    monkeypatch.setattr(StepsPage, "headings", list)
    monkeypatch.setattr(StepsPage, "rows", lambda page: [])
    walk(made_up_run)
    assert looked


def test_what_is_not_there_is_said(tmp_path, made_up_run):
    with RunWriter.create(tmp_path / "bare", to_json(made_up_run.config), {}) as writer:
        writer.append(StepRecord(1, {}, {"reward/mean": 0.5}))
        writer.append(StepRecord(2, {}, {"reward/mean": 0.5}))
    run = Run.open(tmp_path / "bare")
    _, told, forgotten = walk(run, "enter", "up", size=(120, 24))
    assert "nothing was trained in it" in told[1]
    assert "nothing was trained in it" not in "".join(forgotten)
    with pytest.raises(ValueError, match="holds no replies of step 7"):
        Browser(run, step=7)


def test_it_may_begin_at_a_step_and_goes_back_from_there(made_up_run):
    first, back = walk(made_up_run, "escape", step=2)
    assert first[0].split()[:2] == ["step", "2"]
    assert "3 steps" in back[0]


def test_a_run_without_steps_is_an_empty_list(tmp_path):
    with RunWriter.create(tmp_path / "new", to_json({"model": {"path": "m"}}), {}):
        pass
    assert "0 steps" in walk(Run.open(tmp_path / "new"), "enter")[1][0]


@pytest.mark.parametrize("size", [(60, 16), (200, 60)])
def test_other_terminals_do(made_up_run, size):
    assert any("1.50▲" in line for line in walk(made_up_run, "enter", "enter", size=size)[-1])


def test_long_replies_are_scrolled_and_the_token_stays_in_sight(made_up_run, tmp_path):
    base, zeros = made_up_run.replies(1)[0], np.zeros(5000, np.float32)
    arrays = {"behavior_logprobs": zeros, "old_logprobs": zeros, "advantages": zeros + 1}
    long = replace(base, ids=np.arange(5000, dtype=np.int32), mask=zeros == 0, **arrays)
    seen = zeros.copy()
    seen[4321] = np.log(2)
    with RunWriter.create(tmp_path / "long", to_json(made_up_run.config), {}) as writer:
        constants = {"clip_low": 0.2, "clip_high": 0.2, "surrogate": "clipped"}
        writer.append(StepRecord(1, constants, {}, [long], [UpdateRecord(0, 0, np.arange(1), [seen])]))
    frames = walk(Run.open(tmp_path / "long"), "enter", "enter", "n", "end")[2:]
    at_first, at_the_held, at_the_end = map("\n".join, frames)
    assert "2.00▲" not in at_first
    assert "2.00▲" in at_the_held
    assert "4322/5000" in at_the_held
    assert "4999" in at_the_end


def test_no_terminal_and_no_textual_are_told(made_up_run, capsys, monkeypatch):
    where = str(made_up_run.directory)
    assert main(["show", where, "--browse"]) == 2
    assert "--browse draws on a terminal and this is none" in capsys.readouterr().err
    assert main(["show", where, "--browse", "--json"]) == 2
    assert "leave one out" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "taut.terminal.browse.app")
    monkeypatch.setitem(sys.modules, "textual.app", None)
    assert main(["show", where, "--browse"]) == 2
    assert "pip install 'taut[browse]'" in capsys.readouterr().err


def test_no_torch_is_waited_for():
    code = "import sys, taut.terminal.browse.app; print({'torch', 'transformers'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
