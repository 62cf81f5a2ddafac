"""Foreign text is shown, never obeyed; a console is asked for nothing it lacks."""

import pytest

from taut.terminal.console import ASCII, UNICODE, foreign, glyphs_of, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("latvec[0] [/INST] [red]", "latvec[0] [/INST] [red]"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("two\nlines\r\t", r"two\nlines\r\t"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("lone \ud800", r"lone \ud800"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text, shown, make_console):
    console = make_console()
    assert printable(text, console) == shown
    console.print(foreign(text, console))
    assert console.file.getvalue() == shown + "\n"


@pytest.mark.parametrize(("encoding", "shown"), [("latin-1", r"naïve \u6f22"), ("ascii", r"na\xefve \u6f22")])
def test_what_a_console_lacks_is_escaped(encoding, shown, make_console):
    assert printable("naïve 漢", make_console(encoding=encoding)) == shown


def test_glyphs_are_ascii_where_nothing_else_is_sure(make_console):
    assert glyphs_of(make_console()) is UNICODE
    assert glyphs_of(make_console(encoding="latin-1")) is ASCII
    assert all(sign.isascii() for sign in vars(ASCII).values())


def test_the_two_sets_of_glyphs_match():
    assert len(ASCII.bars) == len(UNICODE.bars)
    signs = (ASCII.high, ASCII.low, ASCII.outside_high, ASCII.outside_low, ASCII.dual)
    assert len(set(signs)) == 5
