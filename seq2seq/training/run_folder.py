"""The folder of a run: made or opened again, held by one process, and what a resumed run finds in it."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from seq2seq.errors import UserError
from seq2seq.models.interface import Seq2Seq
from seq2seq.training.checkpoints import check_weights, is_resumable, load, without_prefix
from seq2seq.training.lock import LOCK, is_locked, locked
from seq2seq.whole_file import whole_file

if TYPE_CHECKING:
    from seq2seq.config import TrainConfig

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
# What a process that was killed leaves in the folder.
_LEFT_OVERS = ("checkpoints/.*.tmp", "tests/*/.*.new", ".config.yaml.*.new", ".metrics.csv.*.new")


def open_run(config: "TrainConfig", may_rename: bool, held: ExitStack) -> Path:
    """Make the run's folder, or open it again, and write the settings to it; other processes are `held` off."""
    assert config.run_dir is not None
    run = Path(config.run_dir)
    if config.resume is None:
        names = (run, *(run.with_name(f"{run.name}-{n}") for n in range(2, 100))) if may_rename else (run,)
        run = next((name for name in names if _takes(name)), run)
        if is_locked(run):
            held.enter_context(locked(run))  # says by whom
        _check_empty(run, (path for path in run.iterdir() if path.name != LOCK))
        config.run_dir = str(run)
    held.enter_context(_writing_to(run))
    held.enter_context(locked(run))
    if config.resume is None:  # another process may have been faster
        _check_empty(run, (path for path in run.iterdir() if path.name != LOCK))
    for pattern in _LEFT_OVERS:
        for left in run.glob(pattern):
            left.unlink()
    settings = yaml.safe_dump({**config.plain(), "resume": None}, sort_keys=False, allow_unicode=True)
    with whole_file(run / "config.yaml") as fresh:
        fresh.write_text(settings, encoding="utf-8")
    return run


def _check_empty(run: Path, files: Iterable[Path]) -> None:
    if any(files):
        raise UserError(f"run_dir={run} is not empty: choose another folder, or go on with resume={run}")


@contextmanager
def _writing_to(run: Path) -> Iterator[None]:
    """Say in one line what is wrong with the disk, wherever in the run it shows."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise UserError(f"cannot write to {error.filename or run}: {error.strerror}") from error


def last_checkpoint(run: Path, model: Seq2Seq[Any, Any]) -> dict[str, Any]:
    """Return the checkpoint to go on from; a UserError if there is none, or one of another model or program."""
    path = run / "checkpoints" / "last.ckpt"
    if not path.exists():
        raise UserError(
            f"there is no checkpoint {path}: the run stopped before its first; delete {run} and start again"
        )
    checkpoint = load(path)
    if not is_resumable(checkpoint):
        raise UserError(f"{path} is not a checkpoint of this program; take an unbroken copy")
    check_weights(path, without_prefix(checkpoint["state_dict"]), model)
    return checkpoint


def _takes(run: Path) -> bool:
    """Make the folder of a new run; return whether it is ours, empty."""
    try:
        run.mkdir(parents=True)
    except FileExistsError:
        if not run.is_dir():
            raise UserError(f"run_dir={run} is a file: choose another name") from None
        return not any(run.iterdir())
    except OSError as error:
        raise UserError(f"cannot make run_dir={run}: {error.strerror}") from error
    return True
