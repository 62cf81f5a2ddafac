"""What a setting may hold, and what holds settings."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from taut.config.presets import SHORT_NAMES


def _as_text(value: Any) -> Any:
    if isinstance(value, str) and "\0" in value:
        raise ValueError("no name or path holds a null character: leave it out")
    return str(value) if type(value) is int else value


def _within_64_bits(value: int) -> int:
    """Neither torch nor the store holds more."""
    if value >= 2**63:
        raise ValueError(f"a whole number is at most {2**63 - 1}")
    return value


Text = Annotated[str, BeforeValidator(_as_text)]
"""A name or path; one of digits alone reads as a number in YAML and is meant as text."""
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveInt = Annotated[int, Field(ge=1), AfterValidator(_within_64_bits)]
Count = Annotated[int, Field(ge=0), AfterValidator(_within_64_bits)]


def _split_at_commas(value: Any) -> Any:
    """ "a, b" as ["a", "b"]; what is no text stays."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


TrackerName = Literal["tensorboard", "wandb", "trackio"]
Trackers = Annotated[list[TrackerName], BeforeValidator(_split_at_commas)]


class Section(BaseModel):
    """Unknown keys are errors, `true` is no number, 5.0 no count and NaN nothing, and values are final."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_nearest(cls, explicit: Any) -> Any:
        for key in explicit if isinstance(explicit, dict) else ():
            if key not in cls.model_fields:
                near = difflib.get_close_matches(SHORT_NAMES.get(key, str(key)), cls.model_fields, n=1)
                meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(cls.model_fields)}"
                # Of an error of this kind pydantic prints the words alone, and no address of its own pages.
                raise PydanticCustomError("unknown_key", "{what}", {"what": f"unknown key {key}; {meant}"})
        return explicit
