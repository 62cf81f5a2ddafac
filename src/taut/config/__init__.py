"""Strict configs, presets, and their resolution. Imports no torch."""

from taut.config.check import check
from taut.config.presets import PRESETS, WORLD
from taut.config.resolve import leaf_fields, parse_flags, parse_value, read_yaml, resolve, to_yaml
from taut.config.schema import (
    AlgorithmConfig,
    Config,
    DataConfig,
    LoraConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
)
from taut.config.supervised import DPOConfig, RewardModelConfig, SFTConfig

__all__ = [
    "PRESETS",
    "WORLD",
    "AlgorithmConfig",
    "Config",
    "DPOConfig",
    "DataConfig",
    "LoraConfig",
    "ModelConfig",
    "OptimizerConfig",
    "RewardModelConfig",
    "RunConfig",
    "SFTConfig",
    "check",
    "leaf_fields",
    "parse_flags",
    "parse_value",
    "read_yaml",
    "resolve",
    "to_yaml",
]
