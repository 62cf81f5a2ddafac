"""A command line of settings taken apart, and made a config."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from taut.config import (
    Config,
    DPOConfig,
    RewardModelConfig,
    SFTConfig,
    parse_flags,
    parse_value,
    read_yaml,
    resolve,
)

ConfigKind = type[Config] | type[SFTConfig] | type[RewardModelConfig] | type[DPOConfig]
ROOT = "runs"
"""Where runs are looked for when nothing else is said, as in `run.root`."""
BETWEEN_VALUES = re.compile(r",(?![^\[]*\])")
"""A comma, but none within a list such as [0.9,0.95]."""


@dataclass
class Arguments:
    words: list[str] = field(default_factory=list)
    """What stands for itself, such as a config file."""
    switches: set[str] = field(default_factory=set)
    """The flags given that take no value."""
    texts: list[str] = field(default_factory=list)
    """The values of the one flag that takes many."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All else, by its dotted key."""


def take_apart(arguments: Sequence[str], switches: Sequence[str] = (), many: str = "") -> Arguments:
    """Raises ValueError for a setting without a value."""
    taken, flags, rest = Arguments(), [], list(arguments)
    while rest:
        argument = rest.pop(0)
        name = argument.removeprefix("--")
        if not argument.startswith("--"):
            taken.words.append(argument)
        elif name in switches:
            taken.switches.add(name)
        elif name == many:
            texts = _values(rest, len(rest))
            if not texts:
                raise ValueError(f"--{name} has no value")
            taken.texts += texts
        else:
            flags += [argument, *_values(rest, 0 if "=" in argument else 1)]
    taken.settings = parse_flags(flags)
    return taken


def config_of(taken: Arguments, kind: ConfigKind) -> Any:
    """The config that the file, if one is named, and the settings make. Tells of translated spellings."""
    file = one_word(taken.words, "config file")
    return resolve_and_tell(read_yaml(file) if file else {}, taken.settings, kind=kind)


def config_to_use(taken: Arguments) -> Config:
    """As `config_of`, but the word may also name a run: its settings, and the model it made."""
    word = one_word(taken.words, "run or config file")
    if word is None or is_config_file(word):
        return config_of(taken, Config)
    from taut.launch.use import config_of_run
    from taut.store.runs import find_run

    run = find_run(taken.settings.get("run.root", ROOT), word)
    config = config_of_run(run, lambda note: print(f"warning: {note}", file=sys.stderr))
    return resolve_and_tell(config.model_dump(), taken.settings)


def resolve_and_tell(*layers: dict[str, Any], kind: ConfigKind = Config) -> Any:
    config, notes = resolve(*layers, kind=kind)  # type: ignore[type-var]
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return config


def call_plain(name: str, command: Callable[..., None], arguments: Sequence[str]) -> None:
    """Calls a command whose arguments are its signature: those before the / by place, the others by name.

    Raises ValueError where one is missing, unknown or not of its type.
    """
    known = inspect.signature(command).parameters.values()
    by_place = [parameter for parameter in known if parameter.kind is parameter.POSITIONAL_ONLY]
    by_name = [parameter.name for parameter in known if parameter not in by_place]
    taken = take_apart(
        arguments, switches=[parameter.name for parameter in known if parameter.default is False]
    )
    words: list[Any] = list(taken.words)
    types = get_type_hints(command)
    if by_place and get_origin(types[by_place[0].name]) is tuple:
        words = [tuple(words)]
    see = f"taut {name} --help says more"
    if len(words) < len(by_place):
        missing = " and ".join(parameter.name.upper() for parameter in by_place[len(words) :])
        raise ValueError(f"taut {name} needs {missing}; {see}")
    if len(words) > len(by_place):
        raise ValueError(f"taut {name} does not take {words[len(by_place)]!r}; {see}")
    for flag in taken.settings:
        if flag not in by_name:
            near = difflib.get_close_matches(flag, by_name, n=1)
            hint = f"did you mean --{near[0].replace('_', '-')}?" if near else see
            raise ValueError(f"taut {name} has no --{flag}: {hint}")
    switched = dict.fromkeys(taken.switches, True)
    command(
        *words,
        **switched,
        **{flag: _typed(flag, value, types[flag]) for flag, value in taken.settings.items()},
    )


def _typed(flag: str, value: Any, kind: Any) -> Any:
    try:
        return TypeAdapter(kind, config=ConfigDict(coerce_numbers_to_str=True)).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ValueError(
            f"--{flag.replace('_', '-')} = {value}: {problem[0].lower()}{problem[1:]}"
        ) from error


def is_config_file(word: str) -> bool:
    return Path(word).suffix in (".yaml", ".yml")


def one_word(words: Sequence[str], what: str) -> str | None:
    """Raises ValueError where there are more."""
    if len(words) > 1:
        raise ValueError(f"one {what} can be given, not {len(words)}: {' '.join(words)}")
    return words[0] if words else None


def take_count(taken: Arguments, name: str) -> int:
    """Takes `--name N` out of the settings; 1 when not given. Raises ValueError where N is no count."""
    value = taken.settings.pop(name, 1)
    if type(value) is not int or value < 1:
        raise ValueError(f"--{name} is a whole number from 1, not {value}")
    return value


def parse_axes(words: Sequence[str]) -> dict[str, list[Any]]:
    """["run.seed=0,1"] -> {"run.seed": [0, 1]}; a value in brackets is a list.

    Raises ValueError where a word is no axis.
    """
    axes = {}
    for word in words:
        key, _, values = word.partition("=")
        if not values:
            raise ValueError(f"{word!r} is neither a config file nor section.key=value,value")
        axes[key.removeprefix("--")] = [parse_value(value) for value in BETWEEN_VALUES.split(values)]
    return axes


def _values(rest: list[str], most: int) -> list[str]:
    """Takes up to `most` values off the front of `rest`."""
    taken: list[str] = []
    while rest and len(taken) < most and not rest[0].startswith("--"):
        taken.append(rest.pop(0))
    return taken
