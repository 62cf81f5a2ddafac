"""From a YAML file, a preset and the command line to one validated config."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from taut.config.presets import ALIAS_SECTIONS, ALIASES, KL_ALIASES, REFUSED, SHORT_NAMES
from taut.config.schema import Config
from taut.config.supervised import DPOConfig, RewardModelConfig, SFTConfig

AnyConfig = TypeVar("AnyConfig", Config, SFTConfig, RewardModelConfig, DPOConfig)
LONGEST_SHOWN = 100  # characters of a value in a message


class _Loader(yaml.SafeLoader):
    """YAML in which, as in YAML 1.2, 1e-6 is a number, and 010, 1:30 and 2026-01-01 are none.

    A key set twice is an error.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                place = node.value[position][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key} is set twice", place)
        return super().construct_mapping(node, deep)


_INTEGER, _TIMESTAMP = "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in (_INTEGER, _TIMESTAMP)]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INTEGER, re.compile(r"[-+]?(0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def leaf_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields ("section.key", pydantic field) for every leaf of a config model, in order."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaf_fields(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Reads a config file. Raises ValueError where it is missing, not YAML, or not a mapping."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"config file {path} {'is a folder' if path.is_dir() else 'does not exist'}")
    text = _read_text(path)
    try:
        content = yaml.load(text, _Loader) or {}
        if isinstance(content, dict):
            flatten(content)  # a key may be set twice in two spellings, and an anchor stand inside itself
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"config file {path} is not valid YAML: {_where(error, text)}") from error
    except RecursionError:
        raise ValueError(
            f"config file {path} nests too deeply, or has an anchor inside itself: settings are section.key"
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"config file {path}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"config file {path} must map section names to keys, not hold a {type(content).__name__}"
        )
    return content


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"config file {path} is not text: save it as UTF-8 ({error})") from error


def _where(error: yaml.MarkedYAMLError, text: str) -> str:
    """What is wrong, and in which line."""
    mark = error.problem_mark
    assert mark is not None
    line = dict(enumerate(text.splitlines())).get(
        mark.line, ""
    )  # one beyond the last where the end is missing
    what = " ".join(filter(None, (error.context, error.problem)))
    return f"{what}, at line {mark.line + 1}: {shorten(line)}"


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}; keys that are dotted already stay.

    Raises ValueError where a key is set twice, dotted and nested.
    """
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        key = f"{prefix}{_show(name)}"
        inside = flatten(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
        if twice := next((key for key in inside if key in flat), None):
            raise ValueError(f"{twice} is set twice: leave one of them out")
        flat |= inside
    return flat


def parse_flags(arguments: Sequence[str]) -> dict[str, Any]:
    """["--a.b", "1", "--c=x"] -> {"a.b": 1, "c": "x"}; values are read as YAML scalars."""
    flat: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--"):
            raise ValueError(f"unexpected argument {flag!r}; keys are set as --section.key value")
        key, equals, text = flag[2:].partition("=")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise ValueError(f"--{key} has no value; keys are set as --section.key value")
            text = rest.pop(0)
        key = key.replace("-", "_")
        if key in flat:
            raise ValueError(f"--{key} is given twice: leave one of them out")
        flat[key] = parse_value(text)
    return flat


def parse_value(text: str) -> Any:
    """One scalar, or a list of them, as YAML reads it; text that is neither stands for itself."""
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        return text
    scalars = value if isinstance(value, list) else [value]
    return value if all(isinstance(v, (str, int, float, bool, type(None))) for v in scalars) else text


def resolve(*layers: Mapping[str, Any], kind: type[AnyConfig] = Config) -> tuple[AnyConfig, list[str]]:  # type: ignore[assignment]
    """Merges layers of explicit settings into one config.

    Later layers win. Each is nested or dotted. Returns the config and notes on translated spellings.
    Raises ValueError naming every unknown key with the nearest known one, and every value out of range.
    """
    notes: list[str] = []
    explicit: dict[str, Any] = {}
    for layer in layers:
        explicit.update(_translate(flatten(layer), kind, notes))
    known = dict(leaf_fields(kind))
    _refuse_unknown([key for key in explicit if key not in known], known)
    nested: dict[str, Any] = {}
    for key, value in explicit.items():
        section, _, leaf = key.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[leaf] = value
    try:
        return kind.model_validate(nested), notes
    except ValidationError as error:
        raise ValueError("\n".join(_in_words(problem) for problem in error.errors())) from error


def to_yaml(config: BaseModel) -> str:
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def _translate(flat: dict[str, Any], kind: type[BaseModel], notes: list[str]) -> dict[str, Any]:
    """Replaces TRL's spellings by ours, wherever in the file they stand; an exact name of ours wins."""
    known = dict(leaf_fields(kind))
    ours: dict[str, Any] = {}
    translated: dict[str, Any] = {}
    seen: set[str] = set()
    for key, value in flat.items():
        name = key.rpartition(".")[2]
        if key in known:
            ours[key] = value
        elif name in REFUSED:
            raise ValueError(f"{key} is not a setting here: {REFUSED[name]}")
        elif name in ALIASES and key.rpartition(".")[0] in ALIAS_SECTIONS and kind is Config:
            alias = ALIASES[name]
            keys = {alias: value} if isinstance(alias, str) else alias(value)
            notes.append(f"{key} is written {', '.join(f'{k}: {_show(v)}' for k, v in keys.items())} here")
            if name in KL_ALIASES and any(other in KL_ALIASES for other in seen):
                raise ValueError(
                    f"{' and '.join(sorted(KL_ALIASES))} place the same KL differently: give one of them"
                )
            seen.add(name)
            # `epsilon` sets both sides, so the one-sided spelling must come later.
            translated = {**translated, **keys} if isinstance(alias, str) else {**keys, **translated}
        else:
            ours[key] = value
    return {**translated, **ours}


def _refuse_unknown(unknown: Sequence[str], known: Collection[str]) -> None:
    if unknown:
        raise ValueError("\n".join(_what_is_unknown(key, known) for key in unknown))


def _what_is_unknown(key: str, known: Collection[str]) -> str:
    inside = [k for k in known if k.startswith(f"{key}.")]
    if inside:
        return f"{key} is a section: set keys inside it, such as {inside[0]}"
    nearest = " or ".join(_nearest(key, known))
    return f"unknown key {shorten(key)}; " + (
        f"did you mean {nearest}?" if nearest else "see taut train --help"
    )


def _nearest(key: str, known: Collection[str]) -> list[str]:
    """The keys with the likeliest last part: in the section that was named, or else in any."""
    section, _, leaf = key.rpartition(".")
    names = [k.rpartition(".")[2] for k in known]
    likeliest = difflib.get_close_matches(SHORT_NAMES.get(leaf, leaf), names, n=1, cutoff=0.6)
    found = [k for k, name in zip(known, names, strict=True) if name in likeliest]
    return [k for k in found if k.startswith(f"{section}.")] or found


def _in_words(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"] if not _is_choice(part))
    what = problem["msg"].removeprefix("Value error, ")
    return f"{key} = {shorten(_show(problem['input']))}: {what[0].lower()}{what[1:]}"


def _is_choice(part: str | int) -> bool:
    """Whether pydantic names here which of several types it tried."""
    return isinstance(part, str) and (part in ("str", "int", "float") or not part.isidentifier())


def _show(value: Any) -> str:
    """As it is written in YAML."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def shorten(text: str) -> str:
    """As much of a text as fits into a message."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
