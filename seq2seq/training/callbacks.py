"""What happens around the training steps: logs, validation, checkpoints, the end, interruptions.

Lightning's own validation loop is not used: validation runs between two updates as a plain function, so a checkpoint
is always taken at the same place of the loop, and a run resumed from it repeats or skips nothing.
"""

import logging
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, NoReturn

import lightning as L
import torch
from torch import Tensor

from seq2seq.data.batch import Batch
from seq2seq.errors import Interrupted, UserError
from seq2seq.signals import end_workers
from seq2seq.training.checkpoints import Checkpoints
from seq2seq.training.datamodule import BatchStream, Place
from seq2seq.training.divergence import DivergenceCheck
from seq2seq.training.loggers import BoardLogger
from seq2seq.training.module import TranslationModule
from seq2seq.training.optim import OptimConfig, Schedule
from seq2seq.training.processes import Processes
from seq2seq.training.progress import Bar, clock
from seq2seq.training.settings import LoggerConfig, Precision, TrainerConfig
from seq2seq.training.validation import Validation, Validator

logger = logging.getLogger(__name__)

_ECHO_SECONDS = 3
_SHOWN = 300  # characters of a sample translation: in its first minutes a model may repeat itself to the limit
_SILENCE_SECONDS = 30  # the longest time without a line of the log, but for validation


class Course(L.Callback):
    """Follows the course of training: after each update it logs, validates, saves and ends as the settings say.

    Attributes:
        corpus: the fingerprint of what is trained on.
        seconds: spent on updates so far, validation not counted, over all pieces of a resumed run.
        target_tokens: seen so far.
        best_bleu: the best validation BLEU so far; None before the first validation.
        validations_since_best: how many have passed without a better one ...
        stalled: ... and how many of them since schedule=plateau lowered the rate.
        updates: made so far.
        batches: seen so far, by all processes.
    """

    def __init__(
        self,
        trainer: TrainerConfig,
        logs: LoggerConfig,
        optim: OptimConfig,
        *,
        stream: BatchStream,
        validator: Validator,
        checkpoints: Checkpoints,
        bar: Bar,
        corpus: str,
        precision: Precision,
        divergence: DivergenceCheck,
    ) -> None:
        self.settings = trainer
        self.logs = logs
        self.optim = optim
        self.stream = stream
        self.validator = validator
        self.checkpoints = checkpoints
        self.bar = bar
        self.corpus = corpus
        self.precision = precision
        self.divergence = divergence
        self.processes = stream.processes
        self.seconds = 0.0
        self.target_tokens = 0
        self.best_bleu: float | None = None
        self.validations_since_best = 0
        self.stalled = 0
        self.updates = 0
        self.batches = 0
        self._tokens = 0  # of this process, in the update that is being made
        self._window = _Window()
        self._clock = self._told_at = time.monotonic()

    # ---- What a checkpoint keeps ----

    _KEPT = ("seconds", "target_tokens", "best_bleu", "validations_since_best", "stalled", "updates", "batches")

    def state_dict(self) -> dict[str, Any]:
        """Return plain numbers, the fingerprint and the number format."""
        return {
            "corpus": self.corpus,
            "precision": self.precision.name,
            "processes": self.processes.world,
            **{name: getattr(self, name) for name in self._KEPT},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there; a UserError if the corpus or the number of processes is another one now."""
        if state_dict["corpus"] != self.corpus:
            raise UserError(
                f"the corpus has changed since this run began (fingerprint {state_dict['corpus']}, now {self.corpus}): "
                "bring its files back, or start a new run"
            )
        if state_dict["processes"] != self.processes.world:
            raise UserError(
                f"this run was trained by {state_dict['processes']} processes, and there are {self.processes.world} "
                f"now: go on with as many (trainer.devices={state_dict['processes']} on one machine)"
            )
        for name in self._KEPT:
            setattr(self, name, state_dict[name])

    @property
    def is_finished(self) -> bool:
        """Whether training has nothing left to do."""
        return self._share_done(self.updates, self.stream.place(self.batches - 1)) >= 1.0 or self._has_lost_patience

    @property
    def _has_lost_patience(self) -> bool:
        return self.settings.patience is not None and self.validations_since_best >= self.settings.patience

    # ---- The loop ----

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock and the bar."""
        self._clock = time.monotonic()
        self.checkpoints.start_clock()
        self.bar.start()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Count; after the last batch of an update, do what is due."""
        assert isinstance(pl_module, TranslationModule)
        now = time.monotonic()
        self._window.add(outputs, now - self._clock)
        self.seconds += now - self._clock
        self.divergence.add_batch(outputs["smoothed_loss"], batch.pair_ids)
        self._tokens += batch.num_tgt_tokens
        place = self.stream.place(self.batches + self.processes.world - 1)
        self.batches = place.number + 1
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self._after_update(trainer, pl_module, place)
        self._clock = time.monotonic()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Take the bar away."""
        self.bar.stop()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Take the bar away."""
        self.bar.stop()

    def _after_update(self, trainer: L.Trainer, module: TranslationModule, place: Place) -> None:
        step = self.updates = trainer.global_step
        self.divergence.end_update(step, module.learning_rate, module.gradient_norm)
        is_save_due = self.checkpoints.is_due(self.settings.checkpoint_minutes)
        told = self.processes.gather([self._tokens, self.seconds, is_save_due])
        self.target_tokens += int(sum(row[0] for row in told))
        self._tokens = 0
        _, self.seconds, is_save_due = told[0][0], told[0][1], bool(told[0][2])  # by the first one's clock
        is_end = self._share_done(step, place) >= 1.0
        every = self.settings.validate_every
        is_validation_due = is_end or (self._epoch_has_ended(place) if every is None else step % every == 0)
        is_entry_due = step % self.logs.every == 0 or is_end
        if is_validation_due or is_entry_due or self.divergence.is_due:
            self.divergence(module.model)
        if is_entry_due:
            self._log_training(trainer, module, place)
        if is_validation_due:
            self._validate(trainer, module, place)
            if self._has_lost_patience:
                logger.info("stopping: %d validations without a better BLEU", self.validations_since_best)
                is_end = True
        elif is_save_due:
            self.save_last(trainer, module)
        if is_end:
            trainer.should_stop = True

    def save_last(self, trainer: L.Trainer, module: TranslationModule) -> None:
        """Save the state of training between validations, if it is sound."""
        self.divergence(module.model)
        if self.processes.is_first:
            self.checkpoints.save_last(trainer)

    def _epoch_has_ended(self, place: Place) -> bool:
        """Whether the last batch of an epoch was in the update that ends here."""
        in_update = self.settings.accumulate_grad_batches * self.processes.world
        return place.is_last or (place.epoch > 0 and place.batch + 1 < in_update)

    def _share_done(self, step: int, place: Place) -> float:
        """Return how much of training is done, by the limit that is nearest."""
        epochs = place.epoch + (place.batch + 1) / place.batches
        shares = [epochs / self.settings.max_epochs]
        if self.settings.max_steps is not None:
            shares.append(step / self.settings.max_steps)
        if self.settings.max_minutes is not None:
            shares.append(self.seconds / 60 / self.settings.max_minutes)
        return max(shares)

    def _log_training(self, trainer: L.Trainer, module: TranslationModule, place: Place) -> None:
        step, share = trainer.global_step, self._share_done(trainer.global_step, place)
        means = self._window.means(self.processes)
        update = {"learning_rate": module.learning_rate, "gradient_norm": float(module.gradient_norm)}
        self._write(trainer, "train", {**means, **update}, place)
        shown = {
            "epoch": f"{place.epoch + 1}/{self.settings.max_epochs}",
            "loss": f"{means['loss']:.3f}",
            "speed": f"{means['target_tokens_per_second']:,.0f}",
            "left": self._left(share),
        }
        self.bar.update(share, shown)
        if time.monotonic() - self._told_at > _SILENCE_SECONDS:
            self._told_at = time.monotonic()
            logger.info("step %d: loss %.3f, %.0f target tokens/s", step, means["loss"], self._speed())
        self._window = _Window()

    def _validate(self, trainer: L.Trainer, module: TranslationModule, place: Place) -> None:
        step = trainer.global_step
        logger.info("step %d: validating", step)
        result = self.processes.share(
            self.validator(module.model, self.logs.samples) if self.processes.is_first else None
        )
        is_best = self.best_bleu is None or result.bleu > self.best_bleu
        self.best_bleu = result.bleu if is_best else self.best_bleu
        self.validations_since_best = 0 if is_best else self.validations_since_best + 1
        self.stalled = 0 if is_best else self.stalled + 1
        if self.optim.schedule is Schedule.plateau and self.stalled > self.optim.plateau_patience:
            module.lower_rate(self.optim.plateau_factor)
            self.stalled = 0
            logger.info("BLEU has stalled: the learning rate is multiplied by %g", self.optim.plateau_factor)
        self._write(trainer, "validation", result.metrics(), place)
        for board in trainer.loggers:
            if isinstance(board, BoardLogger) and result.samples:
                board.log_samples(result.samples, step)
        self.bar.update(self._share_done(step, place), {"bleu": f"{result.bleu:.1f}"})
        self._tell(result, step, place, is_best)
        if self.processes.is_first:
            self.checkpoints.save(trainer, is_best=is_best, averaged=self.optim.average_last)

    def _tell(self, result: Validation, step: int, place: Place, is_best: bool) -> None:
        share = self._share_done(step, place)
        logger.info(
            "epoch %d/%d, step %d: validation BLEU %.2f%s, chrF %.2f, loss %.3f; %.0f target tokens/s, %s left",
            place.epoch + 1,
            self.settings.max_epochs,
            step,
            result.bleu,
            " (best)" if is_best else "",
            result.chrf,
            result.loss,
            self._speed(),
            self._left(share),
        )
        for sample in result.samples[:1]:
            logger.info("  source       %s", sample.src)
            logger.info("  reference    %s", sample.ref)
            logger.info("  translation  %s", sample.hyp if len(sample.hyp) <= _SHOWN else f"{sample.hyp[:_SHOWN]} ...")

    def _write(self, trainer: L.Trainer, prefix: str, numbers: dict[str, float], place: Place) -> None:
        metrics = {f"{prefix}/{name}": value for name, value in numbers.items()}
        progress = {
            "epoch": place.epoch + (place.batch + 1) / place.batches,
            "seconds": self.seconds,
            "target_tokens": self.target_tokens,
        }
        for target in trainer.loggers:
            target.log_metrics({**progress, **metrics}, step=trainer.global_step)

    def _left(self, share: float) -> str:
        return clock(max(0.0, self.seconds * (1 - share) / share))

    def _speed(self) -> float:
        return self.target_tokens / max(self.seconds, 1e-9)


class _Window:
    """Sums over the batches since the last entry of the log; tensors are read once an entry, not once a batch."""

    def __init__(self) -> None:
        self._plain: list[Tensor] = []
        self._smoothed: list[Tensor] = []
        self._tokens = 0
        self._seconds = 0.0

    def add(self, outputs: dict[str, Any], seconds: float) -> None:
        """Count one batch."""
        self._plain.append(outputs["plain_loss"])
        self._smoothed.append(outputs["smoothed_loss"])
        self._tokens += outputs["tokens"]
        self._seconds += seconds

    def means(self, processes: Processes) -> dict[str, float]:
        """Return losses per target token and the speed, of all processes together."""
        losses = [float(torch.stack(sums).sum()) for sums in (self._plain, self._smoothed)]
        rows = processes.gather([*losses, self._tokens])
        plain, smoothed, tokens = (sum(column) for column in zip(*rows, strict=True))
        return {
            "loss": plain / tokens,
            "smoothed_loss": smoothed / tokens,
            "target_tokens_per_second": tokens / max(self._seconds, 1e-9),
        }


class StopOnSignal(L.Callback):
    """At SIGINT or SIGTERM finish the update, save the state and raise Interrupted; at a second one exit at once.

    One process that has received a signal stops them all.

    Stands behind `Course` in the list of callbacks, so that what was due after the update has been done.
    """

    def __init__(self, course: Course) -> None:
        self._course = course
        self._received_at = 0.0
        self._received: int | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Take the signals over from Lightning, which restores the former handlers at the end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None:
            if self._course.processes.launcher and time.monotonic() - self._received_at < _ECHO_SECONDS:
                return  # the launcher has passed on the Ctrl-C that the terminal sends to all processes
            if sys.stderr.isatty():
                sys.stderr.write("\x1b[?25h\n")  # the cursor, which the bar hides
                sys.stderr.flush()
            end_workers()
            os._exit(128 + number)
        self._received, self._received_at = number, time.monotonic()
        if self._course.processes.is_first:
            # Past Python's buffers, which the signal may have caught in the middle of a write.
            os.write(2, b"stopping after this update, or the validation at work (once more: at once, without saving)\n")

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Stop if a signal has come and the update is complete."""
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        assert isinstance(pl_module, TranslationModule)
        if received := self._received_by_any():
            self._course.save_last(trainer, pl_module)
            self._interrupt(received)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop if a signal has come since the last update, after which the state was saved."""
        if received := self._received_by_any():
            self._interrupt(received)

    def _received_by_any(self) -> int:
        return int(max(row[0] for row in self._course.processes.gather([self._received or 0])))

    def _interrupt(self, number: int) -> NoReturn:
        message = f"interrupted; the state is in {self._course.checkpoints.last}"
        raise Interrupted(self._course.processes.for_all(message), number)
