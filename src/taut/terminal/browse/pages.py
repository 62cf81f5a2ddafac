"""What the screens of the browser say, and what moves in them; no line of it knows how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from taut.launch.pieces import token_pieces
from taut.store import Run
from taut.terminal.browse.quantities import Seen, offered, seen_reply, token_cells, token_facts
from taut.terminal.browse.step import ORDERS, Order, StepReplies
from taut.terminal.console import foreign, glyphs_of, printable
from taut.terminal.metrics import clip_label, number, percent, shown_metrics
from taut.terminal.tables import STATUS_STYLES
from taut.terminal.tokens import Cell, cell_lines, legend

COLUMNS = ("reward/mean", "eval/accuracy", "clip/binding", "kl/old_k1", "entropy", "reply/length")
"""Of the list of steps; those a run lacks are left out. They fit into 80 columns."""
PREVIEW = 300
"""Characters of a reply in the list."""
Rows = Iterator[tuple[str, Sequence[Text]]]


class StepsPage:
    """The steps of a run with their scalars, the newest last."""

    def __init__(self, run: Run, console: Console) -> None:
        self.run, self.console = run, console
        self._text_of = token_pieces(run).text_of
        self.told = ""
        """What could not be done, until the next key."""
        self._stamp: object = None
        self.has_gone_on()

    def has_gone_on(self) -> bool:
        """Reads anew what has changed since the last call; False where nothing has."""
        files = (self.run.directory / name for name in ("run.db", "run.db-wal"))
        stamp = ([file.stat().st_mtime_ns for file in files if file.exists()], self.run.status)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.status = self.run.status
        self.scalars = [row for row in self.run.scalars() if row["step"] > 0]
        self.kept = set(self.run.kept_steps())
        surrogate = self.run.config.get("algorithm", {}).get("surrogate", "clipped")
        shown = {metric.metric: metric for metric in shown_metrics(surrogate)}
        measured = {name for row in self.scalars for name in row}
        self.shown = [shown[name] for name in COLUMNS if name in measured]
        return True

    def head(self) -> Text:
        dot = glyphs_of(self.console).dot
        head = Text().append_text(foreign(self.run.name, self.console, "bold")).append(f" {dot} ", "dim")
        head.append(self.status, STATUS_STYLES.get(self.status, ""))
        head.append(f" {dot} {len(self.scalars)} steps; those with replies can be opened", "dim")
        return head.append(f"\n{self.told}" if self.told else "", "yellow")

    def headings(self) -> list[Text]:
        return [_right("step"), *(_right(shown.label) for shown in self.shown), Text("replies")]

    def rows(self) -> Rows:
        for row in self.scalars:
            values = [row.get(shown.metric) for shown in self.shown]
            cells = [
                _right("" if value is None else shown.format(value))
                for shown, value in zip(self.shown, values, strict=True)
            ]
            kept = Text("kept" if row["step"] in self.kept else "", style="green")
            yield str(row["step"]), (_right(str(row["step"])), *cells, kept)

    def first(self, keys: Sequence[str]) -> str | None:
        return keys[-1] if keys else None

    def replies(self, step: int) -> RepliesPage:
        """Raises ValueError where the step's replies are not kept, or it trained nothing."""
        return RepliesPage(StepReplies(self.run, step, self._text_of), self.console)

    def replies_or_why(self, step: int) -> RepliesPage | None:
        """The same; where there is none, `told` says why."""
        try:
            return self.replies(step)
        except ValueError as error:
            self.told = printable(str(error), self.console)
            return None


class RepliesPage:
    """The replies of one step, a line each."""

    def __init__(self, step: StepReplies, console: Console) -> None:
        self.step, self.console = step, console
        self.order: Order = "batch"

    def next_order(self) -> None:
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]

    @property
    def surrogate(self) -> str:
        return str(self.step.batch.constants.get("surrogate", "clipped"))

    def head(self) -> Text:
        how = "in the order of the batch" if self.order == "batch" else f"largest {self.order} first"
        head = Text().append(f"step {self.step.step}", "bold")
        return head.append(f"   {len(self.step.records)} replies, {how}")

    def headings(self) -> list[Text]:
        right = ("reply", "reward", "tokens", clip_label(self.surrogate), "KL, k3")
        return [*(_right(name) for name in right), Text("ended"), Text("prompt, reply")]

    def rows(self) -> Rows:
        for row in self.step.sorted_rows(self.order):
            record = self.step.records[row.number]
            measured = ((row.reward, number), (row.clipped, percent), (row.kl, number))
            reward, *others = (_right("" if math.isnan(x) else form(x)) for x, form in measured)
            if not reward.plain:
                reward = Text("none", "red", justify="right")
            text = Text().append_text(foreign(_last_words(record.prompt_text), self.console, "dim"))
            text.append(" ").append_text(foreign(record.text[:PREVIEW], self.console))
            first = (_right(str(row.number)), reward, _right(str(row.length)))
            cut = Text("cut" if record.finish_reason == "length" else "")
            yield str(row.number), (*first, *others, cut, text)

    def first(self, keys: Sequence[str]) -> str | None:
        return keys[0] if keys else None

    def tokens(self, reply: int) -> TokensPage:
        numbers = [row.number for row in self.step.sorted_rows(self.order)]
        return TokensPage(self.step, numbers, reply, self.surrogate, self.console)


class TokensPage:
    """One reply, token by token, as one optimiser step saw it."""

    def __init__(
        self, step: StepReplies, numbers: Sequence[int], reply: int, surrogate: str, console: Console
    ) -> None:
        """`numbers` are the step's replies in the order in which one goes through them."""
        self.step, self.numbers, self.surrogate, self.console = step, numbers, surrogate, console
        self.reply, self.token = reply, 0
        self.at = step.optimizer_steps - 1
        self.quantities = offered(step)
        self.color = 0
        self.told = ""
        """What could not be done, until the next key."""
        self._first_cells: list[int] = []
        self._seen: tuple[tuple[int, int], Seen] | None = None

    @property
    def seen(self) -> Seen:
        if self._seen is None or self._seen[0] != (self.reply, self.at):
            self._seen = ((self.reply, self.at), seen_reply(self.step, self.reply, self.at))
        return self._seen[1]

    def scrub(self, by: int) -> None:
        self.at = min(max(self.at + by, 0), self.step.optimizer_steps - 1)

    def change_color(self, by: int) -> None:
        self.color = (self.color + by) % len(self.quantities)

    def change_reply(self, by: int) -> None:
        place = self.numbers.index(self.reply) + by
        self.reply, self.token = self.numbers[place % len(self.numbers)], 0

    def move(self, by: int) -> None:
        length = len(self.step.records[self.reply].ids)
        self.token = min(max(self.token + by, 0), length - 1)

    def next_held(self, way: int = 1) -> None:
        """Moves to the next token that the clip holds (the one before with -1), around the ends."""
        names = self.seen.clips
        held = [place for place, name in enumerate(names) if name in ("high", "low", "dual")]
        ahead = [place for place in held if way * (place - self.token) > 0]
        if held:
            self.token = (ahead or held)[0 if way > 0 else -1]
        else:
            self.told = "the clip holds no token of this reply here"

    def head(self) -> Text:
        record, seen = self.step.records[self.reply], self.seen
        reward = "no reward" if math.isnan(record.reward) else f"reward {number(record.reward)}"
        head = Text().append(f"step {self.step.step}, reply {self.reply}", "bold")
        head.append(f"   {reward}{', cut' if record.finish_reason == 'length' else ''}   ")
        head.append(self.step.place(self.at))
        stale = {None: ", not seen yet", self.at: ""}.get(
            seen.seen_at, f", as of step {(seen.seen_at or 0) + 1}"
        )
        head.append(stale, "yellow")
        quantity = self.quantities[self.color]
        head.append(f"\ncoloured by {quantity.name}: {quantity.meaning}")
        told = bool(record.observed.any())
        kind = quantity.name if quantity.name in ("ratio", "clip") else "advantage"
        head.append("\n").append_text(legend(kind, self.surrogate, told, self.console))  # type: ignore[arg-type]
        for name, why in record.failures.items():
            head.append("\n").append_text(foreign(f"{name} {why}", self.console, "red"))
        return head

    def lines(self, width: int) -> list[Text]:
        """The end of the prompt, then the reply in lines of two: texts, and the numbers beneath."""
        quantity, texts = self.quantities[self.color], self.step.texts(self.reply)
        cells = token_cells(texts, self.seen, quantity, self.step, self.console)
        cells[self.token] = _marked(cells[self.token])
        prompt = _last_words(self.step.records[self.reply].prompt_text, 2 * width)
        above = [*foreign(prompt, self.console, "dim").wrap(self.console, width)]
        drawn = cell_lines(cells, width)
        self._first_cells = [-1] * len(above) + [first for _, first in drawn]
        return [*above, *(line for line, _ in drawn)]

    def line_of_token(self) -> int:
        """Of `lines` as last drawn."""
        places = [line for line, first in enumerate(self._first_cells) if 0 <= first <= self.token]
        return places[-1] - 1

    def token_line(self) -> Text:
        if self.told:
            return Text(self.told, "yellow")
        text = self.step.texts(self.reply)[self.token]
        return Text(token_facts(self.token, text, self.seen, self.step, self.console))


def _marked(cell: Cell) -> Cell:
    return replace(cell, style=f"{cell.style} bold underline".strip(), beneath_style="reverse")


def _right(text: str) -> Text:
    return Text(text, justify="right")


def _last_words(prompt: str, characters: int = 24) -> str:
    """The end of a prompt is what the reply answers."""
    return prompt[-characters:]
