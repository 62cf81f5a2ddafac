"""Commands that use a model."""

from __future__ import annotations

import sys
from json import dumps

from taut.commands.arguments import config_to_use, take_apart, take_count
from taut.terminal.console import make_console


def evaluate(arguments: list[str]) -> None:
    """Score a model on held-out prompts.

    usage: taut eval [RUN or config.yaml] [--section.key value ...] [--json]

    A run stands for its settings and its newest checkpoint; --model.path FOLDER names any other model.
    Settings are those of taut train.
    """
    taken = take_apart(arguments, switches=("json",))
    config = config_to_use(taken)
    from taut.launch.use import evaluate_model

    warnings: list[str] = []
    scores = evaluate_model(config, lambda step, message: warnings.append(message))
    if "json" in taken.switches:
        print(dumps(scores))
    else:
        for name, score in scores.items():
            make_console().print(f"{name:15}{score:.3f}")
    for message in warnings:
        print(f"warning: {message}", file=sys.stderr)


def sample(arguments: list[str]) -> None:
    """Sample replies from a model.

    usage: taut sample [RUN or config.yaml] [--prompt TEXT ...] [--replies N] [--section.key value ...] [--json]

    A run stands for its settings and its newest checkpoint; --model.path FOLDER names any other model. Without
    --prompt it answers the first held-out prompts. --json prints one object a reply, in an environment with its
    `turns`. Settings are those of taut train.
    """
    taken = take_apart(arguments, switches=("json",), many="prompt")
    replies = take_count(taken, "replies")
    config = config_to_use(taken)
    from taut.launch.use import sample_replies
    from taut.store.codec import to_json
    from taut.terminal.tables import samples_table

    rollouts = sample_replies(config, taken.texts or None, replies)
    if "json" in taken.switches:
        for rollout in rollouts:
            reply: dict[str, object] = {
                "prompt": rollout.prompt.text,
                "text": rollout.text,
                "finish_reason": rollout.finish_reason,
            }
            if rollout.episode is not None:
                reply["turns"] = rollout.episode.dialogue
            print(to_json(reply))
    else:
        console = make_console()
        console.print(samples_table(rollouts, console))
