"""Runs side by side: what each label's seeds came to, and how sure the difference to another label is.

A difference has a 95 % interval by the bootstrap (Koehn 2004, "Statistical Significance Tests for Machine Translation
Evaluation"): in each of 10,000 resamples, the same sentences are drawn for all, with replacement, and the corpus score
of a label is the mean over its seeds. Another seed would have given other translations, so the mean is drawn too: from
Student's t distribution around it, as for the mean of few normal numbers (see `draw_means`). One seed cannot show what
another would do: then the interval speaks of the sentences alone.

Shapes: N sentences, R resamples.
"""

import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.comparison.predictions import Rung, judged
from seq2seq.comparison.runs import (
    Point,
    Run,
    ScoredText,
    by_label,
    check_same_text,
    differing_settings,
    read_curve,
    read_speeds,
    read_test,
    scores_on,
)
from seq2seq.errors import UserError
from seq2seq.evaluation import SentenceStatistics, by_source_length, corpus_scores

logger = logging.getLogger(__name__)

RESAMPLES = 10_000
_HIGHEST = {"bleu": 100.0, "chrf": 100.0, "exact_match": 1.0}
SCORES = tuple(_HIGHEST)
_ROUNDING = 1e-6
_SEED = 0
_AT_A_TIME = 1000  # resamples scored at once: their counts of sentences are float64


def compare(
    runs: Sequence[Run],
    *,
    test_set: str | None = None,
    rungs: Mapping[str, Rung] | None = None,
    baselines: Mapping[str, Callable[[str], str]] | None = None,
) -> dict[str, Any]:
    """Return what `comparison_text` prints and JSON holds: `rows` by label, in the order of the runs, and `baselines`.

    Args:
        runs: at least one; several seeds of a label make one row.
        test_set: the set whose scores are compared; left open: the first one of the first run.
        rungs: by label, which label it is compared with and what was predicted. What is not said there, the setting
            `compared_with` of the runs says; where nothing does, each label is compared with the one before it.
        baselines: trivial ways to translate a line, by name; scored on the test set.

    Raises:
        UserError: runs that cannot stand in one table: see `by_label`, `read_test`; test sets that differ.
    """
    groups = by_label(runs)
    for each in dict.fromkeys(each for run in runs for each in run.test_sets()):
        check_same_text(runs, each)
    name = test_set if test_set is not None else _first_set(runs[0])
    sets = _Sets(groups)
    src = sets.text(name).src
    lengths = by_source_length(src)
    curves = {run.folder: read_curve(run) for run in runs}
    tokens = min(curve[-1].target_tokens for curve in curves.values())
    minutes = min(curve[-1].minutes for curve in curves.values())
    others = _compared_with(groups, rungs or {})
    speeds = read_speeds(runs)
    predicted = {label: rung for label, rung in (rungs or {}).items() if rung.prediction is not None}
    measured = {
        label: rung for label, rung in predicted.items() if groups.keys() >= {label, rung.compared_with or label}
    }
    for label, rung in measured.items():  # so that a wrong name is told at once
        for run in (*groups[label], *groups[rung.compared_with or label]):
            scores_on(run, rung.set or name)
    rows: dict[str, dict[str, Any]] = {}
    for number, (label, group) in enumerate(groups.items(), start=1):
        logger.info("counting and resampling %s, seeds: %d (%d of %d)", label, len(group), number, len(groups))
        of_label = (rungs or {}).get(label)
        other = others[label]
        own = sets.statistics(label, name)
        rows[label] = {
            **_size_and_cost(group, speeds),
            **_quality(group, name),
            "bleu_by_length": {
                length: fmean(one.score("bleu", chosen) for one in own) for length, chosen in lengths.items()
            },
            "tests": {each: _brief(group, each) for each in group[0].test_sets()},
            "equal_tokens": _read_at(group, curves, lambda point: point.target_tokens, tokens),
            "equal_minutes": _read_at(group, curves, lambda point: point.minutes, minutes),
            "convergence": _convergence([curves[run.folder] for run in group]),
            "compared_with": other,
            "difference": {"to": other, **sets.differences(label, other, name)} if other in groups else None,
            "trials": of_label and of_label.trials,
        }
    for label, rung in measured.items():
        rows[label]["prediction"] = judged(rung, sets, label, name)
    return {
        "test_set": name,
        "test_set_sha256": sets.text(name).sha256,
        "sentences": len(src),
        "sentences_by_length": {length: len(chosen) for length, chosen in lengths.items()},
        "resamples": RESAMPLES,
        "equal_tokens": tokens,
        "equal_minutes": minutes,
        "rows": rows,
        "rows_differ_in": differing_settings([group[0] for group in groups.values()]),
        "predictions_not_measured": [label for label in predicted if label not in measured],
        "baselines": {
            label: _baseline(label, translate, sets.text(name), lengths, runs[0].lowercase)
            for label, translate in (baselines or {}).items()
        },
    }


def _compared_with(groups: Mapping[str, Sequence[Run]], rungs: Mapping[str, Rung]) -> dict[str, str | None]:
    """Return which label each is compared with: the one that `rungs` or the run's settings name, be it there or not.

    Where nobody names any, it is the one before.
    """
    named = {
        label: (label in rungs and rungs[label].compared_with) or group[0].settings.get("compared_with") or None
        for label, group in groups.items()
    }
    return named if any(named.values()) else dict(zip(groups, [None, *groups], strict=False))


def _first_set(run: Run) -> str:
    if not run.test_sets():
        raise UserError(f"{run.folder} has no test set to compare on; train with one")
    return run.test_sets()[0]


class _Sets:
    """The test sets of all labels, read and counted once; each is the same for all who have it."""

    def __init__(self, groups: Mapping[str, Sequence[Run]]) -> None:
        self._groups = groups
        self._texts: dict[str, ScoredText] = {}
        self._statistics: dict[tuple[str, str], list[SentenceStatistics]] = {}
        self._times: dict[str, NDArray[np.uint16]] = {}
        self._resampled: dict[tuple[str, str, str], NDArray[np.float64]] = {}

    def text(self, name: str) -> ScoredText:
        """Return the test set of the first run."""
        if name not in self._texts:
            self._texts[name] = read_test(next(iter(self._groups.values()))[0], name)
        return self._texts[name]

    def statistics(self, label: str, name: str) -> list[SentenceStatistics]:
        """Return those of each seed's translations."""
        if (label, name) not in self._statistics:
            self.text(name)
            self._statistics[label, name] = [counted(run, name) for run in self._groups[label]]
        return self._statistics[label, name]

    def difference(self, label: str, other: str | None, name: str, metric: str) -> dict[str, float]:
        """Return the difference of the seeds' means in a metric, and its 95 % interval; of None the score is 0."""
        value = fmean(one.score(metric) for one in self.statistics(label, name))
        resampled = self._resample(label, name, metric)
        if other is not None:
            value -= fmean(one.score(metric) for one in self.statistics(other, name))
            resampled = resampled - self._resample(other, name, metric)
        low, high = np.percentile(resampled, [2.5, 97.5])
        return {"value": value, "low": float(low), "high": float(high)}

    def differences(self, label: str, other: str, name: str) -> dict[str, dict[str, float]]:
        """Return `difference` for each metric."""
        return {metric: self.difference(label, other, name, metric) for metric in SCORES}

    def measured(self, label: str, other: str | None, test_set: str, metric: str) -> dict[str, float]:
        """Return a label's mean in a metric, or its difference to another's: with an interval where there is one."""
        if metric in SCORES:
            return self.difference(label, other, test_set, metric)
        self.text(test_set)
        own, its = (0.0 if of is None else self._mean(of, test_set, metric) for of in (label, other))
        return {"value": own - its}

    def _mean(self, label: str, test_set: str, metric: str) -> float:
        tests = [scores_on(run, test_set) for run in self._groups[label]]
        if metric.startswith("aer_"):
            values = [_error_rates(test).get(metric.removeprefix("aer_")) for test in tests]
        else:
            values = [test.get(metric) for test in tests]
        found = spread(values)
        if found is None:
            raise UserError(f"the runs of {label!r} have no {metric} on {test_set}; take the prediction out")
        return float(found["mean"])

    def _resample(self, label: str, name: str, metric: str) -> NDArray[np.float64]:
        """Return the score of each resample: (R,). The sentences are the same for all labels, the seeds their own."""
        if (label, name, metric) not in self._resampled:
            seeds = self.statistics(label, name)
            parts = np.split(self._draws(name, seeds[0].sentences), RESAMPLES // _AT_A_TIME)
            scores = np.concatenate(
                [
                    np.stack([one.scores(metric, times) for one in seeds], axis=1)  # (R / parts, seeds)
                    for times in (part.astype(np.float64) for part in parts)
                ]
            )
            rng = np.random.default_rng([_SEED, zlib.crc32(label.encode())])  # the same in every table
            self._resampled[label, name, metric] = draw_means(scores, _HIGHEST[metric], rng)
        return self._resampled[label, name, metric]

    def _draws(self, name: str, sentences: int) -> NDArray[np.uint16]:
        """Return how many times each resample has each sentence of a set: (R, N)."""
        if name not in self._times:
            rng = np.random.default_rng(_SEED)
            self._times[name] = rng.multinomial(sentences, [1 / sentences] * sentences, RESAMPLES).astype(np.uint16)
        return self._times[name]


def counted(run: Run, name: str) -> SentenceStatistics:
    """Count the translations of a test set; a UserError if they are not those that the run has scores of."""
    text = read_test(run, name)
    found = SentenceStatistics(text.hyp, text.ref, lowercase=run.lowercase)
    bleu, stored = found.score("bleu"), scores_on(run, name).get("bleu")
    if stored is None or abs(bleu - stored) > _ROUNDING:
        raise UserError(
            f"the translations in {run.folder / 'tests' / name} are not those that metrics.json has scores of: they "
            f"have {bleu:.2f} BLEU, those {stored}; bring them back"
        )
    return found


def draw_means(scores: NDArray[np.float64], highest: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return, for each resample of the sentences, what the mean over all seeds there are might be: (R,).

    To draw the seeds with replacement would be too sure: five of them make 95 % intervals that hold 87 % of the time.
    (mean - true mean) / (s / sqrt(n)) of n normal numbers has Student's t distribution with n - 1 degrees of freedom.

    Args:
        scores: of each resample by each seed, (R, seeds).
        highest: that a score can be; the lowest is 0.
        rng: draws.
    """
    resamples, seeds = scores.shape
    means: NDArray[np.float64] = scores.mean(axis=1)
    if seeds > 1:
        means = means + scores.std(axis=1, ddof=1) / np.sqrt(seeds) * rng.standard_t(seeds - 1, size=resamples)
    return means.clip(0, highest)


def spread(values: Sequence[float | None]) -> dict[str, Any] | None:
    """Return mean, standard deviation over the seeds (None for one) and the values; None if one is not known."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return {"mean": fmean(known), "spread": stdev(known) if len(known) > 1 else None, "values": known}


def _size_and_cost(group: Sequence[Run], all_speeds: Mapping[Path, Mapping[str, Any]]) -> dict[str, Any]:
    metrics = [run.metrics for run in group]
    machines = [machine for one in metrics if (machine := one.get("machine")) is not None]
    flops = [one.get("flops_per_target_token") for one in metrics]
    speeds = [all_speeds[run.folder] for run in group if run.folder in all_speeds]
    return {
        "seeds": [run.seed for run in group],
        "runs": [str(run.folder) for run in group],
        "parameters": metrics[0]["parameters"],
        "parameters_non_embedding": metrics[0].get("parameters_non_embedding"),
        "target_tokens_seen": spread([one["target_tokens_seen"] for one in metrics]),
        "updates": spread([one["updates"] for one in metrics]),
        "train_minutes": spread([one["train_seconds"] / 60 for one in metrics]),
        "machines": [one for n, one in enumerate(machines) if one not in machines[:n]],
        "flops_per_target_token": spread([one and one["forward"] + one["backward"] for one in flops]),
        "peak_memory_bytes": spread([one.get("peak_memory_bytes") for one in metrics]),
        "sentences_per_second": spread([one["sentences_per_second"] for one in speeds]),
        "milliseconds_per_sentence": spread([one["milliseconds_per_sentence"] for one in speeds]),
    }


def _quality(group: Sequence[Run], name: str) -> dict[str, Any]:
    tests = [scores_on(run, name) for run in group]
    error_rates = [_error_rates(test) for test in tests]
    return {
        "validation_loss": spread([run.metrics["validation"].get("loss") for run in group]),
        **{
            metric: spread([test.get(metric) for test in tests])
            for metric in (*SCORES, "length_ratio", "cut", "looping")
        },
        "aer": {step: spread([rates.get(step) for rates in error_rates]) for step in ("step_t", "step_t_plus_1")},
    }


def _error_rates(test: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = test.get("alignment", {}).get("aer", {})
    return found


def _brief(group: Sequence[Run], name: str) -> dict[str, Any]:
    tests = [run.metrics["tests"].get(name, {}) for run in group]
    return {metric: spread([test.get(metric) for test in tests]) for metric in SCORES}


def _read_at(
    group: Sequence[Run], curves: Mapping[Any, Sequence[Point]], axis: Callable[[Point], float], place: float
) -> dict[str, Any] | None:
    """Return validation BLEU at that place, on the straight line between the validations before and after it."""
    values = []
    for run in group:
        curve = curves[run.folder]
        places = [axis(point) for point in curve]
        is_inside = places[0] <= place <= places[-1]
        values.append(float(np.interp(place, places, [point.bleu for point in curve])) if is_inside else None)
    return spread(values)


def _convergence(curves: Sequence[Sequence[Point]]) -> dict[str, Any]:
    """Return the best validation BLEU, where it was reached, and what the last quarter of the tokens still added."""
    best = [max(curve, key=lambda point: point.bleu) for curve in curves]
    rises = []
    for curve in curves:
        three_quarters = 0.75 * curve[-1].target_tokens
        places = [point.target_tokens for point in curve]
        known = places[0] <= three_quarters
        at_that_time = float(np.interp(three_quarters, places, [point.bleu for point in curve]))
        rises.append(curve[-1].bleu - at_that_time if known else None)
    return {
        "best_bleu": spread([point.bleu for point in best]),
        "target_tokens": spread([point.target_tokens for point in best]),
        "minutes": spread([point.minutes for point in best]),
        "rise_in_last_quarter": spread(rises),
    }


def _baseline(
    label: str, translate: Callable[[str], str], text: ScoredText, lengths: Mapping[str, Sequence[int]], lowercase: bool
) -> dict[str, Any]:
    logger.info("translating %d sentences: %s", len(text.src), label)
    hypotheses = [translate(line) for line in text.src]
    scores = corpus_scores(hypotheses, text.ref, lowercase=lowercase, ter=False)
    counted = SentenceStatistics(hypotheses, text.ref, lowercase=lowercase)
    return {
        **{metric: scores[metric] for metric in (*SCORES, "length_ratio")},
        "bleu_by_length": {length: counted.score("bleu", chosen) for length, chosen in lengths.items()},
    }
