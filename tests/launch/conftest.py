"""A model folder, data and a reward function, as a user would bring them."""

import json

import pytest
import torch

from taut.models.save import save_model
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.adder import CHARACTERS, END

REWARDS = """
def score(prompts, completions, digit, **columns):
    return [float(d in completion) for completion, d in zip(completions, digit)]

def broken(prompts, completions, **columns):
    raise KeyError("oops")
"""


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def own(tmp_path):
    """Settings of a run on a tiny random model, a JSONL file and a reward of one's own."""
    save_model(
        tiny_gpt2(len(CHARACTERS), 12, seed=0, width=16, heads=2),
        character_tokenizer(CHARACTERS, END),
        tmp_path / "model",
    )
    rows = [
        {"prompt": f"{a}+{b}=", "digit": str(a), "answer": str(a + b)} for a in range(3) for b in range(3)
    ]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "held_out.jsonl").write_text("\n".join(map(json.dumps, rows[:3])))
    (tmp_path / "rewards.py").write_text(REWARDS)
    return {
        "run.root": str(tmp_path / "runs"),
        "run.name": "own",
        "run.steps": 2,
        "run.threads": 1,
        "model.path": str(tmp_path / "model"),
        "data.path": str(tmp_path / "prompts.jsonl"),
        "data.eval_path": str(tmp_path / "held_out.jsonl"),
        "reward": f"{tmp_path / 'rewards.py'}:score",
        "sampling.max_new_tokens": 4,
        "algorithm.prompts_per_step": 4,
        "algorithm.replies_per_prompt": 2,
        "optimizer.learning_rate": 1e-2,
    }  # fmt: skip
