"""From a config to its plan: memory and time on paper, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from taut.checks.duration import Machine, PhaseTime, Work, measure_machine, step_time
from taut.checks.finding import Finding
from taut.checks.memory import FLOAT32, MemoryPlan, Models, Setting, Shape, learner_memory, sampler_memory
from taut.checks.preflight import memory_fits
from taut.config import WORLD, Config, DPOConfig, ModelConfig, check
from taut.config.reward import reward_terms
from taut.launch.models import weight_type
from taut.launch.quiet import quiet_libraries
from taut.launch.rewards import MODEL
from taut.launch.world import untrained_world_policy
from taut.models.adapter import check_adapter
from taut.models.footprint import Footprint
from taut.models.layout import Costs, lay_out
from taut.models.load import read_config
from taut.models.locate import check_is_model


@dataclass(frozen=True)
class Plan:
    memory: dict[str, MemoryPlan]
    """By process: `learner` and, where samplers have devices of their own, `sampler`."""
    time: list[PhaseTime]
    machine: Machine


def plan(
    config: Config | DPOConfig, ranks: int = 1, samplers_apart: bool = False, machine: Machine | None = None
) -> Plan:
    """Of a step with every prompt and reply at its longest. The speed is measured where none is given.

    Raises ValueError for a user's mistake.
    """
    quiet_libraries()
    check_adapter(config.model, config.lora)
    if isinstance(config, DPOConfig):
        models, shape, setting, work = _of_dpo(config, ranks)
    else:
        check(config)
        models, shape, setting, work = of_run(config, model_config(config.model), ranks, samplers_apart)
    memory = {"learner": learner_memory(models, shape, setting)}
    if samplers_apart:
        memory["sampler"] = sampler_memory(models, shape)
    if machine is None:
        machine = measure_machine("cuda" if setting.fused_optimizer else "cpu", models.policy.hidden)
    return Plan(memory, step_time(models, shape, setting, work, machine), machine)


def memory_finding(config: Config, longest_prompt: int, device: str) -> Finding:
    """Whether the plan, with the longest prompt there is, fits the memory that is free now."""
    data = config.data.model_copy(update={"max_prompt_tokens": longest_prompt})
    config = config.model_copy(update={"data": data})
    models, shape, setting, _ = of_run(config, model_config(config.model), ranks=1, samplers_apart=False)
    return memory_fits(learner_memory(models, shape, setting), free_memory(device))


def free_memory(device: str) -> int | None:
    """Bytes; None where the system does not say."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    facts = Path("/proc/meminfo")
    if not facts.is_file():
        return None
    available = next(line for line in facts.read_text().splitlines() if line.startswith("MemAvailable"))
    return int(available.split()[1]) * 1024


def of_run(config: Config, own: Any, ranks: int, samplers_apart: bool) -> tuple[Models, Shape, Setting, Work]:
    """What a plan is computed from, where `own` is transformers' config of the policy."""
    algorithm, critic = config.algorithm, config.algorithm.advantage == "gae"
    models = Models(
        policy=footprint(config, own, adapted=True),
        critic=footprint(config, _critic_config(config, own), adapted=False)
        if critic and not config.critic.shared
        else None,
        shared_critic=critic and config.critic.shared,
        reference=config.kl.placement != "none",
        reward_models={
            f"reward model {reference}": _weights_at(reference.removeprefix(MODEL), config)
            for _, reference in reward_terms(config.reward)
            if reference.startswith(MODEL)
        },
    )
    setting = Setting(
        recompute=config.model.gradient_checkpointing,
        entropy_bonus=algorithm.entropy_coefficient > 0,
        ranks=ranks,
        samplers_apart=samplers_apart,
        ahead=algorithm.max_staleness,
        fused_optimizer=_on_cuda(config),
    )
    work = Work(
        prompts=-(-algorithm.prompts_per_step // ranks),
        replies=-(-algorithm.prompts_per_step * algorithm.replies_per_prompt // ranks),
        scored=1 if config.kl.placement == "reward" else 1 - 1 / algorithm.minibatches,
        epochs=algorithm.epochs,
    )
    return models, _shape(config, own, work, models.policy.costs), setting, work


def _shape(config: Config, own: Any, work: Work, costs: Costs) -> Shape:
    """With the learner's fullest forward pass. In minibatches, drawn at random, replies count as if no two had a prompt
    in common."""
    algorithm, (prompt, reply) = config.algorithm, _longest(config, own)
    minibatch = -(-work.replies // algorithm.minibatches)
    group = algorithm.replies_per_prompt if algorithm.minibatches == 1 else 1
    prompts = [(number // group,) * prompt for number in range(minibatch)]
    passes = lay_out(prompts, [reply] * minibatch, costs, config.learner.micro_batch_tokens)
    fullest = max(passes, key=lambda fed: sum(len(row) for row in fed))
    prefilled = min(work.prompts, max(1, config.sampling.max_sequences // algorithm.replies_per_prompt))
    decoded = prefilled * algorithm.replies_per_prompt
    rows, shared = sum(len(row) for row in fullest), max(len(row) for row in fullest)
    return Shape(rows, minibatch, decoded, prefilled, prompt, reply, shared)


def _of_dpo(config: DPOConfig, ranks: int) -> tuple[Models, Shape, Setting, Work]:
    """No setting says how long replies are: here, as long as prompts. The reference's logprobs are taken once."""
    prompt = config.data.max_prompt_tokens
    minibatch = 2 * -(-config.dpo.batch_size // ranks)  # a pair is two sequences
    rows = min(minibatch, max(2, config.learner.micro_batch_tokens // (2 * prompt)))
    shape = Shape(rows, minibatch, decoded=0, prefilled=0, prompt=prompt, reply=prompt)
    setting = Setting(config.model.gradient_checkpointing, ranks=ranks, fused_optimizer=_on_cuda(config))
    work = Work(prompts=0, replies=minibatch, scored=0, epochs=1)
    return Models(footprint(config, model_config(config.model), adapted=True)), shape, setting, work


def _longest(config: Config, own: Any) -> tuple[int, int]:
    """Tokens of prompt and reply: what the settings allow, and the model's positions."""
    prompt, reply = config.data.max_prompt_tokens, config.longest_reply
    positions = getattr(own.get_text_config(), "max_position_embeddings", None)
    if positions is not None:
        reply = min(reply, positions - 1)
        prompt = min(prompt, positions - reply)
    return prompt, reply


def footprint(config: Config | DPOConfig, of: Any, adapted: bool) -> Footprint:
    """Of a model with transformers' config `of`, held as the run holds its own, with its adapter or without."""
    model = config.model
    return Footprint(
        of,
        weight_type(model),
        model.attention,
        config.lora if adapted and config.lora.rank else None,
        model.dtype == "bfloat16",
        model.trust_remote_code,
        four_bit=model.dtype == "nf4",
    )


def model_config(model: ModelConfig) -> Any:
    """transformers' config of `model.path`."""
    if model.path == WORLD:
        return untrained_world_policy(0).model.config
    check_is_model(model.path, model.gguf_file, trust_remote_code=model.trust_remote_code)
    return read_config(model.path, model.gguf_file, model.trust_remote_code)


def _critic_config(config: Config, own: Any) -> Any:
    if config.critic.path is None:
        return own
    return read_config(config.critic.path, None, config.model.trust_remote_code, "critic.path")


def _weights_at(path: str, config: Config) -> int:
    config_of_it = read_config(path, None, config.model.trust_remote_code, "reward")
    return FLOAT32 * Footprint(config_of_it).backbone


def _on_cuda(config: Config | DPOConfig) -> bool:
    return config.run.device != "cpu" and torch.cuda.is_available()
