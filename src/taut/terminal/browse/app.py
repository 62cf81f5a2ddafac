"""The screens of `taut show RUN --browse`, the one file that names textual."""

from __future__ import annotations

import sys
from typing import ClassVar

from rich.text import Text

from taut.store import Run
from taut.terminal.browse.pages import RepliesPage, StepsPage, TokensPage
from taut.terminal.console import make_console

try:
    from textual.app import App, ComposeResult
    from textual.binding import Binding
    from textual.containers import Vertical
    from textual.geometry import Size
    from textual.screen import Screen
    from textual.scroll_view import ScrollView
    from textual.strip import Strip
    from textual.widgets import DataTable, Footer, Static
except ImportError:
    raise ImportError("--browse needs textual: pip install 'taut[browse]'") from None

EVERY = 1.0
"""Seconds between two looks at whether the run has gone on."""
BACK = Binding("escape,backspace", "app.pop_screen", "back")


class Lines(ScrollView, can_focus=True):
    """Lines of text, of which only those in sight are drawn."""

    BINDINGS: ClassVar = [  # here, since a scrolled widget has its own for these keys
        Binding("left", "screen.token(-1)", "token", key_display="← →"),
        Binding("right", "screen.token(1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Text] = []

    def show(self, lines: list[Text]) -> None:
        self._lines = lines
        self.virtual_size = Size(max((line.cell_len for line in lines), default=0), len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        place = y + self.scroll_offset.y
        width = self.size.width
        if place >= len(self._lines):
            return Strip.blank(width)
        segments = self._lines[place].render(self.app.console)
        return Strip(segments).crop_extend(0, width, None)


class List(DataTable[Text]):
    BINDINGS: ClassVar = [Binding("enter", "select_cursor", "open")]


class ListScreen(Screen[None]):
    """A line that says where one is, and a table."""

    def __init__(self, page: StepsPage | RepliesPage) -> None:
        super().__init__()
        self.page = page

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield List(cursor_type="row")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.fill()

    def fill(self, keep: str | None = None) -> None:
        """Draws the table anew, with the cursor on the row of that key, else on the page's choice."""
        self.query_one("#head", Static).update(self.page.head())
        table = self.query_one(List)
        table.clear(columns=True)
        for heading in self.page.headings():
            table.add_column(heading)
        keys = []
        for key, cells in self.page.rows():
            table.add_row(*cells, key=key)
            keys.append(key)
        wanted = keep if keep in keys else self.page.first(keys)
        if wanted is not None:
            table.move_cursor(row=keys.index(wanted))

    def chosen(self) -> str | None:
        table = self.query_one(List)
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value


class StepsScreen(ListScreen):
    """All steps; it follows the run."""

    page: StepsPage
    BINDINGS: ClassVar = [Binding("q,escape", "app.quit", "quit", key_display="q")]

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(EVERY, self.look)

    def look(self) -> None:
        if not self.page.has_gone_on():
            return
        table = self.query_one(List)
        at_the_end = table.cursor_row >= table.row_count - 1
        self.fill(None if at_the_end else self.chosen())

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        page = self.page.replies_or_why(int(event.row_key.value or 0))
        self.query_one("#head", Static).update(self.page.head())
        if page is not None:
            self.app.push_screen(RepliesScreen(page))

    def on_data_table_row_highlighted(self) -> None:
        if self.page.told:
            self.page.told = ""
            self.query_one("#head", Static).update(self.page.head())


class RepliesScreen(ListScreen):
    page: RepliesPage
    BINDINGS: ClassVar = [
        Binding("o", "order", "order"),
        BACK,
        Binding("q", "app.quit", "quit"),
    ]

    def action_order(self) -> None:
        self.page.next_order()
        self.fill()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        reply = int(event.row_key.value or 0)
        self.app.push_screen(TokensScreen(self.page.tokens(reply)))


class TokensScreen(Screen[None]):
    """One reply, token by token, at one optimiser step. The keys are those of the web microscope."""

    BINDINGS: ClassVar = [
        Binding("c", "color(1)", "colour"),
        Binding("C", "color(-1)", show=False),
        Binding("right_square_bracket", "scrub(1)", "optimiser step", key_display="[ ]"),
        Binding("left_square_bracket", "scrub(-1)", show=False),
        Binding("n", "held(1)", "held", key_display="n b"),
        Binding("b", "held(-1)", show=False),
        Binding("full_stop", "reply(1)", "reply", key_display=", ."),
        Binding("comma", "reply(-1)", show=False),
        BACK,
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, page: TokensPage) -> None:
        super().__init__()
        self.page = page

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Lines()
        with Vertical(id="foot"):
            yield Static(id="token")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(Lines).focus()
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        lines = self.query_one(Lines)
        self.query_one("#head", Static).update(self.page.head())
        lines.show(self.page.lines(max(10, lines.size.width - 2)))
        self.query_one("#token", Static).update(self.page.token_line())
        self.page.told = ""

    def action_scrub(self, by: int) -> None:
        self.page.scrub(by)
        self.draw()

    def action_color(self, by: int) -> None:
        self.page.change_color(by)
        self.draw()

    def action_token(self, by: int) -> None:
        self.page.move(by)
        self._draw_in_sight()

    def action_held(self, way: int) -> None:
        self.page.next_held(way)
        self._draw_in_sight()

    def action_reply(self, by: int) -> None:
        self.page.change_reply(by)
        self.query_one(Lines).scroll_to(y=0, animate=False)
        self.draw()

    def _draw_in_sight(self) -> None:
        self.draw()
        lines = self.query_one(Lines)
        line = self.page.line_of_token()
        top, height = lines.scroll_offset.y, lines.size.height
        if not top <= line < top + height - 1:
            lines.scroll_to(y=max(0, line - height // 2), animate=False)


class Browser(App[None]):
    """Walks a run: its steps, a step's replies, a reply's tokens."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; }
    List { height: 1fr; }
    Lines { height: 1fr; padding: 0 1; }
    #foot { height: 3; padding: 0 1; }
    """

    def __init__(self, run: Run, step: int = -1) -> None:
        """With a `step` it begins at that one's replies. Raises ValueError where they are not kept."""
        super().__init__(ansi_color=True)
        self.title = run.name
        steps = StepsPage(run, make_console())
        self._screens: list[ListScreen] = [StepsScreen(steps)]
        if step != -1:
            self._screens.append(RepliesScreen(steps.replies(step)))

    def on_mount(self) -> None:
        for screen in self._screens:
            self.push_screen(screen)


def browse_run(run: Run, step: int) -> None:
    """Walks through a run until the user leaves.

    Raises ValueError where there is no terminal to draw on, or the replies of `step` are not kept (-1: any will do).
    """
    console = make_console()
    if not (console.is_terminal and sys.stdin.isatty()) or console.is_dumb_terminal:
        raise ValueError("--browse draws on a terminal and this is none: leave it out, or use --json")
    Browser(run, step).run()
