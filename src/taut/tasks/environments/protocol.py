"""What an environment is: the world that a model acts in, turn by turn, and that pays for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from taut.types import Message

Messages = str | Sequence[Message]
"""What a model reads: messages of a conversation, or text where the model was not trained on conversations.

Text in a conversation stands for a message of the user's.
"""


class Environment(Protocol):
    """One episode: an object is made for each reply and lives until its episode ends.

    Both methods may be `async`. Four attributes are optional:

    - `tools`: JSON schemas as chat templates take them, `[{"type": "function", "function": {...}}]`; every prompt
      is rendered with those of a fresh object.
    - `logged`: {name: number}, read when the episode ends and averaged over replies as `reward/environment/NAME`.
    - `cut(reply)`: the reward of an episode that a limit ended, on top of that of its turns. `reply` is the text of a
      turn that was cut, None where it was whole. It may be `async`, too.
    - `close()`: called when the episode is over, however it ended.
    """

    def reset(self, row: Mapping[str, Any]) -> Messages:
        """The opening of the conversation, which is the prompt that the model sees.

        `row` is the dataset's, with every column, `prompt` included. The same row must give the same opening: it is
        asked for once to make the prompt and again at the start of every episode, and replies to one prompt are
        compared.
        """
        ...

    def step(self, reply: str) -> tuple[Messages | None, float]:
        """(what the model is told next, the reward of this turn); None in its place ends the episode.

        `reply` is the text of the model's turn, without special tokens. The episode's reward is the sum over turns.
        """
        ...


EnvironmentFactory = Callable[[], Environment]
"""A class without arguments, or a function that makes an environment."""
