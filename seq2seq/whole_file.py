"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give the name of a new file beside `path`, which takes its place when the block has ended without an error."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
