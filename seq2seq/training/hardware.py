"""Which device and number format to train with, and what machine this is."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seq2seq.errors import UserError
from seq2seq.training.settings import Accelerator, Precision, TrainerConfig


class Hardware(NamedTuple):
    """What `trainer=auto` and `precision=auto` come down to here."""

    accelerator: str  # "cpu" or "cuda"
    precision: Precision

    def __str__(self) -> str:
        """Say it in words."""
        name = torch.cuda.get_device_name() if self.accelerator == "cuda" else f"CPU, {torch.get_num_threads()} threads"
        return f"{name}, {self.precision.name}"


def choose_hardware(settings: TrainerConfig) -> Hardware:
    """Return the device and the number format.

    Raises:
        UserError: a GPU is asked for and there is none, or a format that the device does not compute.
    """
    has_gpu = torch.cuda.is_available()
    if settings.accelerator is Accelerator.gpu and not has_gpu:
        raise UserError("trainer.accelerator=gpu, but there is no CUDA GPU here; use trainer=cpu or trainer=auto")
    accelerator = "cuda" if has_gpu and settings.accelerator is not Accelerator.cpu else "cpu"
    precision = settings.precision
    if precision is Precision.auto:
        precision = Precision.bf16_mixed if computes_bfloat16_fast(accelerator) else Precision.float32
    if accelerator == "cpu" and precision is Precision.fp16_mixed:
        raise UserError("trainer.precision=fp16_mixed needs a CUDA GPU; use bf16_mixed or float32 on a CPU")
    return Hardware(accelerator, precision)


def computes_bfloat16_fast(accelerator: str) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware: GPUs since Ampere, CPUs with AVX-512 BF16."""
    if accelerator == "cuda":
        return torch.cuda.get_device_capability() >= (8, 0)
    return torch.cpu._is_avx512_bf16_supported()


def machine() -> dict[str, Any]:
    """Return what a number's reader wants to know of the machine it was measured on."""
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return {"cpu": _cpu_name(), "threads": torch.get_num_threads(), "gpus": gpus, "system": platform.platform()}


def versions() -> dict[str, str]:
    """Return the versions of this package and of what its numbers depend on."""
    packages = ("seq2seq", "torch", "lightning", "sentencepiece", "sacrebleu")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _cpu_name() -> str:
    about = Path("/proc/cpuinfo")
    if about.exists():
        for line in about.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
