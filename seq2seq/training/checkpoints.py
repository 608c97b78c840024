"""Checkpoints: `best.ckpt` and `last.ckpt` to resume from, and snapshots of the weights to average.

All are written beside their place, synced and renamed into it, so that a full disk or a killed process leaves the
former file as it was. They hold plain types only and load with torch's `weights_only=True`.
"""

import os
import pickle
import time
import zipfile
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins import CheckpointIO
from torch import Tensor, nn

from seq2seq.errors import UserError
from seq2seq.training.module import TranslationModule

# What torch raises for files that are not its own, or are broken somewhere.
_UNREADABLE = (RuntimeError, ValueError, LookupError, TypeError, AttributeError, EOFError, OSError, MemoryError)


class AtomicCheckpointIO(CheckpointIO):
    """Saves and loads as this module's docstring says."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write a file, whole or not at all."""
        save(checkpoint, Path(path))

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a file onto the CPU, without running anything in it."""
        return load(Path(path))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a file."""
        Path(path).unlink(missing_ok=True)


def save(content: dict[str, Any], path: Path) -> None:
    """Write a file with torch, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            torch.save(content, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch turns an error of the disk into a RuntimeError of its own
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        raise UserError(f"cannot write {path} ({cause.strerror}); what was there before is intact") from error
    finally:
        if temporary.is_file():
            temporary.unlink()


def load(path: Path) -> dict[str, Any]:
    """Read a file of `save` onto the CPU.

    Raises:
        UserError: it is not there, or not a whole file of plain types.
    """
    try:
        _check_archive(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint {path}") from error
    except (*_UNREADABLE, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged or not a checkpoint of this program; take an unbroken copy") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a checkpoint of this program; take an unbroken copy")
    return content


def _check_archive(path: Path) -> None:
    """Raise BadZipFile unless a file holds what it says, uncompressed: reading it then takes no more than its size."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise zipfile.BadZipFile("torch compresses nothing")
        if sum(record.file_size for record in records) > path.stat().st_size:
            raise zipfile.BadZipFile("more than the whole file")


def is_resumable(checkpoint: dict[str, Any]) -> bool:
    """Whether this is, by its parts, the state of a training run of this program."""
    try:
        course = checkpoint["callbacks"]["Course"]
        batches = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]["processed"]
        optimizer = checkpoint["optimizer_states"][0]
        kinds = [
            *((checkpoint[name], kind) for name, kind in (("global_step", int), ("state_dict", dict))),
            *((course[name], int | float) for name in ("seconds", "target_tokens", "updates")),
            *((optimizer[name], kind) for name, kind in (("state", dict), ("param_groups", list))),
            *((course["corpus"], str), (batches, int), (checkpoint["lr_schedulers"], list)),
        ]
    except (LookupError, TypeError):
        return False
    return all(isinstance(value, kind) for value, kind in kinds)


def without_prefix(state: object) -> dict[str, Any]:
    """Return the model's weights in a Lightning module's state under the model's own names; of anything else, none."""
    found = state if isinstance(state, dict) else {}
    return {str(name).removeprefix("model."): tensor for name, tensor in found.items()}


def check_weights(path: Path, stored: object, model: nn.Module) -> dict[str, Tensor]:
    """Return a state dict if it is one of this model, in whatever precision; else raise UserError."""
    expected = {name: (item.shape, item.is_floating_point()) for name, item in model.state_dict().items()}
    found = stored if isinstance(stored, dict) else {}
    shapes = {name: (item.shape, item.is_floating_point()) for name, item in found.items() if isinstance(item, Tensor)}
    if len(shapes) != len(found) or shapes != expected:
        raise UserError(f"{path} does not hold the weights of this run's model; take an unbroken copy")
    return found


class Checkpoints:
    """The checkpoint folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.best = folder / "best.ckpt"
        self.last = folder / "last.ckpt"
        self._saved_at = time.monotonic()

    def start_clock(self) -> None:
        """Count the time to the next save from now."""
        self._saved_at = time.monotonic()

    def is_due(self, minutes: float) -> bool:
        """Whether the last save is so long ago."""
        return time.monotonic() - self._saved_at > 60 * minutes

    def save_last(self, trainer: L.Trainer) -> Path:
        """Save the state of training as `last.ckpt`."""
        trainer.save_checkpoint(self.last)
        self._saved_at = time.monotonic()
        return self.last

    def save(self, trainer: L.Trainer, *, is_best: bool, averaged: int) -> None:
        """Save after a validation: the state, as the best too if it is, and a snapshot if any are to be averaged."""
        if averaged > 1:
            module = trainer.lightning_module
            assert isinstance(module, TranslationModule)
            save(module.model.state_dict(), self.folder / f"snapshot-{trainer.global_step:08}.pt")
            for old in self.snapshots()[:-averaged]:
                old.unlink()
        if is_best:
            trainer.save_checkpoint(self.best)
        self.save_last(trainer)

    def snapshots(self) -> list[Path]:
        """Return the snapshots, oldest first."""
        return sorted(self.folder.glob("snapshot-*.pt"))

    def best_weights(self) -> dict[str, Tensor]:
        """Return the weights of the best validation."""
        return without_prefix(load(self.best).get("state_dict"))

    def average(self) -> dict[str, Tensor]:
        """Return the mean of the snapshots' weights."""
        paths = self.snapshots()
        total = {name: tensor.double() for name, tensor in load(paths[0]).items()}
        for path in paths[1:]:
            for name, tensor in load(path).items():
                total[name] += tensor
        return {name: tensor.div(len(paths)).float() for name, tensor in total.items()}
