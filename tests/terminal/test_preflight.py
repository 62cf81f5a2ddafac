"""The lines of `taut check` as they are printed."""

from taut.launch.preflight import Line
from taut.terminal.preflight import print_line


def test_each_problem_has_a_line_of_its_own_and_none_reaches_the_terminal_raw(make_console):
    console = make_console(80)
    print_line(Line("settings", "fail", "one [red]\ntwo \x1b[2J"), console)
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == [
        "fail  settings          one [red]",
        "                        two \\x1b[2J",
    ]
