"""Tables of runs, with forks beneath what they were forked from."""

import pytest

from taut.store.runs import UNREADABLE
from taut.terminal.tables import as_tree, runs_table


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
