"""Every setting of learning from examples: `taut sft`, `taut reward-model`, `taut dpo`.

They share the sections of `schema.py`; of their own they have a batch size, a folder, and what their loss needs.
"""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from taut.config.presets import fill_in_preferences, fill_in_sft
from taut.config.schema import (
    DataConfig,
    LearnerConfig,
    LoraConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
)
from taut.config.values import Positive, PositiveInt, Section, Text


class SFTSettings(Section):
    batch_size: PositiveInt = 32
    """Examples in an optimiser step."""
    output: Text = "sft-model"
    """Folder the fine-tuned model is saved to; it must not exist."""


class SFTConfig(Section):
    """A run of `taut sft`. Keys that are not given come from the world, then the defaults."""

    run: RunConfig = RunConfig()
    model: ModelConfig = ModelConfig()
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    sft: SFTSettings = SFTSettings()
    optimizer: OptimizerConfig = OptimizerConfig()
    learner: LearnerConfig = LearnerConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, explicit: Any) -> Any:
        return fill_in_sft(explicit) if isinstance(explicit, dict) else explicit


class RewardModelSettings(Section):
    batch_size: PositiveInt = 32
    """Preference pairs in an optimiser step."""
    output: Text = "reward-model"
    """Folder the reward model is saved to; it must not exist."""


class RewardModelConfig(Section):
    """A run of `taut reward-model`. Keys that are not given come from the world, then the defaults."""

    run: RunConfig = RunConfig()
    model: ModelConfig = ModelConfig()
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    reward_model: RewardModelSettings = RewardModelSettings()
    optimizer: OptimizerConfig = OptimizerConfig()
    learner: LearnerConfig = LearnerConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, explicit: Any) -> Any:
        return fill_in_preferences(explicit) if isinstance(explicit, dict) else explicit


class DPOSettings(Section):
    beta: Positive = 0.1
    """β: how strongly the policy is held to the model it started from."""
    batch_size: PositiveInt = 32
    """Preference pairs in an optimiser step."""
    output: Text = "dpo-model"
    """Folder the trained model is saved to; it must not exist."""


class DPOConfig(Section):
    """A run of `taut dpo`. Keys that are not given come from the world, then the defaults."""

    run: RunConfig = RunConfig()
    model: ModelConfig = ModelConfig()
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    dpo: DPOSettings = DPOSettings()
    optimizer: OptimizerConfig = OptimizerConfig()
    learner: LearnerConfig = LearnerConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, explicit: Any) -> Any:
        return fill_in_preferences(explicit) if isinstance(explicit, dict) else explicit
