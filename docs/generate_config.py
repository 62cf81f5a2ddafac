"""Writes `docs/config.md` from the schema: `python docs/generate_config.py`. A test holds the page to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from taut.config import WORLD, Config, DPOConfig, RewardModelConfig, SFTConfig
from taut.config.presets import (
    ALIASES,
    REFUSED,
    SFT_DEFAULTS,
    WORLD_DEFAULTS,
    WORLD_PREFERENCE_DEFAULTS,
    WORLD_SFT_DEFAULTS,
)

PAGE = Path(__file__).with_name("config.md")
Schema = dict[str, Any]

INTRODUCTION = f"""\
# Settings

*Made from `src/taut/config/` by `docs/generate_config.py`.*

A config file is YAML with one section a heading below. Each key can also be given on the command line, as
`--section.key value`, and there it wins. An unknown key is an error that names the nearest known one.

A key that is given nowhere takes the first of these that sets it: the preset named by `algorithm.preset`; the
built-in world's settings, as long as `model.path` is `{WORLD}`; the default. The presets are in
[algorithms.md](algorithms.md), the world's own run is written out in
[configs/world.yaml](../configs/world.yaml).
"""


def section_tables(kind: type[BaseModel], world: dict[str, Any], known: set[str]) -> str:
    """A heading and a table per section, of the keys that are not in `known`, which they join."""
    schema = kind.model_json_schema()
    top: list[str] = []
    tables: list[str] = []
    for name, field in schema["properties"].items():
        if "$ref" not in field:
            if name not in known:
                top.append(_row(name, field, world))
                known.add(name)
            continue
        section = schema["$defs"][field["$ref"].rpartition("/")[2]]["properties"]
        rows = {f"{name}.{leaf}": value for leaf, value in section.items() if f"{name}.{leaf}" not in known}
        if rows:
            known.update(rows)
            tables.append(_table(name, [_row(key, value, world) for key, value in rows.items()]))
    if top:
        tables.insert(0, _table("the top of the file", top))
    return "\n".join(tables)


def _table(name: str, rows: list[str]) -> str:
    head = ["| key | values | default | meaning |", "|---|---|---|---|"]
    return "\n".join([f"### {name}", "", *head, *rows, ""])


def _row(key: str, field: Schema, world: dict[str, Any]) -> str:
    default = _value(field.get("default"))
    if key in world:
        default += f", in the world {_value(world[key])}"
    meaning = " ".join(field["description"].split())
    return f"| `{key}` | {_values(field)} | {default} | {meaning} |"


def _values(field: Schema) -> str:
    if "anyOf" in field:
        return " or ".join(_values(choice) for choice in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    kind = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true`, `false`"}
    if field["type"] == "array":
        return f"list of {_values(field['items'])}"
    if field["type"] == "null":
        return "`null`"
    return kind[field["type"]] + _bounds(field)


def _bounds(field: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[name]:g}" for name, sign in signs.items() if name in field]
    return f" {' and '.join(bounds)}" if bounds else ""


def _value(value: Any) -> str:
    if value is None:
        return "`null`"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"`{key}` {_value(value)}" for key, value in values.items())


def spelling_table() -> str:
    rows = []
    for theirs, ours in ALIASES.items():
        keys = (
            [f"`{ours}`"]
            if isinstance(ours, str)
            else [f"`{key}: {value}`" for key, value in ours("x").items()]
        )
        rows.append(f"| `{theirs}` | {', '.join(keys)} |")
    refused = [f"| `{name}` | {reason} |" for name, reason in REFUSED.items()]
    return "\n".join(
        ["| TRL | here |", "|---|---|", *rows, "", "| refused | instead |", "|---|---|", *refused, ""]
    )


def page() -> str:
    known: set[str] = set()
    run = section_tables(Config, WORLD_DEFAULTS, known)
    sft = section_tables(SFTConfig, {}, known)
    reward_model = section_tables(RewardModelConfig, {}, known)
    dpo = section_tables(DPOConfig, {}, known)

    shared = ", ".join(f"`{name}`" for name in RewardModelConfig.model_fields if name != "reward_model")
    return "\n".join(
        [
            INTRODUCTION,
            "## `taut train`, `eval`, `sample` and `sweep`\n",
            run,
            "## `taut sft`\n",
            f"It reads the sections {shared} as above, with {_settings(SFT_DEFAULTS)} by default, and:\n",
            sft,
            f"In the world it takes {_settings(WORLD_SFT_DEFAULTS)}.\n",
            "## `taut reward-model`\n",
            f"It reads the sections {shared}, and:\n",
            reward_model,
            "## `taut dpo`\n",
            f"It reads the sections {shared}, and:\n",
            dpo,
            f"With the world's model both take {_settings(WORLD_PREFERENCE_DEFAULTS)}.\n",
            "## TRL's spellings\n",
            "A config file may use these names, wherever in it they stand; a note says which key was set. `x` is the\n"
            "value given. [migrating-from-trl.md](migrating-from-trl.md) says more.\n",
            spelling_table(),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
