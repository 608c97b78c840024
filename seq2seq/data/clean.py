"""Which pairs are fit to train on, and the account of those that are not."""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

_LARGE_LOSS = 0.1


@dataclass
class Cleaning:
    """Picks the training pairs to keep, chunk by chunk, and counts the others by reason.

    A pair goes if a side is blank (has no tokens), if a side has more than `max_tokens` tokens, or if one side is
    more than `max_length_ratio` times as long as the other, the end of sentence counted, lest short pairs suffer.
    """

    max_tokens: int
    max_length_ratio: float
    read: int = 0
    longest: int = 0
    dropped: Counter[str] = field(default_factory=lambda: Counter(blank=0, too_long=0, length_ratio=0))

    def keep(self, src_tokens: NDArray[np.int64], tgt_tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the pairs to keep, given their numbers of tokens without EOS: (N,) each."""
        longer, shorter = np.maximum(src_tokens, tgt_tokens), np.minimum(src_tokens, tgt_tokens)
        blank = shorter == 0
        too_long = ~blank & (longer > self.max_tokens)
        uneven = ~blank & ~too_long & (longer + 1 > self.max_length_ratio * (shorter + 1))
        self.read += len(longer)
        self.longest = max(self.longest, int(longer.max(initial=0)))
        self.dropped.update(blank=int(blank.sum()), too_long=int(too_long.sum()), length_ratio=int(uneven.sum()))
        kept: NDArray[np.bool_] = ~(blank | too_long | uneven)
        return kept

    def account(self) -> dict[str, Any]:
        """Log what was dropped and return it for the manifest; a UserError if nothing is left."""
        kept = self.read - self.dropped.total()
        losses = (
            f"{self.dropped['blank']} blank on a side, {self.dropped['too_long']} too long (longest is "
            f"{self.longest}, limit is {self.max_tokens}), {self.dropped['length_ratio']} of wild length ratio "
            f"(limit is {self.max_length_ratio:g})"
        )
        if kept == 0:
            raise UserError(
                f"0 pairs left of {self.read}: {losses}; check the files, or raise data.max_tokens and "
                "data.max_length_ratio"
            )
        level = logging.WARNING if self.dropped.total() > _LARGE_LOSS * self.read else logging.INFO
        logger.log(level, "training: %d of %d pairs kept; dropped %s", kept, self.read, losses)
        return {"read": self.read, "pairs": kept, "dropped": dict(self.dropped), "longest": self.longest}
