"""Commands that take a step of a run once more."""

from __future__ import annotations

from taut.commands.arguments import ROOT, one_word, take_apart
from taut.terminal.console import make_console


def replay(arguments: list[str]) -> None:
    """Take a stored step once more, from the nearest checkpoint before it.

    usage: taut replay RUN --step N [--section.key value ...] [--bisect] [--json]

    The loop itself takes the steps since that checkpoint on the recorded replies, and every number is compared with
    the stored one; ends with 1 where one differs. Settings given, such as --algorithm.clip_low 0.1, hold in step N
    alone, and what they change is shown. --bisect finds the fewest replies that bring about a number that is not
    finite. Nothing is written into the run.
    """
    from taut.launch.continued import config_to_replay, start_of_replay
    from taut.store.codec import to_json
    from taut.store.runs import find_run

    taken = take_apart(arguments, switches=("bisect", "json"))
    name, step = one_word(taken.words, "run"), taken.settings.pop("step", None)
    if name is None or type(step) is not int:
        raise ValueError("name the run and the step to replay, as in taut replay RUN --step 20")
    run = find_run(taken.settings.pop("run.root", ROOT), name)
    config_to_replay(run, taken.settings)  # what is wrong with the input is told before torch is imported
    start_of_replay(run, step)
    console, json = make_console(), "json" in taken.switches
    with make_console(quiet=json).status("loading") as status:
        from taut.launch.replay import replay, replay_object
        from taut.terminal.replay import print_replay

        def wait(what: str, done: int, total: int) -> None:
            status.update(f"{what} {done}/{total}")

        replayed = replay(run.directory, step, taken.settings, "bisect" in taken.switches, wait)
    if json:
        print(to_json(replay_object(replayed)))
    else:
        print_replay(replayed, console)
    if replayed.differences:
        raise SystemExit(1)
