"""The stream of training batches: a pure function of the seed, the number of batches so far and the processes."""

import signal
from collections.abc import Iterator
from itertools import islice, repeat
from typing import NamedTuple

import lightning as L
import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from seq2seq.data.batch import Batch, empty_batch, epoch_batches
from seq2seq.data.store import PairStore
from seq2seq.signals import SIGNALS
from seq2seq.training.processes import ALONE, Processes


class Place(NamedTuple):
    """Where in training a batch stands."""

    number: int  # counted from the start of training
    epoch: int
    batch: int  # within its epoch
    batches: int  # of its epoch

    @property
    def is_last(self) -> bool:
        """Whether the epoch ends with this batch."""
        return self.batch + 1 == self.batches


class BatchStream(Sampler[NDArray[np.int64]]):
    """Yields the pairs of one batch after the other, epoch after epoch.

    For Lightning all of training is one epoch, so that a resumed run only has to know how many batches came before:
    `start`, which is set before the first iteration. The processes of a run take turns: each yields the batches of its
    rank. After the last epoch come batches of no pairs, without end, so that the last update is complete and no process
    waits for another in vain.
    """

    def __init__(
        self, store: PairStore, *, batch_tokens: int, seed: int, epochs: int, processes: Processes = ALONE
    ) -> None:
        self.store = store
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.epochs = epochs
        self.processes = processes
        self.start = 0
        self._batches_of: list[int] = []  # of the epochs seen so far

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return islice(self._from_start(), self.processes.rank, None, self.processes.world)

    def _from_start(self) -> Iterator[NDArray[np.int64]]:
        before = 0
        for epoch in range(self.epochs):
            batches = self._epoch(epoch)
            yield from batches[max(0, self.start - before) :]
            before += len(batches)
        yield from repeat(np.zeros(0, np.int64))

    def place(self, number: int) -> Place:
        """Return the place of the batch with this number, counted from the start of training; at most the last one."""
        epoch = before = 0
        while number - before >= self.batches_of(epoch):
            if epoch + 1 == self.epochs:
                number = before + self.batches_of(epoch) - 1
                break
            before += self.batches_of(epoch)
            epoch += 1
        return Place(number, epoch, number - before, self.batches_of(epoch))

    def batches_of(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""
        while len(self._batches_of) <= epoch:
            self._epoch(len(self._batches_of))
        return self._batches_of[epoch]

    def _epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        batches = epoch_batches(
            self.store.src_lengths,
            self.store.tgt_lengths,
            batch_tokens=self.batch_tokens,
            seed=self.seed,
            epoch=epoch,
        )
        if epoch == len(self._batches_of):
            self._batches_of.append(len(batches))
        return batches


class _Batches(Dataset[Batch]):
    def __init__(self, store: PairStore) -> None:
        self.store = store

    def __getitem__(self, pairs: NDArray[np.int64]) -> Batch:
        return self.store.batch(pairs) if len(pairs) else empty_batch()


class TranslationData(L.LightningDataModule):
    """Feeds the training pairs to Lightning. Validation and test are ours: see callbacks.py and evaluation.py."""

    def __init__(self, stream: BatchStream, num_workers: int) -> None:
        super().__init__()
        self.stream = stream
        self.num_workers = num_workers

    def train_dataloader(self) -> DataLoader[Batch]:
        """Return the batches from where the stream starts."""
        assert self.trainer is not None
        return DataLoader(
            _Batches(self.stream.store),
            sampler=self.stream,
            batch_size=None,
            num_workers=self.num_workers,
            pin_memory=self.trainer.strategy.root_device.type == "cuda",
            persistent_workers=self.num_workers > 0,
            worker_init_fn=_ignore_interrupts,
        )


def _ignore_interrupts(worker: int) -> None:
    """Signals may reach a whole group of processes; only the training process answers, and ends its workers."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
