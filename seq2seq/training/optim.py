"""Optimizers and learning-rate schedules, and their settings."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import torch

from seq2seq.errors import UserError


class OptimizerName(Enum):
    """The update rule."""

    adam = "adam"  # Kingma and Ba 2015
    adamw = "adamw"  # Loshchilov and Hutter 2019
    adadelta = "adadelta"  # Zeiler 2012, as in Bahdanau et al. 2015
    sgd = "sgd"  # without momentum, as in Sutskever et al. 2014 and Luong et al. 2015


class Schedule(Enum):
    """How the learning rate changes; see `learning_rate_factor`."""

    constant = "constant"
    inverse_sqrt = "inverse_sqrt"
    cosine = "cosine"
    plateau = "plateau"


@dataclass
class OptimConfig:
    """What is minimised, and how.

    Attributes:
        name: adam, adamw, adadelta or sgd.
        lr: the peak learning rate.
        beta1: decay of the mean of gradients; adam and adamw only, as beta2 is.
        beta2: decay of the mean of squared gradients.
        eps: added to the denominator; not of sgd.
        weight_decay: pulls weights to zero; adamw's is apart from the gradient, the others' is part of it.
        schedule: constant, inverse_sqrt, cosine or plateau.
        warmup: optimizer steps over which the rate rises linearly to its peak; any schedule.
        plateau_factor: schedule=plateau multiplies the rate by this ...
        plateau_patience: ... after more than so many validations without a better BLEU.
        clip_norm: the gradient's norm is scaled down to this; 0 = never.
        label_smoothing: share of the probability spread evenly over the vocabulary, Szegedy et al. 2016.
        average_last: the weights of so many last validations are averaged at the end, where that does not lower
            validation BLEU; 1 = no averaging.
    """

    name: OptimizerName = OptimizerName.adam
    lr: float = 2e-3
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0
    schedule: Schedule = Schedule.inverse_sqrt
    warmup: int = 1000
    plateau_factor: float = 0.5
    plateau_patience: int = 1
    clip_norm: float = 1.0
    label_smoothing: float = 0.1
    average_last: int = 5

    def __post_init__(self) -> None:
        _check("lr", self.lr, 0 < self.lr < math.inf, "above 0")
        _check("beta1", self.beta1, 0 <= self.beta1 < 1, "at least 0 and below 1")
        _check("beta2", self.beta2, 0 <= self.beta2 < 1, "at least 0 and below 1")
        _check("eps", self.eps, self.eps > 0, "above 0")
        _check("weight_decay", self.weight_decay, self.weight_decay >= 0, "at least 0")
        _check("warmup", self.warmup, self.warmup >= 0, "at least 0")
        _check("plateau_factor", self.plateau_factor, 0 < self.plateau_factor < 1, "between 0 and 1")
        _check("plateau_patience", self.plateau_patience, self.plateau_patience >= 0, "at least 0")
        _check("clip_norm", self.clip_norm, self.clip_norm >= 0, "at least 0 (0 = no clipping)")
        _check("label_smoothing", self.label_smoothing, 0 <= self.label_smoothing < 1, "at least 0 and below 1")
        _check("average_last", self.average_last, self.average_last >= 1, "at least 1 (1 = no averaging)")


def _check(name: str, value: float, holds: bool, rule: str) -> None:
    if not holds:
        raise UserError(f"optim.{name}={value} must be {rule}")


def build_optimizer(
    parameters: Iterable[torch.nn.Parameter], config: OptimConfig, *, fused: bool = True
) -> torch.optim.Optimizer:
    """Return the optimizer that a configuration describes; `fused`: Adam's update is one pass over all numbers."""
    if config.name is OptimizerName.adadelta:
        return torch.optim.Adadelta(
            parameters, lr=config.lr, rho=0.95, eps=config.eps, weight_decay=config.weight_decay
        )
    if config.name is OptimizerName.sgd:
        return torch.optim.SGD(parameters, lr=config.lr, weight_decay=config.weight_decay)
    adam = torch.optim.Adam if config.name is OptimizerName.adam else torch.optim.AdamW
    betas = (config.beta1, config.beta2)
    return adam(parameters, lr=config.lr, betas=betas, eps=config.eps, weight_decay=config.weight_decay, fused=fused)


def learning_rate_factor(config: OptimConfig, total_steps: int) -> Callable[[int], float]:
    """Return the function from the number of optimizer steps taken to what multiplies `lr` in the next one.

    With k = steps taken + 1, so that the first update already moves:
    inverse_sqrt: min(k / warmup, sqrt(warmup / k)), Vaswani et al. 2017, eq. 3, scaled to a peak of 1;
    cosine: from 1 after the warm-up to 0 after `total_steps`, Loshchilov and Hutter 2017;
    constant, plateau: 1 after the warm-up (plateau lowers it at validations).
    """
    warmup = max(1, config.warmup)

    def factor(steps_taken: int) -> float:
        k = steps_taken + 1
        if k < warmup:
            return k / warmup
        if config.schedule is Schedule.inverse_sqrt:
            return math.sqrt(warmup / k)
        if config.schedule is Schedule.cosine:
            progress = min(1.0, (k - warmup) / max(1, total_steps - warmup))
            return 0.5 * (1 + math.cos(math.pi * progress))
        return 1.0

    return factor
