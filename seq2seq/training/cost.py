"""What training a model costs: operations a target token, and the most memory that the process held."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seq2seq.data.batch import epoch_batches
from seq2seq.data.store import PairStore
from seq2seq.data.tokenizer import PAD
from seq2seq.models.interface import Seq2Seq
from seq2seq.training.loss import smoothed_cross_entropy

_PAIRS = 1024  # to count on
_MOST_TOKENS = 4096  # in a batch: a GPU's batches would not fit into the memory of every machine
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def flops_per_target_token(model: Seq2Seq[Any, Any], store: PairStore, batch_tokens: int) -> dict[str, float]:
    """Count the floating-point operations of training, forward and backward, by target token (EOS one of them).

    Those of matrix products, two for each multiplication and addition; all else is little beside them, and left out. On
    1,024 training pairs, in batches that training makes of all pairs, or of 4,096 tokens if its are larger: so work on
    the source and on padding is part of it. On a copy of the model on the CPU: what is counted does not depend on the
    machine.
    """
    batch_tokens = min(batch_tokens, _MOST_TOKENS)
    batches = _first_pairs(  # not of epoch 0, which begins with the longest
        epoch_batches(store.src_lengths, store.tgt_lengths, batch_tokens=batch_tokens, seed=0, epoch=1)
    )
    twin = deepcopy(model).cpu().train()
    tokens, counted = 0, {"forward": 0, "backward": 0}
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), _plain_products():
        for indices in batches:
            batch = store.batch(indices)
            with FlopCounterMode(display=False) as counter:
                logits = twin(batch.src, batch.src_lengths, batch.tgt_in).logits
                loss, _ = smoothed_cross_entropy(logits, batch.tgt_out, PAD, 0.0)
            counted["forward"] += counter.get_total_flops()
            with FlopCounterMode(display=False) as counter:
                loss.backward()
            counted["backward"] += counter.get_total_flops()
            tokens += batch.num_tgt_tokens
    return {name: count / tokens for name, count in counted.items()}


def _first_pairs(batches: list[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Yield batches until they hold `_PAIRS`, the last cut short."""
    left = _PAIRS
    for pairs in batches:
        if not left:
            return
        yield pairs[:left]
        left -= len(pairs[:left])


@contextmanager
def _plain_products() -> Iterator[None]:
    """Compute attention and LSTMs by matrix products: the counter does not know what a CPU has in their place."""
    (is_enabled, *_) = torch.backends.mkldnn.set_flags(_enabled=False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=is_enabled)


class PeakMemory:
    """The most memory held since it was made: of the GPU where there is one, else of the whole process."""

    def __init__(self, accelerator: str) -> None:
        self._accelerator = accelerator
        self._is_reset = False
        if accelerator == "cuda":
            torch.cuda.reset_peak_memory_stats()
        elif _CLEAR.exists():
            try:
                _CLEAR.write_text("5", encoding="ascii")  # Linux: the peak begins anew, from what is held now
                self._is_reset = True
            except OSError:  # not allowed here: then the peak is not ours to know
                pass

    def bytes(self) -> int | None:
        """Return the peak so far; None where the system does not tell."""
        if self._accelerator == "cuda":
            return torch.cuda.max_memory_allocated()
        if not self._is_reset:
            return None
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
