"""What each preset sets, what the built-in world sets, and other libraries' names for our keys."""

from __future__ import annotations

from typing import Any

WORLD = "careless-adder"

PRESETS: dict[str, dict[str, Any]] = {
    # InstructGPT's recipe (2203.02155): critic, GAE, KL to the reference in the reward.
    "ppo": {
        "algorithm.advantage": "gae",
        "algorithm.whiten_advantages": True,
        "kl.placement": "reward",
        "kl.coefficient": 0.05,
    },
    "ppo-batch-mean": {"algorithm.advantage": "batch-mean"},
    # DeepSeekMath (2402.03300).
    "grpo": {
        "algorithm.advantage": "group-standardized",
        "algorithm.loss_normalization": "sequence",
        "kl.placement": "loss",
        "kl.estimator": "k3",
        "kl.coefficient": 0.04,
    },
    # Back to basics (2402.14740): the KL is part of the reply's reward.
    "rloo": {"algorithm.advantage": "leave-one-out", "kl.placement": "reward", "kl.coefficient": 0.05},
    # 2503.20783: neither the group's deviation nor the reply's length divides.
    "dr-grpo": {"algorithm.advantage": "group-mean", "algorithm.loss_normalization": "constant"},
    # 2503.14476.
    "dapo": {
        "algorithm.advantage": "group-standardized",
        "algorithm.clip_high": 0.28,
        "algorithm.dynamic_sampling": 3,
        "algorithm.overlong_share": 0.2,
    },
    # 2507.18071: the ratio is a geometric mean, hence the narrow range.
    "gspo": {
        "algorithm.advantage": "group-standardized",
        "algorithm.ratio_level": "sequence",
        "algorithm.clip_low": 3e-4,
        "algorithm.clip_high": 4e-4,
        "algorithm.loss_normalization": "sequence",
    },
    # MiniMax-M1 (2506.13585): weights are capped from above only, here at 5.
    "cispo": {
        "algorithm.advantage": "group-standardized",
        "algorithm.surrogate": "cispo",
        "algorithm.clip_low": None,
        "algorithm.clip_high": 4.0,
    },
    # 2511.20347: a smooth gate, no clip; the mean over a reply's tokens, then over replies.
    "sapo": {
        "algorithm.advantage": "group-standardized",
        "algorithm.surrogate": "sapo",
        "algorithm.loss_normalization": "sequence",
    },
    # 2602.04879, binary total variation: how far the token's probability may move.
    "dppo": {
        "algorithm.advantage": "group-standardized",
        "algorithm.surrogate": "dppo",
        "algorithm.clip_low": 0.15,
        "algorithm.clip_high": 0.15,
    },
    # 2501.03262.
    "reinforce++": {
        "algorithm.advantage": "global-normalized",
        "kl.placement": "reward",
        "kl.coefficient": 0.01,
    },
}

WORLD_DEFAULTS: dict[str, Any] = {
    "run.steps": 40,
    "run.threads": 1,
    "algorithm.preset": "ppo-batch-mean",
    "sampling.max_new_tokens": 5,
    "optimizer.learning_rate": 1e-3,
    "optimizer.max_grad_norm": None,
    "optimizer.reset": "batch",
    "critic.learning_rate": 1e-3,
}
"""Set beneath the preset when `model.path` is the built-in world's model."""

SFT_DEFAULTS: dict[str, Any] = {"optimizer.learning_rate": 2e-5}

WORLD_SFT_DEFAULTS: dict[str, Any] = {
    "run.steps": 1000,
    "run.threads": 1,
    "optimizer.learning_rate": 2e-3,
    "optimizer.weight_decay": 0.01,
    "optimizer.warmup_steps": 20,
}
"""How the world's model is fine-tuned. Its learning rate stays constant: see `models/tiny.py` for why."""

WORLD_PREFERENCE_DEFAULTS: dict[str, Any] = {"run.threads": 1, "optimizer.learning_rate": 1e-3}
"""How the world's model becomes a reward model, or learns by DPO."""


def fill_in_run(explicit: dict[str, Any]) -> dict[str, Any]:
    """Lays nested explicit settings over the preset they name and, for the world's model, the world's defaults."""
    beneath = dict(WORLD_DEFAULTS) if _is_world(explicit) else {}
    section = _as_dict(explicit.get("algorithm", {}))
    named = section.get("preset") if isinstance(section, dict) else None
    preset = named or beneath.get("algorithm.preset", "ppo")
    if isinstance(section, dict) and section.get("max_staleness"):
        beneath["algorithm.importance"] = "truncate"
    environment = _as_dict(explicit.get("environment", {}))
    if isinstance(environment, dict) and environment.get("path") is not None:
        explicit = {"reward": "environment", **explicit}
    return _lay_over({**beneath, **(PRESETS.get(preset, {}) if isinstance(preset, str) else {})}, explicit)


def fill_in_sft(explicit: dict[str, Any]) -> dict[str, Any]:
    """The same for `taut sft`, which knows no presets."""
    return _lay_over(WORLD_SFT_DEFAULTS if _is_world(explicit) else SFT_DEFAULTS, explicit)


def fill_in_preferences(explicit: dict[str, Any]) -> dict[str, Any]:
    """The same for `taut reward-model` and `taut dpo`."""
    return _lay_over(WORLD_PREFERENCE_DEFAULTS if _is_world(explicit) else {}, explicit)


def _is_world(explicit: dict[str, Any]) -> bool:
    model = _as_dict(explicit.get("model", {}))
    return isinstance(model, dict) and model.get("path", WORLD) == WORLD


def _lay_over(beneath: dict[str, Any], explicit: dict[str, Any]) -> dict[str, Any]:
    nested = {key: _as_dict(value) for key, value in explicit.items()}
    for key, value in beneath.items():
        section, _, leaf = key.partition(".")
        values = nested.setdefault(section, {})
        if isinstance(values, dict):
            values.setdefault(leaf, value)
    return nested


def _as_dict(value: Any) -> Any:
    """A copy of a section as the keys that were given."""
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_unset=True)
    return dict(value) if isinstance(value, dict) else value


def _both_sides(value: float) -> dict[str, Any]:
    return {"algorithm.clip_low": value, "algorithm.clip_high": value}


def _kl(placement: str, estimator: str, value: float) -> dict[str, Any]:
    if not value:
        return {"kl.placement": "none"}
    return {"kl.placement": placement, "kl.estimator": estimator, "kl.coefficient": value}


ALIASES: dict[str, Any] = {
    "epsilon": _both_sides,
    "cliprange": _both_sides,
    "epsilon_high": "algorithm.clip_high",
    "num_ppo_epochs": "algorithm.epochs",
    "num_iterations": "algorithm.epochs",
    "num_generations": "algorithm.replies_per_prompt",
    "lam": "algorithm.lam",
    "whiten_rewards": "algorithm.whiten_rewards",
    "missing_eos_penalty": "scoring.missing_eos_penalty",
    "cliprange_value": "critic.value_clip",
    "beta": lambda value: _kl("loss", "k3", value),
    "kl_coef": lambda value: _kl("reward", "k1", value),
}
"""TRL's spelling -> our key, or a function from the value to our keys."""

SHORT_NAMES: dict[str, str] = {
    "lr": "learning_rate",
    "lr_scheduler": "schedule",
    "lr_scheduler_type": "schedule",
    "wd": "weight_decay",
    "grad_clip": "max_grad_norm",
    "bs": "prompts_per_step",
    "batch_size": "prompts_per_step",
    "group_size": "replies_per_prompt",
    "kl_coef": "coefficient",
    "kl_coeff": "coefficient",
    "kl_beta": "coefficient",
    "ent_coef": "entropy_coefficient",
    "gae_lambda": "lam",
    "max_tokens": "max_new_tokens",
    "max_steps": "steps",
}
"""What others call a setting -> the last part of its key here: suggested, where it is not understood as it stands."""

ALIAS_SECTIONS = ("", "algorithm", "kl", "critic")
"""Where those spellings are understood: at the top of a file, as TRL has them, or in the section they belong to."""

KL_ALIASES = {"beta", "kl_coef"}
"""Two words for the KL's weight, which in TRL put it into the loss and into the reward."""

_ONE_LIST = "both of AdamW's decays are one list: set optimizer.betas, such as [0.9, 0.999]"

REFUSED: dict[str, str] = {
    "vf_coef": (
        "the critic has its own optimiser, so its loss needs no weight beside the policy's: set "
        "critic.learning_rate instead"
    ),
    "adam_beta1": _ONE_LIST,
    "adam_beta2": _ONE_LIST,
    "controller": "kl.target alone says whether β moves: null keeps it, a number is the KL a reply it steers to",
}
"""What is no setting here -> why, and what to set instead."""
