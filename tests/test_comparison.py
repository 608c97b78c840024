import csv
import hashlib
import json
import math
import random

import numpy as np
import pytest
import yaml

from seq2seq.comparison.compare import compare, spread
from seq2seq.comparison.compare_text import comparison_text
from seq2seq.comparison.predictions import Rung, judged
from seq2seq.comparison.runs import open_run
from seq2seq.comparison.speed import keep_speed
from seq2seq.errors import UserError
from seq2seq.evaluation import SentenceStatistics, by_source_length, corpus_scores

REFERENCES = [f"sentence number {n} has {n + 3} little words" for n in range(40)]
SOURCES = ["a " * (1 + n % 12) + f"x{n}" for n in range(40)]


def damaged(lines, share, seed=0):
    """The lines with a share of them cut in half: scores to tell apart."""
    draw = random.Random(seed)
    return [line[: len(line) // 2] if draw.random() < share else line for line in lines]


def write_run(
    folder, label, hypotheses, seed=1, references=REFERENCES, curve=((100, 60, 10.0), (200, 120, 30.0)), **more
):
    """A finished run as training leaves it, as far as tables read it."""
    test = folder / "tests" / "test"
    test.mkdir(parents=True)
    for name, lines in (("src", SOURCES), ("ref", references), ("hyp", hypotheses)):
        (test / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sha256 = hashlib.sha256((test / "src.txt").read_bytes() + (test / "ref.txt").read_bytes()).hexdigest()
    scores = {**corpus_scores(hypotheses, references), "cut": 0.0, "looping": 0.025, "test_set_sha256": sha256}
    metrics = {
        "label": label,
        "seed": seed,
        "parameters": 1_500_000,
        "parameters_non_embedding": 500_000,
        "train_seconds": curve[-1][1],
        "updates": 7,
        "target_tokens_seen": curve[-1][0],
        "flops_per_target_token": {"forward": 2e6, "backward": 4e6},
        "peak_memory_bytes": 2**30,
        "validation": {"loss": 1.25, "bleu": curve[-1][2]},
        "tests": {"test": scores},
        "machine": {"cpu": "an abacus", "threads": 1, "gpus": [], "system": "wood"},
        **more,
    }
    (folder / "bundle").mkdir()
    (folder / "bundle" / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / "bundle" / "model.json").write_text(json.dumps({"architecture": "rnn"}), encoding="utf-8")
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, ("step", "seconds", "target_tokens", "train/loss", "validation/bleu"))
        table.writeheader()
        table.writerow({"step": 1, "seconds": 1, "target_tokens": 1, "train/loss": 9.9})
        for tokens, seconds, bleu in curve:
            table.writerow({"step": 2, "seconds": seconds, "target_tokens": tokens, "validation/bleu": bleu})
    settings = {
        "choices": {"data": "files", "model": "rnn"},
        "tokenizer": {"lowercase": False},
        "optim": {"lr": 0.1},
        "seed": seed,
        "run_dir": str(folder),
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return open_run(folder, settings)


# ---- Statistics of sentences ----


def test_the_sum_of_sentences_is_the_corpus_score():
    hypotheses = damaged(REFERENCES, 0.4)
    counted, scores = SentenceStatistics(hypotheses, REFERENCES), corpus_scores(hypotheses, REFERENCES)
    assert counted.score("bleu") == scores["bleu"]
    assert counted.score("chrf") == scores["chrf"]
    assert counted.score("exact_match") == scores["exact_match"]


def test_a_resample_scores_as_the_repeated_lines_do():
    hypotheses = damaged(REFERENCES, 0.4)
    times = np.zeros((1, 40))
    times[0, [3, 7, 11]] = [2, 1, 3]
    rows = [3, 3, 7, 11, 11, 11]
    expected = corpus_scores([hypotheses[n] for n in rows], [REFERENCES[n] for n in rows])
    counted = SentenceStatistics(hypotheses, REFERENCES)
    for metric in ("bleu", "chrf", "exact_match"):
        assert counted.scores(metric, times)[0] == pytest.approx(expected[metric], abs=1e-12)


def test_sentences_are_binned_by_words_of_the_source():
    sources = ["a", "a " * 5, "a  b\tc d e f", "", "a " * 60, "a " * 61]
    assert by_source_length(sources) == {"1-5": [0, 1], "6-10": [2], "41-60": [4], "61+": [5]}


def test_the_spread_is_the_standard_deviation_over_seeds():
    assert spread([1.0, 3.0]) == {"mean": 2.0, "spread": pytest.approx(math.sqrt(2)), "values": [1.0, 3.0]}
    assert spread([1.0])["spread"] is None
    assert spread([1.0, None]) is None


# ---- Comparison ----


@pytest.fixture
def two(tmp_path):
    return [
        write_run(tmp_path / "a1", "worse", damaged(REFERENCES, 0.5, seed=1), seed=1),
        write_run(tmp_path / "a2", "worse", damaged(REFERENCES, 0.5, seed=2), seed=2),
        write_run(tmp_path / "b1", "better", REFERENCES, seed=1, curve=((50, 60, 8.0), (150, 180, 28.0))),
    ]


def test_which_label_of_how_many_is_at_work_is_logged(two, caplog):
    caplog.set_level("INFO")
    compare(two, baselines={"copy": lambda line: line})
    assert caplog.messages == [
        "counting and resampling worse, seeds: 2 (1 of 2)",
        "counting and resampling better, seeds: 1 (2 of 2)",
        "translating 40 sentences: copy",
    ]


def test_seeds_of_a_label_make_one_row_with_mean_and_spread(two):
    found = compare(two)
    assert list(found["rows"]) == ["worse", "better"]
    row = found["rows"]["worse"]
    bleu = [run.metrics["tests"]["test"]["bleu"] for run in two[:2]]
    assert row["seeds"] == [1, 2]
    assert row["bleu"]["mean"] == pytest.approx(sum(bleu) / 2)
    assert row["bleu"]["spread"] == pytest.approx(abs(bleu[0] - bleu[1]) / math.sqrt(2))
    assert row["flops_per_target_token"]["mean"] == 6e6
    assert json.loads(json.dumps(found)) == found


def test_each_row_is_compared_with_the_one_before_it(two):
    rows = compare(two)["rows"]
    assert rows["worse"]["difference"] is None
    difference = rows["better"]["difference"]
    assert difference["to"] == "worse"
    for metric in ("bleu", "chrf", "exact_match"):
        own = difference[metric]
        assert own["value"] == pytest.approx(rows["better"][metric]["mean"] - rows["worse"][metric]["mean"])
        assert own["low"] < own["value"] < own["high"]


def test_a_label_that_names_another_is_compared_with_that(two):
    rungs = {"worse": Rung(compared_with="better"), "better": Rung(trials=12)}
    rows = compare(two, rungs=rungs)["rows"]
    assert rows["worse"]["difference"]["to"] == "better"
    assert rows["worse"]["difference"]["bleu"]["value"] < 0
    assert rows["better"]["difference"] is None
    assert rows["better"]["trials"] == 12


def test_the_runs_themselves_may_name_what_they_are_compared_with(two):
    two[0].settings["compared_with"] = two[1].settings["compared_with"] = "better"
    rows = compare(two)["rows"]
    assert rows["worse"]["difference"]["to"] == "better"
    assert rows["better"]["difference"] is None


def test_what_is_compared_with_an_absent_row_is_said(two):
    rungs = {
        "better": Rung("absent", "worth 1", None, "bleu", at_least=1),
        "misspelled": Rung(None, "worth 2", None, "bleu", at_least=2),
        "worse": Rung(None, "gets some", None, "bleu", at_least=0),
    }
    found = compare(two, rungs=rungs)
    assert found["rows"]["better"]["difference"] is None
    assert found["predictions_not_measured"] == ["better", "misspelled"]
    text = comparison_text(found)
    assert "- better is compared with absent, of which there is no run here." in text
    assert "1 of 1 held." in text
    assert "Not measured, since runs are missing: better, misspelled." in text


def test_settings_in_which_rows_differ_are_named(two):
    assert compare(two)["rows_differ_in"] == []
    two[2].settings["optim"]["lr"] = 0.2
    for run, corpus in zip(two, ("one", "one", "another"), strict=True):
        run.metrics["corpus"] = corpus
    found = compare(two)
    assert found["rows_differ_in"] == ["optim.lr", "the prepared corpus"]
    assert "have different values of: optim.lr, the prepared corpus." in comparison_text(found)


def test_budgets_are_read_between_validations(two):
    found = compare(two)
    assert (found["equal_tokens"], found["equal_minutes"]) == (150, 2)
    worse, better = found["rows"].values()
    assert worse["equal_tokens"]["mean"] == 20.0  # half way from 10 to 30
    assert better["equal_tokens"]["mean"] == 28.0
    assert better["equal_minutes"]["mean"] == 18.0  # 2 minutes are half way from 1 to 3
    assert worse["convergence"]["rise_in_last_quarter"]["mean"] == pytest.approx(10.0)  # from 150 to 200 tokens
    assert worse["convergence"]["target_tokens"]["mean"] == 200


def test_what_a_run_had_not_yet_validated_is_left_open(tmp_path):
    runs = [
        write_run(tmp_path / "a", "late", REFERENCES, curve=((100, 60, 10.0),)),
        write_run(tmp_path / "b", "short", REFERENCES, curve=((50, 30, 10.0),)),
    ]
    assert compare(runs)["rows"]["late"]["equal_tokens"] is None


def test_bleu_by_length_is_the_corpus_score_of_the_bin(two):
    found = compare(two)
    chosen = by_source_length(SOURCES)["1-5"]
    expected = [
        corpus_scores([hyp[n] for n in chosen], [REFERENCES[n] for n in chosen])["bleu"]
        for hyp in (damaged(REFERENCES, 0.5, seed=1), damaged(REFERENCES, 0.5, seed=2))
    ]
    assert found["rows"]["worse"]["bleu_by_length"]["1-5"] == pytest.approx(sum(expected) / 2)
    assert found["sentences_by_length"]["1-5"] == len(chosen)


def test_baselines_are_scored_on_the_same_text(two):
    found = compare(
        two, baselines={"copy": lambda line: line, "oracle": dict(zip(SOURCES, REFERENCES, strict=True)).__getitem__}
    )
    assert found["baselines"]["oracle"]["bleu"] == pytest.approx(100)
    assert found["baselines"]["copy"]["bleu"] == corpus_scores(SOURCES, REFERENCES)["bleu"]


def test_the_speed_of_a_row_is_that_of_the_seeds_that_were_measured(tmp_path):
    seeds = [write_run(tmp_path / str(seed), "a", REFERENCES, seed) for seed in (1, 2, 3)]
    assert compare(seeds)["rows"]["a"]["sentences_per_second"] is None
    for run, speed in zip(seeds[1:], (10.0, 14.0), strict=True):
        keep_speed(run.folder, {"sentences_per_second": speed, "milliseconds_per_sentence": 200.0})
    row = compare(seeds)["rows"]["a"]
    assert row["sentences_per_second"]["values"] == [10.0, 14.0]
    assert row["milliseconds_per_sentence"]["mean"] == 200.0


# ---- Predictions ----


def test_a_prediction_is_held_against_the_measured_difference(two):
    rungs = {
        "worse": Rung(),
        "better": Rung("worse", "worth 1 exact match in 10", None, "exact_match", at_least=0.1),
    }
    judged = compare(two, rungs=rungs)["rows"]["better"]["prediction"]
    assert judged["held"]
    assert judged["set"] == "test"
    assert judged["measured"]["low"] < judged["measured"]["value"] < judged["measured"]["high"]
    rungs["better"] = rungs["better"]._replace(at_most=0.2)
    assert not compare(two, rungs=rungs)["rows"]["better"]["prediction"]["held"]


@pytest.mark.parametrize(
    ("at_least", "at_most", "verdict"),
    [
        (0, 4, (True, True)),
        (0, 2.5, (True, False)),
        (1.5, None, (True, False)),
        (None, 0.5, (False, True)),
        (3.5, None, (False, True)),
        (2.5, None, (False, False)),
    ],
)
def test_a_verdict_is_sure_if_all_of_the_interval_gives_it(at_least, at_most, verdict):
    class Measured:
        def measured(self, *_):
            return {"value": 2.0, "low": 1.0, "high": 3.0}

    rung = Rung("other", "something", None, "bleu", at_least, at_most)
    found = judged(rung, Measured(), "this", "test")
    assert (found["held"], found["sure"]) == verdict


def test_a_score_by_itself_has_an_interval_and_no_sign(two):
    rungs = {"worse": Rung(None, "gets half", "test", "exact_match", at_least=0.3)}
    found = compare(two, rungs=rungs)
    measured = found["rows"]["worse"]["prediction"]["measured"]
    assert 0 <= measured["low"] < measured["value"] < measured["high"] <= 1
    assert f"| {100 * measured['value']:.2f} [" in comparison_text(found)


def test_a_prediction_without_another_rung_is_about_the_value_itself(two):
    rungs = {"better": Rung(None, "never loops", "test", "looping", at_most=0.0)}
    judged = compare(two, rungs=rungs)["rows"]["better"]["prediction"]
    assert (judged["measured"], judged["held"], judged["sure"]) == ({"value": 0.025}, False, None)


def test_a_prediction_about_what_was_not_measured_is_refused(two):
    rungs = {"better": Rung(None, "aligns", None, "aer_step_t", at_most=0.3)}
    with pytest.raises(UserError, match="'better' have no aer_step_t on test"):
        compare(two, rungs=rungs)


# ---- Text ----


def test_the_tables_show_means_spreads_intervals_and_verdicts(two):
    rungs = {"better": Rung("worse", "better by far", None, "bleu", at_least=101)}
    text = comparison_text(compare(two, rungs=rungs, baselines={"copy": lambda line: line}))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    scores, differences = (next(row for row in rows if row[0] == label) for label in ("worse", "better"))
    assert scores[1] == "2"
    assert " ± " in scores[2]
    assert next(row for row in rows if row[0] == "copy")[1] == "-"
    assert next(row for row in rows if row[0] == "better" and row[1] == "worse")[2].startswith("+")
    assert next(row for row in rows if "better by far" in row)[-1] == "**failed**"
    assert "0 of 1 held." in text
    rungs = {"better": Rung("worse", "better by a third", None, "bleu", at_least=33)}
    assert " held, not sure |" in comparison_text(compare(two, rungs=rungs))
    assert "Trained on an abacus, 1 CPU thread, wood." in text
    assert differences[2] == "100.00"


def test_a_label_cannot_break_a_table(tmp_path):
    text = comparison_text(compare([write_run(tmp_path / "a", "a|b\nc\x1b[31m", REFERENCES)]))
    rows = [line for line in text.splitlines() if line.startswith("| a")]
    assert rows
    assert all(row.startswith("| a\\|b c [31m ") for row in rows)


def test_different_machines_are_named(tmp_path):
    runs = [
        write_run(tmp_path / "a", "one", REFERENCES),
        write_run(
            tmp_path / "b", "other", REFERENCES, machine={"cpu": "x", "threads": 2, "gpus": ["y"], "system": "z"}
        ),
    ]
    text = comparison_text(compare(runs))
    assert "minutes do not compare" in text
    assert "- other: y, 2 CPU threads, z" in text


def test_older_runs_have_dashes_where_they_say_nothing(two):
    for run in two:
        for name in ("flops_per_target_token", "peak_memory_bytes", "machine"):
            del run.metrics[name]
    assert "Trained on unknown." in comparison_text(compare(two))
