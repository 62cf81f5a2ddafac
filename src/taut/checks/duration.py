"""How long a step takes: floating-point operations by phase, over the speed of the machine. An estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from taut.checks.memory import Models, Setting, Shape
from taut.models.footprint import Footprint

MEASURED_SECONDS = 0.4
"""What a measurement of one speed takes."""


@dataclass(frozen=True)
class Machine:
    flops: float
    """Floating-point operations a second in matrix products."""
    bandwidth: float
    """Bytes a second from memory."""


@dataclass(frozen=True)
class Work:
    """What a step does, for each rank."""

    prompts: int
    replies: int
    scored: float
    """Passes without gradient by the policy, in batches: old logprobs."""
    epochs: int


@dataclass(frozen=True)
class PhaseTime:
    name: str
    formula: str
    flops: float
    seconds: float


def step_time(
    models: Models, shape: Shape, setting: Setting, work: Work, machine: Machine
) -> list[PhaseTime]:
    """Each phase of a step, every sequence at its longest. Rewards, communication and storage are not in it."""
    policy, critic = models.policy, models.critic or (models.policy if models.shared_critic else None)
    tokens, replied = work.replies * shape.width, work.replies * shape.reply
    phases = [_sampling(policy, shape, work, machine)] if shape.decoded else []

    def phase(name: str, formula: str, flops: float) -> None:
        if flops:
            phases.append(PhaseTime(name, formula, flops, flops / machine.flops))

    passes = work.scored + models.reference
    scored = tokens * forward_flops(policy, shape.width) + replied * 2 * policy.head
    phase("old and reference logprobs", f"{passes:.3g} forward passes", passes * scored)
    if critic is not None:
        phase("values", "1 forward pass", tokens * forward_flops(critic, shape.width))
    for name, model, head in (("policy's updates", policy, policy.head), ("critic's updates", critic, 0)):
        if model is None:
            continue
        frozen = model.adapted
        # Forward and, of each product, the gradients of its input and of its weight; layers again where recomputed.
        backbone, of_head = 2 + (not frozen) + setting.recompute, 3 + (not frozen)
        flops = tokens * backbone * forward_flops(model, shape.width) + replied * of_head * 2 * head
        phase(name, f"{work.epochs} epochs × {backbone} forward passes' work", work.epochs * flops)
    return phases


def forward_flops(model: Footprint, width: int) -> float:
    """Of one token in a sequence of `width` tokens: matrices, and attention to the half of them before it."""
    matrices = model.backbone - model.head  # the embedding, of the head's size, is looked up
    return 2 * matrices + 2 * width * model.attention_width * model.layers


def _sampling(policy: Footprint, shape: Shape, work: Work, machine: Machine) -> PhaseTime:
    """A token is decoded no faster than the weights and the cache can be read."""
    tokens = work.prompts * shape.prompt + work.replies * shape.reply
    flops = tokens * forward_flops(policy, shape.width) + work.replies * shape.reply * 2 * policy.head
    rounds = shape.reply * -(-work.replies // shape.decoded)
    cache = shape.decoded * shape.width * policy.cache_per_token * policy.weight_bytes / 2
    read = rounds * (policy.parameters * policy.weight_bytes + cache)
    seconds = max(flops / machine.flops, read / machine.bandwidth)
    bound = "reading weights and cache" if seconds > flops / machine.flops else "products"
    formula = f"{rounds} rounds of {shape.decoded} replies, bound by {bound}"
    return PhaseTime("sampling", formula, flops, seconds)


def machine_of(teraflops: object, bandwidth: object) -> Machine | None:
    """A machine given in 10¹² operations and 10⁹ bytes a second; None where neither is.

    Raises ValueError where one is missing or not a positive number.
    """
    if teraflops is None and bandwidth is None:
        return None
    speeds = []
    for name, value in (("teraflops", teraflops), ("bandwidth", bandwidth)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"--{name} is a number above 0, and comes with the other speed, not {value}")
        speeds.append(float(value))
    return Machine(speeds[0] * 1e12, speeds[1] * 1e9)


def measure_machine(device: str, hidden: int) -> Machine:
    """In a second, with matrices of the model's width."""
    x, weight = torch.randn(512, hidden, device=device), torch.randn(hidden, 4 * hidden, device=device)
    large, copy = torch.ones(2**24, device=device), torch.empty(2**24, device=device)
    products = _rate(lambda: x @ weight, device)
    copies = _rate(lambda: copy.copy_(large), device)
    return Machine(products * 2 * 512 * hidden * 4 * hidden, copies * 2 * 4 * 2**24)


def _rate(work: Callable[[], object], device: str) -> float:
    """Calls a second."""
    work()
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < MEASURED_SECONDS:
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        calls += 1
    return calls / elapsed
