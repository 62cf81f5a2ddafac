"""What an environment paid, as a term of the reward."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taut.config.reward import ENVIRONMENT
from taut.types import Episode, Prompt, Rollout, Score


class EpisodeReward:
    """The episode's own reward; a reply whose episode failed has none and tells why."""

    def __init__(self, on_failure: str = "exclude") -> None:
        self.on_failure = on_failure

    def check(self, prompts: Sequence[Prompt]) -> None:
        """It needs no columns: the environment was given the whole row."""

    def score(self, rollouts: Sequence[Rollout], step: int) -> list[Score]:
        """Raises ValueError with `on_failure: stop`, where an episode failed."""
        scores = [_score(rollout.episode) for rollout in rollouts]
        failed = [score.failures[ENVIRONMENT] for score in scores if score.failures]
        if failed and self.on_failure == "stop":
            raise ValueError(f"the environment {failed[0]} (on {len(failed)} of {len(scores)} replies)")
        return scores


def _score(episode: Episode | None) -> Score:
    assert episode is not None, "an environment's reward is of replies that were sampled in one"
    logged = {f"{ENVIRONMENT}/{name}": value for name, value in episode.logged.items()}
    if episode.failure is not None:
        return Score(math.nan, failures={ENVIRONMENT: episode.failure}, logged=logged)
    return Score(episode.reward, logged=logged)
