"""The built-in world's fine-tuned model: made on first use, cached by the hash of its recipe and seed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from taut.config import OptimizerConfig
from taut.models.load import save_model
from taut.models.policy import Policy
from taut.models.tiny import character_tokenizer, tiny_gpt2
from taut.tasks.adder import CHARACTERS, END, adder_world, careless_answer
from taut.training.sft import Example, fine_tune


@dataclass(frozen=True)
class Recipe:
    """How the careless adder is fine-tuned. The learning rate stays constant: see `tiny_gpt2` for why."""

    steps: int = 800
    batch_size: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    warmup_steps: int = 20
    max_grad_norm: float = 1.0


def world_model_folder(
    seed: int, recipe: Recipe = Recipe(), on_step: Callable[[int, float], None] = lambda step, loss: None
) -> Path:
    """A transformers folder with the model fine-tuned for this seed; about ten seconds the first time."""
    key = json.dumps([asdict(recipe), seed, torch.__version__])
    folder = cache_directory() / "careless-adder" / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=folder.parent))
        _make(seed, recipe, beside, on_step)
        try:
            beside.rename(folder)
        except OSError:  # another process made the same model meanwhile
            shutil.rmtree(beside)
    return folder


def cache_directory() -> Path:
    """`$TAUT_CACHE`, else `taut` in the user's cache directory."""
    if given := os.environ.get("TAUT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taut"


def world_tokenizer() -> PreTrainedTokenizerBase:
    return character_tokenizer(CHARACTERS, END)


def _make(seed: int, recipe: Recipe, folder: Path, on_step: Callable[[int, float], None]) -> None:
    tokenizer = world_tokenizer()
    policy = Policy(tiny_gpt2(len(CHARACTERS), CHARACTERS.index(END), seed))
    rows = adder_world(seed).demonstrated
    rng = np.random.default_rng([seed, 1])

    def draw(step: int) -> Sequence[Example]:
        drawn = [rows[i] for i in rng.integers(len(rows), size=recipe.batch_size)]
        return [
            Example(tokenizer.encode(row["prompt"]), tokenizer.encode(careless_answer(row["answer"], rng)))
            for row in drawn
        ]

    optimizer = OptimizerConfig(
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        warmup_steps=recipe.warmup_steps,
        max_grad_norm=recipe.max_grad_norm,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        fine_tune(policy, draw, recipe.steps, optimizer, micro_batch_tokens=2**20, on_step=on_step)
    finally:
        torch.set_num_threads(threads)
    save_model(policy.model, tokenizer, folder)
