"""A training run from its settings to a scored bundle: `fit` is the whole story, read from the top."""

import io
import logging
import math
import warnings
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lightning as L
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from rich.console import Console

from seq2seq.allocator import keep_freed_memory
from seq2seq.data.prepare import PreparedCorpus, prepare
from seq2seq.errors import UserError
from seq2seq.models import build_model
from seq2seq.models.interface import Seq2Seq
from seq2seq.training.callbacks import Course, StopOnSignal
from seq2seq.training.checkpoints import AtomicCheckpointIO, Checkpoints
from seq2seq.training.cost import PeakMemory
from seq2seq.training.datamodule import BatchStream, TranslationData
from seq2seq.training.divergence import DivergenceCheck
from seq2seq.training.finish import final_scores, finish, preprocessing, summary
from seq2seq.training.hardware import Hardware, bound_kernel_cache, choose_hardware
from seq2seq.training.launch import launched
from seq2seq.training.loggers import BoardLogger, CsvLogger
from seq2seq.training.module import TranslationModule
from seq2seq.training.processes import Processes, joined, outside
from seq2seq.training.progress import Bar, RunLog
from seq2seq.training.run_folder import last_checkpoint, open_run
from seq2seq.training.settings import Precision, TrainerConfig
from seq2seq.training.validation import Validator

if TYPE_CHECKING:
    from seq2seq.config import TrainConfig

logger = logging.getLogger(__name__)


def fit(config: "TrainConfig", *, may_rename: bool = False) -> str:
    """Prepare the data, train, choose the weights, write the bundle, score the tests; return a summary.

    Under torchrun or srun each process calls it, and all but the first return an empty summary.

    `may_rename`: where `config.run_dir` has been taken by another run in the meantime, add a number to it.

    Raises:
        UserError: settings that do not fit the data, the machine or each other; nothing is left half-made.
        Interrupted: at SIGINT or SIGTERM, after the state was saved.
    """
    others = outside()
    if others is None:
        return _lead(config, may_rename, None)
    with joined(others):
        return _lead(config, may_rename, others) if others.is_first else follow(config, others)


def _lead(config: "TrainConfig", may_rename: bool, others: Processes | None) -> str:
    """Be the only process of a run, or the first."""
    with RunLog().listening() as log, ExitStack() as held:
        hardware = choose_hardware(config.trainer, others)
        corpus = prepare(config.data, config.tokenizer)
        model, stream = _start(config, corpus, others or Processes(world=hardware.processes))
        run = open_run(config, may_rename, held)
        log.write_to(run / "train.log")
        checkpoint = None if config.resume is None else last_checkpoint(run, model)
        hardware = hardware.going_on(checkpoint)
        logger.info("training %s on %s; the run is %s", config.model_name, hardware, run)
        resumed_at = None if checkpoint is None else checkpoint["global_step"]
        board = BoardLogger(run, _flat(config), resumed_at) if config.logger.tensorboard else None
        must_launch = others is None and hardware.processes > 1
        with launched(config) if must_launch else nullcontext():
            stream.processes.share(None)  # the others wait here for the prepared corpus
            memory = PeakMemory(hardware.accelerator)
            course = train(config, model, corpus, stream, run, hardware, Bar(log.console), board, checkpoint)
            peak = memory.bytes()
        model.to(hardware.accelerator)  # Lightning has taken it to the CPU
        metrics = finish(config, model, corpus, run, course, peak)
        if board is not None:
            board.log_final(final_scores(metrics), course.updates)
            board.log_tests(metrics["tests"], course.updates)
        return summary(config, run, metrics)


def follow(config: "TrainConfig", processes: Processes) -> str:
    """Be one of the other processes of a run: train along, write nothing, say nothing."""
    logging.getLogger("seq2seq").setLevel(logging.CRITICAL)
    hardware = choose_hardware(config.trainer, processes)
    processes.share(None)
    corpus = prepare(config.data, config.tokenizer)
    model, stream = _start(config, corpus, processes)
    checkpoint = None if config.resume is None else last_checkpoint(Path(config.resume), model)
    hardware = hardware.going_on(checkpoint)
    bar = Bar(Console(file=io.StringIO()))
    train(config, model, corpus, stream, Path(config.resume or "."), hardware, bar, None, checkpoint)
    return ""


def _start(
    config: "TrainConfig", corpus: PreparedCorpus, processes: Processes
) -> tuple[Seq2Seq[Any, Any], BatchStream]:
    """Return the untrained model and what it will be trained on."""
    torch.manual_seed(config.seed)
    model = build_model(config.model, corpus.tokenizer.vocab_size)
    check_lengths(model, config)
    trainer = config.trainer
    stream = BatchStream(
        corpus.train,
        batch_tokens=trainer.batch_tokens,
        seed=config.seed,
        epochs=trainer.max_epochs,
        processes=processes,
    )
    check_accumulation(trainer, stream)
    return model, stream


def check_lengths(model: Seq2Seq[Any, Any], config: "TrainConfig") -> None:
    """Raise UserError if training pairs may be longer than the model can read or write."""
    longest = config.data.max_tokens + 1  # EOS, or BOS
    for side, limit in (("source", model.max_source_length), ("target", model.max_target_length)):
        if limit is not None and longest > limit:
            raise UserError(
                f"data.max_tokens={config.data.max_tokens} is more than this model's {limit - 1} {side} tokens: "
                "lower it, or raise the model's limit"
            )


def check_accumulation(settings: TrainerConfig, stream: BatchStream) -> None:
    """Raise UserError if all of training has too few batches for one update."""
    if settings.accumulate_grad_batches * stream.processes.world > settings.max_epochs * stream.batches_of(0):
        each = f" in each of {stream.processes.world} processes" if stream.processes.world > 1 else ""
        raise UserError(
            f"trainer.accumulate_grad_batches={settings.accumulate_grad_batches}{each} is more than the "
            f"{stream.batches_of(0)} batches of each of {settings.max_epochs} epochs: lower it"
        )


def train(
    config: "TrainConfig",
    model: Seq2Seq[Any, Any],
    corpus: PreparedCorpus,
    stream: BatchStream,
    run: Path,
    hardware: Hardware,
    bar: Bar,
    board: BoardLogger | None = None,
    checkpoint: dict[str, Any] | None = None,
) -> Course:
    """Train a model in place, from the start or from the run's last `checkpoint`; return how it went."""
    bound_kernel_cache()
    keep_freed_memory()
    settings = config.trainer
    processes = stream.processes
    checkpoints = Checkpoints(run / "checkpoints")
    greedy = replace(config.search, beam_size=1)
    validator = Validator(corpus, preprocessing(config), greedy, batch_tokens=settings.batch_tokens)
    course = Course(
        settings,
        config.logger,
        config.optim,
        stream=stream,
        validator=validator,
        checkpoints=checkpoints,
        bar=bar,
        corpus=corpus.manifest["fingerprint"],
        precision=hardware.precision,
        divergence=DivergenceCheck(processes, skips_gradients=hardware.precision is Precision.fp16_mixed),
    )
    total_steps = _expected_steps(settings, stream)
    if config.optim.warmup > total_steps / 2:
        logger.warning(
            "optim.warmup=%d is much for the %d updates of this run: lower it, or raise %s",
            config.optim.warmup,
            total_steps,
            _what_ends_training(settings, total_steps),
        )
    module = TranslationModule(
        model,
        config.optim,
        seed=config.seed,
        batch_tokens=settings.batch_tokens,
        total_steps=total_steps,
        processes=processes,
    )
    processes.share_weights(model)
    table = CsvLogger(run / "metrics.csv")
    written = [table, *([board] if board else [])]
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        # Preparing a batch takes under a millisecond: workers beside the training process gain nothing by default.
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        # Lightning 2.6 asks torch's pytree in a way that torch 2.13 has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
        trainer = L.Trainer(
            accelerator=hardware.accelerator,
            devices=[processes.local_rank] if hardware.accelerator == "cuda" else 1,
            precision=cast(Any, hardware.precision.value),
            max_epochs=-1,  # the stream of batches never ends; Course does
            accumulate_grad_batches=settings.accumulate_grad_batches,
            callbacks=[course, StopOnSignal(course)],
            logger=written if processes.is_first else False,
            # To Lightning each process is on its own; what they do together is in processes.py.
            plugins=[AtomicCheckpointIO(), LightningEnvironment()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=run,
        )
        data = TranslationData(stream, settings.num_workers)
        if checkpoint is not None:
            course.load_state_dict(checkpoint["callbacks"]["Course"])
            stream.start = course.batches
            if course.best_bleu is None and not len(next(iter(stream))):
                raise UserError(
                    f"{run} was stopped before its first validation, after more than "
                    f"trainer.max_epochs={settings.max_epochs}: raise it"
                )
        if checkpoint is None:
            if board is not None:
                board.log_settings()
            trainer.fit(module, data)
        elif course.best_bleu is not None and course.is_finished:
            logger.info("training was complete: its weights are scored again; to go on, raise the limit that ended it")
        else:
            if processes.is_first:
                table.forget_after(checkpoint["global_step"])
            trainer.fit(module, data, ckpt_path=checkpoints.last, weights_only=True)
    return course


def _expected_steps(settings: TrainerConfig, stream: BatchStream) -> int:
    """Return the number of updates in training: a schedule that ends must know it beforehand."""
    batches = settings.accumulate_grad_batches * stream.processes.world  # of an update
    steps = math.ceil(settings.max_epochs * stream.batches_of(0) / batches)
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


def _what_ends_training(settings: TrainerConfig, total_steps: int) -> str:
    """Name the setting that gives so many updates."""
    by_steps = settings.max_steps == total_steps
    return f"trainer.max_steps={settings.max_steps}" if by_steps else f"trainer.max_epochs={settings.max_epochs}"


def _flat(config: "TrainConfig") -> dict[str, Any]:
    """Return the settings by dotted name, for TensorBoard."""

    def walk(prefix: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {prefix: value if isinstance(value, bool | int | float | str) else str(value)}
        return {name: leaf for key, item in value.items() for name, leaf in walk(f"{prefix}.{key}", item).items()}

    return {name.removeprefix("."): value for name, value in walk("", config.plain()).items()}
