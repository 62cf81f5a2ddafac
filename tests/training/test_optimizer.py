import pytest
import torch

from taut.config import OptimizerConfig
from taut.training.non_finite import NonFiniteError
from taut.training.optimizer import clip_gradients, learning_rate_factor


@pytest.mark.parametrize(
    ("schedule", "warmup", "expected"),
    [
        ("constant", 0, [1, 1, 1, 1]),
        ("constant", 2, [0.5, 1, 1, 1]),
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("linear", 2, [0.5, 1, 1, 0.5]),
        ("cosine", 0, [1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2]),
        ("cosine", 4, [0.25, 0.5, 0.75, 1]),
    ],
)
def test_the_course_of_the_learning_rate(schedule, warmup, expected):
    config = OptimizerConfig(schedule=schedule, warmup_steps=warmup)
    assert [learning_rate_factor(step, 4, config) for step in (1, 2, 3, 4)] == pytest.approx(expected)


def parameter(gradient):
    p = torch.nn.Parameter(torch.zeros(len(gradient)))
    p.grad = torch.tensor(gradient)
    return p


def test_a_long_gradient_is_scaled_down_and_its_norm_told():
    p = parameter([3.0, 4.0])
    assert clip_gradients([p], max_norm=1.0) == pytest.approx(5.0)
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


@pytest.mark.parametrize("max_norm", [None, 10.0])
def test_a_short_gradient_stays(max_norm):
    p = parameter([3.0, 4.0])
    assert clip_gradients([p], max_norm) == pytest.approx(5.0)
    assert p.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_refused(bad):
    with pytest.raises(NonFiniteError, match="norm"):
        clip_gradients([parameter([1.0]), parameter([bad])], max_norm=1.0)
