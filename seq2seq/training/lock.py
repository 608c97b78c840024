"""One process at a time in a run folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2seq.errors import UserError

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"


def is_locked(run: Path) -> bool:
    """Whether another process is in a run folder. Not for the process that is in it: this would end its lock."""
    if sys.platform == "win32" or not (run / LOCK).is_file():
        return False
    with (run / LOCK).open("a+", encoding="ascii") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
    return False


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Keep other processes out of a run folder as long as the block lasts, or this process.

    The file stays: what counts is the system's lock on it, which ends with its process, however that ends. It is a
    record lock, since workers must not inherit it: they outlive a killed training process by seconds. Windows has none.

    Raises:
        UserError: another process has the folder; the file cannot be written.
    """
    with (run / LOCK).open("a+", encoding="ascii") as file:
        if sys.platform != "win32":
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                file.seek(0)
                holder = file.read(20).strip()
                raise UserError(
                    f"{run} is in use by another training process ({holder or 'of unknown number'}): wait for its end, "
                    "or stop it"
                ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
