"""What is done with a model outside a run: score it on held-out prompts, and sample from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taut.config import Config
from taut.launch.local import (
    check_lengths,
    load_policy,
    load_prompts,
    make_sampler,
    make_scorer,
    tokenizer_for,
)
from taut.launch.quiet import quiet_transformers
from taut.launch.torch_setup import prepare_torch
from taut.store import Run
from taut.tasks.data import encode
from taut.training.checkpoint import newest_checkpoint
from taut.training.collect import sampling_of
from taut.training.evaluate import evaluate
from taut.types import Prompt, Rollout


def config_of_run(run: Run) -> Config:
    """The run's config with `model.path` set to its newest checkpoint. Raises ValueError where there is none."""
    config = Config.model_validate(run.config)
    folder = newest_checkpoint(run.directory / "checkpoints")
    model = config.model.model_copy(update={"path": str(folder), "gguf_file": None})
    return config.model_copy(update={"model": model})


def evaluate_model(config: Config) -> dict[str, float]:
    """`eval/accuracy` and `eval/greedy` of `model.path` on the held-out prompts.

    Raises ValueError where the data has none.
    """
    quiet_transformers()
    tokenizer = tokenizer_for(config)
    _, held_out = load_prompts(config, tokenizer)
    if not held_out:
        raise ValueError("there are no held-out prompts: set data.eval_path to a JSONL file of them")
    scorer = make_scorer(config)
    scorer.check(held_out)
    policy = load_policy(config, prepare_torch(config.run))
    check_lengths(policy, held_out, config)
    return evaluate(held_out, make_sampler(policy, tokenizer, config), scorer, config)


def sample_replies(config: Config, prompts: Sequence[str] | None, replies: int) -> list[Rollout]:
    """Replies of `model.path` to these prompts, or to the first held-out (else training) prompts of the data."""
    quiet_transformers()
    tokenizer = tokenizer_for(config)
    if prompts is None:
        training, held_out = load_prompts(config, tokenizer)
        chosen: list[Prompt] = (held_out or training)[: config.algorithm.prompts_per_step]
    else:
        chosen = [
            Prompt(index=i, text=text, ids=encode(tokenizer, text, f"prompt {i + 1}"))
            for i, text in enumerate(prompts)
        ]
    policy = load_policy(config, prepare_torch(config.run))
    check_lengths(policy, chosen, config)
    sampling = replace(sampling_of(config, step=0), replies_per_prompt=replies)
    return make_sampler(policy, tokenizer, config).generate(chosen, sampling)
