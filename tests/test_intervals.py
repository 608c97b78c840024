"""How sure a difference is: intervals over sentences and seeds."""

import math

import numpy as np
import pytest
from test_comparison import REFERENCES, damaged, write_run

from seq2seq.comparison.compare import compare, draw_means
from seq2seq.comparison.predictions import Rung


def test_the_interval_of_equal_translations_is_nothing(tmp_path):
    same = damaged(REFERENCES, 0.5)
    runs = [write_run(tmp_path / name, name, same) for name in ("one", "other")]
    assert compare(runs)["rows"]["other"]["difference"]["bleu"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_the_interval_does_not_depend_on_where_a_row_stands(tmp_path):
    runs = [
        write_run(tmp_path / f"{label}{seed}", label, damaged(REFERENCES, share, seed), seed=seed)
        for label, share in (("one", 0.5), ("other", 0.4), ("third", 0.3))
        for seed in (1, 2)
    ]
    rungs = {"third": Rung(compared_with="one")}
    tables = (compare(runs, rungs=rungs), compare([*runs[4:], *runs[:2]], rungs=rungs))
    assert tables[0]["rows"]["third"]["difference"] == tables[1]["rows"]["third"]["difference"]


def test_the_interval_knows_that_seeds_differ(tmp_path):
    # Each seed is right on all or on nothing: sentences alone would leave no doubt at all.
    good = [write_run(tmp_path / f"g{seed}", "steady", REFERENCES, seed=seed) for seed in (1, 2)]
    bad = [
        write_run(tmp_path / f"b{seed}", "luck", REFERENCES if seed == 1 else ["x"] * 40, seed=seed) for seed in (1, 2)
    ]
    interval = compare([*good, *bad])["rows"]["luck"]["difference"]["exact_match"]
    assert interval == {"value": -0.5, "low": -1.0, "high": 0.0}


@pytest.mark.parametrize("spreads", [(1, 1), (1, 5)])
def test_the_interval_for_five_seeds_holds_as_often_as_it_says(spreads):
    rng = np.random.default_rng(1)
    resamples, trials, held = 1000, 400, 0
    for _ in range(trials):
        one, other = (draw_means(np.tile(rng.normal(50, s, 5), (resamples, 1)), 100.0, rng) for s in spreads)
        low, high = np.percentile(one - other, [2.5, 97.5])
        held += low <= 0 <= high
    assert 0.93 < held / trials < 0.99  # seeds drawn with replacement: 0.84 to 0.88


def test_the_interval_agrees_with_a_hand_made_formula_for_one_seed(tmp_path):
    # Half of 40 sentences are exactly right, the others not: the share has a standard error of sqrt(.5 * .5 / 40).
    half = [line if n % 2 else "x" for n, line in enumerate(REFERENCES)]
    runs = [write_run(tmp_path / "none", "none", ["x"] * 40), write_run(tmp_path / "half", "half", half)]
    interval = compare(runs)["rows"]["half"]["difference"]["exact_match"]
    assert (interval["high"] - interval["low"]) / 2 == pytest.approx(1.96 * math.sqrt(0.25 / 40), rel=0.1)
