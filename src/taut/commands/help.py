"""Help pages. None of them waits for torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Command = Callable[..., None]


def print_commands(commands: Mapping[str, Command], console: Console) -> None:
    """`taut --help`: one line a command."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, command in commands.items():
        table.add_row(f"  {name}", plain_help(command).splitlines()[0].rstrip("."))
    console.print("usage: taut COMMAND ...\n\nPPO for language models, with every token's update in view.\n")
    console.print(table)
    console.print(
        "\ntaut COMMAND --help says more. taut train alone trains the built-in world's model."
        "\nEvery command takes --debug, which shows the traceback of an error."
    )


def plain_help(command: Command) -> str:
    """A command's docstring without its list of arguments, which tyro reads."""
    return (inspect.getdoc(command) or "").partition("\n\nArgs:")[0]


def print_settings_help(name: str, command: Command, console: Console) -> None:
    """The command's docstring; for a command that trains one model also every setting, for `train` the presets."""
    console.print(plain_help(command))
    from taut.config import Config, DPOConfig, RewardModelConfig, SFTConfig

    kinds = {"train": Config, "sft": SFTConfig, "reward-model": RewardModelConfig, "dpo": DPOConfig}
    if name not in kinds:
        return
    import tyro  # the others need not wait for it

    if name == "train":
        console.print("\npresets, by --algorithm.preset:")
        console.print(_presets())
    kind: Any = kinds[name]
    options = (tyro.conf.FlagConversionOff,)
    tyro.cli(
        kind,
        default=kind(),
        prog=f"taut {name}",
        description="",
        args=["--help"],
        config=options,
        use_underscores=True,
    )


def _presets() -> Table:
    """Each preset with what it sets."""
    from taut.config import PRESETS

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, values in PRESETS.items():
        settings = [f"{key} {'null' if value is None else value}" for key, value in values.items()]
        table.add_row(f"  {name}", Text(", ".join(settings)))
    return table
