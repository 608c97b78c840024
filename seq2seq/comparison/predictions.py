"""What was predicted before the runs were made, and whether it held.

A JSON file names the rungs of a ladder by their labels:

    {"with attention": {"compared_with": "without", "prediction": "Attention is worth 10 BLEU on long sentences",
                        "set": "length_21_40_coordination", "metric": "bleu", "at_least": 10, "trials": 12}}

`metric` is one of `METRICS`. Its value is the difference to the rung of `compared_with`; without that, the rung's own.
`set` is a test set; without it, the one that the table is about. `trials` is how many settings were tried on validation
data before this one was chosen. All of them may be left out; a prediction needs a metric and a bound.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from seq2seq.errors import UserError

METRICS = ("bleu", "chrf", "exact_match", "ter", "length_ratio", "cut", "looping", "aer_step_t", "aer_step_t_plus_1")
_LARGEST = 1000  # that a bound can be


class Rung(NamedTuple):
    """One rung of a ladder."""

    compared_with: str | None = None
    prediction: str | None = None
    set: str | None = None
    metric: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    trials: int | None = None


_KINDS = {
    name: (int, float) if name in ("at_least", "at_most") else int if name == "trials" else str for name in Rung._fields
}


class Measures(Protocol):
    """Where measured values come from."""

    def measured(self, label: str, other: str | None, test_set: str, metric: str) -> dict[str, float]:
        """Return value, and low and high where there is an interval."""


def read_rungs(file: Path) -> dict[str, Rung]:
    """Read the file that the head of this module describes; a UserError says what is wrong in it."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(entry, dict) for entry in content.values()):
        raise UserError(f"{file} must hold an object of objects, one for each label")
    rungs = {label: _rung(f"{file}, {label!r}", entry) for label, entry in content.items()}
    for label, rung in rungs.items():
        if rung.compared_with == label:
            raise UserError(f"{file}, {label!r}: compared_with is the label itself")
    return rungs


def _rung(where: str, entry: Mapping[str, Any]) -> Rung:
    for name, value in entry.items():
        if name not in _KINDS:
            raise UserError(f"{where}: there is no {name!r}; it may hold {', '.join(Rung._fields)}")
        if value is not None and (not isinstance(value, _KINDS[name]) or isinstance(value, bool)):
            raise UserError(f"{where}: {name} is {value!r}, which is not of its kind")
    rung = Rung(**entry)
    if rung.prediction is not None and (rung.metric is None or rung.at_least is rung.at_most is None):
        raise UserError(f"{where}: a prediction needs metric, and at_least or at_most")
    if rung.prediction is None and (rung.at_least, rung.at_most) != (None, None):
        raise UserError(f"{where}: at_least and at_most need a prediction")
    bounds = [bound for bound in (rung.at_least, rung.at_most) if bound is not None]
    if not all(-_LARGEST <= bound <= _LARGEST for bound in bounds):  # NaN is not, either
        raise UserError(f"{where}: at_least and at_most must be numbers from {-_LARGEST} to {_LARGEST}")
    if bounds != sorted(bounds):
        raise UserError(f"{where}: at_least is more than at_most")
    if rung.trials is not None and rung.trials < 1:
        raise UserError(f"{where}: trials is {rung.trials}; it must be at least 1")
    if rung.metric is not None and rung.metric not in METRICS:
        raise UserError(f"{where}: metric {rung.metric!r} is not one of {', '.join(METRICS)}")
    return rung


def judged(rung: Rung, measures: Measures, label: str, main_set: str) -> dict[str, Any]:
    """Return a prediction with what was measured, whether it held, and whether that is sure.

    It is sure if all of the interval gives the same verdict, and not known (None) where there is no interval.
    """
    assert rung.metric is not None
    test_set = rung.set or main_set
    found = measures.measured(label, rung.compared_with, test_set, rung.metric)
    least = -math.inf if rung.at_least is None else rung.at_least
    most = math.inf if rung.at_most is None else rung.at_most
    held, sure = least <= found["value"] <= most, None
    if "low" in found:
        within, beyond = least <= found["low"] <= found["high"] <= most, found["high"] < least or found["low"] > most
        sure = within if held else beyond
    return {**rung._asdict(), "set": test_set, "measured": found, "held": held, "sure": sure}
