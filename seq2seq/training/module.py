"""One LightningModule for every Seq2Seq: what happens in one training step.

For each batch Lightning calls `on_train_batch_start` (seed dropout), `training_step` (logits, loss) and backward. After
the last batch of an update: `on_after_backward` (the sum over the processes), `on_before_optimizer_step` (the gradient
per token), `configure_gradient_clipping`, the optimizer, the schedule; then the callbacks in callbacks.py log, validate
and save.
"""

from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor

from seq2seq.data.batch import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.models.interface import Seq2Seq
from seq2seq.training.loss import smoothed_cross_entropy
from seq2seq.training.optim import OptimConfig, build_optimizer, learning_rate_factor
from seq2seq.training.processes import ALONE, Processes
from seq2seq.training.settings import Precision


class TranslationModule(L.LightningModule):
    """Teacher forcing, loss, gradient and update.

    The gradient of an update is that of the loss per target token, over all batches that share the update: every token
    counts the same, however the tokens were divided. So `training_step` returns a sum, `on_after_backward` adds up the
    sums of all processes, and `on_before_optimizer_step` divides by the number of tokens.

    Attributes:
        learning_rate: of the last update.
        gradient_norm: of the last update, before clipping.
    """

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        optim: OptimConfig,
        *,
        seed: int,
        batch_tokens: int,
        total_steps: int,
        processes: Processes = ALONE,
    ) -> None:
        super().__init__()
        self.model = model
        self.optim = optim
        self.seed = seed
        self.batch_tokens = batch_tokens
        self.total_steps = total_steps
        self.processes = processes
        self.learning_rate = 0.0
        self.gradient_norm: Tensor = torch.zeros(())
        self._tokens_in_update = 0.0
        self._batches_in_update = 0

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """One optimizer; the learning rate changes with every update."""
        # float16's gradients are unscaled, then clipped, before the update; a fused one would unscale them itself.
        fused = self.trainer.precision != Precision.fp16_mixed.value
        optimizer = build_optimizer(self.model.parameters(), self.optim, fused=fused)
        factor = learning_rate_factor(self.optim, self.total_steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Make dropout a function of the seed and the batch: a resumed run repeats it, no process that of another."""
        number = batch_idx * self.processes.world + self.processes.rank
        entropy = np.random.SeedSequence([self.seed, 0, number])  # without the 0, the order of an epoch has the same
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1)))

    def training_step(self, batch: Batch, batch_idx: int) -> dict[str, Any]:
        """Return the summed loss of a batch, in units of full batches so that 16-bit gradients keep their range."""
        logits = self.model(batch.src, batch.src_lengths, batch.tgt_in).logits
        loss, plain = smoothed_cross_entropy(logits, batch.tgt_out, PAD, self.optim.label_smoothing)
        self._tokens_in_update += batch.num_tgt_tokens
        self._batches_in_update += 1
        # Lightning divides by the number of micro-batches; undone here, since the tokens are what counts.
        summed = loss / self.batch_tokens * self.trainer.accumulate_grad_batches
        return {"loss": summed, "plain_loss": plain, "smoothed_loss": loss.detach(), "tokens": batch.num_tgt_tokens}

    def on_after_backward(self) -> None:
        """After the last batch of an update, add up gradients and tokens over the processes.

        Here, not in `on_before_optimizer_step`: fp16 has its scale taken off in between, and leaves an update out if a
        gradient is not finite. All processes must find the same.
        """
        if self._batches_in_update < self.trainer.accumulate_grad_batches:
            return
        self._batches_in_update = 0
        self.processes.add_up(self._gradients())
        self._tokens_in_update = sum(row[0] for row in self.processes.gather([self._tokens_in_update]))

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn the gradient of the sum into the gradient per target token."""
        torch._foreach_mul_(self._gradients(), self.batch_tokens / self._tokens_in_update)
        self._tokens_in_update = 0.0
        self.learning_rate = optimizer.param_groups[0]["lr"]

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self.model.parameters() if p.grad is not None]

    def lower_rate(self, factor: float) -> None:
        """Multiply the learning rate of all updates to come."""
        scheduler = self.lr_schedulers()
        assert isinstance(scheduler, torch.optim.lr_scheduler.LambdaLR)
        scheduler.base_lrs = [rate * factor for rate in scheduler.base_lrs]
        for group in scheduler.optimizer.param_groups:
            group["lr"] *= factor

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradient by its norm, and keep the norm for the log."""
        limit = self.optim.clip_norm or float("inf")
        self.gradient_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
