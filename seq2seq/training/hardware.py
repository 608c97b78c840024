"""Which device and number format to train with, and what machine this is."""

import logging
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seq2seq import __version__
from seq2seq.errors import UserError
from seq2seq.training.processes import Processes
from seq2seq.training.settings import Accelerator, Precision, TrainerConfig

logger = logging.getLogger(__name__)


class Hardware(NamedTuple):
    """What `trainer=auto` and `precision=auto` come down to here."""

    accelerator: str  # "cpu" or "cuda"
    precision: Precision
    processes: int

    def __str__(self) -> str:
        """Say it in words."""
        name = torch.cuda.get_device_name() if self.accelerator == "cuda" else f"CPU, {torch.get_num_threads()} threads"
        return f"{name}, {self.precision.name}" + (f", {self.processes} processes" if self.processes > 1 else "")

    def going_on(self, checkpoint: dict[str, Any] | None) -> "Hardware":
        """Return this with the number format that a run was begun in, which `auto` may not be here and now."""
        begun = None if checkpoint is None else checkpoint["callbacks"]["Course"].get("precision")
        if begun in (None, self.precision.name):  # runs of before have none
            return self
        logger.warning(
            "this run was begun in %s: it goes on so, though precision=auto means %s here", begun, self.precision.name
        )
        return self._replace(precision=Precision[begun])


def choose_hardware(settings: TrainerConfig, outside: Processes | None = None) -> Hardware:
    """Return the device, the number format and the number of processes.

    Args:
        settings: what is asked for.
        outside: this process, if it is one of several that torchrun or srun have started.

    Raises:
        UserError: more GPUs are asked for than there are, or a format that the device does not compute, or a number of
            processes that contradicts torchrun or srun.
    """
    if outside is not None and settings.devices not in (1, outside.world):
        raise UserError(
            f"trainer.devices={settings.devices}, but {outside.launcher} has started {outside.world} processes: leave "
            "trainer.devices out"
        )
    has_gpu = torch.cuda.is_available()
    if settings.accelerator is Accelerator.gpu and not has_gpu:
        raise UserError("trainer.accelerator=gpu, but there is no CUDA GPU here; use trainer=cpu or trainer=auto")
    accelerator = "cuda" if has_gpu and settings.accelerator is not Accelerator.cpu else "cpu"
    on_this_machine = settings.devices if outside is None else outside.local_rank + 1
    if accelerator == "cuda" and on_this_machine > torch.cuda.device_count():
        raise UserError(
            f"{on_this_machine} processes need a GPU each, and there are {torch.cuda.device_count()} here: lower "
            "trainer.devices, or use trainer=cpu"
        )
    precision = settings.precision
    if precision is Precision.auto:
        precision = Precision.bf16_mixed if computes_bfloat16_fast(accelerator) else Precision.float32
    if accelerator == "cpu" and precision is Precision.fp16_mixed:
        raise UserError("trainer.precision=fp16_mixed needs a CUDA GPU; use bf16_mixed or float32 on a CPU")
    return Hardware(accelerator, precision, settings.devices if outside is None else outside.world)


def computes_bfloat16_fast(accelerator: str) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware: GPUs since Ampere, CPUs with AVX-512 BF16."""
    if accelerator == "cuda":
        return torch.cuda.get_device_capability() >= (8, 0)
    return torch.cpu._is_avx512_bf16_supported()


def bound_kernel_cache() -> None:
    """Let oneDNN and torch, which multiply bfloat16 on CPUs, keep the kernels of a step or so; before they multiply.

    Each keeps 1,024, one for each shape, of some hundred kilobytes. Batches are of so many shapes that hardly one is
    met again: that was over half a gigabyte, and no faster.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, "16")


def machine() -> dict[str, Any]:
    """Return what a number's reader wants to know of the machine it was measured on."""
    gpus = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return {"cpu": _cpu_name(), "threads": torch.get_num_threads(), "gpus": gpus, "system": platform.platform()}


def versions() -> dict[str, str]:
    """Return the versions of this package and of what its numbers depend on."""
    packages = ("torch", "lightning", "sentencepiece", "sacrebleu")
    own = {"python": platform.python_version(), "seq2seq": __version__}
    return {**own, **{name: version(name) for name in packages}}


def _cpu_name() -> str:
    about = Path("/proc/cpuinfo")
    if about.exists():
        for line in about.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
