"""From a config to the tokenizer and the prompts, before any weights load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedTokenizerBase

from taut.config import WORLD, Config, DataConfig, ModelConfig
from taut.launch.world import world_tokenizer
from taut.models.load import check_vocabulary, load_tokenizer, max_positions
from taut.models.locate import check_is_model
from taut.models.tiny import POSITIONS
from taut.tasks.adder import adder_world
from taut.tasks.data import hold_out, make_prompts
from taut.tasks.environments.host import EnvironmentHost
from taut.tasks.sources import Row, read_rows
from taut.types import Prompt


@dataclass(frozen=True)
class PromptSets:
    training: list[Prompt]
    held_out: list[Prompt]
    skipped: int = 0
    """Rows left out because their prompt is longer than the limit."""


def tokenizer_for(model: ModelConfig) -> PreTrainedTokenizerBase:
    if model.path == WORLD:
        return world_tokenizer()
    check_is_model(model.path, model.gguf_file, trust_remote_code=model.trust_remote_code)
    tokenizer = load_tokenizer(model.path, model.gguf_file, model.trust_remote_code)
    if model.gguf_file is None:  # which holds both
        check_vocabulary(tokenizer, model.path, model.trust_remote_code)
    return tokenizer


def load_prompts(
    config: Config, tokenizer: PreTrainedTokenizerBase, environment: EnvironmentHost | None = None
) -> PromptSets:
    """Prompts to train on, and held-out ones. Raises ValueError where a batch needs more than there are.

    Held out are those of `data.eval_path`, else `data.held_out` of the training prompts, else in the world its own.
    """
    data, seed = config.data, config.run.seed
    training, skipped = _training_prompts(config, tokenizer, environment)
    held_out: list[Prompt] = []
    if data.eval_path is not None:
        whole = data.model_copy(update={"limit": None, "weights": None})
        held_out, held_out_skipped = _read(whole, data.eval_path, tokenizer, seed, environment)
        skipped += held_out_skipped
        if not held_out:
            raise ValueError(
                f"data.eval_path has no prompt of at most data.max_prompt_tokens = {data.max_prompt_tokens} tokens"
            )
    elif data.held_out is not None:
        training, held_out = hold_out(training, data.held_out, seed)
    elif data.path == WORLD:
        held_out = _world_prompts(adder_world(seed).held_out, data, tokenizer, environment)
    prompts = PromptSets(training, held_out, skipped)
    _check_count(prompts, config)
    return prompts


def _training_prompts(
    config: Config, tokenizer: PreTrainedTokenizerBase, environment: EnvironmentHost | None
) -> tuple[list[Prompt], int]:
    data = config.data
    if data.path != WORLD:
        return _read(data, data.path, tokenizer, config.run.seed, environment)
    world = adder_world(config.run.seed)
    rows = world.demonstrated[: data.limit] if data.limit else world.rl_prompts
    prompts = _world_prompts(rows, data, tokenizer, environment)
    return prompts, len(rows) - len(prompts)


def _world_prompts(
    rows: Sequence[Row],
    data: DataConfig,
    tokenizer: PreTrainedTokenizerBase,
    environment: EnvironmentHost | None,
) -> list[Prompt]:
    own = data.model_copy(update={"prompt_column": "prompt"})
    return make_prompts(rows, tokenizer, own, WORLD, environment=environment)


def check_lengths(prompts: Sequence[Prompt], config: Config) -> None:
    """Raises ValueError where prompt and reply, or its first turn, may outgrow the model's positions."""
    positions = positions_of(config.model)
    longest = max(len(prompt.ids) for prompt in prompts)
    if positions is not None and longest + config.sampling.max_new_tokens > positions:
        raise ValueError(
            f"the longest prompt has {longest} tokens, and with sampling.max_new_tokens = "
            f"{config.sampling.max_new_tokens} that is beyond the model's {positions} positions: "
            f"set it to {max(0, positions - longest)} or less"
        )


def check_lengths_to_learn(lengths: Sequence[int], model: ModelConfig) -> None:
    """Raises ValueError where a prompt and the reply to learn, so many tokens together, outgrow the positions."""
    positions = positions_of(model)
    if positions is not None and max(lengths) > positions:
        beyond = sum(length > positions for length in lengths)
        raise ValueError(
            f"the longest prompt and reply have {max(lengths)} tokens, and the model takes {positions}: shorten or "
            f"remove {beyond} of {len(lengths)} rows"
        )


def positions_of(model: ModelConfig) -> int | None:
    """Longest sequence the model takes, from its config alone; None where that sets no bound."""
    if model.path == WORLD:
        return POSITIONS
    return max_positions(model.path, model.gguf_file, model.trust_remote_code)


def rows_by_path(data: DataConfig, seed: int) -> list[tuple[str, list[Row]]]:
    """Each of `data.path`, and the first `data.limit` rows of it."""
    return [(path, read_rows(path, seed)[: data.limit]) for path in as_list(data.path)]


def as_list(path: str | list[str]) -> list[str]:
    return [path] if isinstance(path, str) else path


def _read(
    data: DataConfig,
    paths: str | list[str],
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    environment: EnvironmentHost | None,
) -> tuple[list[Prompt], int]:
    """The prompts of all these paths, and how many rows were too long. Indices count on from path to path."""
    by_path: list[list[Prompt]] = []
    rows_read = 0
    for path, rows in rows_by_path(data.model_copy(update={"path": paths}), seed):
        by_path.append(make_prompts(rows, tokenizer, data, path, rows_read, environment))
        rows_read += len(rows)
    kept = sum(map(len, by_path))
    if data.weights is not None:
        by_path = _weigh(by_path, data.weights)
    return [prompt for prompts in by_path for prompt in prompts], rows_read - kept


def _weigh(by_path: Sequence[Sequence[Prompt]], weights: Sequence[float]) -> list[list[Prompt]]:
    """Each path's share of a pass is its weight's, however many rows it has; a pass keeps its length."""
    length = sum(map(len, by_path))
    return [
        [replace(prompt, weight=length * weight / sum(weights) / len(prompts)) for prompt in prompts]
        for prompts, weight in zip(by_path, weights, strict=True)
    ]


def _check_count(prompts: PromptSets, config: Config) -> None:
    count, needed = len(prompts.training), config.algorithm.prompts_per_step
    if count < needed:
        fewer = f" of at most {config.data.max_prompt_tokens} tokens" if prompts.skipped else ""
        where = ", ".join(as_list(config.data.path))
        has = f"{where} has {count} prompts{fewer}"
        remedy = f"set it to {count} or less, or bring more prompts" if count else "bring more prompts"
        if config.data.eval_path is None and config.data.held_out is not None:
            every = count + len(prompts.held_out)
            has = f"data.held_out = {config.data.held_out} leaves {count} of the {every} prompts{fewer} of {where}"
            remedy = f"hold out fewer, or {remedy}"
        raise ValueError(f"{has} and algorithm.prompts_per_step is {needed}: {remedy}")
