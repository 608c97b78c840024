"""What cannot stand in one table: runs that differ in more than they say, and files that are damaged."""

import json
import math
import re

import pytest
from test_comparison import REFERENCES, two, write_run  # noqa: F401

from seq2seq.comparison.compare import compare
from seq2seq.comparison.runs import open_run
from seq2seq.comparison.speed import keep_speed
from seq2seq.errors import UserError


def test_different_test_sets_are_refused(tmp_path):
    runs = [
        write_run(tmp_path / "a", "one", REFERENCES),
        write_run(tmp_path / "b", "other", REFERENCES, references=[*REFERENCES[:39], "another"]),
    ]
    with pytest.raises(UserError, match=r"different test sets test \(test_set_sha256 \w{12} and \w{12}\)"):
        compare(runs)


def test_other_text_in_a_set_of_the_same_name_is_refused_though_it_is_not_the_main_one(two):  # noqa: F811
    for run in two:
        run.metrics["tests"]["long"] = {"bleu": 1.0, "test_set_sha256": "a" * 64}
    assert compare(two)["rows"]["better"]["tests"]["long"]["bleu"]["mean"] == 1.0
    two[2].metrics["tests"]["long"]["test_set_sha256"] = "b" * 64
    with pytest.raises(UserError, match=r"different test sets long \(test_set_sha256 a{12} and b{12}\)"):
        compare(two)


def test_one_seed_twice_is_refused(tmp_path):
    runs = [write_run(tmp_path / name, "same", REFERENCES) for name in "ab"]
    with pytest.raises(UserError, match="both 'same' with seed 1"):
        compare(runs)


def test_runs_of_a_label_that_differ_in_more_than_the_seed_are_refused(tmp_path):
    one = write_run(tmp_path / "a", "same", REFERENCES)
    other = write_run(tmp_path / "b", "same", REFERENCES, seed=2)
    other.settings["optim"]["lr"] = 0.2
    with pytest.raises(UserError, match=r"both 'same' but differ in optim\.lr"):
        compare([one, other])


def test_scores_of_lower_case_and_of_text_as_it_is_are_not_compared(two):  # noqa: F811
    two[2].settings["tokenizer"]["lowercase"] = True
    with pytest.raises(UserError, match="scored in lower case"):
        compare(two)


def test_a_test_set_that_a_run_lacks_is_named(two):  # noqa: F811
    with pytest.raises(UserError, match="has no test set long; it has test"):
        compare(two, test_set="long")
    two[0].metrics["tests"].clear()
    with pytest.raises(UserError, match="no test set to compare on"):
        compare(two)


def test_translations_of_another_text_than_the_scores_are_of_are_refused(two):  # noqa: F811
    file = two[0].folder / "tests" / "test" / "ref.txt"
    file.write_text(file.read_text(encoding="utf-8").replace("little", "big"), encoding="utf-8")
    with pytest.raises(UserError, match=r"are not those that metrics\.json has scores of"):
        compare(two)


def test_other_translations_than_were_scored_are_refused(two):  # noqa: F811
    file = two[0].folder / "tests" / "test" / "hyp.txt"
    file.write_text("nonsense\n" * 40, encoding="utf-8")
    with pytest.raises(UserError, match=r"not those that metrics\.json has scores of: they have 0\.00 BLEU"):
        compare(two)


def test_runs_of_a_label_on_different_corpora_are_refused(two):  # noqa: F811
    two[0].metrics["corpus"], two[1].metrics["corpus"] = "one", "another"
    with pytest.raises(UserError, match="both 'worse' but differ in the prepared corpus"):
        compare(two)


def test_an_unfinished_run_is_named(tmp_path):
    with pytest.raises(UserError, match="is not a finished run"):
        open_run(tmp_path, {})


def test_metrics_without_what_a_table_needs_are_named(two):  # noqa: F811
    file = two[0].folder / "bundle" / "metrics.json"
    file.write_text('{"seed": 1}', encoding="utf-8")
    with pytest.raises(UserError, match="it lacks parameters, target_tokens_seen, tests"):
        open_run(two[0].folder, {})


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ({"tests": None}, "tests is None"),
        ({"tests": {"test": None}}, "tests.test is None"),
        ({"tests": {"test": {"bleu": "much"}}}, "tests.test.bleu is 'much'"),
        ({"tests": {"test": {"bleu": math.nan}}}, "tests.test.bleu is nan"),
        (
            {"tests": {"test": {}, "long": {"alignment": {"aer": {"step_t": "x"}}}}},
            "tests.long.alignment.aer.step_t is 'x'",
        ),
        ({"seed": "one"}, "seed is 'one'"),
        ({"parameters": True}, "parameters is True"),
        ({"train_seconds": math.inf}, "train_seconds is inf"),
        ({"validation": []}, "validation is []"),
        ({"flops_per_target_token": {}}, "flops_per_target_token.forward is None"),
        ({"machine": {"cpu": "x", "threads": 1, "gpus": [1], "system": "y"}}, "machine.gpus[0] is 1"),
    ],
)
def test_what_is_not_of_its_kind_in_the_metrics_is_named(two, damage, what):  # noqa: F811
    file = two[0].folder / "bundle" / "metrics.json"
    file.write_text(json.dumps({**two[0].metrics, **damage}), encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(f"metrics.json is damaged: {what}; take an unbroken copy")):
        open_run(two[0].folder, two[0].settings)


def test_settings_and_speeds_that_are_not_of_their_kind_are_named(two):  # noqa: F811
    with pytest.raises(UserError, match=r"config\.yaml is damaged: tokenizer is None"):
        open_run(two[0].folder, {})
    keep_speed(two[0].folder, {"sentences_per_second": "fast"})
    with pytest.raises(UserError, match=r"speed\.json is damaged: sentences_per_second is 'fast'"):
        compare(two)


def test_a_run_without_a_label_is_called_by_its_model(tmp_path):
    assert write_run(tmp_path / "a", None, REFERENCES).label == "rnn"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("seconds\n", "holds no validation"),
        ("validation/bleu,seconds\n1,x\n", "is damaged"),
        ("validation/bleu,seconds,target_tokens\nnan,1,200\n", "a number that none of its columns can have"),
        ("validation/bleu,seconds,target_tokens\n9,-1,200\n", "a number that none of its columns can have"),
        ("validation/bleu,seconds,target_tokens\n9,9,300\n9,10,200\n", "goes back in time"),
        ("validation/bleu,seconds,target_tokens\n9,9,100\n9,8,200\n", "goes back in time"),
        ("validation/bleu,seconds,target_tokens\n9,9,100\n", "does not reach to the end of training"),
    ],
)
def test_a_curve_that_cannot_be_read_is_named(two, content, message):  # noqa: F811
    (two[0].folder / "metrics.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        compare(two)
