"""A training run from its settings to a scored bundle: `fit` is the whole story, read from the top."""

import errno
import logging
import math
import shlex
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lightning as L
import torch
import yaml
from torch import nn

from seq2seq.alignment import Head, choose_heads
from seq2seq.data.gold import read_gold
from seq2seq.data.prepare import PreparedCorpus, prepare
from seq2seq.data.store import PairStore
from seq2seq.errors import UserError
from seq2seq.evaluation import evaluate
from seq2seq.inference.bundle import Bundle, Preprocessing, save_bundle
from seq2seq.inference.translator import Translator
from seq2seq.models import build_model
from seq2seq.models.interface import Seq2Seq
from seq2seq.report import scores_as_text
from seq2seq.training.callbacks import Course, StopOnSignal
from seq2seq.training.checkpoints import (
    AtomicCheckpointIO,
    Checkpoints,
    check_weights,
    is_resumable,
    load,
    without_prefix,
)
from seq2seq.training.datamodule import BatchStream, TranslationData
from seq2seq.training.hardware import Hardware, choose_hardware, machine, versions
from seq2seq.training.lock import LOCK, locked
from seq2seq.training.loggers import BoardLogger, CsvLogger
from seq2seq.training.module import TranslationModule
from seq2seq.training.progress import Bar, RunLog, clock
from seq2seq.training.settings import TrainerConfig
from seq2seq.training.validation import Validator, texts

if TYPE_CHECKING:
    from seq2seq.config import TrainConfig

logger = logging.getLogger(__name__)

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


def fit(config: "TrainConfig", *, may_rename: bool = False) -> str:
    """Prepare the data, train, choose the weights, write the bundle, score the tests; return a summary.

    `may_rename`: where `config.run_dir` has been taken by another run in the meantime, add a number to it.

    Raises:
        UserError: settings that do not fit the data, the machine or each other; nothing is left half-made.
        Interrupted: at SIGINT or SIGTERM, after the state was saved.
    """
    with RunLog().listening() as log, ExitStack() as held:
        hardware = choose_hardware(config.trainer)
        corpus = prepare(config.data, config.tokenizer)
        torch.manual_seed(config.seed)
        model = build_model(config.model, corpus.tokenizer.vocab_size)
        check_lengths(model, config)
        stream = BatchStream(corpus.train, batch_tokens=config.trainer.batch_tokens, seed=config.seed)
        check_accumulation(config.trainer, stream)
        run = _open_run(config, may_rename, held)
        log.write_to(run / "train.log")
        logger.info("training %s on %s; the run is %s", config.model_name, hardware, run)

        checkpoint = None if config.resume is None else _last_checkpoint(run, model)
        resumed_at = None if checkpoint is None else checkpoint["global_step"]
        board = BoardLogger(run, _flat(config), resumed_at) if config.logger.tensorboard else None
        course = train(config, model, corpus, stream, run, hardware, Bar(log.console), board, checkpoint)
        model.to(hardware.accelerator)  # Lightning has taken it to the CPU
        metrics = finish(config, model, corpus, run, course)
        if board is not None:
            board.log_final(final_scores(metrics), course.updates)
            board.log_tests(metrics["tests"], course.updates)
        return summary(config, run, metrics)


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
    if settings.accumulate_grad_batches > settings.max_epochs * stream.batches_of(0):
        raise UserError(
            f"trainer.accumulate_grad_batches={settings.accumulate_grad_batches} is more than the "
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
    settings = config.trainer
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
    )
    total_steps = _expected_steps(settings, stream)
    if config.optim.warmup > total_steps / 2:
        logger.warning(
            "optim.warmup=%d is much for the %d updates of this run: lower it, lower trainer.batch_tokens=%d for more "
            "updates, or raise trainer.max_epochs=%d",
            config.optim.warmup,
            total_steps,
            settings.batch_tokens,
            settings.max_epochs,
        )
    module = TranslationModule(
        model, config.optim, seed=config.seed, batch_tokens=settings.batch_tokens, total_steps=total_steps
    )
    table = CsvLogger(run / "metrics.csv")
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        # Preparing a batch takes under a millisecond: workers beside the training process gain nothing by default.
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        # Lightning 2.6 asks torch's pytree in a way that torch 2.13 has deprecated.
        warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
        trainer = L.Trainer(
            accelerator=hardware.accelerator,
            devices=1,
            precision=cast(Any, hardware.precision.value),
            max_epochs=-1,  # the stream of batches never ends; Course does
            accumulate_grad_batches=settings.accumulate_grad_batches,
            callbacks=[course, StopOnSignal(checkpoints)],
            logger=[table, *([board] if board else [])],
            plugins=[AtomicCheckpointIO()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            default_root_dir=run,
        )
        data = TranslationData(stream, settings.num_workers)
        if checkpoint is None:
            if board is not None:
                board.log_settings()
            trainer.fit(module, data)
        elif _is_finished(course, checkpoint):
            logger.info("training was complete: its weights are scored again; to go on, raise the limit that ended it")
        else:
            table.forget_after(checkpoint["global_step"])
            trainer.fit(module, data, ckpt_path=checkpoints.last, weights_only=True)
    return course


def _expected_steps(settings: TrainerConfig, stream: BatchStream) -> int:
    """Return the number of updates in training: a schedule that ends must know it beforehand."""
    steps = math.ceil(settings.max_epochs * stream.batches_of(0) / settings.accumulate_grad_batches)
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


def _is_finished(course: Course, checkpoint: dict[str, Any]) -> bool:
    """Whether a checkpoint is the end of training; `course` then stands where it stood."""
    course.load_state_dict(checkpoint["callbacks"]["Course"])
    return course.best_bleu is not None and course.is_finished(
        checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]["processed"]
    )


def preprocessing(config: "TrainConfig") -> Preprocessing:
    """Return what will happen to a line before it is translated."""
    data = config.data
    return Preprocessing(config.tokenizer.lowercase, data.max_tokens, data.src_lang, data.tgt_lang)


# ---- Before and after ----


def _open_run(config: "TrainConfig", may_rename: bool, held: ExitStack) -> Path:
    """Make the run's folder, or open it again, and write the settings to it; other processes are `held` off."""
    assert config.run_dir is not None
    run = Path(config.run_dir)
    if config.resume is None:
        names = (run, *(run.with_name(f"{run.name}-{n}") for n in range(2, 100))) if may_rename else (run,)
        run = next((name for name in names if _takes(name)), run)
        _check_empty(run, run.iterdir())
        config.run_dir = str(run)
    held.enter_context(_writing_to(run))
    held.enter_context(locked(run))
    if config.resume is None:  # another process may have been faster
        _check_empty(run, (path for path in run.iterdir() if path.name != LOCK))
    for left in (*run.glob("checkpoints/.*.tmp"), *run.glob("tests/*/.*.new")):  # by a process that was killed
        left.unlink()
    settings = yaml.safe_dump({**config.plain(), "resume": None}, sort_keys=False, allow_unicode=True)
    fresh = run / ".config.yaml.new"
    fresh.write_text(settings, encoding="utf-8")
    fresh.replace(run / "config.yaml")
    return run


def _check_empty(run: Path, files: Iterable[Path]) -> None:
    if any(files):
        raise UserError(f"run_dir={run} is not empty: choose another folder, or go on with resume={run}")


@contextmanager
def _writing_to(run: Path) -> Iterator[None]:
    """Say in one line what is wrong with the disk, wherever in the run it shows."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise UserError(f"cannot write to {error.filename or run}: {error.strerror}") from error


def _last_checkpoint(run: Path, model: Seq2Seq[Any, Any]) -> dict[str, Any]:
    path = run / "checkpoints" / "last.ckpt"
    if not path.exists():
        raise UserError(
            f"there is no checkpoint {path}: the run stopped before its first; delete {run} and start again"
        )
    checkpoint = load(path)
    if not is_resumable(checkpoint):
        raise UserError(f"{path} is not a checkpoint of this program; take an unbroken copy")
    check_weights(path, without_prefix(checkpoint["state_dict"]), model)
    return checkpoint


def _takes(run: Path) -> bool:
    """Make the folder of a new run; return whether it is ours, empty."""
    try:
        run.mkdir(parents=True)
    except FileExistsError:
        if not run.is_dir():
            raise UserError(f"run_dir={run} is a file: choose another name") from None
        return not any(run.iterdir())
    except OSError as error:
        raise UserError(f"cannot make run_dir={run}: {error.strerror}") from error
    return True


def finish(
    config: "TrainConfig", model: Seq2Seq[Any, Any], corpus: PreparedCorpus, run: Path, course: Course
) -> dict[str, Any]:
    """Choose the weights, score the tests, write the bundle; return what its metrics.json holds."""
    validation = choose_weights(config, model, course)
    translator = Translator(model, corpus.tokenizer, preprocessing(config), config.search)
    heads = _heads(translator, corpus.valid)
    tests = {}
    for name, store in corpus.tests.items():
        logger.info("translating %s: %d sentences, beam size %d", name, len(store), config.search.beam_size)
        sources, references = texts(store, "src"), texts(store, "tgt")
        tests[name] = evaluate(
            translator,
            sources,
            references,
            folder=run / "tests" / name,
            lowercase=config.tokenizer.lowercase,
            gold=read_gold(store.folder, len(store)),
            heads=heads,
        )
        logger.info("%s: BLEU %.2f, chrF %.2f", name, tests[name]["bleu"], tests[name]["chrf"])
    metrics = {
        "format": 1,
        "seed": config.seed,
        "parameters": count_parameters(model),
        "parameters_non_embedding": count_parameters(model, without=corpus.tokenizer.vocab_size),
        "train_seconds": course.seconds,
        "target_tokens_per_second": course.target_tokens / course.seconds,
        "updates": course.updates,
        "target_tokens_seen": course.target_tokens,
        "validation": validation,
        "attention_heads": None if heads is None else {step: list(head) for step, head in heads.items()},
        "test": next(iter(tests.values()), None),
        "tests": tests,
        "machine": machine(),
        "versions": versions(),
    }
    bundle = Bundle(model.eval(), config.model, corpus.tokenizer, preprocessing(config), config.search, metrics)
    save_bundle(run / "bundle", bundle)
    return metrics


def _heads(translator: Translator, valid: PairStore) -> dict[str, Head] | None:
    """Return which attention aligns words best, if validation data tells."""
    gold = read_gold(valid.folder, len(valid))
    return None if gold is None else choose_heads(translator, texts(valid, "src"), texts(valid, "tgt"), gold)


def choose_weights(config: "TrainConfig", model: Seq2Seq[Any, Any], course: Course) -> dict[str, Any]:
    """Load the averaged weights where they validate no worse than the best, else the best; return their scores."""
    checkpoints = course.checkpoints
    model.load_state_dict(check_weights(checkpoints.best, checkpoints.best_weights(), model))
    best = course.validator(model)
    snapshots = len(checkpoints.snapshots())
    if config.optim.average_last > 1 and snapshots > 1:
        model.load_state_dict(check_weights(checkpoints.folder, checkpoints.average(), model))
        averaged = course.validator(model)
        logger.info(
            "validation BLEU %.2f with the best weights, %.2f with the mean of the last %d validations' weights",
            best.bleu,
            averaged.bleu,
            snapshots,
        )
        if averaged.bleu >= best.bleu:
            return {**averaged.metrics(), "weights": f"average of the weights of the last {snapshots} validations"}
        model.load_state_dict(checkpoints.best_weights())
    return {**best.metrics(), "weights": "best validation BLEU"}


def count_parameters(model: nn.Module, *, without: int | None = None) -> int:
    """Count trainable numbers, a tied matrix once; `without` leaves out what has one row a vocabulary entry.

    Those are the embeddings and the output projection with its bias, tied or not.
    """
    return sum(p.numel() for p in model.parameters() if without is None or p.shape[0] != without)


def final_scores(metrics: dict[str, Any]) -> dict[str, float]:
    """Return what TensorBoard's HParams tab compares runs by."""
    scores = {"validation_bleu": metrics["validation"]["bleu"], "train_minutes": metrics["train_seconds"] / 60}
    if metrics["test"] is not None:
        scores |= {f"test_{name}": metrics["test"][name] for name in ("bleu", "chrf", "exact_match")}
    return scores


def summary(config: "TrainConfig", run: Path, metrics: dict[str, Any]) -> str:
    """Return what the run came to, and the next commands to type."""
    lines = [
        f"{config.model_name} on {config.data_name} ({config.data.src_lang}-{config.data.tgt_lang}): "
        f"{metrics['parameters'] / 1e6:.1f} M parameters, trained {clock(metrics['train_seconds'])} "
        f"({metrics['updates']} updates, {metrics['target_tokens_per_second']:,.0f} target tokens/s)",
        f"validation: BLEU {metrics['validation']['bleu']:.2f} (greedy; {metrics['validation']['weights']})",
    ]
    if metrics["tests"]:
        lines += [f"tests, beam size {config.search.beam_size}:", "", scores_as_text(metrics["tests"])]
    lines += [f"run: {run}", f"next: seq2seq translate {shlex.quote(str(run))}", "      tensorboard --logdir runs"]
    return "\n".join(lines)


def _flat(config: "TrainConfig") -> dict[str, Any]:
    """Return the settings by dotted name, for TensorBoard."""

    def walk(prefix: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            return {prefix: value if isinstance(value, bool | int | float | str) else str(value)}
        return {name: leaf for key, item in value.items() for name, leaf in walk(f"{prefix}.{key}", item).items()}

    return {name.removeprefix("."): value for name, value in walk("", config.plain()).items()}
