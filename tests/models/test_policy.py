"""Token logprobs and entropy: against the model's own logits, and at positions known by construction."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from taut.models.critic import Critic
from taut.models.policy import Policy
from taut.models.sequences import pad_sequences

PROMPTS = [(1, 2, 3), (4,), (5, 6, 7, 8, 9, 10, 11)]
REPLIES = [(3, 12), (7, 7, 7, 1, 2, 0), (12,)]


def unpadded(model, prompt, reply, temperature):
    """Logprobs and entropy of one reply from the model's own logits, in float64, without padding."""
    logits = copy.deepcopy(model).double()(input_ids=torch.tensor([[*prompt, *reply]])).logits[0]
    log_p = (logits[len(prompt) - 1 : -1] / temperature).log_softmax(-1)
    return log_p[torch.arange(len(reply)), list(reply)], -(log_p.exp() * log_p).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equals_the_models_own_logits(make_model, family, temperature):
    model = make_model(family)
    with torch.no_grad():
        logprobs, entropy = Policy(model)(pad_sequences(PROMPTS, REPLIES, "cpu"), temperature)
    for row, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        expected_logprobs, expected_entropy = unpadded(model, prompt, reply, temperature)
        torch.testing.assert_close(logprobs[row, : len(reply)].double(), expected_logprobs, atol=2e-5, rtol=0)
        torch.testing.assert_close(entropy[row, : len(reply)].double(), expected_entropy, atol=2e-5, rtol=0)
        assert (
            logprobs[row, len(reply) :].tolist()
            == entropy[row, len(reply) :].tolist()
            == [0] * (6 - len(reply))
        )


def test_gradients_equal_those_through_the_models_own_logits(make_model, family):
    model = make_model(family)
    logprobs, _ = Policy(model)(pad_sequences(PROMPTS, REPLIES, "cpu"), 1.0)
    logprobs.sum().backward()
    plain = copy.deepcopy(model).double()
    plain.zero_grad()
    for prompt, reply in zip(PROMPTS, REPLIES, strict=True):
        log_p = (
            plain(input_ids=torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        )
        log_p[torch.arange(len(reply)), list(reply)].sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        scale = theirs.grad.abs().max().item()
        torch.testing.assert_close(ours.grad.double(), theirs.grad, atol=1e-4 * (1 + scale), rtol=0, msg=name)


class Counting(nn.Module):
    """A language model over two tokens whose state at position p (from 0) gives token 0 probability (p+1)/(p+2)."""

    def __init__(self, positions: int = 16) -> None:
        super().__init__()
        self.config = GPT2Config(n_embd=positions, n_positions=positions, vocab_size=2)
        self.head = nn.Linear(positions, 2, bias=False)
        self.head.weight.data = torch.tensor([[math.log(p + 1) for p in range(positions)], [0.0] * positions])
        self.base_model = _OneHotPositions(self.config)

    def get_input_embeddings(self):
        return self.base_model.get_input_embeddings()

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, use_cache):
        return SimpleNamespace(logits=self.head(self.base_model(input_ids, use_cache).last_hidden_state))


class _OneHotPositions(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, config.n_embd)

    @property
    def base_model(self):
        return self

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, input_ids, use_cache):
        rows, length = input_ids.shape
        return SimpleNamespace(last_hidden_state=torch.eye(self.config.n_embd)[:length].expand(rows, -1, -1))


def test_reply_token_t_is_read_at_position_p_minus_1_plus_t():
    sequences = pad_sequences([(0, 0, 0), (0,)], [(0, 0), (0, 1, 0)], "cpu")
    logprobs, entropy = Policy(Counting())(sequences, 1.0)
    probabilities = logprobs.exp()
    assert probabilities[0, :2].tolist() == pytest.approx([3 / 4, 4 / 5])
    assert probabilities[1].tolist() == pytest.approx([1 / 2, 1 / 3, 3 / 4])
    assert entropy[1, 0].item() == pytest.approx(math.log(2))
    assert entropy[0, 0].item() == pytest.approx(2 * math.log(2) - 0.75 * math.log(3))


def test_values_are_read_where_the_logits_are_and_the_bootstrap_at_the_last_token():
    critic = Critic(_OneHotPositions(Counting().config))
    critic.head.weight.data = torch.arange(16.0)[None]  # the value at a position is the position
    values, at_end = critic(pad_sequences([(0, 0, 0), (0,)], [(0, 0), (0, 1, 0)], "cpu"))
    assert values.tolist() == [[2, 3, 0], [0, 1, 2]]
    assert at_end.tolist() == [4, 3]


def test_padding_among_longer_rows_changes_nothing(make_model, family):
    policy = Policy(make_model(family))
    critic = Critic.from_policy(policy)
    nn.init.normal_(critic.head.weight)
    alone = pad_sequences([PROMPTS[1]], [REPLIES[0]], "cpu")
    among = pad_sequences([PROMPTS[1], PROMPTS[2] * 3], [REPLIES[0], REPLIES[1] * 2], "cpu")
    with torch.no_grad():
        for module, arguments in ((policy, (1.0,)), (critic, ())):
            for ours, theirs in zip(module(alone, *arguments), module(among, *arguments), strict=True):
                theirs = theirs[0, :2] if theirs.dim() == 2 else theirs[0]
                torch.testing.assert_close(ours[0], theirs, atol=1e-5, rtol=0)


def test_critic_values_are_its_heads_on_the_unpadded_states(make_model):
    policy = Policy(make_model("Llama"))
    critic = Critic.from_policy(policy)
    nn.init.normal_(critic.head.weight)
    values, at_end = critic(pad_sequences(PROMPTS, REPLIES, "cpu"))
    for row, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        states = policy.model(
            input_ids=torch.tensor([[*prompt, *reply]]), output_hidden_states=True
        ).hidden_states[-1]
        expected = (states[0] @ critic.head.weight[0] + critic.head.bias).detach()
        torch.testing.assert_close(
            values[row, : len(reply)], expected[len(prompt) - 1 : -1], atol=1e-5, rtol=0
        )
        assert at_end[row].item() == pytest.approx(expected[-1].item(), abs=1e-5)


def test_a_critic_is_its_own_and_starts_at_zero(make_model):
    policy = Policy(make_model("GPT2"))
    critic = Critic.from_policy(policy)
    values, at_end = critic(pad_sequences(PROMPTS, REPLIES, "cpu"))
    assert not values.any()
    assert not at_end.any()
    before = policy.backbone.wte.weight.clone()
    with torch.no_grad():
        critic.backbone.wte.weight.zero_()
    assert torch.equal(policy.backbone.wte.weight, before)


def test_dropout_in_a_models_config_is_off_in_every_pass(make_model):
    model = make_model("GPT2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5).train()
    sequences = pad_sequences(PROMPTS, REPLIES, "cpu")
    policy = Policy(model)
    critic = Critic.from_policy(policy)
    nn.init.normal_(critic.head.weight)
    first, second = policy(sequences, 1.0)[0], copy.deepcopy(policy)(sequences, 1.0)[0]
    assert first.requires_grad
    assert torch.equal(first, second)
    assert torch.equal(critic(sequences)[0], critic(sequences)[0])


def test_a_family_with_an_unknown_head_is_refused(make_model):
    class Doubled(GPT2LMHeadModel):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = 2 * output.logits
            return output

    model = Doubled(make_model("GPT2").config)
    with pytest.raises(ValueError, match="Doubled makes its logits"):
        Policy(model)
