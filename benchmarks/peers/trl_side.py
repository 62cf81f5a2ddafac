"""TRL's side: its trainer as it comes, held up between two batches by a callback. Runs in TRL's own environment.

python -m peers.trl_side WORK grpo|ppo MODEL-FOLDER SCRATCH-FOLDER

TRL is set to its quicker way where it offers two: no gradient checkpointing, no reports, no logging between batches,
the whole batch in one forward pass. Replies are as long as Taut's: GRPOTrainer's may not end before their last
token, PPOTrainer knows no end by default.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TrainerCallback,
)

from peers import work as works
from peers.protocol import Answer, Requests
from peers.work import Work

NEVER = 1_000_000
COMMON: dict[str, Any] = {
    "report_to": "none",
    "save_strategy": "no",
    "eval_strategy": "no",
    "logging_steps": NEVER,
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
    "fp16": False,
    "gradient_checkpointing": False,
    "learning_rate": works.LEARNING_RATE,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 1.0,
    "temperature": 1.0,
}


class Turns(TrainerCallback):
    """Waits before the first batch and after each; counts what it was made of."""

    def __init__(self, optimizer_steps_a_callback: int, epochs: int) -> None:
        self.requests = Requests()
        self.every = epochs // optimizer_steps_a_callback
        self.batch: Answer = {}
        self.optimizer_steps = 0
        register_optimizer_step_post_hook(self._count)

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self._wait()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if state.global_step % self.every == 0:
            self._wait()

    def _wait(self) -> None:
        if not self.requests.batch_done(lambda: {**self.batch, "optimizer_steps": self.optimizer_steps}):
            sys.exit()
        self.optimizer_steps = 0

    def _count(self, *_: Any) -> None:
        self.optimizer_steps += 1


def grpo(work: Work, model: str, folder: Path) -> Any:
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    turns = Turns(optimizer_steps_a_callback=1, epochs=work.epochs)
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        reward_funcs=works.score,
        args=GRPOConfig(
            output_dir=str(folder / "trl"),
            per_device_train_batch_size=work.prompts * work.replies,
            num_generations=work.replies,
            num_iterations=work.epochs,
            max_completion_length=work.new_tokens,
            generation_kwargs={"min_new_tokens": work.new_tokens},
            max_steps=NEVER,
            beta=0.0,
            epsilon=works.CLIP,
            loss_type="grpo",
            **COMMON,
        ),
        train_dataset=load_dataset("json", data_files=str(works.write_rows(work, folder)), split="train"),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[turns],
    )
    inner = trainer._generate_and_score_completions

    def counted(inputs: Any) -> Any:
        made = inner(inputs)
        turns.batch = {
            "replies": len(made["completion_ids"]),
            "prompt_tokens": int(made["prompt_mask"].sum()),
            "reply_tokens": int(made["completion_mask"].sum()),
        }
        return made

    trainer._generate_and_score_completions = counted
    return trainer


def ppo(work: Work, model: str, folder: Path) -> Any:
    from datasets import Dataset
    from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

    size = work.prompts * work.replies
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    # PPOTrainer samples one reply a prompt: each prompt stands there as often as it is to have replies.
    rows = [prompt for prompt in works.prompts_of(work) for _ in range(work.replies)]
    turns = Turns(optimizer_steps_a_callback=work.epochs, epochs=work.epochs)
    value_model = AutoModelForSequenceClassification.from_pretrained(model, num_labels=1, dtype=torch.float32)
    load = AutoModelForCausalLM.from_pretrained
    trainer = PPOTrainer(
        args=PPOConfig(
            output_dir=str(folder / "trl"),
            per_device_train_batch_size=size,
            local_rollout_forward_batch_size=size,
            num_ppo_epochs=work.epochs,
            num_mini_batches=1,  # with more, it averages statistics that it never filled in
            total_episodes=NEVER,
            num_sample_generations=0,
            response_length=work.new_tokens,
            kl_coef=works.KL_COEFFICIENT,
            cliprange=works.CLIP,
            cliprange_value=works.VALUE_CLIP,
            lam=works.LAMBDA,
            **COMMON,
        ),
        processing_class=tokenizer,
        model=load(model, dtype=torch.float32),
        ref_model=load(model, dtype=torch.float32),
        reward_model=DistinctIds(),
        value_model=value_model,
        train_dataset=Dataset.from_list([{"input_ids": encoded(tokenizer, prompt)} for prompt in rows]),
        callbacks=[turns],
    )
    inner = ppo_trainer.batch_generation

    def counted(policy: Any, queries: torch.Tensor, *rest: Any) -> Any:
        made = inner(policy, queries, *rest)
        new_tokens = made[0].shape[1] - queries.shape[1]
        turns.batch = {
            "replies": len(queries),
            "prompt_tokens": queries.numel(),
            "reply_tokens": len(queries) * new_tokens,
        }
        return made

    ppo_trainer.batch_generation = counted
    return trainer


def encoded(tokenizer: Any, prompt: works.Prompt) -> list[int]:
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


class DistinctIds(torch.nn.Module):
    """A reward in the shape of a reward model, which PPOTrainer asks for: how many different ids a row has.

    Its backbone hands on the ids in place of hidden states, and its head counts them.
    """

    base_model_prefix = "backbone"

    def backbone(self, input_ids: torch.Tensor, **rest: Any) -> Any:
        return SimpleNamespace(hidden_states=(input_ids,))

    def score(self, ids: torch.Tensor) -> torch.Tensor:
        rewards = torch.tensor([float(len(set(row))) for row in ids.tolist()])
        return rewards[:, None, None].expand(*ids.shape, 1)


def main() -> None:
    name, algorithm, model, scratch = sys.argv[1:]
    {"grpo": grpo, "ppo": ppo}[algorithm](works.named(name), model, Path(scratch)).train()


if __name__ == "__main__":
    main()
