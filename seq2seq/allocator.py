"""What the C library does with memory that has been freed: keep it, since the next step wants as much again."""

import ctypes
import os
import sys

# Of glibc's malloc.h, with their names as environment variables.
_OPTIONS = {"MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_ARENA_MAX": -8}


def keep_freed_memory() -> None:
    """Let blocks of up to 1 GiB come from memory that the process keeps. For glibc, which Linux mostly has.

    It maps large blocks one by one and gives them back when a tensor dies; the system clears every page that it maps.
    With large batches that was a tenth of training on a CPU (docs/performance.md). Whoever has set one of its own
    variables is left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    is_set = _OPTIONS.keys() & os.environ.keys() or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")
    if mallopt is not None and not is_set:
        mallopt(_OPTIONS["MALLOC_MMAP_THRESHOLD_"], 1 << 30)
        mallopt(_OPTIONS["MALLOC_TRIM_THRESHOLD_"], (1 << 31) - 1)
        mallopt(_OPTIONS["MALLOC_ARENA_MAX"], 1)  # the others, which threads have, give back what is free
