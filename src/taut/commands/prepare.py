"""Commands before a run: what it will take, and whether it would work."""

from __future__ import annotations

from json import dumps

from taut.commands.arguments import ConfigKind, config_of, take_apart, take_count
from taut.terminal.console import make_console


def plan(arguments: list[str]) -> None:
    """Put memory and time of a step on paper.

    usage: taut plan [dpo] [config.yaml] [--section.key value ...] [--ranks N] [--apart]
                     [--teraflops X --bandwidth X] [--json]

    Of taut train, or of taut dpo. Nothing is loaded. Prompts and replies count at their longest: data.max_prompt_tokens
    and sampling.max_new_tokens. --ranks N shares weights among N processes, --apart gives samplers devices of their
    own. Speed is measured here, or given: --teraflops in 10¹² operations a second, --bandwidth in 10⁹ bytes a second.
    """
    from taut.config import Config, DPOConfig

    taken = take_apart(arguments, switches=("apart", "json"))
    kind: ConfigKind = Config
    if taken.words[:1] == ["dpo"]:
        kind = DPOConfig
        del taken.words[0]
    ranks = take_count(taken, "ranks")
    apart = "apart" in taken.switches
    if apart and ranks == 1:
        raise ValueError("--apart gives the samplers of several ranks devices of their own: set --ranks")
    speeds = [taken.settings.pop(name, None) for name in ("teraflops", "bandwidth")]
    config = config_of(taken, kind)
    from taut.checks.duration import machine_of
    from taut.launch import plan as planning
    from taut.terminal.plan import plan_object, print_plan

    made = planning.plan(config, ranks, apart, machine_of(*speeds))
    if "json" in taken.switches:
        print(dumps(plan_object(made)))
    else:
        print_plan(made, make_console())
