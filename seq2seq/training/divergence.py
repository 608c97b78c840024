"""Training that has diverged (a loss, gradient or weight is infinite or no number) ends before it is saved.

Tensors are read a window of updates at a time, not batch by batch: on a GPU each reading waits for all that was asked
of it before.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.errors import UserError
from seq2seq.training.processes import Processes

_MOST_UPDATES = 100  # between two checks
_MOST_SHOWN = 20  # pair ids in a message


class _Update(NamedTuple):
    step: int
    learning_rate: float
    gradient_norm: Tensor
    losses: list[Tensor]
    pair_ids: list[Tensor]


class DivergenceCheck:
    """Remembers the numbers of the updates since the last check.

    Args:
        processes: the processes of the run, all of which check at the same updates.
        skips_gradients: whether the precision leaves an update out by itself if a gradient is not finite, as fp16 does.
    """

    def __init__(self, processes: Processes, *, skips_gradients: bool) -> None:
        self._processes = processes
        self._skips_gradients = skips_gradients
        self._updates: list[_Update] = []
        self._losses: list[Tensor] = []
        self._pair_ids: list[Tensor] = []

    def add_batch(self, loss: Tensor, pair_ids: Tensor) -> None:
        """Remember a batch of the update that is being made."""
        self._losses.append(loss)
        self._pair_ids.append(pair_ids)

    def end_update(self, step: int, learning_rate: float, gradient_norm: Tensor) -> None:
        """Remember an update."""
        self._updates.append(_Update(step, learning_rate, gradient_norm, self._losses, self._pair_ids))
        self._losses, self._pair_ids = [], []

    @property
    def is_due(self) -> bool:
        """Whether as much is remembered as should be."""
        return len(self._updates) >= _MOST_UPDATES

    def __call__(self, model: nn.Module) -> None:
        """Check all that is remembered, and the weights; forget it.

        Raises:
            UserError: something is not finite, in whichever process.
        """
        numbers = [loss for update in self._updates for loss in update.losses]
        if not self._skips_gradients:
            numbers += [update.gradient_norm for update in self._updates]
        weights = [parameter.detach().isfinite().all() for parameter in model.parameters()]
        is_good = bool(torch.stack([*(number.isfinite() for number in numbers), *weights]).all())
        bad = self._first_bad() if not is_good else None
        if any(row[0] for row in self._processes.gather([not is_good])):
            found = [one for one in self._processes.gather_objects(bad) if one is not None]
            step, learning_rate, what = min(found)[:3]
            pairs = sorted({pair for one in found if one[0] == step for pair in one[3]})
            raise UserError(self._processes.for_all(_message(step, learning_rate, what, pairs)))
        self._updates.clear()

    def _first_bad(self) -> tuple[int, float, str, list[int]]:
        """Return step, learning rate, what is not finite, and the pairs that it came from."""
        for update in self._updates:
            bad = [ids for loss, ids in zip(update.losses, update.pair_ids, strict=True) if not loss.isfinite()]
            if bad:
                return update.step, update.learning_rate, "loss", _numbers(bad)
            if not self._skips_gradients and not update.gradient_norm.isfinite():
                return update.step, update.learning_rate, "norm of the gradient", _numbers(update.pair_ids)
        return update.step, update.learning_rate, "weight after it", _numbers(update.pair_ids)


def _numbers(pair_ids: list[Tensor]) -> list[int]:
    return [int(pair) for ids in pair_ids for pair in ids]


def _message(step: int, learning_rate: float, what: str, pairs: list[int]) -> str:
    shown = ", ".join(map(str, pairs[:_MOST_SHOWN]))
    more = f" and {len(pairs) - _MOST_SHOWN} more" if len(pairs) > _MOST_SHOWN else ""
    return (
        f"training has diverged: the {what} is not finite at step {step} (learning rate {learning_rate:.3g}, training "
        f"pairs {shown}{more}); nothing of it was saved; start again with a lower optim.lr or a longer optim.warmup"
    )
