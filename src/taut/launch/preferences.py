"""From a config to a model trained on preference pairs: a reward model, or a policy by DPO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from taut.config import WORLD, DataConfig, DPOConfig, RewardModelConfig
from taut.launch.data import check_lengths_to_learn, rows_by_path, tokenizer_for
from taut.launch.models import policy_from, with_adapter
from taut.launch.output import new_folder, save_whole
from taut.launch.quiet import quiet_libraries
from taut.launch.sft import world_model_folder
from taut.launch.torch_setup import prepare_torch
from taut.launch.trackers import refuse_trackers
from taut.models.adapter import check_adapter
from taut.models.decoder import enable_recomputation
from taut.models.policy import Policy
from taut.models.reward_model import RewardModel
from taut.models.save import save_policy
from taut.tasks.data import hold_out
from taut.tasks.preferences import PreferencePair, make_pairs
from taut.training import dpo, reward_model
from taut.training.supervised import OnStep

Results = dict[str, float]
"""`eval/*` on held-out pairs, where there are any, and `train/*` on those that were trained on."""


def train_reward_model(
    config: RewardModelConfig, on_step: OnStep = lambda step, metrics: None
) -> tuple[Path, Results]:
    """Trains, and returns the folder that holds the reward model, and how it did.

    Raises ValueError for a user's mistake, before any weights load, and NonFiniteError before a step that would
    ruin them.
    """
    if config.model.dtype == "nf4":
        raise ValueError(
            "model.dtype = nf4 packs the weights, and a reward model takes them over as they are: set it to "
            "bfloat16-weights, with lora.rank"
        )
    check_adapter(config.model, config.lora)
    output = new_folder(config.reward_model.output, "reward_model.output")
    tokenizer, pairs, held_out = _read(config)
    device = prepare_torch(config.run)
    start = _start(config, [*pairs, *held_out])
    model = RewardModel.from_causal(start.model, tokenizer, start.autocast).to(device)
    if config.model.gradient_checkpointing:
        enable_recomputation(model.model)
    model.adapt(config.lora)
    reward_model.train_reward_model(model, pairs, config, on_step)
    results = {
        f"{name}/{key}": value
        for name, judged in (("eval", held_out), ("train", pairs))
        if judged
        for key, value in reward_model.judge(model, judged, config.learner.micro_batch_tokens).items()
    }
    return save_whole(lambda folder: model.save(tokenizer, folder), output), results


def train_dpo(config: DPOConfig, on_step: OnStep = lambda step, metrics: None) -> tuple[Path, Results]:
    """The same for DPO. The reference is the policy itself before its first step: its logprobs are taken once."""
    check_adapter(config.model, config.lora)
    output = new_folder(config.dpo.output, "dpo.output")
    tokenizer, pairs, held_out = _read(config)
    device = prepare_torch(config.run)
    policy = with_adapter(_start(config, [*pairs, *held_out]).to(device), config.lora)
    judged = {"eval": held_out, "train": pairs} if held_out else {"train": pairs}
    tokens = config.learner.micro_batch_tokens
    references = {name: dpo.reply_logprobs(policy, these, tokens) for name, these in judged.items()}
    dpo.train_dpo(policy, pairs, references["train"], config, on_step)
    results = {
        f"{name}/{key}": value
        for name, these in judged.items()
        for key, value in dpo.judge(policy, these, references[name], config).items()
    }
    return save_whole(lambda folder: save_policy(policy, tokenizer, folder), output), results


def _read(
    config: RewardModelConfig | DPOConfig,
) -> tuple[PreTrainedTokenizerBase, list[PreferencePair], list[PreferencePair]]:
    """The tokenizer, the pairs to train on, and those held out."""
    quiet_libraries()
    refuse_trackers(config.run, "learning from preference pairs")
    data, seed = config.data, config.run.seed
    if data.path == WORLD:
        raise ValueError(
            "data.path is not set: name a file, folder or hub id of preference pairs, with columns "
            f"{data.prompt_column}, chosen and rejected"
        )
    tokenizer = tokenizer_for(config.model)
    pairs = _pairs(data, tokenizer, seed)
    if data.eval_path is not None:
        held_out = data.model_copy(update={"path": data.eval_path, "limit": None})
        return tokenizer, pairs, _pairs(held_out, tokenizer, seed)
    if data.held_out is not None:
        return tokenizer, *hold_out(pairs, data.held_out, seed)
    return tokenizer, pairs, []


def _pairs(data: DataConfig, tokenizer: PreTrainedTokenizerBase, seed: int) -> list[PreferencePair]:
    """Raises ValueError where every prompt is too long."""
    pairs = [
        pair for path, rows in rows_by_path(data, seed) for pair in make_pairs(rows, tokenizer, data, path)
    ]
    if not pairs:
        raise ValueError(
            f"{data.path} has no prompt of at most data.max_prompt_tokens = {data.max_prompt_tokens} tokens"
        )
    return pairs


def _start(config: RewardModelConfig | DPOConfig, pairs: Sequence[PreferencePair]) -> Policy:
    """The causal language model to start from. Raises ValueError, before it loads, where a pair outgrows it."""
    check_lengths_to_learn([pair.length for pair in pairs], config.model)
    path = config.model.path
    return policy_from(str(world_model_folder(config.run.seed)) if path == WORLD else path, config.model)
