"""The settings of the training loop and its logs."""

from dataclasses import dataclass
from enum import Enum

from seq2seq.errors import UserError


class Accelerator(Enum):
    """Where to train."""

    auto = "auto"  # a CUDA GPU if there is one, else the CPU
    cpu = "cpu"
    gpu = "gpu"


class Precision(Enum):
    """The number format of training."""

    auto = "auto"  # bf16_mixed where the hardware computes it fast, else float32
    float32 = "32-true"
    bf16_mixed = "bf16-mixed"
    fp16_mixed = "16-mixed"


@dataclass
class TrainerConfig:
    """How long, how much at a time, and where.

    Attributes:
        max_epochs: passes over the training pairs.
        max_steps: stop after so many optimizer steps, if that comes first.
        max_minutes: stop after so many minutes of training, if that comes first.
        batch_tokens: tokens of a batch, padding counted: rows times the longest sentence of either side.
        accumulate_grad_batches: batches that share one update.
        validate_every: optimizer steps from validation to validation; left open: once an epoch.
        patience: stop after so many validations without a better BLEU; left open: never.
        checkpoint_minutes: save the state for resuming at least this often.
        accelerator: auto, cpu or gpu.
        devices: processes on this machine that train together, each on a GPU of its own or on its share of the CPU; an
            update takes accumulate_grad_batches batches of each. torchrun and srun start processes themselves.
        precision: auto, float32, bf16_mixed or fp16_mixed.
        num_workers: processes that prepare batches; 0 = none beside the training process.
    """

    max_epochs: int = 20
    max_steps: int | None = None
    max_minutes: float | None = None
    batch_tokens: int = 2048
    accumulate_grad_batches: int = 1
    validate_every: int | None = None
    patience: int | None = None
    checkpoint_minutes: float = 15.0
    accelerator: Accelerator = Accelerator.auto
    devices: int = 1
    precision: Precision = Precision.auto
    num_workers: int = 0

    def __post_init__(self) -> None:
        names = ("max_epochs", "max_steps", "batch_tokens", "accumulate_grad_batches", "validate_every", "patience")
        for name in (*names, "devices"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"trainer.{name}={value} must be at least 1")
        for name in ("max_minutes", "checkpoint_minutes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"trainer.{name}={value} must be above 0")
        if self.num_workers < 0:
            raise UserError(f"trainer.num_workers={self.num_workers} must be at least 0")


@dataclass
class LoggerConfig:
    """What is written down during training; metrics.csv always is.

    Attributes:
        tensorboard: write TensorBoard events as well.
        every: optimizer steps from one training entry to the next.
        samples: validation sentences whose translations are shown.
    """

    tensorboard: bool = True
    every: int = 20
    samples: int = 3

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UserError(f"logger.every={self.every} must be at least 1")
        if self.samples < 0:
            raise UserError(f"logger.samples={self.samples} must be at least 0")
