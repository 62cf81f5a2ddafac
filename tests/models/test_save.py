"""What is saved loads back: critics with their values, generation configs as they came."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoModel

from taut.config import LoraConfig
from taut.models.adapter import add_adapter
from taut.models.critic import Critic
from taut.models.load import load_backbone
from taut.models.policy import Policy
from taut.models.save import load_value_head, save_critic
from taut.models.sequences import pad_sequences

SEQUENCES = pad_sequences([(1, 2, 3), (4,)], [(3, 12), (7, 7, 1, 2)], "cpu")


@pytest.fixture(params=["own", "shared"])
def critic(request, make_model):
    """One that has learned something, on a backbone of its own or as an adapter on the policy's."""
    model = make_model("Llama")
    if request.param == "own":
        critic = Critic.from_policy(Policy(model))
    else:
        critic = Critic.on_base_of(Policy(model, add_adapter(model, LoraConfig(rank=2))))
    for parameter in critic.trained_parameters():
        nn.init.normal_(parameter, 0, 0.3)
    return critic


@torch.no_grad()
def test_a_saved_critic_gives_the_same_values_in_units_of_reward(critic, tmp_path):
    values, at_end = critic(SEQUENCES)
    save_critic(critic, tmp_path, mean=3.0, std=2.0)
    loaded = Critic(load_backbone(str(tmp_path)))
    load_value_head(loaded, tmp_path)
    again, again_at_end = loaded(SEQUENCES)
    mask = SEQUENCES.reply_mask
    torch.testing.assert_close(again[mask], 3.0 + 2.0 * values[mask], rtol=0, atol=1e-4)
    torch.testing.assert_close(again_at_end, 3.0 + 2.0 * at_end, rtol=0, atol=1e-4)


def test_its_backbone_is_a_plain_folder_of_safetensors(critic, tmp_path):
    save_critic(critic, tmp_path)
    _, info = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    files = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert {"model.safetensors", "value_head.safetensors"} <= files
    assert not [name for name in files if name.endswith((".pt", ".bin"))]


def test_a_folder_without_a_value_head_leaves_it_at_zero(make_model, tmp_path):
    critic = Critic.from_policy(Policy(make_model("GPT2")))
    load_value_head(critic, tmp_path)
    assert not critic.head.weight.any()
