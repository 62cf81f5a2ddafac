"""The world's model learns, with a critic and without: the curve is judged, not a number of it."""

import numpy as np
import pytest

from taut.config import resolve
from taut.launch.local import train

SEED = 101


@pytest.mark.learning
@pytest.mark.parametrize("preset", ["ppo", "ppo-batch-mean", "grpo", "rloo"])
def test_careless_replies_become_right_ones(world_cache, tmp_path, preset):
    config, _ = resolve(
        {
            "run.root": str(tmp_path),
            "run.seed": SEED,
            "run.steps": 20,
            "algorithm.preset": preset,
            "eval.every": 20,
        }
    )
    run = train(config)
    _, rewards = run.series("reward/mean")
    _, accuracy = run.series("eval/accuracy")
    first, last = np.mean(rewards[:2]), np.mean(rewards[-5:])
    assert first < 0.5
    assert last > 0.65
    assert accuracy[-1] > accuracy[0] + 0.2, "what was learned holds for sums it never trained on"


@pytest.mark.learning
def test_one_epoch_is_the_plain_policy_gradient_and_never_clips(world_cache, tmp_path):
    config, _ = resolve({"run.root": str(tmp_path), "run.seed": SEED, "run.steps": 5, "algorithm.epochs": 1})
    _, shares = train(config).series("clip/binding")
    assert len(shares) == 5
    assert (shares == 0).all()


@pytest.mark.learning
def test_replies_sampled_a_step_ahead_teach_it_too(world_cache, tmp_path):
    config, _ = resolve(
        {
            "run.root": str(tmp_path),
            "run.seed": SEED,
            "run.steps": 20,
            "algorithm.max_staleness": 1,
            "eval.every": 20,
        }
    )
    run = train(config)
    _, rewards = run.series("reward/mean")
    _, accuracy = run.series("eval/accuracy")
    assert np.mean(rewards[-5:]) > np.mean(rewards[:2]) + 0.2
    assert accuracy[-1] > accuracy[0] + 0.1
