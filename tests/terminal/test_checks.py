"""What the standing checks say, while a run trains and after it."""

import json

from taut.config import resolve
from taut.store import Run, RunWriter
from taut.terminal.checks import checks_lines
from taut.terminal.lines import LinesView
from taut.terminal.live import LiveView
from taut.terminal.summary import summary_row

CONFIG = {"algorithm": {"surrogate": "clipped", "ratio_level": "token", "epochs": 4}}


def event(name, level, step=1, kind="check"):
    return {"kind": kind, "name": name, "level": level, "step": step, "message": f"[red]{name} 0.5: do this"}


def test_lines_tell_what_does_not_pass_and_that_it_passes_again(make_console):
    view = LinesView(resolve({})[0], make_console(200))
    for told in (
        event("mask", "info"),
        event("mismatch", "error"),
        event("critic", "warning", 20),
        event("mismatch", "info", 3),
        event("mismatch", "info", 4),
        event("long_prompts", "warning", kind="data"),
        event("chat_template", "info", kind="data"),
        event("from", "info", kind="resume"),
    ):
        view.tell(told)
    assert view.console.file.getvalue().splitlines() == [
        "check mismatch fails since step 1: [red]mismatch 0.5: do this",
        "check critic warns since step 20: [red]critic 0.5: do this",
        "check mismatch passes since step 3: [red]mismatch 0.5: do this",
        "warning: [red]long_prompts 0.5: do this",
        "[red]from 0.5: do this",
    ]


def test_a_drawn_run_says_once_where_it_goes_on(make_console):
    view = LiveView(resolve({"run.name": "run"})[0], make_console(100))
    view.tell(event("from", "info", kind="resume"))
    assert view.console.file.getvalue() == "[red]from 0.5: do this\n"
    assert view.told == {}


def test_a_drawn_run_names_the_checks_that_do_not_pass_now(make_console):
    view = LiveView(resolve({"run.name": "run"})[0], make_console(100))
    view.observe(1, {"reward/mean": 0.5})
    for told in (
        event("critic", "warning"),
        event("mismatch", "error"),
        event("mask", "error"),
        event("mask", "info"),
    ):
        view.tell(told)
    view.console.print(view.render())
    lines = [line.strip() for line in view.console.file.getvalue().splitlines() if "check" in line]
    assert lines == [
        "check mismatch fails since step 1: [red]mismatch 0.5: do this",
        "check critic warns since step 1: [red]critic 0.5: do this",
    ]


def test_a_run_says_how_its_checks_stand(tmp_path, make_console):
    with RunWriter.create(tmp_path / "run", json.dumps(CONFIG), {}) as writer:
        heard = []
        writer.listeners.append(heard.append)
        for name, level, step in (
            ("mask", "info", 1),
            ("mismatch", "error", 1),
            ("mismatch", "info", 2),
            ("pads", "error", 2),
        ):
            writer.event("check", name, f"{name}: do this", level=level, step=step)
    assert [(each["name"], each["level"], each["step"]) for each in heard][2] == ("mismatch", "info", 2)
    run = Run.open(tmp_path / "run")
    assert [line.plain for line in checks_lines(run.checks(), make_console())] == [
        "checks: 2 pass, 1 fails",
        "check pads fails since step 2: pads: do this",
    ]
    assert summary_row(run)["checks"] == {"mask": "info", "mismatch": "info", "pads": "error"}


def test_a_run_without_checks_says_nothing_of_them(make_console):
    assert checks_lines({}, make_console()) == []
