"""What the C library does with memory that has been freed: keep it, since the next step wants as much again."""

import ctypes
import os
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Let blocks of up to 1 GiB come from memory that the process keeps, in threads blocks of up to 64 MiB.

    For glibc, which Linux mostly has. It maps large blocks one by one and gives them back when a tensor dies; the
    system clears every page that it maps. With large batches that was a tenth of training on a CPU
    (docs/performance.md). Whoever has set one of its own variables is left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    is_set = any(name.startswith("MALLOC_") for name in os.environ) or "glibc.malloc." in os.environ.get(
        "GLIBC_TUNABLES", ""
    )
    if mallopt is None or is_set:
        return
    # Older versions refuse more than 32 MiB. Where both were refused, the next two would only do harm.
    if mallopt(_MMAP_THRESHOLD, 1 << 30) or mallopt(_MMAP_THRESHOLD, 1 << 25):
        mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        # A thread has heaps of 64 MiB of its own and gives back those that are empty, unless so much is to be at hand.
        mallopt(_TOP_PAD, 1 << 26)
