"""What SIGINT and SIGTERM do before, during and after the work. Imports nothing slow: the doors come here first."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import active_children
from types import FrameType
from typing import NoReturn

from seq2seq.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def stop_at_once() -> None:
    """From now on a signal ends the process without a word: there is nothing to save or to clean up.

    While modules are imported, an exception out of nowhere could end in any of them, and as any other exception.
    """
    _take(_leave)


def raise_interrupted() -> None:
    """From now on a signal raises Interrupted, so that what is half made is cleaned up; a second one does not wait."""
    process = os.getpid()

    def receive(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a worker that has just been forked
            return
        _take(_leave)
        raise Interrupted("interrupted", number)

    _take(receive)


def leave(exit_code: int) -> NoReturn:
    """End the process now, whatever other threads are at."""
    end_workers()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(exit_code)


def end_workers() -> None:
    """Kill the processes that prepare batches: one whose parent has gone in the middle of a batch shows a traceback."""
    for worker in active_children():
        worker.kill()


def _take(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    end_workers()
    os._exit(128 + number)
