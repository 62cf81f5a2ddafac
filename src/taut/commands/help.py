"""Help pages. None of them waits for torch."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from rich.console import Console, Group
from rich.padding import Padding
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


def print_plain_help(name: str, command: Command) -> None:
    """The page that tyro makes of a command's signature and docstring. Ends by SystemExit."""
    import tyro  # the other pages need not wait for it

    for parameter in inspect.signature(command).parameters.values():
        kind = get_type_hints(command)[parameter.name]
        by_place = parameter.kind is parameter.POSITIONAL_ONLY
        if by_place or kind == str | None:  # tyro would show a type for the name, and {None}|STR for a text
            shown_as = tyro.conf.arg(metavar=parameter.name.upper() if by_place else "STR")
            command.__annotations__[parameter.name] = Annotated[kind, shown_as]
    options = (tyro.conf.FlagCreatePairsOff,)
    tyro.cli(command, args=["--help"], prog=f"taut {name}", description=plain_help(command), config=options)


def print_settings_help(name: str, command: Command, console: Console) -> None:
    """The command's docstring; for a command that trains one model also every setting, for `train` the presets."""
    console.print(plain_help(command))
    from taut.config import Config, DPOConfig, RewardModelConfig, SFTConfig

    kinds = {"train": Config, "sft": SFTConfig, "reward-model": RewardModelConfig, "dpo": DPOConfig}
    if name not in kinds:
        return

    if name == "train":
        console.print("\npresets, by --algorithm.preset:")
        console.print(_presets())
    console.print("\nsettings, with their defaults:")
    console.print(_settings(kinds[name]))


def _settings(kind: Any) -> Group:
    """Each setting as it is given, with its default, and beneath what it means."""
    from taut.config import leaf_fields
    from taut.config.resolve import flatten

    defaults, lines = flatten(kind().model_dump()), []
    for key, field in leaf_fields(kind):
        setting = Text(f"--{key} ", style="bold").append(_written(defaults[key]), style="not bold cyan")
        choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        which = f" One of {', '.join(choices)}." if choices else ""
        lines += [Padding(setting, (0, 2)), Padding(Text(f"{field.description}{which}"), (0, 6))]
    return Group(*lines)


def _presets() -> Table:
    """Each preset with what it sets."""
    from taut.config import PRESETS

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, values in PRESETS.items():
        settings = [f"{key} {_written(value)}" for key, value in values.items()]
        table.add_row(f"  {name}", Text(", ".join(settings)))
    return table


def _written(value: Any) -> str:
    """As it is written in a config file."""
    return str(value) if isinstance(value, str) else json.dumps(value)
