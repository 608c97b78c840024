"""The trials by which the ladder's rungs were tuned: a table in `conf/experiment/`, and the best of each rung."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.errors import UserError
from seq2seq.whole_file import whole_file


class Trial(NamedTuple):
    """A short run with one point of the space, scored on validation data."""

    label: str
    lr: float
    warmup: int
    dropout: float
    seed: int
    updates: int
    target_tokens: int
    validation_bleu: float  # greedy, of the weights that would ship
    validation_loss: float
    minutes: float
    corpus: str  # its fingerprint


def tuned(conf: Path, ladder: str, label: str, name: str, times: float = 1) -> Any:
    """Return so many times an option's value in the best trial of a rung: the highest BLEU, then the lowest loss.

    Raises:
        UserError: not every point of the space has been tried, or not all on one corpus.
    """
    file = conf / "experiment" / f"trials_{ladder}.csv"
    points = len(list((conf / "trial").glob("*.yaml")))
    trials = [trial for trial in read_trials(file) if trial.label == label]
    tried = len({(trial.lr, trial.warmup, trial.dropout) for trial in trials})
    if tried != points:
        raise UserError(
            f"{label or 'a run without rung='} is not tuned: {file} has {tried} of {points} trials; run "
            f"python train.py -m experiment=trials_{ladder}, then python scripts/collect_trials.py {ladder}; "
            "or choose one by trial="
        )
    if len({trial.corpus for trial in trials}) > 1:
        raise UserError(f"{file} has trials of {label} on different corpora: delete it, and collect them again")
    best = max(trials, key=lambda trial: (trial.validation_bleu, -trial.validation_loss))
    return times * getattr(best, name)


def read_trials(file: Path) -> list[Trial]:
    """Return the trials in a table; none if there is no table."""
    if not file.is_file():
        return []
    kinds = Trial.__annotations__
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    try:
        return [Trial(**{name: kind(row[name]) for name, kind in kinds.items()}) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file} is not a table of trials with the columns {', '.join(kinds)}") from error


def write_trials(file: Path, trials: Iterable[Trial]) -> None:
    """Write a table, whole or not at all."""
    with whole_file(file) as fresh, fresh.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(Trial._fields)
        writer.writerows(trials)


def trial_of(settings: dict[str, Any], metrics_file: Path) -> Trial:
    """Return the trial that a finished run was, from its settings (as in config.yaml) and its metrics.json."""
    metrics = json.loads(metrics_file.read_text(encoding="utf-8"))
    return Trial(
        label=metrics["label"],
        lr=settings["optim"]["lr"],
        warmup=settings["optim"]["warmup"],
        dropout=settings["model"]["dropout"],
        seed=metrics["seed"],
        updates=metrics["updates"],
        target_tokens=metrics["target_tokens_seen"],
        validation_bleu=round(metrics["validation"]["bleu"], 4),
        validation_loss=round(metrics["validation"]["loss"], 5),
        minutes=round(metrics["train_seconds"] / 60, 2),
        corpus=metrics["corpus"],
    )
