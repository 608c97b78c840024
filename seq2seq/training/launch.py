"""`trainer.devices`: start the other processes of a run on this machine, and see to it that all end together.

Each is given its settings through its standard input, which then stays open: it ends at once when that is closed, as it
is when the first process ends, however that ends. The first watches the others, and ends if one of them is lost.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from seq2seq.errors import Interrupted, UserError
from seq2seq.training.processes import PeerLost, Processes, joined, meeting_point

if TYPE_CHECKING:
    from seq2seq.config import TrainConfig

_ADDRESS = "127.0.0.1"
_GRACE_SECONDS = 10  # for the first process to hear by itself that another one is gone
_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from seq2seq.training.launch import follow_first; follow_first()"
)


@contextmanager
def launched(config: "TrainConfig") -> Iterator[Processes]:
    """Start the processes 1 to `trainer.devices` - 1 and meet them; in the end none of them is left.

    Raises:
        PeerLost: one of them has ended before its time.
    """
    world = config.trainer.devices
    first = Processes(0, world)
    store = meeting_point(_ADDRESS, 0, first)
    threads = torch.get_num_threads()
    share = max(1, threads // world)
    others = [start_another(config, Processes(rank, world, rank), store.port, share) for rank in range(1, world)]
    is_over = threading.Event()
    threading.Thread(target=_watch, args=(others, is_over), daemon=True).start()
    torch.set_num_threads(share)
    try:
        with joined(first, store):
            yield first
    except PeerLost as error:
        raise PeerLost(_awaited_obituary(others) or str(error)) from error
    finally:
        is_over.set()
        torch.set_num_threads(threads)
        for process in others:
            _end(process)


def start_another(config: "TrainConfig", processes: Processes, port: int, threads: int) -> subprocess.Popen[bytes]:
    """Start one of the other processes, which will meet the first at this port."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the first process; it tells the others
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    assert process.stdin is not None
    for part in (sys.path, (config, processes, port)):
        pickle.dump(part, process.stdin)
    process.stdin.flush()
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a process end by itself, or else make it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _obituary(others: list[subprocess.Popen[bytes]]) -> str:
    """Say which process has ended, and how; empty if none has."""
    for rank, process in enumerate(others, start=1):
        code = process.poll()
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return (
                f"process {rank} of 0 to {len(others)} {how}, so all end; go on from the last checkpoint with resume="
            )
    return ""


def _awaited_obituary(others: list[subprocess.Popen[bytes]]) -> str:
    """Say it as soon as it is known: a connection may break before the system reports the process."""
    until = time.monotonic() + _GRACE_SECONDS
    while not (message := _obituary(others)) and time.monotonic() < until:
        time.sleep(0.05)
    return message


def _watch(others: list[subprocess.Popen[bytes]], is_over: threading.Event) -> None:
    """End this process if another one is lost and this one, busy or waiting for a GPU, does not hear of it."""
    while not is_over.wait(0.5):
        if _obituary(others):
            if not is_over.wait(_GRACE_SECONDS):
                sys.stderr.write(f"seq2seq: error: {_obituary(others)}\n")
                sys.stderr.flush()
                os._exit(2)
            return


def follow_first() -> None:
    """Be one of the other processes."""
    config, processes, port = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_first, daemon=True).start()
    from seq2seq.training.fit import follow

    try:
        with joined(processes, meeting_point(_ADDRESS, port, processes)):
            follow(config, processes)
    except PeerLost:
        sys.exit(1)  # the first process says so
    except Interrupted as interruption:
        sys.exit(128 + interruption.signal)
    except UserError as error:
        if str(error):
            sys.stderr.write(f"seq2seq: error: process {processes.rank}: {error}\n")
        sys.exit(2)


def _end_with_the_first() -> None:
    # Not sys.stdin.buffer: Python ends with a fatal error if a thread is reading from that when all else has finished.
    os.read(sys.stdin.fileno(), 1)  # returns when the first process has closed its end, or is no more
    time.sleep(1)  # what ends by itself in order should
    logging.shutdown()
    os._exit(1)
