"""Folders that are there whole or not at all, whoever else makes the same one at the same time."""

import logging
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

logger = logging.getLogger(__name__)

_STALE_SECONDS = 24 * 3600
_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.tmp$")


@contextmanager
def whole_folder(folder: Path, *, in_cache: bool) -> Iterator[Path]:
    """Give an empty folder to fill, which takes the name `folder` when the block has ended without an error.

    Args:
        folder: the name to be.
        in_cache: whether its name says what is in it. Then, if another process was first, its folder stays and ours
            goes; and what killed processes have left beside it goes too. Elsewhere the first is not replaced, an
            OSError, and nothing else is touched.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if in_cache:
        _remove_stale(folder.parent)
    building = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.tmp")
    building.mkdir()
    try:
        yield building
        try:
            building.rename(folder)
        except OSError:
            if not in_cache or not folder.is_dir() or not any(folder.iterdir()):
                raise
            logger.info("another process has made %s in the meantime: using that", folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _remove_stale(parent: Path) -> None:
    """Remove what a killed process has left: temporary folders that nobody has written to for a day."""
    for building in parent.iterdir():
        if not _UNFINISHED.search(building.name):
            continue
        with suppress(OSError):  # its process is at work, another one cleans up too, or it is not ours
            written = max(path.stat().st_mtime for path in (building, *building.rglob("*")))
            if written < time.time() - _STALE_SECONDS:
                logger.info("removing %s, left by a process that was killed", building)
                shutil.rmtree(building)
