"""What the C library does with memory that has been freed: keep it, since the next step wants as much again."""

import ctypes
import os
import sys

# Of glibc's malloc.h, with their names as environment variables.
_OPTIONS = {"MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_ARENA_MAX": -8}


def keep_freed_memory() -> None:
    """Let blocks of up to 1 GiB come from memory that the process keeps. For glibc, which Linux mostly has.

    It maps large blocks one by one and gives them back when a tensor dies; the system clears every page that it maps.
    Up to half of a training step on a CPU went into that. Whoever has set one of its own variables is left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not _OPTIONS.keys() & os.environ.keys():
        mallopt(_OPTIONS["MALLOC_MMAP_THRESHOLD_"], 1 << 30)
        mallopt(_OPTIONS["MALLOC_TRIM_THRESHOLD_"], (1 << 31) - 1)
        mallopt(_OPTIONS["MALLOC_ARENA_MAX"], 1)  # the others, which threads have, give back what is free
