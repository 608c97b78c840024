"""Several processes that train one model: who they are, and the few things that they tell each other.

Each process holds the whole model and computes on its own batches (data parallelism). After the last batch of an update
they add up their gradients, so that all make the same update. The first process alone validates and writes files.

torchrun and srun start all processes themselves and describe them in environment variables; `trainer.devices` starts
them on this machine (launch.py). Nothing behind this file knows which it was.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import rendezvous

from seq2seq.errors import UserError
from seq2seq.training.launcher import launched_by

# The longest that one process waits for another: the first may prepare a large corpus, or validate, in the meantime.
_PATIENCE = timedelta(hours=12)
_joined = count()


class PeerLost(UserError):  # noqa: N818  it is an event, not a fault
    """Another process of the run has ended."""


class Processes(NamedTuple):
    """One of the processes of a run, and its ties to the others.

    Attributes:
        rank: its number, from 0.
        world: how many there are, on all machines.
        local_rank: its number on its own machine, which is also the number of its GPU.
        launcher: the program that has started them all; None if the first has started the others.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    launcher: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the process that validates and writes files."""
        return self.rank == 0

    def for_all(self, message: str) -> str:
        """Return the message of an error that all processes raise: the first one's; the others' is empty."""
        return message if self.is_first else ""

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return these numbers of every process, in the order of their ranks."""
        if self.world == 1:
            return [list(numbers)]
        found = torch.zeros(self.world, len(numbers), dtype=torch.float64)
        found[self.rank] = torch.tensor(numbers, dtype=torch.float64)
        with _peers():
            dist.all_reduce(found)
        return found.tolist()

    def gather_objects(self, value: Any) -> list[Any]:
        """Return this plain value of every process, in the order of their ranks."""
        found: list[Any] = [value] * self.world
        if self.world > 1:
            with _peers():
                dist.all_gather_object(found, value)
        return found

    def share(self, value: Any) -> Any:
        """Return what the first process has given; the others wait for it."""
        if self.world == 1:
            return value
        shared = [value]
        with _peers():
            dist.broadcast_object_list(shared)
        return shared[0]

    def share_weights(self, model: torch.nn.Module) -> None:
        """Give all processes the first one's weights."""
        if self.world > 1:
            with _peers():
                for parameter in model.parameters():
                    dist.broadcast(parameter.data, src=0)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over the processes.

        One long vector: the order in which its elements are added then depends on nothing but its length and the number
        of processes, so that a resumed run adds as one that was never stopped.
        """
        if self.world == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        with _peers():
            dist.all_reduce(flat)
        for tensor, summed in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(summed.view_as(tensor))


ALONE = Processes()


@contextmanager
def _peers() -> Iterator[None]:
    """Say in one line that another process is gone: the backends say it in a RuntimeError with many."""
    try:
        yield
    except RuntimeError as error:
        raise PeerLost(
            "another process of this run has ended (its own message says why; if there is none, it was killed)"
        ) from error


def outside() -> Processes | None:
    """Return this process as torchrun or srun describe it; None if it was started without them, or alone."""
    found = launched_by()
    return None if found is None else Processes(*found)


@contextmanager
def joined(processes: Processes, store: Store | None = None) -> Iterator[None]:
    """Meet the other processes, and part from them at the end of the block.

    Args:
        processes: which one this is.
        store: where they meet; left open: where torchrun or srun say.
    """
    if store is None:  # one and the same for all runs of a sweep, which meet one after the other
        store = PrefixStore(f"run {next(_joined)}", _outside_store(processes))
    # Tensors of a GPU travel by NCCL, all others by gloo: numbers that only the CPU needs never wait for a GPU.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with _peers():
        dist.init_process_group(
            backend, store=store, rank=processes.rank, world_size=processes.world, timeout=_PATIENCE
        )
    try:
        yield
    finally:
        dist.destroy_process_group()


@cache
def _outside_store(processes: Processes) -> Store:
    if processes.launcher == "torchrun":
        store, _, _ = next(rendezvous("env://", timeout=_PATIENCE))
        return store
    first = SLURMEnvironment.resolve_root_node_address(os.environ["SLURM_STEP_NODELIST"])
    port = 15_000 + int(os.environ["SLURM_JOB_ID"]) % 10_000  # which all processes of a job can tell
    return meeting_point(os.environ.get("MASTER_ADDR", first), int(os.environ.get("MASTER_PORT", port)), processes)


def meeting_point(address: str, port: int, processes: Processes) -> TCPStore:
    """Return the store where processes meet, which the first one keeps; port 0 there = any that is free."""
    is_first = processes.is_first
    return TCPStore(address, port, processes.world, is_first, timeout=_PATIENCE, wait_for_workers=False)
