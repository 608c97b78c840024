"""The commands compare, speed and challenge, on a run that was trained in seconds."""

import json
import shutil

import pytest
from small_runs import TINY, tiny_settings
from test_cli import assert_refused, seq2seq  # noqa: F401
from test_comparison import REFERENCES, write_run

from seq2seq.training.fit import fit


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    fit(tiny_settings(folder, model=TINY["rnn"], max_epochs=1))
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def put_json(outcome):
    code, out, err = outcome
    assert code == 0, err
    return json.loads(out)


def test_a_run_is_compared_with_trivial_baselines(seq2seq, run):  # noqa: F811
    found = put_json(seq2seq("compare", run, "--baselines", "--json"))
    assert found["rows"]["rnn"]["flops_per_target_token"]["mean"] > 0
    assert found["rows"]["rnn"]["validation_loss"]["mean"] > 0
    assert found["baselines"]["copy the source"]["bleu"] < found["baselines"]["word for word, IBM Model 1"]["bleu"]
    assert found["baselines"]["nearest training neighbour"]["bleu"] > 1
    code, out, _ = seq2seq("compare", run)
    assert (code, out.splitlines()[0]) == (0, f"## Scores on test, {found['sentences']} sentences")


def test_runs_of_one_label_and_seed_have_a_row_each_when_asked_for(seq2seq, run, tmp_path):  # noqa: F811
    shutil.copytree(run, tmp_path / "again")
    assert_refused(seq2seq("compare", run, tmp_path / "again"), "are both 'rnn' with seed 1: leave one out, or compare")
    found = put_json(seq2seq("compare", run, tmp_path / "again", "--by-run", "--json"))
    assert list(found["rows"]) == ["run", "again"]
    (tmp_path / "other").mkdir()
    shutil.copytree(run, tmp_path / "other" / "run")
    found = put_json(seq2seq("compare", run, tmp_path / "other" / "run", "--by-run", "--json"))
    assert list(found["rows"]) == [str(run), str(tmp_path / "other" / "run")]


def test_the_finished_runs_of_a_sweep_come_by_number_and_by_name(seq2seq, tmp_path, caplog):  # noqa: F811
    sweep = tmp_path / "runs" / "sweep"
    for name in ("b", "10-x", "a", "2-x-s2", "2-x-s1"):
        write_run(sweep / name, name, REFERENCES)
    for name in ("c", "d"):
        (sweep / name).mkdir()
        (sweep / name / "config.yaml").touch()
    found = put_json(seq2seq("compare", sweep, "--json"))
    assert list(found["rows"]) == ["a", "b", "2-x-s1", "2-x-s2", "10-x"]
    assert f"{sweep}: left out, since they are not finished: c, d" in caplog.messages
    assert_refused(seq2seq("challenge", "beams", sweep), f"{sweep} holds several runs, and this command is about")
    assert_refused(seq2seq("compare", sweep.parent), f"name a sweep in it, such as {sweep}")


def test_a_sweep_without_a_finished_run_is_refused(seq2seq, tmp_path):  # noqa: F811
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "config.yaml").touch()
    assert_refused(seq2seq("compare", tmp_path), f"no run in {tmp_path} is finished yet")


def test_words_are_asked_by_the_gold_alignment_of_the_one_run_in_a_folder(seq2seq, run, tmp_path):  # noqa: F811
    (run / "tests" / "test" / "gold.align").write_text("0-0\n" * 20, encoding="utf-8")
    assert_refused(seq2seq("challenge", "rare-words", tmp_path), "gold.tags")


def test_a_prediction_is_judged(seq2seq, run, tmp_path):  # noqa: F811
    rungs = {"rnn": {"prediction": "learns little", "metric": "bleu", "at_most": 99, "trials": 3}}
    (tmp_path / "rungs.json").write_text(json.dumps(rungs), encoding="utf-8")
    _, out, _ = seq2seq("compare", run, "--rungs", tmp_path / "rungs.json")
    assert "1 of 1 held." in out


def test_speed_is_measured_and_kept_for_the_table(seq2seq, run, caplog):  # noqa: F811
    found = put_json(seq2seq("speed", run, "--first", "4", "--json"))[str(run)]
    rounds = [f"translating 4 sentences with {run}, round {number} of 3" for number in (1, 2, 3)]
    assert caplog.messages == [*rounds, f"kept in {run / 'speed.json'}"]
    assert json.loads((run / "speed.json").read_text("utf-8")) == found
    for name in ("sentences_per_second", "milliseconds_per_sentence", "sentences_per_processor_second"):
        assert found[name] > 0
    assert (found["sentences"], found["beam_size"], found["rounds"]) == (4, 5, 3)
    row = put_json(seq2seq("compare", run, "--json"))["rows"]["rnn"]
    assert row["sentences_per_second"]["mean"] == found["sentences_per_second"]
    code, out, _ = seq2seq("speed", run, "--first", "2")
    assert (code, "ms for one sentence" in out) == (0, True)


def test_lengths_on_different_texts_are_refused(seq2seq, tmp_path):  # noqa: F811
    for name, references in (("a", REFERENCES), ("b", REFERENCES[::-1])):
        write_run(tmp_path / name, name, REFERENCES, references=references)
    assert_refused(seq2seq("challenge", "lengths", tmp_path / "a", tmp_path / "b"), "have different test sets test")


def test_speed_on_different_texts_is_refused(seq2seq, run, tmp_path):  # noqa: F811
    write_run(tmp_path / "other", "other", REFERENCES)
    assert_refused(seq2seq("speed", run, tmp_path / "other"), "have different test sets")


def test_speed_that_cannot_be_kept_is_said(seq2seq, run):  # noqa: F811
    (run / "speed.json").mkdir()
    assert_refused(seq2seq("speed", run, "--first", "1"), "cannot write")
    assert not list(run.glob(".speed.json*"))


def test_speed_on_no_text_is_refused(seq2seq, run):  # noqa: F811
    for name in ("src", "ref", "hyp"):
        (run / "tests" / "test" / f"{name}.txt").write_text("")
    assert_refused(seq2seq("speed", run), "src.txt is empty")


def test_challenges_answer_in_text_and_in_json(seq2seq, run):  # noqa: F811
    beams = put_json(
        seq2seq("challenge", "beams", run, "--first", "3", "--beam-size", "1", "--beam-size", "2", "--json")
    )
    assert [one["beam_size"] for one in beams] == [1, 1, 2, 2]
    errors = put_json(
        seq2seq("challenge", "search-errors", run, "--first", "2", "--beam-size", "1", "--max-nodes", "5", "--json")
    )
    assert (errors["sentences"], errors["beam_size"], errors["max_nodes"]) == (2, 1, 5)
    lengths = put_json(seq2seq("challenge", "lengths", run, "--json"))[str(run)]
    assert sum(one["sentences"] for one in lengths.values()) >= 12
    words = put_json(seq2seq("challenge", "rare-words", run, "--json"))
    assert set(words) == {"target_recall", "target_precision", "source"}
    sizes = put_json(seq2seq("challenge", "data-size", run, "--json"))
    assert 150 < int(*sizes["rnn"]) <= 240
    for name in ("lengths", "rare-words", "data-size"):
        code, out, _ = seq2seq("challenge", name, run)
        assert (code, out[0]) == (0, "|")
    assert seq2seq("challenge", "search-errors", run, "--first", "1", "--max-nodes", "3")[1].startswith(
        "beam 5 without"
    )
    assert "beam 1, length penalty 0" in seq2seq("challenge", "beams", run, "--first", "1", "--beam-size", "1")[1]


def test_a_folder_of_runs_stands_for_them_the_second_before_the_tenth(seq2seq, tmp_path):  # noqa: F811
    for name in ("10-c", "2-b", "0-a"):
        write_run(tmp_path / name, name, REFERENCES)
    (tmp_path / "multirun.yaml").touch()
    assert list(put_json(seq2seq("compare", tmp_path, "--json"))["rows"]) == ["0-a", "2-b", "10-c"]


def test_what_is_no_run_is_refused(seq2seq, tmp_path):  # noqa: F811
    assert_refused(seq2seq("compare", tmp_path), "nor of a sweep")
    write_run(tmp_path / "a", "a", REFERENCES)
    assert_refused(seq2seq("challenge", "lengths", tmp_path / "a", "--set", "far"), "has no test set far; it has test")
    metrics = tmp_path / "a" / "bundle" / "metrics.json"
    metrics.write_text(json.dumps({**json.loads(metrics.read_text("utf-8")), "tests": {}}), encoding="utf-8")
    assert_refused(seq2seq("challenge", "lengths", tmp_path / "a"), "has no test set; train with one")
