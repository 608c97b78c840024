"""The ladder as it is configured: rungs that differ in one factor, equal parameters, tuning, and what is predicted."""

import json
import re
import runpy
import shutil
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import tiny_settings
from test_config import ROOT, composed, train_in_process

from seq2seq.comparison.predictions import read_rungs
from seq2seq.config import CONF
from seq2seq.data.prepare import prepare
from seq2seq.errors import UserError
from seq2seq.models import build_model
from seq2seq.models.transformer import TransformerConfig
from seq2seq.training.finish import count_parameters, try_length_penalties
from seq2seq.training.fit import fit
from seq2seq.trials import Trial, read_trials, space, tuned, write_trials

RUNGS = sorted(path.stem for path in (CONF / "rung").glob("*.yaml"))
POINTS = sorted(path.stem for path in (CONF / "trial").glob("*.yaml"))
PREDICTIONS = json.loads((ROOT / "docs" / "ladder" / "rungs.json").read_text("utf-8"))


# ---- The rungs ----


@cache
def rung(label: str) -> Any:
    return composed("experiment=ladder_grammar", f"rung={label}", "trial=a")


def test_all_rungs_have_the_parameters_that_the_protocol_says_within_1_percent() -> None:
    counts = [count_parameters(build_model(rung(label).model, 2003), without=2003) for label in RUNGS]
    assert len(counts) == 10
    assert all(count == pytest.approx(663_040, rel=0.01) for count in counts)


# What may differ between a rung and the one that it is compared with, widths apart.
FACTORS = {
    "1-bidirectional": {"bidirectional"},
    "4-luong-dot": {"score"},
    "5-no-feeding": {"input_feeding"},
    "8-relative": {"positions"},
    "9-no-positions": {"positions"},
}


@pytest.mark.parametrize("label", FACTORS)
def test_a_rung_of_the_same_architecture_differs_in_one_option(label: str) -> None:
    one, other = rung(label), rung(rung(label).compared_with)
    models = asdict(one.model), asdict(other.model)
    differing = {name for name in models[0] if models[0][name] != models[1][name]}
    assert type(one.model) is type(other.model)
    assert differing - {"hidden_size"} == FACTORS[label]


def test_the_hybrid_has_the_encoder_of_the_transformer_and_the_decoder_of_bahdanau() -> None:
    hybrid, transformer, bahdanau = (asdict(rung(label).model) for label in ("6-hybrid", "7-transformer", "2-bahdanau"))
    shared = hybrid.keys() & transformer.keys()
    assert {name: hybrid[name] for name in shared} == {name: transformer[name] for name in shared}
    shared = hybrid.keys() & bahdanau.keys() - {"hidden_size"}
    assert {name: hybrid[name] for name in shared} == {name: bahdanau[name] for name in shared}


def test_all_recurrent_parts_start_from_word_vectors_of_one_size() -> None:
    starts = {label: asdict(rung(label).model).get("embedding_std") for label in RUNGS}
    assert starts == {label: None if isinstance(rung(label).model, TransformerConfig) else 0.1 for label in RUNGS}


def test_rungs_share_all_that_is_not_the_model() -> None:
    settings = [replace(rung(label), model=None, label="", compared_with="", run_dir="") for label in RUNGS]
    assert all(one == settings[0] for one in settings)


def test_each_rung_is_called_by_its_file_and_has_a_prediction_against_the_rung_it_names() -> None:
    assert list(PREDICTIONS) == RUNGS
    for label in RUNGS:
        assert rung(label).label == label
        assert PREDICTIONS[label].get("compared_with", "") == rung(label).compared_with
        assert PREDICTIONS[label]["trials"] == len(POINTS)
        assert {"at_least", "at_most"} & PREDICTIONS[label].keys()
    assert {rung(label).compared_with for label in RUNGS[1:]} <= set(RUNGS)


def test_the_protocol_says_what_the_data_file_predicts() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    table = {row[0]: row[1:] for row in re.findall(r"^\| `(\S+)` \| (\S+) \| (.+) \| (at .+) \|$", page, re.MULTILINE)}
    assert list(table) == RUNGS
    for label, (against, prediction, bounds) in table.items():
        entry = PREDICTIONS[label]
        assert against == entry.get("compared_with", "itself")
        assert prediction.startswith(entry["prediction"])
        assert (entry["set"] == "test") == ("; on `" not in prediction)
        numbers = [f"{words} {entry[key]:+g}" for key, words in WORDS.items() if key in entry]
        assert bounds == " and ".join(numbers)


def test_of_multi30k_the_signs_of_four_rungs_are_predicted() -> None:
    entries = read_rungs(ROOT / "docs" / "ladder" / "rungs_multi30k.json")
    assert list(entries) == RUNGS
    for label, entry in entries.items():
        assert (entry.compared_with or "", entry.trials) == (rung(label).compared_with, len(POINTS))
    bounds = {label: (entry.at_least, entry.at_most) for label, entry in entries.items() if entry.prediction}
    signed = ("2-bahdanau", "5-no-feeding", "8-relative", "9-no-positions")
    better = {label: PREDICTIONS[label].get("at_least", -1) > 0 for label in signed}
    assert bounds == {label: (0, None) if better[label] else (None, 0) for label in signed}


WORDS = {"at_least": "at least", "at_most": "at most"}


@pytest.mark.parametrize("experiment", ["ladder_grammar", "ladder_multi30k"])
def test_a_ladder_runs_over_every_rung(experiment: str) -> None:
    file = yaml.safe_load((CONF / "experiment" / f"{experiment}.yaml").read_text("utf-8"))
    assert file["hydra"]["sweeper"]["params"]["rung"].split(",") == RUNGS


@pytest.mark.parametrize("label", RUNGS)
def test_the_long_ladder_has_eight_times_the_updates_at_a_quarter_of_the_tuned_rate(label: str) -> None:
    short, long = (composed(f"experiment=ladder_grammar{kind}", f"rung={label}") for kind in ("", "_long"))
    trainer = replace(short.trainer, max_steps=8 * short.trainer.max_steps, validate_every=800)
    optim = replace(short.optim, lr=short.optim.lr / 4)
    assert long == replace(short, trainer=trainer, optim=optim, run_dir=long.run_dir)


def test_runs_on_less_text_differ_from_the_ladder_in_nothing_else() -> None:
    short, less = (
        composed(f"experiment=ladder_{kind}", "rung=2-bahdanau", "data.train_size=1000")
        for kind in ("grammar", "data_size")
    )
    trainer = replace(short.trainer, max_epochs=100_000)  # the updates are fewer than that
    assert less == replace(short, trainer=trainer, run_dir=less.run_dir)


# ---- Tuning ----


def trials(label: str, *bleu: float) -> list[Trial]:
    return [
        Trial(label, 0.001 * n, 100 + n, 0.1, 1, 800, 700_000, score, 3.0 - 0.1 * n, 2.5, "c0ffee")
        for n, score in enumerate(bleu, start=1)
    ]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "trial").mkdir()
    for number, name in enumerate("abc", start=1):
        point = {"optim": {"lr": 0.001 * number, "warmup": 100 + number}, "model": {"dropout": 0.1}}
        (tmp_path / "trial" / f"{name}.yaml").write_text(yaml.safe_dump(point), encoding="utf-8")
    return tmp_path


def test_a_rung_takes_the_trial_of_the_highest_bleu_and_then_of_the_lowest_loss(conf: Path) -> None:
    table = conf / "experiment" / "trials_toy.csv"
    write_trials(table, [*trials("x", 7.0, 9.0, 9.0), *trials("y", 9.5, 1.0, 2.0)])
    assert (tuned(conf, "toy", "x", "lr"), tuned(conf, "toy", "x", "warmup")) == (0.003, 103)
    assert tuned(conf, "toy", "y", "warmup") == 101
    assert tuned(conf, "toy", "x", "lr", 0.5) == 0.0015
    assert read_trials(table)[3:] == trials("y", 9.5, 1.0, 2.0)


@pytest.mark.parametrize(("label", "number"), [("x", 2), ("y", 0)])
def test_a_rung_that_has_not_had_every_trial_is_not_tuned(conf: Path, label: str, number: int) -> None:
    table = conf / "experiment" / "trials_toy.csv"
    write_trials(table, trials("x", 7.0, 9.0))
    with pytest.raises(UserError) as error:
        tuned(conf, "toy", label, "lr")
    assert str(error.value) == (
        f"{label} is not tuned: {table} has {number} of 3 trials; run python train.py -m experiment=trials_toy, "
        "then python scripts/collect_trials.py toy; or choose one by trial="
    )


def test_trials_on_two_corpora_do_not_tune_a_rung(conf: Path) -> None:
    table = conf / "experiment" / "trials_toy.csv"
    one, *others = trials("x", 7.0, 9.0, 8.0)
    write_trials(table, [one._replace(corpus="decaf"), *others])
    with pytest.raises(UserError, match="has trials of x on different corpora: delete it, and collect them again"):
        tuned(conf, "toy", "x", "lr")


def test_trials_of_different_lengths_do_not_tune_a_rung(conf: Path) -> None:
    one, *others = trials("x", 7.0, 9.0, 8.0)
    write_trials(conf / "experiment" / "trials_toy.csv", [one._replace(updates=1600), *others])
    with pytest.raises(UserError, match="has trials of x of different numbers of updates: delete it"):
        tuned(conf, "toy", "x", "lr")


def test_a_trial_outside_the_space_does_not_count(conf: Path) -> None:
    one, *others = trials("x", 7.0, 9.0, 8.0)
    table = conf / "experiment" / "trials_toy.csv"
    write_trials(table, [one._replace(lr=0.5, validation_bleu=99.0), *others])
    with pytest.raises(UserError, match="has 2 of 3 trials"):
        tuned(conf, "toy", "x", "lr")
    write_trials(table, [one._replace(lr=0.5, validation_bleu=99.0), one, *others])
    assert tuned(conf, "toy", "x", "lr") == 0.002


def test_a_trial_whose_score_is_no_number_is_refused(tmp_path: Path) -> None:
    write_trials(tmp_path / "t.csv", [trials("x", float("nan"))[0]])
    with pytest.raises(UserError, match=r"t\.csv holds a number that is none"):
        read_trials(tmp_path / "t.csv")


def test_one_point_tried_twice_is_one_trial(conf: Path) -> None:
    table = conf / "experiment" / "trials_toy.csv"
    one, other, _ = trials("x", 7.0, 9.0, 8.0)
    write_trials(table, [one, other, one._replace(seed=2)])
    with pytest.raises(UserError, match="has 2 of 3 trials"):
        tuned(conf, "toy", "x", "lr")


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label,lr\nx,fast\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"is not a table of trials with the columns label, lr, warmup"):
        read_trials(tmp_path / "t.csv")


@pytest.mark.parametrize("ladder", ["grammar", "multi30k"])
def test_every_rung_has_had_as_many_trials_as_every_other(ladder: str) -> None:
    done = read_trials(CONF / "experiment" / f"trials_{ladder}.csv")
    numbers = {label: sum(trial.label == label for trial in done) for label in RUNGS}
    assert set(numbers.values()) == {len(POINTS)}
    for label in RUNGS:
        assert {trial.point for trial in done if trial.label == label} == space(CONF)


def test_a_rung_that_is_not_tuned_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    errors = train_in_process(monkeypatch, capsys, "experiment=ladder_grammar")
    assert errors.startswith("seq2seq: error: a run without rung= is not tuned: ")
    assert errors.count("\n") == 1


def test_trials_are_collected_from_their_runs_into_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(tiny_settings(tmp_path, "runs/one"), label="7-transformer", score_tests=False)
    fit(config)
    table = tmp_path / "table.csv"
    write_trials(table, trials("0-rnn", 5.0))
    script = str(ROOT / "scripts" / "collect_trials.py")
    monkeypatch.setattr(sys, "argv", [script, "grammar", "--table", str(table), "--runs", str(tmp_path / "runs")])
    for _ in range(2):
        runpy.run_path(script, run_name="__main__")
    assert [trial.label for trial in read_trials(table)] == ["0-rnn", "7-transformer"]
    metrics = json.loads((tmp_path / "runs" / "one" / "bundle" / "metrics.json").read_text("utf-8"))
    trial = read_trials(table)[1]
    assert (trial.lr, trial.warmup, trial.dropout, trial.updates) == (5e-3, 5, 0.1, metrics["updates"])
    assert trial.validation_bleu == pytest.approx(metrics["validation"]["bleu"], abs=1e-4)
    assert (metrics["test"], metrics["tests"]) == (None, {})  # a trial has seen no test set
    assert not (tmp_path / "runs" / "one" / "tests").exists()

    def refused(runs: str = "runs", table: Path = table) -> str:
        monkeypatch.setattr(sys, "argv", [script, "grammar", "--table", str(table), "--runs", str(tmp_path / runs)])
        with pytest.raises(SystemExit) as exit_code:
            runpy.run_path(script, run_name="__main__")
        out, errors = capsys.readouterr()
        assert (exit_code.value.code, out, errors.count("\n")) == (2, "", 1)
        return errors

    capsys.readouterr()
    before = table.read_text("utf-8")
    assert f"there is no finished trial in {tmp_path / 'nowhere'}" in refused("nowhere")
    assert f"cannot write {tmp_path / 'nowhere' / 't.csv'}" in refused(table=tmp_path / "nowhere" / "t.csv")
    shutil.copytree(tmp_path / "runs" / "one", tmp_path / "runs" / "two")
    assert f"{tmp_path / 'runs' / 'two'} are the same trial: leave one out" in refused()
    (tmp_path / "runs" / "two" / "bundle" / "metrics.json").write_text('{"label": null}', encoding="utf-8")
    assert "metrics.json or the config.yaml of its run is damaged" in refused()
    assert table.read_text("utf-8") == before


# ---- The length penalty ----


def test_the_length_penalty_of_the_best_validation_bleu_ships_and_the_first_of_equals(tmp_path: Path) -> None:
    config = replace(tiny_settings(tmp_path), length_penalties=[0.6, 1.4], label="a")
    fit(config)
    bundle = tmp_path / "run" / "bundle"
    metrics, model = (json.loads((bundle / name).read_text("utf-8")) for name in ("metrics.json", "model.json"))
    penalties = metrics["length_penalties"]
    assert set(penalties["validation_bleu"]) == {"0.6", "1.4"}
    best = max(penalties["validation_bleu"].values())
    assert penalties["chosen"] == next(
        float(penalty) for penalty, bleu in penalties["validation_bleu"].items() if bleu == best
    )
    assert model["search"]["length_penalty"] == penalties["chosen"]
    log = (tmp_path / "run" / "train.log").read_text("utf-8")
    assert log.index("with search.length_penalty=1.4") < log.index("translating test:")


def test_without_length_penalties_to_choose_from_nothing_is_translated(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path)
    corpus = prepare(config.data, config.tokenizer)
    assert try_length_penalties(config, build_model(config.model, corpus.tokenizer.vocab_size), corpus) is None


def test_an_impossible_length_penalty_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"search\.length_penalty=-1\.0 must be a number of at least 0"):
        replace(tiny_settings(tmp_path), length_penalties=[1.0, -1.0])
