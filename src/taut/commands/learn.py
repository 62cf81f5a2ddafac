"""Commands that train."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taut.commands.arguments import (
    ROOT,
    Arguments,
    ConfigKind,
    config_of,
    is_config_file,
    one_word,
    parse_axes,
    resolve_and_tell,
    take_apart,
    take_count,
)
from taut.terminal.console import make_console

if TYPE_CHECKING:
    from taut.config import Config

NO_MODEL = "no model is saved: that is done after the last step"


def train(arguments: list[str]) -> None:
    """Train with PPO and its kin.

    usage: taut train [config.yaml] [--section.key value ...] [--quiet | --json]
           taut train --resume RUN [--run.steps N] [--quiet | --json]

    Alone it trains the built-in world's model. --resume goes on with a run after its newest checkpoint. --quiet
    prints errors only, --json one object a step.
    """
    taken = take_apart(arguments, switches=("quiet", "json"))
    if "resume" in taken.settings:
        return _resume(taken)
    from taut.config import Config, check
    from taut.store.runs import new_run_directory

    config = config_of(taken, Config)
    check(config)
    config = _named(config, new_run_directory(config.run.root, config.run.name))

    def start(observers: Any, on_wait: Any, on_event: Any) -> Any:
        from taut.launch.local import train

        return train(config, observers, on_wait, on_event=on_event)

    return _show(config, taken, start)


def _resume(taken: Arguments) -> None:
    from taut.launch.continued import config_to_resume
    from taut.store.runs import find_run

    if taken.words:
        raise ValueError(f"a resumed run has its own settings: leave out {' '.join(taken.words)}")
    name = str(taken.settings.pop("resume"))
    run = find_run(taken.settings.pop("run.root", ROOT), name)
    config = config_to_resume(run, taken.settings)

    def start(observers: Any, on_wait: Any, on_event: Any) -> Any:
        from taut.launch.resume import resume

        return resume(run.directory, config.run.steps, observers, on_wait, on_event=on_event)

    _show(config, taken, start)


def fork(arguments: list[str]) -> None:
    """Go on from a checkpoint of a run with other settings.

    usage: taut fork RUN --step N [--section.key value ...] [--quiet | --json]

    Makes a new run that begins after step N of RUN, which needs a checkpoint of that step, and needs nothing of RUN
    afterwards. What is not set is as it was in RUN.
    """
    from taut.config import check
    from taut.launch.continued import config_to_fork, whole_checkpoint
    from taut.store.runs import find_run, new_run_directory

    taken = take_apart(arguments, switches=("quiet", "json"))
    name, step = one_word(taken.words, "run"), taken.settings.pop("step", None)
    if name is None or type(step) is not int:
        raise ValueError("name the run and the step to go on from, as in taut fork RUN --step 20")
    parent = find_run(taken.settings.get("run.root", ROOT), name)
    whole_checkpoint(parent, step)
    config, _ = config_to_fork(parent, step, taken.settings)
    check(config)
    directory = new_run_directory(config.run.root, config.run.name)
    settings = {**taken.settings, "run.name": directory.name}

    def start(observers: Any, on_wait: Any, on_event: Any) -> Any:
        from taut.launch.resume import fork

        return fork(parent.directory, step, settings, observers, on_wait, on_event=on_event)

    _show(_named(config, directory), taken, start)


def _named(config: Config, directory: Path) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update={"name": directory.name})})


def _show(config: Config, taken: Arguments, start: Callable[[Any, Any, Any], Any]) -> None:
    """`start(observers, on_wait, on_event)` trains and returns the run; this shows it."""
    from taut.terminal.lines import JsonView, LinesView
    from taut.terminal.live import LiveView

    console = make_console(quiet="quiet" in taken.switches)
    drawn = console.is_terminal and not console.quiet
    json = "json" in taken.switches
    view = JsonView() if json else LiveView(config, console) if drawn else LinesView(config, console)
    try:
        with view:  # it is there before torch, which takes seconds
            view.finish(start([view.observe], view.wait, view.tell))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_what_is_kept(Path(config.run.root) / str(config.run.name))) from None


def _what_is_kept(directory: Path) -> str:
    """Of a run that was interrupted, which may have been before there was one."""
    from taut.store import Run
    from taut.store.runs import how_to_name
    from taut.training.checkpoint import CHECKPOINTS, checkpoint_steps

    steps = Run.open(directory).step_count if (directory / "run.db").is_file() else 0
    if not steps:
        return "interrupted before the first step was finished"
    saved = checkpoint_steps(directory / CHECKPOINTS)
    where = f"goes on after step {saved[-1]}" if saved else "begins it again"
    return (
        f"interrupted; its {steps} finished steps are kept in {directory}\n"
        f"taut train --resume {shlex.quote(how_to_name(directory))} {where}"
    )


@contextmanager
def _on_interrupt(kept: Callable[[], str]) -> Iterator[None]:
    """Says what an interrupt leaves."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {kept()}") from None


def sft(arguments: list[str]) -> None:
    """Fine-tune on prompt/completion pairs.

    usage: taut sft [config.yaml] [--section.key value ...] [--quiet]

    Alone it makes the built-in world's model from its careless teacher.
    """
    from taut.config import SFTConfig
    from taut.terminal.fine_tuning import fine_tuning_view

    taken = take_apart(arguments, switches=("quiet",))
    config = config_of(taken, SFTConfig)
    console = make_console(quiet="quiet" in taken.switches)
    with (
        _on_interrupt(lambda: NO_MODEL),
        fine_tuning_view("fine-tuning", config.run.steps, console) as on_step,
    ):
        from taut.launch.sft import fine_tune_model

        folder = fine_tune_model(config, lambda step, loss: on_step(step, {"loss": loss}))
    console.print(f"saved in {folder}", soft_wrap=True)


def reward_model(arguments: list[str]) -> None:
    """Train a reward model on preference pairs.

    usage: taut reward-model [config.yaml] --data.path pairs.jsonl [--section.key value ...] [--quiet | --json]

    A pair is one line with prompt, chosen, rejected and, if you like, margin. Starts from --model.path, a causal
    language model; the folder saved is a transformers sequence classifier with one label. --json prints the
    results as one object.
    """
    from taut.config import RewardModelConfig

    def run(config: Any, on_step: Any) -> Any:
        from taut.launch.preferences import train_reward_model

        return train_reward_model(config, on_step)

    _learn_from_pairs(arguments, RewardModelConfig, "reward model", run)


def dpo(arguments: list[str]) -> None:
    """Train on preference pairs directly, by DPO.

    usage: taut dpo [config.yaml] --data.path pairs.jsonl [--section.key value ...] [--quiet | --json]

    The pairs are those of taut reward-model. The reference is --model.path as it was before the first step.
    """
    from taut.config import DPOConfig

    def run(config: Any, on_step: Any) -> Any:
        from taut.launch.preferences import train_dpo

        return train_dpo(config, on_step)

    _learn_from_pairs(arguments, DPOConfig, "DPO", run)


def _learn_from_pairs(
    arguments: list[str], kind: ConfigKind, what: str, run: Callable[[Any, Any], Any]
) -> None:
    from taut.terminal.fine_tuning import fine_tuning_view

    taken = take_apart(arguments, switches=("quiet", "json"))
    config, json = config_of(taken, kind), "json" in taken.switches
    console = make_console(quiet=json or "quiet" in taken.switches)
    with _on_interrupt(lambda: NO_MODEL), fine_tuning_view(what, config.run.steps, console) as on_step:
        folder, results = run(config, on_step)
    if json:
        print(dumps({"folder": str(folder), **results}))
    for name, value in results.items():
        console.print(f"{name:25}{value:.3f}")
    console.print(f"saved in {folder}", soft_wrap=True)


def sweep(arguments: list[str]) -> None:
    """Train every combination of some settings' values.

    usage: taut sweep [config.yaml] section.key=value,value ... [--section.key value ...] [--jobs N] [--json]

    Ends with a table of mean ± standard deviation over run.seed. --jobs N trains N runs at a time, --json
    prints the table's rows. Settings are those of taut train; runs are named by run.name and their own values.
    """
    from taut.config.resolve import flatten, read_yaml

    taken = take_apart(arguments, switches=("json",))
    jobs = take_count(taken, "jobs")
    file = one_word([word for word in taken.words if is_config_file(word)], "config file")
    axes = parse_axes([word for word in taken.words if not is_config_file(word)])
    if not axes:
        raise ValueError("name the values to combine, as in taut sweep algorithm.epochs=1,4 run.seed=0,1")
    base = {**flatten(read_yaml(file) if file else {}), **taken.settings}
    root = resolve_and_tell(base).run.root
    from taut.launch.sweep import SEED, run_sweep, summarize
    from taut.store.codec import to_json
    from taut.terminal.sweep import SweepLines, sweep_table

    json, console = "json" in taken.switches, make_console()
    lines = SweepLines(math.prod(map(len, axes.values())), make_console(quiet=json))
    with _on_interrupt(
        lambda: f"{lines.ended} of {lines.total} runs have ended; taut runs --root {root} lists them"
    ):
        rows = summarize(run_sweep(base, axes, root, jobs, lines.end, lines.wait), axes)
    if json:
        for row in rows:
            print(to_json(row))
    else:
        console.print(sweep_table(rows, [axis for axis in axes if axis != SEED], console))
