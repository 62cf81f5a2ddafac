"""Tables of runs, with forks beneath what they were forked from."""

import numpy as np
import pytest

from taut.store.runs import UNREADABLE
from taut.terminal.tables import as_tree, runs_table, samples_table
from taut.types import Episode, Prompt, Rollout


def row(name, parent=None, step=None):
    return {"run": name, **UNREADABLE, "parent": parent, "parent_step": step}


ROWS = [row("a"), row("lonely", "gone", 7), row("b"), row("c", "a", 20), row("d", "c", 30), row("e", "a", 10)]


@pytest.mark.parametrize(("encoding", "branch"), [("utf-8", "└"), ("ascii", "`-")])
def test_forks_stand_beneath_their_parents(make_console, encoding, branch):
    names = [name.plain for name, _ in as_tree(ROWS, make_console(encoding=encoding))]
    assert names == [
        "a",
        f"{branch} c from step 20",
        f"  {branch} d from step 30",
        f"{branch} e from step 10",
        "lonely from gone, step 7",
        "b",
    ]


def test_every_run_has_a_line(make_console):
    console = make_console(100)
    console.print(runs_table(ROWS, console))
    page = console.file.getvalue()
    assert all(any(name in line.split() for line in page.splitlines()) for name in "abcde")


def test_a_reply_of_several_turns_is_shown_turn_by_turn(make_console):
    def turn(role, content):
        return {"role": role, "content": content}

    def rollout(episode):
        return Rollout(Prompt(0, "1+2=", ()), 0, (1,), "?3=3;", np.zeros(1), "stop", episode=episode)

    told = Episode(
        2, 1.0, dialogue=(turn("assistant", "?"), turn("user", "[b]3\x1b="), turn("assistant", "3;"))
    )
    alone = Episode(1, 1.0, dialogue=(turn("assistant", "?3=3;"),))
    console = make_console()
    console.print(samples_table([rollout(told), rollout(alone), rollout(None)], console))
    page = console.file.getvalue()
    assert "assistant: ?" in page
    assert r"user: [b]3\x1b=" in page
    assert page.index("assistant: ?") < page.index("user: ") < page.index("assistant: 3;")
    assert page.count("?3=3;") == 2
    assert page.count("by itself") == 3
