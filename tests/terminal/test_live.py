"""A run while it trains: drawn in place, in lines, and as JSON."""

import json
import math

import pytest

from taut.config import resolve
from taut.terminal.lines import JsonView, LinesView
from taut.terminal.live import LiveView

METRICS = {
    "reward/mean": 0.5,
    "eval/accuracy": 0.25,
    "clip/binding": 0.074,
    "kl/old_k1": 0.0123,
    "entropy": 0.5,
    "rate/tokens": 12345.0,
}


def config(**settings):
    return resolve({"run.name": "[red]tiny", "run.steps": 40, **settings})[0]


def drawn(view):
    view.console.print(view.render())
    return view.console.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_fits_its_terminal(width, encoding, make_console):
    view = LiveView(config(), make_console(width, encoding))
    view.observe(0, {"eval/accuracy": 0.1})
    for step in range(1, 31):
        view.observe(step, {**METRICS, "reward/mean": step / 40})
    lines = drawn(view).splitlines()
    assert all(len(line) <= width for line in lines)
    page = "\n".join(lines)
    assert "[red]tiny" in page
    assert "step 30/40" in page
    assert "left" in page
    for label, value in [
        ("reward", "0.750"),
        ("held-out", "0.250"),
        ("clipped", "7.4 %"),
        ("tokens/s", "12,345"),
    ]:
        assert any(label in line and value in line for line in lines)


def test_change_is_since_the_start(make_console):
    view = LiveView(config(), make_console())
    view.observe(0, {"eval/accuracy": 0.1})
    view.observe(1, METRICS)
    [held_out] = [line for line in drawn(view).splitlines() if "held-out" in line]
    assert "+0.150" in held_out


def test_metrics_a_run_lacks_are_not_shown(make_console):
    view = LiveView(config(), make_console())
    view.observe(1, {"reward/mean": math.nan})
    page = drawn(view)
    assert "nan" in page
    assert "entropy" not in page


def test_wait_is_visible_until_the_first_step(make_console):
    view = LiveView(config(), make_console())
    view.wait("fine-tuning the world's model, once for seed 0", 300, 800)
    page = drawn(view)
    assert "once for seed 0" in page
    assert "300/800" in page
    view.observe(0, {})
    assert "step 0/40" in drawn(view)


def test_cispo_caps_weights(make_console):
    view = LiveView(config(**{"algorithm.preset": "cispo"}), make_console())
    view.observe(1, METRICS)
    page = drawn(view)
    assert "weight-capped" in page
    assert "clipped" not in page


def test_one_line_a_step(make_console):
    console = make_console()
    view = LinesView(config(), console)
    view.wait("fine-tuning", 1, 800)
    view.wait("fine-tuning", 2, 800)
    view.observe(0, {"eval/accuracy": 0.25})
    view.observe(1, METRICS)
    view.observe(40, METRICS)
    waiting, before, first, last = console.file.getvalue().splitlines()
    assert waiting == "fine-tuning"
    assert before == "step  0/40  held-out 0.250"
    assert first.startswith("step  1/40  reward 0.500  held-out 0.250  clipped 7.4 %  KL from old 0.0123")
    assert first.endswith("left")
    assert last.endswith("tokens/s 12,345")


def test_step_0_without_held_out_prompts_is_no_line(make_console):
    console = make_console()
    LinesView(config(), console).observe(0, {})
    assert console.file.getvalue() == ""


def test_json_is_strict(capsys, made_up_run):
    view = JsonView()
    view.wait("fine-tuning", 1, 800)
    view.observe(1, {"reward/mean": math.nan})
    view.finish(made_up_run)
    first, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first == {"step": 1, "reward/mean": "NaN"}
    assert last["steps"] == 3
    assert last["eval/accuracy"] == 0.5
    assert "useful range" in last["gauge"]


def test_summary_at_the_end(make_console, made_up_run):
    console = make_console()
    LinesView(config(), console).finish(made_up_run)
    page = console.file.getvalue()
    assert "0.200" in page  # the mean of the rewards 0.1, 0.2 and 0.3
    assert "in its useful range" in page
    assert "[red]made-up'   the replies, token by token" in page


def test_a_wait_in_the_middle_is_shown_beside_the_metrics_until_it_is_over(make_console):
    view = LiveView(config(), make_console())
    view.observe(1, METRICS)
    view.wait("waiting for the reward function judge", 7, 60)
    page = drawn(view)
    assert "waiting for the reward function judge" in page
    assert "7/60" in page
    assert "step 1/40" in page
    view = LiveView(config(), make_console())
    view.observe(1, METRICS)
    view.wait("waiting for the reward function judge", 7, 60)
    view.wait("waiting for the reward function judge", 60, 60)
    assert "waiting" not in drawn(view)


@pytest.mark.parametrize(("failed", "shown"), [(0.0, False), (61.0, True)])
def test_failed_replies_are_in_each_line_where_there_are_any(make_console, failed, shown):
    metrics = {"reward/mean": 1.0, "reply/excluded": failed, "eval/failed": failed / 100}
    console = make_console()
    LinesView(config(), console).observe(1, metrics)
    live = LiveView(config(), make_console())
    live.observe(1, metrics)
    for page in (console.file.getvalue(), drawn(live)):
        assert ("failed" in page) == shown
    assert ("failed 61  held-out failed 61.0 %" in console.file.getvalue()) == shown
