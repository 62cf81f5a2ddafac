"""From a config, or a class at hand, to the environment of a run."""

from __future__ import annotations

import math
from pathlib import Path

from taut.config import Config
from taut.config.reward import ENVIRONMENT
from taut.launch.rewards import OnWait, name_of, packed
from taut.tasks.environments.host import EnvironmentHost
from taut.tasks.environments.protocol import EnvironmentFactory


def with_environment(config: Config, environment: EnvironmentFactory | None) -> Config:
    """The config as it would be had it named this environment, whose pay is then part of the reward."""
    if environment is None:
        return config
    named = config.environment.model_copy(update={"path": name_of(environment)})
    reward = config.reward if "reward" in config.model_fields_set else ENVIRONMENT
    return config.model_copy(update={"environment": named, "reward": reward})


def make_host(
    config: Config, on_wait: OnWait, environment: EnvironmentFactory | None = None
) -> EnvironmentHost | None:
    """Its processes, once it has been loaded in one of them; None where there is no environment.

    Raises ValueError where it does not load, or has no `reset` and `step`.
    """
    path, scoring = config.environment.path, config.scoring
    if path is None:
        return None
    place, _, name = Path(path).name.rpartition(":")
    if environment is None and not (place and name):
        raise ValueError(
            f"environment.path = {path} must name a class as file.py:Class or module:Class, or a function that makes "
            "an environment"
        )
    source = path if environment is None else packed(environment, "environment")

    def tell(waited: float) -> None:
        on_wait(f"waiting for the environment {name}", math.ceil(waited), math.ceil(scoring.timeout))

    return EnvironmentHost(name, source, scoring.timeout, scoring.workers, tell)
