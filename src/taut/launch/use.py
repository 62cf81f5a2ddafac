"""What is done with a model outside a run: score it on held-out prompts, and sample from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from taut.config import Config, resolve
from taut.launch.data import check_lengths, load_prompts, tokenizer_for
from taut.launch.environments import make_host
from taut.launch.local import load_policy, make_sampler, wait_for_nothing
from taut.launch.quiet import quiet_libraries
from taut.launch.rewards import make_scorer
from taut.launch.torch_setup import prepare_torch
from taut.store import Run
from taut.tasks.data import make_prompts
from taut.training.checkpoint import CHECKPOINTS, newest_checkpoint
from taut.training.collect import sampling_of
from taut.training.evaluate import OnWarning, evaluate, nobody_warned
from taut.types import Rollout


def config_of_run(run: Run, tell: Callable[[str], None] = lambda note: None) -> Config:
    """The run's config with `model.path` set to its newest whole checkpoint; `tell` hears of damaged ones.

    Raises ValueError where there is none.
    """
    config, _ = resolve(run.config)
    folder = newest_checkpoint(run.directory / CHECKPOINTS, tell)
    model = config.model.model_copy(update={"path": str(folder), "gguf_file": None})
    return config.model_copy(update={"model": model})


def evaluate_model(config: Config, warn: OnWarning = nobody_warned) -> dict[str, float]:
    """`eval/accuracy`, `eval/greedy` and `eval/failed` of `model.path` on the held-out prompts.

    `warn` hears why replies have no reward, where some have none. Raises ValueError where the data has none.
    """
    quiet_libraries()
    tokenizer = tokenizer_for(config.model)
    environment = make_host(config, wait_for_nothing)
    held_out = load_prompts(config, tokenizer, environment).held_out
    if not held_out:
        raise ValueError("there are no held-out prompts: name some in data.eval_path, or set data.held_out")
    check_lengths(held_out, config)
    device = prepare_torch(config.run)
    scorer = make_scorer(config, tokenizer, device, wait_for_nothing)
    scorer.check(held_out)
    policy = load_policy(config, device)
    sampler = make_sampler(policy, tokenizer, config, environment)
    return evaluate(held_out, sampler, scorer, config, warn=warn)


def sample_replies(config: Config, prompts: Sequence[str] | None, replies: int) -> list[Rollout]:
    """Replies of `model.path` to these prompts, or to the first held-out (else training) prompts of the data."""
    quiet_libraries()
    tokenizer = tokenizer_for(config.model)
    environment = make_host(config, wait_for_nothing)
    if prompts is None:
        found = load_prompts(config, tokenizer, environment)
        chosen = (found.held_out or found.training)[: config.algorithm.prompts_per_step]
    else:
        rows = [{config.data.prompt_column: text} for text in prompts]
        data = config.data.model_copy(update={"long_prompts": "error"})
        chosen = make_prompts(rows, tokenizer, data, "--prompt", environment=environment)
    check_lengths(chosen, config)
    policy = load_policy(config, prepare_torch(config.run))
    sampling = replace(sampling_of(config, step=0), replies_per_prompt=replies)
    return make_sampler(policy, tokenizer, config, environment).generate(chosen, sampling)
