"""What stands in a pad reaches nothing: values, gradients and statistics are bit-identical whatever it is."""

import dataclasses
import math

import pytest
import torch

from taut.objective import advantage, kl, policy, reduce, value

CONSTANT = {"token": 20, "sequence": 5, "constant": 80}


def log_ratio(b):
    return policy.log_ratio(b["logprobs"], b["old_logprobs"], b["mask"])


def surrogate(b, **options):
    # Straight from the pads, without the gate in `log_ratio`: each function has its own.
    x = b["logprobs"] - b["old_logprobs"].detach()
    return policy.clipped_surrogate(x, b["advantages"], b["mask"], 0.2, 0.3, **options)


def cispo(b, **options):
    x = b["logprobs"] - b["old_logprobs"].detach()
    return policy.cispo(b["logprobs"], x, b["advantages"], b["mask"], 0.2, 0.3, **options)


def sapo(b, **options):
    x = b["logprobs"] - b["old_logprobs"].detach()
    return policy.sapo(x, b["advantages"], b["mask"], 0.2, 0.3, **options)


def dppo(b, **options):
    return policy.dppo(b["logprobs"], b["old_logprobs"], b["advantages"], b["mask"], 0.1, 0.1, **options)


def normalizer_state(b):
    normalizer = value.ValueNormalizer()
    normalizer.update(b["returns"], b["mask"])
    return normalizer.state_dict()


def baseline(name):
    # One reply a slot: `valid` is to a baseline what the mask is to tokens.
    def function(b):
        groups = torch.arange(b["mask"].numel()) % 4
        return getattr(advantage, name)(b["token_rewards"].flatten(), groups, b["mask"].flatten())

    return function


def rewards(b):
    """One a reply; the wholly masked reply's is a pad too."""
    return torch.where(b["mask"].any(-1), torch.arange(6.0), b["values"][:, 0])


def gae(b, **options):
    return advantage.gae(b["token_rewards"], b["values"], b["mask"], 0.9, 0.8, **options)


FUNCTIONS = {
    "masked": lambda b: reduce.masked(b["values"], b["mask"]),
    "masked_mean": lambda b: reduce.masked_mean(b["values"], b["mask"]),
    "masked_var": lambda b: reduce.masked_var(b["values"], b["mask"]),
    "masked_quantile": lambda b: reduce.masked_quantile(b["values"], b["mask"], 0.3),
    "whiten": lambda b: reduce.whiten(b["advantages"], b["mask"]),
    "whiten, mean kept": lambda b: reduce.whiten(b["advantages"], b["mask"], shift_mean=False),
    "log_ratio": log_ratio,
    "sequence_log_ratio": lambda b: policy.sequence_log_ratio(
        b["logprobs"] - b["old_logprobs"].detach(), b["mask"]
    ),
    "clipped_surrogate": surrogate,
    "clipped_surrogate, dual, weighted": lambda b: surrogate(b, dual_clip=1.5, weights=b["weights"]),
    "cispo": cispo,
    "cispo, weighted": lambda b: cispo(b, weights=b["weights"]),
    "sapo": sapo,
    "sapo, weighted": lambda b: sapo(b, weights=b["weights"]),
    "dppo": dppo,
    "dppo, weighted": lambda b: dppo(b, weights=b["weights"]),
    "clip_statistics": lambda b: policy.clip_statistics(surrogate(b, dual_clip=1.5).clip),
    "place_rewards": lambda b: advantage.place_rewards(rewards(b), b["mask"]),
    "gae": gae,
    "gae, critic": lambda b: gae(b, critic_lam=1.0),
    "value_loss": lambda b: value.value_loss(b["values"], b["old_values"], b["returns"], b["mask"]),
    "value_loss, clipped": lambda b: value.value_loss(
        b["values"], b["old_values"], b["returns"], b["mask"], 0.2
    ),
    "explained_variance": lambda b: value.explained_variance(b["values"], b["returns"], b["mask"]),
    "ValueNormalizer": normalizer_state,
    "approximate_kl": lambda b: kl.approximate_kl(b["logprobs"] - b["old_logprobs"], b["mask"], "k3"),
    "kl_penalized_rewards": lambda b: kl.kl_penalized_rewards(rewards(b), b["logprobs"], b["mask"], 0.1),
}
for name in CONSTANT:
    FUNCTIONS[f"reduce_loss, {name}"] = lambda b, name=name: reduce.reduce_loss(
        b["values"], b["mask"], name, CONSTANT[name]
    )
for name in ("batch_mean", "group_mean", "group_standardized", "leave_one_out", "global_normalized"):
    FUNCTIONS[name] = baseline(name)
for name in ("k1", "k2", "k3", "k3-straight-through", "k3-weighted"):
    FUNCTIONS[name] = lambda b, name=name: kl.token_kl(
        b["logprobs"], b["ref_logprobs"], b["mask"], name, b["logprobs"] - b["old_logprobs"].detach()
    )
for name in ("truncate", "mask"):
    for level in ("token", "sequence"):
        FUNCTIONS[f"importance_weights, {name}, {level}"] = lambda b, name=name, level=level: (
            policy.importance_weights(b["old_logprobs"], b["behavior_logprobs"], b["mask"], name, 1.3, level)
        )


def flatten(result):
    """Every tensor and number of a result, whatever it is made of."""
    if dataclasses.is_dataclass(result):
        return flatten([getattr(result, field.name) for field in dataclasses.fields(result)])
    if isinstance(result, dict):
        return flatten(list(result.values()))
    if isinstance(result, (list, tuple)):
        return [x for part in result for x in flatten(part)]
    return [result if isinstance(result, torch.Tensor) else torch.tensor(result)]


def outcome(function, batch, pad):
    """(results, gradients) with `pad` at every masked slot of every [B, T] input."""
    inputs = {
        name: torch.where(batch.mask, x, pad).float() if x.shape == batch.mask.shape else x
        for name, x in vars(batch).items()
        if name not in ("mask", "bootstrap_values")
    }
    leaves = [inputs[name].requires_grad_() for name in ("logprobs", "values")]
    results = flatten(function(inputs | {"mask": batch.mask}))
    live = [x.sum() for x in results if x.requires_grad]
    gradients = torch.autograd.grad(sum(live), leaves, allow_unused=True) if live else ()
    return results, [x for x in gradients if x is not None]


@pytest.mark.parametrize("pad", [math.nan, 1e6, -1e6, math.inf, -math.inf])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pads_reach_nothing(name, pad, make_batch):
    batch = make_batch(0)
    results, gradients = outcome(FUNCTIONS[name], batch, pad)
    clean_results, clean_gradients = outcome(FUNCTIONS[name], batch, 0.0)
    assert results
    for x, clean in zip(results + gradients, clean_results + clean_gradients, strict=True):
        assert torch.equal(x, clean)
        assert x.isfinite().all()
        if x.shape == batch.mask.shape:
            assert not x[~batch.mask].any(), "a [B, T] result and a gradient are 0 where masked"


def test_gradients_are_among_what_is_compared(make_batch):
    with_gradient = {name for name in FUNCTIONS if outcome(FUNCTIONS[name], make_batch(0), 0.0)[1]}
    assert {
        "log_ratio",
        "clipped_surrogate",
        "cispo",
        "sapo",
        "dppo",
        "value_loss",
        "k3",
        "reduce_loss, token",
    } <= with_gradient
