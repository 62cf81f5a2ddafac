"""What a run holds in memory, term by term: all the time, and on top of that in each phase of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from taut.models.footprint import Footprint
from taut.objective.logprobs import TILE_BYTES, TILE_TOKENS

FLOAT32 = 4
DRAW_BYTES = 8
"""Of each logit while a token is drawn: itself and its probability."""


@dataclass(frozen=True)
class Term:
    name: str
    formula: str
    """In words and numbers."""
    bytes: int


@dataclass(frozen=True)
class Phase:
    """What is held for a while."""

    name: str
    terms: tuple[Term, ...]

    @property
    def bytes(self) -> int:
        return sum(term.bytes for term in self.terms)


@dataclass(frozen=True)
class MemoryPlan:
    """One process's memory, without Python, torch and the libraries themselves."""

    held: Phase
    """From the end of the first step on."""
    phases: tuple[Phase, ...]
    """On top of what is held, one at a time."""

    @property
    def fullest(self) -> Phase:
        return max(self.phases, key=lambda phase: phase.bytes)

    @property
    def peak(self) -> int:
        return self.held.bytes + self.fullest.bytes

    @property
    def dominant(self) -> Term:
        """The largest term at the peak."""
        return max((*self.held.terms, *self.fullest.terms), key=lambda term: term.bytes)


@dataclass(frozen=True)
class Models:
    """What a run's models weigh. The critic is a backbone of its own, or an adapter on the policy's, or neither."""

    policy: Footprint
    critic: Footprint | None = None
    shared_critic: bool = False
    reference: bool = False
    """Whether a frozen copy of the policy is held; with an adapter the base is the reference."""
    reward_models: dict[str, int] = field(default_factory=dict)
    """Bytes of each, by name."""


@dataclass(frozen=True)
class Shape:
    """Numbers of sequences, and their lengths in tokens."""

    rows: int
    """Sequences of one forward pass of the learner."""
    minibatch: int
    """Sequences of one optimiser step."""
    decoded: int
    """Replies decoded at once; 0 where nothing is sampled."""
    prefilled: int
    """Prompts of theirs."""
    prompt: int
    reply: int
    shared: int = 1
    """Replies that the learner is fed in one row, behind their prompt."""

    @property
    def width(self) -> int:
        return self.prompt + self.reply


@dataclass(frozen=True)
class Setting:
    """How it is computed."""

    recompute: bool = False
    """Gradient checkpointing."""
    entropy_bonus: bool = False
    ranks: int = 1
    """Processes that share weights, gradients and moments in equal parts (FSDP)."""
    samplers_apart: bool = False
    """With several ranks: whether samplers have devices of their own."""
    ahead: int = 0
    """Steps that sampling runs ahead."""
    fused_optimizer: bool = False
    """Whether AdamW works on all tensors at once, as torch does on CUDA."""


def learner_memory(models: Models, shape: Shape, setting: Setting) -> MemoryPlan:
    """A rank of the learner, with the sampler in it unless that is apart."""
    phases = [_policy_update(models, shape, setting)]
    if models.critic is not None or models.shared_critic:
        phases.append(_critic_update(models, shape, setting))
    phases.append(_optimizer_step(models, setting))
    if shape.decoded and not setting.samplers_apart:
        whole = [_whole_weights(models.policy)] if setting.ranks > 1 else []
        phases += [Phase(p.name, (*whole, *p.terms)) for p in _sampling(models.policy, shape)]
    return MemoryPlan(Phase("held", tuple(_held(models, setting))), tuple(phases))


def sampler_memory(models: Models, shape: Shape) -> MemoryPlan:
    """A sampler on a device of its own."""
    held = Phase("held", (_whole_weights(models.policy),))
    return MemoryPlan(held, tuple(_sampling(models.policy, shape)))


def _held(models: Models, setting: Setting) -> list[Term]:
    policy, critic, ranks = models.policy, models.critic, setting.ranks
    terms = [_weights("policy weights", policy, ranks)]
    if policy.adapted:
        terms.append(_sharded("policy adapter", policy.trained, FLOAT32, ranks))
    terms.append(_sharded("policy moments", 2 * policy.trained, policy.trained_bytes, ranks))
    if setting.ahead:  # those of the batches that are not sampled yet, and of the one being sampled
        copies = setting.ahead + 1
        formula = f"{copies} copies × {_count(policy.trained)} × {policy.trained_bytes} B"
        terms.append(Term("weights sampled from", formula, copies * policy.trained * policy.trained_bytes))
    if models.reference and not policy.adapted:
        terms.append(_weights("reference", policy, ranks))
    if models.shared_critic:
        terms.append(_sharded("critic adapter", policy.trained, FLOAT32, ranks))
        terms.append(_sharded("critic moments", 2 * policy.trained, FLOAT32, ranks))
    elif critic is not None:
        terms.append(_sharded("critic weights", critic.backbone, critic.weight_bytes, ranks))
        terms.append(_sharded("critic moments", 2 * critic.backbone, critic.weight_bytes, ranks))
    terms += [Term(name, "weights", size) for name, size in models.reward_models.items()]
    return terms


def _policy_update(models: Models, shape: Shape, setting: Setting) -> Phase:
    """The backward pass of the minibatch's last micro-batch, while nothing that it kept is freed yet."""
    policy = models.policy
    terms = []
    if shape.minibatch > shape.rows:
        terms.append(_policy_gradients(policy, setting.ranks))
    terms += _activations(policy, shape, setting, unfed=1)  # of a reply its last token
    if not policy.adapted:
        formula = f"{_count(policy.vocabulary)} tokens × {policy.hidden} × {FLOAT32} B"
        terms.append(Term("gradient of the LM head", formula, policy.head * FLOAT32))
    terms.append(_logits(policy, shape.rows * shape.reply, setting.entropy_bonus))
    return Phase("policy's backward pass", tuple(terms + _gathered(policy, setting)))


def _critic_update(models: Models, shape: Shape, setting: Setting) -> Phase:
    critic = models.critic or models.policy
    terms = [_policy_gradients(models.policy, setting.ranks)]
    if shape.minibatch > shape.rows:
        terms.append(_critic_gradients(models, setting.ranks))
    terms += _activations(critic, shape, setting)
    return Phase("critic's backward pass", tuple(terms + _gathered(critic, setting)))


def _optimizer_step(models: Models, setting: Setting) -> Phase:
    policy = models.policy
    terms = [_policy_gradients(policy, setting.ranks)]
    if models.critic is not None or models.shared_critic:
        terms.append(_critic_gradients(models, setting.ranks))
    trained = [model for model in (policy, models.critic) if model is not None]
    if setting.fused_optimizer:
        count, what = max(model.trained for model in trained), "trained numbers"
    else:
        count, what = (
            2 * max(model.largest_trained for model in trained),
            "numbers, two of the largest matrix",
        )
    work = count // setting.ranks * FLOAT32
    terms.append(Term("AdamW at work", f"{_count(count)} {what} × {FLOAT32} B", work))
    return Phase("optimiser's step", tuple(terms))


def _sampling(policy: Footprint, shape: Shape) -> list[Phase]:
    per_token = policy.cache_per_token * policy.weight_bytes
    each = f"{per_token / 1e3:.1f} kB"
    prompts = shape.prefilled * shape.prompt * per_token
    tokens = shape.decoded * shape.width
    drawing = shape.decoded * policy.vocabulary * DRAW_BYTES
    prefill = (
        Term("KV cache of the prompts", f"{_count(shape.prefilled * shape.prompt)} tokens × {each}", prompts),
        _layer(policy, shape.prefilled, shape.prompt),
    )
    decode = (
        Term("KV cache", f"{shape.decoded} replies × {shape.width} tokens × {each}", tokens * per_token),
        Term("logits drawn from", f"{shape.decoded} × {_count(policy.vocabulary)} × {DRAW_BYTES} B", drawing),
    )
    return [Phase("prompts read by the sampler", prefill), Phase("replies decoded", decode)]


def _activations(model: Footprint, shape: Shape, setting: Setting, unfed: int = 0) -> list[Term]:
    rows, width = -(-shape.rows // shape.shared), shape.prompt + shape.shared * (shape.reply - unfed)
    tokens, kept, terms = rows * width, model.kept(rows, width), list[Term]()
    if shape.shared > 1:
        each = 2 if model.autocast else model.weight_bytes
        formula = f"{rows} rows × {_count(width)}² tokens × {each} B"
        terms.append(Term("mask of shared rows", formula, rows * width**2 * each))
    if not setting.recompute:
        formula = (
            f"{_count(tokens)} tokens × {model.layers} layers × {kept / tokens / model.layers / 1e3:.1f} kB"
        )
        return [*terms, Term("activations", formula, kept)]
    inputs = model.layers * tokens * model.hidden * model.weight_bytes
    formula = f"{_count(tokens)} tokens × {model.layers} layers × {model.hidden} × {model.weight_bytes} B"
    return [*terms, Term("inputs of the layers", formula, inputs), _layer(model, rows, width)]


def _layer(model: Footprint, rows: int, width: int) -> Term:
    kept = model.kept(rows, width) // model.layers
    formula = f"{_count(rows * width)} tokens × {kept / rows / width / 1e3:.1f} kB"
    return Term("one layer at work", formula, kept)


def _logits(policy: Footprint, tokens: int, entropy_bonus: bool) -> Term:
    """As `objective/logprobs.py` cuts them; the copies are those that its backward pass holds at once."""
    tile = min(TILE_TOKENS, tokens)
    words = min(policy.vocabulary, max(1, TILE_BYTES // (FLOAT32 * tile)))
    copies = 3 if entropy_bonus else 2
    formula = f"{copies} copies × {_count(tile)} tokens × {_count(words)} words × {FLOAT32} B"
    return Term("logits of a tile", formula, copies * tile * words * FLOAT32)


def _policy_gradients(policy: Footprint, ranks: int) -> Term:
    return _sharded("policy gradients", policy.trained, policy.trained_bytes, ranks)


def _critic_gradients(models: Models, ranks: int) -> Term:
    critic = models.critic
    if critic is None:
        return _sharded("critic gradients", models.policy.trained, models.policy.trained_bytes, ranks)
    return _sharded("critic gradients", critic.backbone, critic.weight_bytes, ranks)


def _gathered(model: Footprint, setting: Setting) -> list[Term]:
    """Under FSDP what runs is whole: a layer, the next one on its way, and the LM head from forward to backward."""
    if setting.ranks == 1:
        return []
    layer = (model.backbone - model.head) // model.layers
    count = 2 * layer + model.head
    return [Term("gathered weights", f"(2 layers + head = {_count(count)}) × {model.weight_bytes} B",
                 count * model.weight_bytes)]  # fmt: skip


def _whole_weights(policy: Footprint) -> Term:
    return _weights("sampler's weights", policy, 1)


def _weights(name: str, policy: Footprint, ranks: int) -> Term:
    shared = f" / {ranks} ranks" if ranks > 1 else ""
    each = f"{policy.bytes / policy.parameters:.3g} B"
    return Term(name, f"{_count(policy.parameters)} × {each}{shared}", -(-policy.bytes // ranks))


def _sharded(name: str, count: int, width: int, ranks: int) -> Term:
    shared = f" / {ranks} ranks" if ranks > 1 else ""
    return Term(name, f"{_count(count)} × {width} B{shared}", -(-count * width // ranks))


def size(count: int) -> str:
    """1234567 -> "1.2 MB"."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def _count(number: int) -> str:
    """1234567 -> 1.2 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if number >= size:
            scaled = number / (1e3 if unit == " k" else size)
            return f"{scaled:.1f}{unit}"
    return str(number)
