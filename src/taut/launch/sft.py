"""From an `SFTConfig` to a fine-tuned model's folder; and the built-in world's, made so on first use."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from taut.config import WORLD, SFTConfig
from taut.launch.data import check_lengths_to_learn, rows_by_path, tokenizer_for
from taut.launch.models import policy_from, with_adapter
from taut.launch.output import new_folder, save_whole
from taut.launch.quiet import quiet_libraries
from taut.launch.torch_setup import prepare_torch, torch_state_kept
from taut.launch.trackers import refuse_trackers
from taut.launch.world import careless_teacher, untrained_world_policy
from taut.models.adapter import check_adapter
from taut.models.save import save_policy
from taut.tasks.data import column_of, completion_ids, make_prompts
from taut.training.sft import Example, fine_tune
from taut.training.supervised import draw_from

OnStep = Callable[[int, float], None]
"""Hears of each step, from 1, and its loss."""


def fine_tune_model(config: SFTConfig, on_step: OnStep = lambda step, loss: None) -> Path:
    """Trains on prompt/completion pairs and returns the folder the model is saved to.

    In the built-in world an untrained model learns from the careless teacher. Raises ValueError for a user's
    mistake, before any weights load, and NonFiniteError before a step that would ruin them.
    """
    quiet_libraries()
    check_adapter(config.model, config.lora)
    refuse_trackers(config.run, "taut sft")
    output = new_folder(config.sft.output, "sft.output")
    for key in ("eval_path", "held_out", "weights"):
        if getattr(config.data, key) is not None:
            raise ValueError(
                f"taut sft takes no data.{key}: it trains on every row of data.path, and scores nothing"
            )
    world_model, world_data = config.model.path == WORLD, config.data.path == WORLD
    tokenizer = tokenizer_for(config.model)
    if world_data and not world_model:
        raise ValueError(
            "data.path = careless-adder teaches the world's own model only: set data.path to yours"
        )
    draw = (
        careless_teacher(config.run.seed, config.sft.batch_size)
        if world_data
        else draw_from(read_examples(config, tokenizer), config.sft.batch_size, config.run.seed)
    )
    device = prepare_torch(config.run)
    policy = (
        untrained_world_policy(config.run.seed)
        if world_model
        else policy_from(config.model.path, config.model)
    ).to(device)
    policy = with_adapter(policy, config.lora)
    fine_tune(policy, draw, config.run.steps, config.optimizer, config.learner.micro_batch_tokens, on_step)
    return save_whole(lambda folder: save_policy(policy, tokenizer, folder), output)


def read_examples(config: SFTConfig, tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """Raises ValueError naming the row where a column is missing or a prompt is longer than the limit.

    Also where a prompt and its completion are longer than the model's positions.
    """
    data = config.data
    if tokenizer.eos_token_id is None:
        raise ValueError(
            f"the tokenizer of model.path {config.model.path} has no end-of-sequence token to learn"
        )
    examples = []
    for path, rows in rows_by_path(data, config.run.seed):
        completions = column_of(rows, data.completion_column, path)
        for prompt in make_prompts(rows, tokenizer, data, path):
            where = f"{path}, row {prompt.index + 1}"
            reply_ids = completion_ids(tokenizer, prompt, completions[prompt.index], where)
            examples.append(Example(prompt.ids, reply_ids))
    check_lengths_to_learn(
        [len(example.prompt_ids) + len(example.completion_ids) for example in examples], config.model
    )
    return examples


def world_model_folder(seed: int, on_step: OnStep = lambda step, loss: None) -> Path:
    """The fine-tuned model of the world's seed: about ten seconds the first time, then cached.

    The cache is keyed by the whole recipe, the seed and torch's version.
    """
    recipe = SFTConfig.model_validate({"run": {"seed": seed}})
    key = json.dumps([recipe.model_dump(), torch.__version__])
    folder = cache_directory() / "careless-adder" / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
            output = Path(beside) / "model"
            own = recipe.sft.model_copy(update={"output": str(output)})
            with torch_state_kept():
                fine_tune_model(recipe.model_copy(update={"sft": own}), on_step)
            try:
                output.rename(folder)
            except OSError:  # another process made the same model meanwhile
                if not folder.is_dir():
                    raise
    return folder


def cache_directory() -> Path:
    """`$TAUT_CACHE`, else `taut` in the user's cache directory."""
    if given := os.environ.get("TAUT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taut"
