import math

import pytest
import torch
from torch import nn

from seq2seq.models.dropout import Dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.75])
def test_a_share_p_is_dropped_and_the_rest_keeps_the_mean(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x = torch.ones(1000, 1001, dtype=dtype)
    y = Dropout(p)(x)
    share = (y == 0).double().mean().item()
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / x.numel())
    assert y.dtype == dtype
    expected = torch.tensor(1 / (1 - round(p * 2**16) / 2**16)).to(dtype)
    torch.testing.assert_close(y[y != 0], expected.expand(int((y != 0).sum())), rtol=1e-7, atol=0)


def test_elements_are_dropped_independently_of_their_neighbours() -> None:
    torch.manual_seed(1)
    dropped = (Dropout(0.3)(torch.ones(2**20)) == 0).double() - 0.3
    for distance in (1, 2, 3, 4, 5, 8, 64):
        covariance = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert abs(covariance) < 5 * 0.21 / 2**10, distance


@pytest.mark.parametrize("place", range(4))
def test_each_quarter_of_a_random_number_is_as_likely_to_drop(place: int) -> None:
    torch.manual_seed(1)
    share = (Dropout(0.3)(torch.ones(2**20)) == 0).view(-1, 4)[:, place].double().mean().item()
    assert abs(share - 0.3) < 5 * math.sqrt(0.21 / 2**18)


def test_the_seed_decides_what_is_dropped() -> None:
    x = torch.ones(7, 11)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(Dropout(0.5)(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_the_gradient_is_dropped_and_scaled_alike() -> None:
    torch.manual_seed(1)
    x = torch.ones(40, 50, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y)


@pytest.mark.parametrize("dropout", [Dropout(0.5).eval(), Dropout(0.0)])
def test_nothing_is_dropped_in_eval_mode_or_at_zero(dropout: nn.Module) -> None:
    x = torch.randn(5)
    assert torch.equal(dropout(x), x)


def test_an_empty_tensor_stays_empty() -> None:
    assert Dropout(0.5)(torch.ones(0, 3)).shape == (0, 3)


def test_a_probability_near_one_keeps_its_scale_finite() -> None:
    torch.manual_seed(1)
    assert Dropout(0.999999)(torch.ones(1000, 1000)).max().item() == 2**16
