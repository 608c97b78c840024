"""The files of finished runs, for tables that set them side by side."""

import csv
import hashlib
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.comparison.kinds import METRICS_KIND, SETTINGS_KIND, SPEED_KIND, fault
from seq2seq.data.corpus import ParallelText, read_lines
from seq2seq.errors import UserError
from seq2seq.inference.bundle import METRICS, MODEL, read_json

logger = logging.getLogger(__name__)

SPEED = "speed.json"  # of translating, measured by a command of its own
_OF_A_SPEED = ("device", "machine", "beam_size", "batch_size", "sentences")  # what speeds of one table share

# What may differ between the seeds of one label: where things lie, what is written, and the seed.
_MAY_DIFFER = (
    *("seed", "run_dir", "resume", "go_on", "label", "data.cache_dir", "data.dir", "data.url", "logger."),
    *(f"trainer.{name}" for name in ("accelerator", "num_workers", "checkpoint_minutes")),
)


class Point(NamedTuple):
    """One validation in the course of training."""

    target_tokens: float  # seen so far
    minutes: float  # of training so far, validation not counted
    bleu: float  # of greedy translations


class ScoredText(NamedTuple):
    """A test set of a run: N lines each."""

    src: list[str]
    ref: list[str]
    hyp: list[str]
    sha256: str  # of src.txt and ref.txt one after the other, as in metrics.json


class Run(NamedTuple):
    """A finished run."""

    folder: Path
    label: str
    settings: dict[str, Any]  # as config.yaml holds them
    metrics: dict[str, Any]

    @property
    def seed(self) -> int:
        """The seed of training."""
        return int(self.metrics["seed"])

    @property
    def lowercase(self) -> bool:
        """Whether its text is lower-cased before it is scored."""
        return bool(self.settings["tokenizer"]["lowercase"])

    def test_sets(self) -> list[str]:
        """The names of its test sets, in order."""
        return list(self.metrics["tests"])


def open_run(folder: Path, settings: dict[str, Any]) -> Run:
    """Read what a finished run wrote about itself.

    Args:
        folder: of the run.
        settings: what its config.yaml holds.

    Raises:
        UserError: it has no bundle yet, or a file is damaged.
    """
    if not (folder / "bundle" / METRICS).is_file():
        raise UserError(f"{folder} is not a finished run: it has no bundle/{METRICS}; leave it out, or train it")
    metrics = read_json(folder / "bundle" / METRICS)
    needed = {"seed", "parameters", "updates", "train_seconds", "target_tokens_seen", "validation", "tests"}
    if missing := sorted(needed - metrics.keys()):
        raise UserError(f"{folder / 'bundle' / METRICS} is damaged: it lacks {', '.join(missing)}")
    _check(metrics, METRICS_KIND, folder / "bundle" / METRICS)
    _check(settings, SETTINGS_KIND, folder / "config.yaml")
    label = metrics.get("label") or read_json(folder / "bundle" / MODEL)["architecture"]
    return Run(folder, str(label), settings, metrics)


def _check(content: Mapping[str, Any], kind: Any, file: Path) -> None:
    if found := fault(content, kind):
        raise UserError(f"{file} is damaged: {found}; take an unbroken copy")


def by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Bring the seeds of each label together, in the order in which labels are met.

    Raises:
        UserError: a label has the same seed twice, or runs that differ by more than the seed.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        group = groups.setdefault(run.label, [])
        for other in group:
            if other.seed == run.seed:
                raise UserError(
                    f"{other.folder} and {run.folder} are both {run.label!r} with seed {run.seed}: leave one out, or "
                    "compare them --by-run"
                )
        if group and (name := _difference(group[0], run)):
            raise UserError(
                f"{group[0].folder} and {run.folder} are both {run.label!r} but differ in {name}: compare them "
                "--by-run, or train with a label= each"
            )
        group.append(run)
    return groups


def by_folder(runs: Sequence[Run]) -> list[Run]:
    """Give each run its folder for a label: the name, or where two have the same, the whole path."""
    names = [run.folder.resolve().name for run in runs]
    return [
        run._replace(label=name if names.count(name) == 1 else str(run.folder))
        for run, name in zip(runs, names, strict=True)
    ]


def _difference(one: Run, other: Run) -> str | None:
    """Return the name of a setting, not among those that may differ, that the two do not share."""
    return next(iter(_differences(one, other)), None)


def _differences(one: Run, other: Run) -> list[str]:
    """Return the names of all such settings."""
    found = []
    formats = [run.metrics.get("precision") for run in (one, other)]  # what `auto` came to; older runs do not say
    if None not in formats and formats[0] != formats[1]:
        found.append(f"the number format of training ({formats[0]} and {formats[1]})")
    first, second = (dict(_flat("", run.settings)) for run in (one, other))
    corpora = [run.metrics.get("corpus") for run in (one, other)]  # nor this
    if None not in corpora and corpora[0] != corpora[1]:
        found.append("the prepared corpus")
    shared = sorted(first.keys() & second.keys())  # an older run lacks options that came later
    return found + [name for name in shared if first[name] != second[name] and not name.startswith(_MAY_DIFFER)]


def differing_settings(runs: Sequence[Run]) -> list[str]:
    """Return the names of the settings that any two of the runs both have, and not the same: is a comparison fair?"""
    found = {name for one, other in combinations(runs, 2) for name in _differences(one, other)}
    return sorted(found - {"choices.model", "compared_with"})


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return [(prefix, value)]
    return [leaf for key, item in value.items() for leaf in _flat(f"{prefix}.{key}" if prefix else str(key), item)]


def scores_on(run: Run, name: str) -> dict[str, Any]:
    """Return a run's scores on a test set; a UserError if it has no such set."""
    if name not in run.metrics["tests"]:
        raise UserError(f"{run.folder} has no test set {name}; it has {', '.join(run.test_sets()) or 'none'}")
    scores: dict[str, Any] = run.metrics["tests"][name]
    return scores


def check_same_text(runs: Iterable[Run], name: str) -> None:
    """Raise UserError unless all runs that have a test set were scored on the same text, in the same way."""
    having = [run for run in runs if name in run.metrics["tests"]]
    for run in having:
        one, other = (str(of.metrics["tests"][name].get("test_set_sha256")) for of in (having[0], run))
        if one != other:
            raise UserError(
                f"{having[0].folder} and {run.folder} have different test sets {name} (test_set_sha256 {one[:12]} and "
                f"{other[:12]}): their scores cannot be compared; leave one out"
            )
        if run.lowercase != having[0].lowercase:
            raise UserError(
                f"one of {having[0].folder} and {run.folder} is scored in lower case, the other is not: their scores "
                "cannot be compared; leave one out"
            )


def read_test(run: Run, name: str) -> ScoredText:
    """Return a test set as the run has it.

    Raises:
        UserError: the run has no such set, or its files are not those that were scored.
    """
    expected = scores_on(run, name).get("test_set_sha256")
    folder = run.folder / "tests" / name
    pairs = list(ParallelText(folder / "src.txt", folder / "ref.txt").pairs())
    if not pairs:
        raise UserError(f"{folder / 'src.txt'} is empty")
    src, ref = map(list, zip(*pairs, strict=True))
    hyp = list(read_lines(folder / "hyp.txt"))
    sha256 = hashlib.sha256((folder / "src.txt").read_bytes() + (folder / "ref.txt").read_bytes()).hexdigest()
    if len(hyp) != len(src) or sha256 != expected:
        raise UserError(f"the files in {folder} are not those that {METRICS} has scores of; bring them back")
    return ScoredText(src, ref, hyp, sha256)


def read_speeds(runs: Iterable[Run]) -> dict[Path, dict[str, Any]]:
    """Return what `seq2seq speed` has measured, by run folder; nothing if it was not measured for all in one way."""
    found = {run.folder: read_json(run.folder / SPEED) for run in runs if (run.folder / SPEED).exists()}
    for folder, speed in found.items():
        _check(speed, SPEED_KIND, folder / SPEED)
    first: dict[str, Any] = next(iter(found.values()), {})
    for folder, speed in found.items():
        for name in _OF_A_SPEED:
            if speed.get(name) != first.get(name):
                logger.warning(
                    "speeds are left out: %s of %s is %s, that of %s is %s; measure them together, by `seq2seq speed`",
                    *(name, folder / SPEED, speed.get(name), next(iter(found)) / SPEED, first.get(name)),
                )
                return {}
    return found


def read_curve(run: Run) -> list[Point]:
    """Return the validations in a run's metrics.csv; a UserError if they are not those of all of training."""
    file = run.folder / "metrics.csv"
    try:
        points = [
            Point(float(row["target_tokens"]), float(row["seconds"]) / 60, float(row["validation/bleu"]))
            for row in csv.DictReader(read_lines(file))
            if row.get("validation/bleu")
        ]
    except UserError:  # of the file itself
        raise
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise UserError(f"{file} is damaged: {error}; bring it back") from error
    if not points:
        raise UserError(f"{file} holds no validation; leave {run.folder} out")
    if not all(math.isfinite(number) and number >= 0 for point in points for number in point):
        raise UserError(f"{file} is damaged: it holds a number that none of its columns can have; bring it back")
    if any(b.target_tokens <= a.target_tokens or b.minutes < a.minutes for a, b in pairwise(points)):
        raise UserError(f"{file} is damaged: training goes back in time; bring it back")
    if points[-1].target_tokens != run.metrics["target_tokens_seen"]:
        raise UserError(f"{file} is damaged: it does not reach to the end of training; bring it back")
    return points
