import pytest
import torch

from taut.config import OptimizerConfig
from taut.models.policy import Policy
from taut.models.tiny import tiny_gpt2
from taut.training.non_finite import NonFiniteError
from taut.training.sft import Example, accumulate_cross_entropy, fine_tune

EXAMPLES = [Example([1, 2, 3], [4, 5, 12]), Example([6], [7]), Example([8, 9], [1, 2, 3, 4, 12])]


@pytest.fixture
def policy():
    return Policy(tiny_gpt2(13, end_id=12, seed=0, width=16, heads=2))


def gradients(policy):
    return torch.cat([p.grad.flatten() for p in policy.parameters()])


def test_the_loss_is_the_mean_over_completion_tokens_only(policy):
    by_hand, tokens = 0.0, 0
    for example in EXAMPLES:
        ids = torch.tensor([[*example.prompt_ids, *example.completion_ids]])
        logprobs = policy.model(ids).logits.double().log_softmax(-1)
        for t, token in enumerate(example.completion_ids):
            by_hand -= logprobs[0, len(example.prompt_ids) - 1 + t, token].item()
            tokens += 1
    assert accumulate_cross_entropy(policy, EXAMPLES, 8192) == pytest.approx(by_hand / tokens, rel=1e-5)


def test_cutting_the_batch_changes_neither_loss_nor_gradient(policy):
    whole = accumulate_cross_entropy(policy, EXAMPLES, 8192)
    expected = gradients(policy)
    policy.zero_grad()
    assert accumulate_cross_entropy(policy, EXAMPLES, 1) == pytest.approx(whole, rel=1e-5)
    torch.testing.assert_close(gradients(policy), expected, rtol=1e-5, atol=1e-6)


def test_fine_tuning_learns_its_examples_and_reports_each_step(policy):
    losses = []
    config = OptimizerConfig(learning_rate=1e-2)
    fine_tune(policy, lambda step: EXAMPLES, 60, config, 8192, lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == list(range(1, 61))
    assert losses[-1][1] < 0.1 * losses[0][1]


def test_a_loss_that_is_not_finite_stops_before_the_step(policy):
    with torch.no_grad():
        policy.model.get_output_embeddings().weight[0, 0] = float("nan")
    before = policy.model.transformer.wte.weight.clone()
    with pytest.raises(NonFiniteError, match="loss"):
        fine_tune(policy, lambda step: EXAMPLES, 1, OptimizerConfig(learning_rate=1e-2), 8192)
    assert torch.equal(policy.model.transformer.wte.weight, before)
