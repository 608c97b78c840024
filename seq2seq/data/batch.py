"""Batches of sentence pairs: what they hold, and which pairs share one.

Shapes: B sentence pairs, S source length, T target length; all lengths count EOS.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD

Ids = Sequence[int] | NDArray[np.integer]

# Pairs within this factor of each other's length count as near-equal: they change places from epoch to epoch.
_NEAR = 1.1


class Batch(NamedTuple):
    """Sentence pairs, right-padded with PAD."""

    src: Tensor  # (B, S) int64, x + EOS
    src_lengths: Tensor  # (B,) int64, EOS counted
    tgt_in: Tensor  # (B, T) int64, BOS + y
    tgt_out: Tensor  # (B, T) int64, y + EOS
    pair_ids: Tensor  # (B,) int64, the place of each pair in its store
    num_tgt_tokens: int  # tokens of tgt_out that are not padding


def collate(src: Sequence[Ids], tgt: Sequence[Ids], pair_ids: Ids) -> Batch:
    """Make one batch of pairs whose ids end in EOS and have no BOS. A blank sentence is EOS alone."""
    assert len(src) == len(tgt) == len(pair_ids) > 0
    src_padded, src_lengths = _padded(src)
    tgt_out, tgt_lengths = _padded(tgt)
    tgt_in = np.full_like(tgt_out, PAD)
    tgt_in[:, 0] = BOS
    tgt_in[:, 1:] = np.where(tgt_out[:, 1:] == PAD, PAD, tgt_out[:, :-1])
    return Batch(
        src=torch.from_numpy(src_padded),
        src_lengths=torch.from_numpy(src_lengths),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(tgt_out),
        pair_ids=torch.from_numpy(np.array(pair_ids, dtype=np.int64)),
        num_tgt_tokens=int(tgt_lengths.sum()),
    )


def empty_batch() -> Batch:
    """Return a batch without pairs: one row without target tokens, so that its loss and its gradient are 0."""
    end, begin, nothing = (torch.tensor([[token]]) for token in (EOS, BOS, PAD))
    return Batch(end, torch.ones(1, dtype=torch.int64), begin, nothing, torch.zeros(0, dtype=torch.int64), 0)


def _padded(rows: Sequence[Ids]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    assert (padded[np.arange(len(rows)), lengths - 1] == EOS).all(), "ids must end in EOS"
    return padded, lengths


def epoch_batches(
    src_lengths: NDArray[np.integer],
    tgt_lengths: NDArray[np.integer],
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[NDArray[np.int64]]:
    """Return the batches of one epoch as arrays of pair numbers: a pure function of its arguments.

    Every pair is in exactly one batch. rows * (longest source or target of the batch) <= batch_tokens, so padding
    counts, on both sides; a pair over the budget goes alone. Pairs of near-equal length share a batch and are
    shuffled among themselves, then the batches are shuffled. Epoch 0 starts with the batch of the longest
    sentences: if memory is too small for it, that shows at once.
    """
    rng = np.random.default_rng([seed, epoch])
    width = np.maximum(src_lengths, tgt_lengths).astype(np.int64)
    order = np.argsort(width * rng.uniform(1.0, _NEAR, len(width)))
    batches = _cut(order, width[order], batch_tokens)
    shuffled = [batches[i] for i in rng.permutation(len(batches))]
    if epoch == 0 and shuffled:
        # Attention grows with rows * length^2; all else grows with rows * length, which the budget bounds.
        cost = [len(batch) * int(width[batch].max()) ** 2 for batch in shuffled]
        shuffled.insert(0, shuffled.pop(int(np.argmax(cost))))
    return shuffled


def _cut(order: NDArray[np.int64], width: NDArray[np.int64], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Cut pairs in an almost ascending order of width into batches within the budget."""
    # The widest so far stands for the widest of a batch: nearly equal in this order, and never too small.
    widest = np.maximum.accumulate(width)
    rows = np.arange(1, batch_tokens + 1)
    batches = []
    start = 0
    while start < len(order):
        ahead = widest[start : start + batch_tokens // widest[start]]
        fitting = int(np.searchsorted(ahead * rows[: len(ahead)], batch_tokens, side="right"))
        batches.append(order[start : start + max(1, fitting)])
        start += len(batches[-1])
    return batches
