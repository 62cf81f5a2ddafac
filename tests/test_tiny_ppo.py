"""The blackboard version of PPO takes the library's steps."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from taut import Config
from taut.models.policy import Policy
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.objective.policy import cat_clip_states, clip_statistics
from taut.training.advantages import estimate_advantages
from taut.training.batch import collate
from taut.training.learner import LocalLearner
from taut.training.ppo import make_schedule
from taut.types import Prompt, Rollout, Score

PROMPTS, SAMPLES = 6, 4
FILE = Path(__file__).parents[1] / "examples" / "tiny_ppo.py"


@pytest.fixture
def tiny_ppo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiny_ppo", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Adam divides a gradient by its own size, so where one is 0 but for rounding, float32 would compare noise."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


class Logits(nn.Module):
    """The library's model as `tiny_ppo` calls one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids, use_cache=False).logits


def make_rollouts(end: int) -> list[Rollout]:
    """Replies of 1 to 5 tokens; those of five are cut."""
    rng = np.random.default_rng(0)
    rollouts = []
    for index in range(PROMPTS):
        prompt = Prompt(index, "", tuple(int(i) for i in rng.integers(0, end, 6)))
        for sample in range(SAMPLES):
            length = int(rng.integers(1, 6))
            ids = [int(i) for i in rng.integers(0, end, length)]
            if length < 5:
                ids[-1] = end
            reason = "stop" if length < 5 else "length"
            rollouts.append(Rollout(prompt, sample, tuple(ids), "", np.zeros(length), reason))
    return rollouts


def padded(rollouts: list[Rollout], end: int) -> Tensor:
    return torch.tensor([[*rollout.ids, *[end] * (5 - len(rollout.ids))] for rollout in rollouts])


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("epochs", "clip"), [(1, 0.2), (4, 0.2), (8, 0.05)])
def test_its_update_is_the_librarys(tiny_ppo: ModuleType, epochs: int, clip: float) -> None:
    characters, end = tiny_ppo.CHARACTERS, tiny_ppo.END
    rollouts = make_rollouts(end)
    rewards = np.random.default_rng(1).integers(0, 2, len(rollouts)).astype(float)
    ours = tiny_gpt2(len(characters), end, seed=0).double()
    its = copy.deepcopy(ours)

    config = Config.model_validate(
        {
            "algorithm": {
                "preset": "ppo-batch-mean",
                "prompts_per_step": PROMPTS,
                "replies_per_prompt": SAMPLES,
                "epochs": epochs,
                "clip_low": clip,
                "clip_high": clip,
            },
            "optimizer": {"learning_rate": 3e-4},
            "learner": {"micro_batch_tokens": 60},  # several micro-batches, where tiny_ppo has one batch
        }
    )
    learner = LocalLearner(Policy(ours), None, character_tokenizer(characters, ";"), config)
    batch = collate(rollouts, [Score(float(reward)) for reward in rewards])
    schedule = make_schedule(config, batch.size, step=1, kl_coefficient=0.0)
    batch = estimate_advantages(learner.score(batch, schedule), config, kl_coefficient=0.0)
    trace = learner.update(batch, schedule)

    replies = padded(rollouts, end)
    mask = torch.arange(5) < batch.reply_lengths[:, None]
    prompts = torch.tensor([rollout.prompt.ids for rollout in rollouts])
    its_rewards = torch.tensor(rewards)
    optimizer = torch.optim.Adam(its.parameters(), lr=config.optimizer.learning_rate)
    clipped = tiny_ppo.clipped_update(
        Logits(its), optimizer, prompts, replies, mask, its_rewards - its_rewards.mean(), epochs, clip
    )

    before = tiny_gpt2(len(characters), end, seed=0).state_dict()
    for name, parameter in its.state_dict().items():
        torch.testing.assert_close(parameter, ours.state_dict()[name], rtol=1e-6, atol=1e-9)
    assert any(not torch.allclose(its.state_dict()[name], before[name].double()) for name in before)
    share = clip_statistics(cat_clip_states([step.clip for step in trace.steps]))["clip/binding"]
    assert clipped == pytest.approx(share, abs=1e-6)
    assert (0 < clipped < 1) if epochs > 1 else clipped == 0


def test_its_mask_ends_with_the_end_mark(tiny_ppo: ModuleType) -> None:
    end = tiny_ppo.END
    replies = torch.tensor([[6, 8, end, 1, end], [end, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    assert tiny_ppo.until_the_end(replies).sum(1).tolist() == [3, 1, 5]


def test_its_model_sees_no_later_token(tiny_ppo: ModuleType) -> None:
    torch.manual_seed(0)
    model = tiny_ppo.TinyTransformer()
    ids = torch.tensor([tiny_ppo.encode("23+45=68;")])
    changed = ids.clone()
    changed[0, -1] = 0
    torch.testing.assert_close(model(ids)[:, :-1], model(changed)[:, :-1])


def test_it_fits_a_blackboard() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert "taut" not in [
        line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))
    ]
