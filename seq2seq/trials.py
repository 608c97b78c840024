"""The trials by which the ladder's rungs were tuned: a table in `conf/experiment/`, and the best of each rung."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from seq2seq.data.corpus import read_lines
from seq2seq.errors import UserError
from seq2seq.inference.bundle import read_json
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

    @property
    def point(self) -> tuple[float, int, float]:
        """Where in the space it is."""
        return self.lr, self.warmup, self.dropout


def space(conf: Path) -> set[tuple[float, int, float]]:
    """Return the points that every rung must have had: lr, warmup and dropout, as `conf/trial` has them."""
    found = set()
    for file in (conf / "trial").glob("*.yaml"):
        trial = yaml.safe_load(file.read_text(encoding="utf-8"))
        found.add((float(trial["optim"]["lr"]), int(trial["optim"]["warmup"]), float(trial["model"]["dropout"])))
    return found


def tuned(conf: Path, ladder: str, label: str, name: str, times: float = 1) -> Any:
    """Return so many times an option's value in the best trial of a rung: the highest BLEU, then the lowest loss.

    Raises:
        UserError: not every point of the space has been tried, or not all on one corpus and for as many updates.
    """
    file = conf / "experiment" / f"trials_{ladder}.csv"
    points = space(conf)
    trials = [trial for trial in read_trials(file) if trial.label == label and trial.point in points]
    tried = len({trial.point for trial in trials})
    if tried != len(points):
        raise UserError(
            f"{label or 'a run without rung='} is not tuned: {file} has {tried} of {len(points)} trials; run "
            f"python train.py -m experiment=trials_{ladder}, then python scripts/collect_trials.py {ladder}; "
            "or choose one by trial="
        )
    for what, values in (
        ("on different corpora", {trial.corpus for trial in trials}),
        ("of different numbers of updates", {trial.updates for trial in trials}),
    ):
        if len(values) > 1:
            raise UserError(f"{file} has trials of {label} {what}: delete it, and collect them again")
    best = max(trials, key=lambda trial: (trial.validation_bleu, -trial.validation_loss))
    return times * getattr(best, name)


def read_trials(file: Path) -> list[Trial]:
    """Return the trials in a table; none if there is no table."""
    if not file.exists():
        return []
    kinds = Trial.__annotations__
    rows = list(csv.DictReader(read_lines(file)))
    try:
        trials = [Trial(**{name: kind(row[name]) for name, kind in kinds.items()}) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file} is not a table of trials with the columns {', '.join(kinds)}") from error
    if not all(math.isfinite(number) for trial in trials for number in trial if isinstance(number, float)):
        raise UserError(f"{file} holds a number that is none: delete its line, and collect that trial again")
    return trials


def write_trials(file: Path, trials: Iterable[Trial]) -> None:
    """Write a table, whole or not at all."""
    with whole_file(file) as fresh, fresh.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(Trial._fields)
        writer.writerows(trials)


def trial_of(settings: dict[str, Any], metrics_file: Path) -> Trial:
    """Return the trial that a finished run was, from its settings (as in config.yaml) and its metrics.json."""
    metrics = read_json(metrics_file)
    try:
        return _trial(settings, metrics)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{metrics_file} or the config.yaml of its run is damaged: take an unbroken copy") from error


def _trial(settings: dict[str, Any], metrics: dict[str, Any]) -> Trial:
    if not isinstance(metrics["label"], str):
        raise TypeError
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
