"""From a config to the models of a run: policy, adapter, critic."""

from __future__ import annotations

from pathlib import Path

import torch

from taut.config import Config, LoraConfig, ModelConfig
from taut.models.adapter import add_adapter
from taut.models.critic import Critic
from taut.models.decoder import enable_recomputation
from taut.models.load import load_backbone, load_model, read_config
from taut.models.locate import check_is_model
from taut.models.policy import Policy
from taut.models.save import load_value_head
from taut.store import RunWriter


def policy_from(path: str, config: ModelConfig) -> Policy:
    """The model at `path`, loaded and computed as the config says, with no adapter yet."""
    model = load_model(
        path,
        config.gguf_file,
        weight_type(config),
        config.attention,
        config.trust_remote_code,
        four_bit=config.dtype == "nf4",
    )
    if config.gradient_checkpointing:
        enable_recomputation(model)
    return Policy(model, autocast=config.dtype == "bfloat16")


def with_adapter(policy: Policy, config: LoraConfig) -> Policy:
    """The policy as it is, or with its weights frozen and an adapter on them, as `lora.rank` says."""
    if config.rank == 0:
        return policy
    return Policy(policy.model, add_adapter(policy.model, config), policy.autocast)


def policy_and_critic(policy: Policy, config: Config) -> tuple[Policy, Critic | None]:
    """Adds the config's adapters to a policy that has none, and makes the critic, which may be one of them."""
    if config.algorithm.advantage != "gae":
        return with_adapter(policy, config.lora), None
    if config.critic.shared:
        policy = with_adapter(policy, config.lora)
        return policy, Critic.on_base_of(policy)
    critic = Critic.from_policy(policy) if config.critic.path is None else critic_from(config)
    _check_fits(critic, policy)
    return with_adapter(policy, config.lora), critic.to(next(policy.parameters()).device)


def check_critic(config: Config) -> None:
    """Raises ValueError, before any weights load, where `critic.path` will be read and holds no model."""
    path = config.critic.path
    if config.algorithm.advantage == "gae" and path is not None:
        check_is_model(path, None, "critic.path", config.model.trust_remote_code)
        read_config(path, None, config.model.trust_remote_code, "critic.path")


def critic_from(config: Config) -> Critic:
    """The critic at `critic.path`, with its value head if it was saved as a critic."""
    path, model = str(config.critic.path), config.model
    backbone = load_backbone(path, weight_type(model), model.attention, model.trust_remote_code)
    if model.gradient_checkpointing:
        enable_recomputation(backbone)
    critic = Critic(backbone, autocast=model.dtype == "bfloat16")
    load_value_head(critic, Path(path))
    return critic


def _check_fits(critic: Critic, policy: Policy) -> None:
    """Raises ValueError where the critic cannot read every id and position that the policy can."""
    own, other = critic.backbone.config.get_text_config(), policy.model.config.get_text_config()
    for name, what in (("vocab_size", "token ids"), ("max_position_embeddings", "positions")):
        has, needs = getattr(own, name, None), getattr(other, name, None)
        if has is not None and needs is not None and has < needs:
            raise ValueError(
                f"the model of critic.path has {has} {what} and the policy {needs}: they must fit"
            )


def tell_of_dtype(store: RunWriter, config: Config) -> None:
    """bfloat16 keeps 8 bits of each weight: a step below 1/256 of it rounds to nothing."""
    trained = [] if config.lora.rank else ["policy"]
    if config.algorithm.advantage == "gae" and not config.critic.shared:
        trained.append("critic")
    if config.model.dtype == "bfloat16-weights" and trained:
        message = (
            f"the {' and the '.join(trained)} will be trained in weights of bfloat16, where small steps are lost to "
            "rounding: model.dtype = bfloat16 keeps weights in float32, and lora.rank with critic.shared trains others"
        )
        store.event("model", "dtype", message, "warning")


def weight_type(config: ModelConfig) -> torch.dtype:
    return torch.bfloat16 if config.dtype in ("bfloat16-weights", "nf4") else torch.float32
