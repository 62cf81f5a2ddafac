"""What a setting may hold, and what holds settings."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Text = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""A name or path; one of digits alone reads as a number in YAML and is meant as text."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveInt = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


def _split_at_commas(value: Any) -> Any:
    """ "a, b" as ["a", "b"]; what is no text stays."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


TrackerName = Literal["tensorboard", "wandb", "trackio"]
Trackers = Annotated[list[TrackerName], BeforeValidator(_split_at_commas)]


class Section(BaseModel):
    """Unknown keys are errors, `true` is no number and 5.0 no count, and values are final."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _name_the_nearest(cls, explicit: Any) -> Any:
        for key in explicit if isinstance(explicit, dict) else ():
            near = difflib.get_close_matches(str(key), cls.model_fields, n=1)
            if near and key not in cls.model_fields:
                raise ValueError(f"unknown key {key}; did you mean {near[0]}?")
        return explicit
