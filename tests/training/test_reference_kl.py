"""The KL to the reference: 0 before the first step, and steered by the adaptive controller."""

from __future__ import annotations

import pytest

from taut import Config, train
from taut.config import resolve
from taut.launch.world import untrained_world_policy, world_tokenizer
from taut.models.save import save_model


@pytest.fixture
def make_run(tmp_path):
    """Runs of a random model in the world, from a few prompts and to a reward that moves it."""
    save_model(untrained_world_policy(0).model, world_tokenizer(), tmp_path / "model")

    def run(**settings):
        base = {
            "run.root": str(tmp_path / "runs"),
            "run.threads": 1,
            "model.path": str(tmp_path / "model"),
            "sampling.max_new_tokens": 5,
            "optimizer.learning_rate": 1e-3,
            "eval.every": 0,
            "eval.limit": 2,
        }
        config: Config = resolve({**base, **{key.replace("__", "."): v for key, v in settings.items()}})[0]
        return train(config, reward=ends_early)

    return run


def ends_early(completions):
    return [-float(len(completion)) for completion in completions]


@pytest.mark.parametrize(
    ("preset", "estimator"), [("ppo", "k1"), ("rloo", "k1"), ("grpo", "k3"), ("reinforce++", "k1")]
)
def test_it_is_0_before_the_first_step_and_not_after_it(make_run, preset, estimator):
    run = make_run(algorithm__preset=preset, run__steps=2)
    _, first, second = run.scalars()
    for name in (f"kl/ref_{estimator}", f"kl/ref_{estimator}_reply"):
        assert first[name] == pytest.approx(0, abs=1e-6)
        assert abs(second[name]) > 1e-4


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_metric_names_its_estimator(make_run, estimator):
    run = make_run(algorithm__preset="rloo", run__steps=1, kl__estimator=estimator)
    assert f"kl/ref_{estimator}" in run.scalars()[1]


@pytest.mark.learning
@pytest.mark.parametrize("start", [5.0, 0.05])
def test_an_adaptive_coefficient_brings_the_kl_to_its_target(make_run, start):
    """From a coefficient that holds the policy still, and from one that lets it go: both end near the target."""
    target = 1.0
    run = make_run(
        algorithm__preset="rloo",
        run__steps=60,
        kl__coefficient=start,
        kl__target=target,
        kl__horizon=64,
    )
    steps = run.scalars()[1:]
    coefficients = [step["kl/coefficient"] for step in steps]
    assert coefficients[0] == start
    assert (coefficients[-1] < start) == (start == 5.0)
    late = [step["kl/ref_k1_reply"] for step in steps[-15:]]
    assert sum(late) / len(late) == pytest.approx(target, rel=0.5)
