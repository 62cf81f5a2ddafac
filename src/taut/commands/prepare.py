"""Commands before a run: what it will take, and whether it would work."""

from __future__ import annotations

from dataclasses import asdict
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


def check(arguments: list[str]) -> None:
    """Look a run over before it starts.

    usage: taut check [config.yaml] [--section.key value ...] [--json]

    Each line passes, warns or fails, and says what to do: settings and batch arithmetic, data and rendered prompts,
    the reward on real and on hostile replies, memory and time, and a little step at learning rate 0 under the
    standing checks. Nothing is saved. Ends with 1 where a line fails. Settings are those of taut train.
    """
    from taut.config import Config

    taken = take_apart(arguments, switches=("json",))
    config, json = config_of(taken, Config), "json" in taken.switches
    from taut.terminal.preflight import print_line

    console = make_console(quiet=json)
    from taut.launch.preflight import preflight_of

    lines = preflight_of(config, lambda line: print_line(line, console))
    if json:
        print(dumps([asdict(line) for line in lines]))
    if any(line.verdict == "fail" for line in lines):
        raise SystemExit(1)
