import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.tokenizer import PAD
from seq2seq.errors import UserError
from seq2seq.training import loss
from seq2seq.training.loss import smoothed_cross_entropy
from seq2seq.training.optim import OptimConfig, OptimizerName, Schedule, build_optimizer, learning_rate_factor


@given(st.integers(1, 5000), st.integers(1, 20000))
def test_inverse_sqrt_is_the_formula_of_vaswani_scaled_to_a_peak_of_1(warmup: int, k: int) -> None:
    factor = learning_rate_factor(OptimConfig(schedule=Schedule.inverse_sqrt, warmup=warmup), 1)
    peak = warmup**-0.5
    assert factor(k - 1) == pytest.approx(min(k**-0.5, k * warmup**-1.5) / peak)


def test_cosine_falls_from_the_peak_to_zero() -> None:
    factor = learning_rate_factor(OptimConfig(schedule=Schedule.cosine, warmup=10), 110)
    assert factor(9) == 1.0
    assert factor(59) == pytest.approx(0.5)
    assert factor(109) == pytest.approx(0.0)
    assert factor(500) == pytest.approx(0.0)


@pytest.mark.parametrize("schedule", list(Schedule))
def test_the_first_update_moves_and_the_rate_peaks_at_the_end_of_the_warm_up(schedule: Schedule) -> None:
    factor = learning_rate_factor(OptimConfig(schedule=schedule, warmup=10), 1000)
    rates = [factor(step) for step in range(20)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == 1.0


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_loss_is_torchs_label_smoothed_cross_entropy_summed_over_real_tokens(smoothing: float) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 4, 11, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[5, 6, 3, PAD], [7, 3, PAD, PAD], [8, 9, 10, 3]])
    smoothed, plain = smoothed_cross_entropy(logits, targets, PAD, smoothing)
    flat = (logits.flatten(0, 1), targets.flatten())
    expected = F.cross_entropy(*flat, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(smoothed, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(plain, F.cross_entropy(*flat, ignore_index=PAD, reduction="sum").detach())
    ours, theirs = (torch.autograd.grad(loss, logits)[0] for loss in (smoothed, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_the_loss_does_not_depend_on_how_many_rows_are_worked_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(3, 5, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[5, 6, 3, PAD, PAD], [7, 3, PAD, PAD, PAD], [8, 9, 10, 4, 3]])
    at_once = smoothed_cross_entropy(logits, targets, PAD, 0.1)[0]
    monkeypatch.setattr(loss, "_CHUNK", 22)
    by_two = smoothed_cross_entropy(logits, targets, PAD, 0.1)[0]
    torch.testing.assert_close(by_two, at_once, rtol=0, atol=1e-10)
    ours, expected = (torch.autograd.grad(value, logits)[0] for value in (by_two, at_once))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)


def test_bfloat16_logits_lose_nothing_but_the_rounding_of_their_gradient() -> None:
    logits = torch.randn(2, 3, 50, generator=torch.Generator().manual_seed(1)).bfloat16().requires_grad_()
    targets = torch.tensor([[5, 6, 3], [7, 3, PAD]])
    wide = logits.detach().double().requires_grad_()
    ours, expected = (smoothed_cross_entropy(x, targets, PAD, 0.1)[0] for x in (logits, wide))
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=0)
    (gradient,), (exact,) = torch.autograd.grad(ours, logits), torch.autograd.grad(expected, wide)
    torch.testing.assert_close(gradient, exact.bfloat16(), rtol=0.01, atol=0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # One step from 3 down a gradient of 6 at lr 0.1, decay 0.5, by the rule of each paper.
        (OptimizerName.adam, 3 - 0.1),  # the first step of Adam is lr, whatever the gradient
        (OptimizerName.adamw, 3 * (1 - 0.1 * 0.5) - 0.1),
        (OptimizerName.sgd, 3 - 0.1 * (6 + 0.5 * 3)),
        (OptimizerName.adadelta, 3 - 0.1 * 7.5 * math.sqrt(1e-9) / math.sqrt(0.05 * 7.5**2 + 1e-9)),
    ],
)
def test_every_optimizer_makes_the_step_of_its_rule(name: OptimizerName, expected: float) -> None:
    weight = torch.nn.Parameter(torch.tensor([3.0], dtype=torch.float64))
    optimizer = build_optimizer([weight], OptimConfig(name=name, lr=0.1, weight_decay=0.5))
    (weight**2).sum().backward()
    optimizer.step()
    assert weight.item() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("lr", 0.0, "above 0"),
        ("lr", math.inf, "above 0"),
        ("beta1", 1.0, "at least 0 and below 1"),
        ("beta2", -0.1, "at least 0 and below 1"),
        ("eps", 0.0, "above 0"),
        ("weight_decay", -1.0, "at least 0"),
        ("warmup", -1, "at least 0"),
        ("plateau_factor", 1.0, "between 0 and 1"),
        ("plateau_patience", -1, "at least 0"),
        ("clip_norm", -1.0, "at least 0"),
        ("label_smoothing", 1.0, "at least 0 and below 1"),
        ("average_last", 0, "at least 1"),
    ],
)
def test_an_impossible_option_is_named_with_its_value_and_rule(option: str, value: float, rule: str) -> None:
    with pytest.raises(UserError, match=rf"optim\.{option}={value} must be {rule}"):
        OptimConfig(**{option: value})
