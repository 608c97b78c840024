"""The end of a training run: choose the weights, score the tests, write the bundle, sum up."""

import logging
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from seq2seq.alignment import choose_heads
from seq2seq.data.grammar.files import CHALLENGES
from seq2seq.data.prepare import PreparedCorpus
from seq2seq.evaluation import corpus_scores, evaluate
from seq2seq.inference.bundle import Bundle, Preprocessing, save_bundle
from seq2seq.inference.translator import Translator
from seq2seq.models import build_model
from seq2seq.models.interface import Seq2Seq
from seq2seq.report import scores_as_text
from seq2seq.training.callbacks import Course
from seq2seq.training.checkpoints import check_weights
from seq2seq.training.cost import flops_per_target_token
from seq2seq.training.hardware import machine, versions
from seq2seq.training.progress import clock
from seq2seq.training.validation import texts

if TYPE_CHECKING:
    from seq2seq.config import TrainConfig

logger = logging.getLogger(__name__)


def preprocessing(config: "TrainConfig") -> Preprocessing:
    """Return what will happen to a line before it is translated."""
    data = config.data
    return Preprocessing(config.tokenizer.lowercase, data.max_tokens, data.src_lang, data.tgt_lang)


def finish(
    config: "TrainConfig",
    model: Seq2Seq[Any, Any],
    corpus: PreparedCorpus,
    run: Path,
    course: Course,
    peak_memory: int | None,
) -> dict[str, Any]:
    """Choose the weights, score the tests, write the bundle; return what its metrics.json holds.

    `peak_memory` is that of training, in bytes, validations included.
    """
    validation = choose_weights(config, model, course)
    penalties = try_length_penalties(config, model, corpus)
    search = config.search if penalties is None else replace(config.search, length_penalty=penalties["chosen"])
    translator = Translator(model, corpus.tokenizer, preprocessing(config), search)
    valid = corpus.gold.get("valid")
    heads = valid and choose_heads(translator, texts(corpus.valid, "src"), texts(corpus.valid, "tgt"), valid)
    tests = {}
    for name, store in corpus.tests.items() if config.score_tests else ():
        logger.info("translating %s: %d sentences, beam size %d", name, len(store), search.beam_size)
        sources, references = texts(store, "src"), texts(store, "tgt")
        tests[name] = evaluate(
            translator,
            sources,
            references,
            folder=run / "tests" / name,
            lowercase=config.tokenizer.lowercase,
            gold=corpus.gold.get(name),
            heads=heads,
        )
        logger.info("%s: BLEU %.2f, chrF %.2f", name, tests[name]["bleu"], tests[name]["chrf"])
    metrics = {
        "format": 1,
        "label": config.label_or_name,
        "compared_with": config.compared_with,
        "seed": config.seed,
        "corpus": corpus.manifest["fingerprint"],
        "parameters": count_parameters(model),
        "parameters_non_embedding": count_non_embedding(config.model, model),
        "train_seconds": course.seconds,
        "target_tokens_per_second": course.target_tokens / course.seconds,
        "updates": course.updates,
        "target_tokens_seen": course.target_tokens,
        "training_pairs": len(corpus.train),
        "precision": course.precision.name,
        "flops_per_target_token": flops_per_target_token(model, corpus.train, config.trainer.batch_tokens),
        "peak_memory_bytes": peak_memory,
        "validation": validation,
        "length_penalties": penalties,
        "attention_heads": None if heads is None else {step: list(head) for step, head in heads.items()},
        "test": own_scores(tests),
        "tests": tests,
        "machine": machine(),
        "versions": versions(),
    }
    bundle = Bundle(model.eval(), config.model, corpus.tokenizer, preprocessing(config), search, metrics)
    save_bundle(run / "bundle", bundle)
    return metrics


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


def try_length_penalties(
    config: "TrainConfig", model: Seq2Seq[Any, Any], corpus: PreparedCorpus
) -> dict[str, Any] | None:
    """Translate the validation set with each of `config.length_penalties`; return their BLEU and the best.

    Among equals the first is chosen. None where there is nothing to choose.
    """
    if not config.length_penalties:
        return None
    sources, references = texts(corpus.valid, "src"), texts(corpus.valid, "tgt")
    bleu = {}
    for penalty in config.length_penalties:
        search = replace(config.search, length_penalty=penalty)
        translator = Translator(model, corpus.tokenizer, preprocessing(config), search)
        hypotheses = [translation.text for translation in translator.translate(sources)]
        bleu[penalty] = corpus_scores(hypotheses, references, lowercase=config.tokenizer.lowercase, ter=False)["bleu"]
        logger.info("validation BLEU %.2f with search.length_penalty=%s", bleu[penalty], penalty)
    return {
        "chosen": max(bleu, key=lambda penalty: bleu[penalty]),
        "validation_bleu": {str(penalty): score for penalty, score in bleu.items()},
    }


def own_scores(tests: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the scores on the first test set that is like the training text, as challenge sets are not; None without.

    `tests` has the scores by test set.
    """
    return next((scores for name, scores in tests.items() if name not in CHALLENGES), None)


def count_parameters(model: nn.Module, *, without: int | None = None) -> int:
    """Count trainable numbers, a tied matrix once; `without` leaves out what has one row a vocabulary entry.

    Those are the embeddings and the output projection with its bias, tied or not.
    """
    return sum(p.numel() for p in model.parameters() if without is None or p.shape[0] != without)


def count_non_embedding(config: Any, model: nn.Module) -> int:
    """Count what is left without embeddings and the output projection, whatever the sizes of the model.

    In a twin whose vocabulary is larger than any size of the model's, so that no other matrix has so many rows.
    """
    unlike = 1 + max(size for parameter in model.parameters() for size in parameter.shape)
    with torch.random.fork_rng(devices=[]):
        return count_parameters(build_model(config, unlike), without=unlike)


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
