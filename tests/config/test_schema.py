"""Every setting: its name, its meaning, its bounds."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import get_args

import pytest
from pydantic import ValidationError

from taut.config import PRESETS, Config, DPOConfig, RewardModelConfig, SFTConfig, leaf_fields
from taut.config.schema import PresetName

KEYS = {
    "run": "name root seed steps threads device trackers",
    "model": "path gguf_file dtype attention gradient_checkpointing trust_remote_code",
    "lora": "rank alpha target_modules",
    "data": (
        "path weights eval_path held_out prompt_column as_chat completion_column limit "
        "max_prompt_tokens long_prompts"
    ),
    "": "reward",
    "environment": "path max_turns",
    "scoring": "timeout workers isolate on_failure normalize clip missing_eos_penalty",
    "sampling": "max_new_tokens temperature top_k top_p min_p max_sequences",
    "algorithm": (
        "preset prompts_per_step replies_per_prompt epochs minibatches advantage "
        "whiten_advantages whiten_rewards surrogate ratio_level clip_low clip_high dual_clip loss_normalization "
        "entropy_coefficient target_kl gamma lam lam_critic lam_length_alpha max_staleness importance "
        "importance_cap dynamic_sampling overlong_share"
    ),
    "kl": "placement coefficient estimator target horizon",
    "critic": "path shared learning_rate warmup_steps value_clip normalize_values",
    "optimizer": "learning_rate schedule warmup_steps betas weight_decay max_grad_norm reset",
    "learner": "micro_batch_tokens",
    "eval": "every samples limit",
    "checkpoint": "every keep",
    "checks": "strict skip_non_finite",
    "store": "keep_newest max_gb final_pass",
}

SFT_KEYS = {
    "run": "name root seed steps threads device trackers",
    "model": "path gguf_file dtype attention gradient_checkpointing trust_remote_code",
    "lora": "rank alpha target_modules",
    "data": (
        "path weights eval_path held_out prompt_column as_chat completion_column limit "
        "max_prompt_tokens long_prompts"
    ),
    "sft": "batch_size output",
    "optimizer": "learning_rate schedule warmup_steps betas weight_decay max_grad_norm reset",
    "learner": "micro_batch_tokens",
}
SHARED = {name: keys for name, keys in SFT_KEYS.items() if name != "sft"}
OWN = {
    RewardModelConfig: {"reward_model": "batch_size output"},
    DPOConfig: {"dpo": "beta batch_size output"},
}


def names(sections: dict[str, str]) -> list[str]:
    return [
        f"{section}.{leaf}".lstrip(".") for section, leaves in sections.items() for leaf in leaves.split()
    ]


def test_the_keys_are_these():
    """A key that comes, goes or changes its name is a promise to users: change this list on purpose."""
    assert [key for key, _ in leaf_fields(Config)] == names(KEYS)
    assert [key for key, _ in leaf_fields(SFTConfig)] == names(SFT_KEYS)
    for kind, own in OWN.items():
        assert {key for key, _ in leaf_fields(kind)} == {*names(SHARED), *names(own)}


def test_there_are_fewer_than_100():
    """The batch size and the output folder of sft, reward-model and dpo are the same two settings in each."""
    keys = [*names(KEYS), *names(SFT_KEYS), *(key for sections in OWN.values() for key in names(sections))]
    assert len({re.sub(r"^(sft|reward_model|dpo)\.", "supervised.", key) for key in keys}) < 100


@pytest.mark.parametrize("kind", [Config, SFTConfig, *OWN])
def test_each_says_what_it_means_in_one_line(kind):
    for key, field in leaf_fields(kind):
        assert field.description, key
        assert "\n" not in field.description, key
        assert len(field.description) <= 120, key
        assert field.description.endswith("."), key


def test_the_presets_are_those_that_can_be_named():
    assert get_args(PresetName) == tuple(PRESETS)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("run", "steps", 0),
        ("run", "steps", 5.0),
        ("run", "steps", True),
        ("run", "steps", "5"),
        ("run", "seed", -1),
        ("run", "device", "tpu"),
        ("sampling", "temperature", 0),
        ("sampling", "top_p", 0),
        ("sampling", "top_p", 1.1),
        ("sampling", "top_p", float("nan")),
        ("sampling", "min_p", 1),
        ("algorithm", "clip_low", 1.5),
        ("algorithm", "dual_clip", 1),
        ("algorithm", "gamma", 1.01),
        ("algorithm", "whiten_advantages", 1),
        ("algorithm", "preset", "pp0"),
        ("optimizer", "learning_rate", float("inf")),
        ("optimizer", "learning_rate", 0),
        ("optimizer", "betas", [0.9]),
        ("optimizer", "betas", [0.9, 0.99, 0.999]),
        ("kl", "target", 0),
        ("model", "path", None),
    ],
)
def test_values_out_of_range_or_of_another_type_are_errors(section, key, value):
    with pytest.raises(ValidationError) as caught:
        Config.model_validate({section: {key: value}})
    assert [error["loc"] for error in caught.value.errors()] == [(section, key)]


def test_a_whole_number_is_a_number():
    assert Config.model_validate({"algorithm": {"clip_high": 1}}).algorithm.clip_high == 1.0


def test_a_name_of_digits_is_a_name():
    assert Config.model_validate({"run": {"name": 2024}}).run.name == "2024"


def test_values_are_final():
    with pytest.raises(ValidationError, match="frozen"):
        Config().run.steps = 3


def test_no_torch_is_imported():
    code = "import sys, taut.config; print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ({"algorithm": {"epoch": 2}}, "did you mean epochs?"),
        ({"algoritm": {"epochs": 2}}, "did you mean algorithm?"),
        ({"optimizer": {"lr": 1}}, "did you mean learning_rate?"),
        ({"checkpoint": {"zzz": 1}}, "unknown key zzz; there are every, keep"),
    ],
)
def test_a_config_made_in_python_names_the_nearest_key_too(wrong, nearest):
    with pytest.raises(ValueError) as caught:
        Config(**wrong)
    assert nearest in str(caught.value)
    assert "http" not in str(caught.value)
