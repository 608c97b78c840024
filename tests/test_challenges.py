import math

import pytest
from conftest import PAIRS
from test_comparison import REFERENCES, SOURCES, write_run
from toy import bigram_model

from seq2seq.comparison.challenges import beams, data_sizes, lengths, rare_words, search_errors
from seq2seq.comparison.challenges_text import (
    beams_text,
    data_sizes_text,
    lengths_text,
    rare_words_text,
    search_errors_text,
)
from seq2seq.comparison.runs import ScoredText
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.data.words import Alignment
from seq2seq.errors import UserError
from seq2seq.evaluation import corpus_scores
from seq2seq.inference.bundle import Preprocessing
from seq2seq.inference.search import SearchConfig
from seq2seq.inference.translator import Translator

TEXTS, TARGETS = map(list, zip(*PAIRS, strict=True))
X, Y, Z = 300, 301, 302  # three pieces


def cells(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


# ---- Beams ----


def test_each_beam_is_ranked_with_and_without_length_normalisation(tiny_bundle):
    found = beams(Translator.from_bundle(tiny_bundle), TEXTS, TARGETS, sizes=(1, 3))
    assert [(one["beam_size"], one["length_penalty"]) for one in found] == [(1, 0.0), (1, 1.0), (3, 0.0), (3, 1.0)]
    assert [one["bleu"] for one in found] == pytest.approx([100] * 4)
    assert [(one["cut"], one["empty"]) for one in found] == [(0.0, 0.0)] * 4
    assert cells(beams_text(found))[2][:2] == ["beam 1, length penalty 0", "100.00"]


def test_only_without_normalisation_does_a_wide_beam_prefer_a_short_translation(tiny_tokenizer):
    # X has 0.35 and X Y Z 0.65 * 0.52, which is less, but not by token; greedy search does not come upon X.
    table = {BOS: {X: 1.0}, X: {EOS: 0.35, Y: 0.65}, Y: {Z: 0.52, EOS: 0.48}, Z: {EOS: 1.0}}
    found = beams(bigram_translator(tiny_tokenizer, table), ["a dog", " "], ["x", ""], sizes=(1, 4))
    short, long = math.log(0.35) / 2, math.log(0.65 * 0.52) / 2  # the blank line has 0
    assert [one["log_prob"] for one in found] == pytest.approx([long, long, short, long])
    assert [one["empty"] for one in found] == [0.0] * 4  # the blank line is nobody's fault


def test_a_model_that_never_normalises_has_one_row_a_beam(tiny_bundle):
    tiny_bundle.search.length_penalty = 0.0
    assert len(beams(Translator.from_bundle(tiny_bundle), TEXTS, TARGETS, sizes=(2,))) == 1


def test_which_beam_of_how_many_is_at_work_is_logged(tiny_tokenizer, caplog):
    caplog.set_level("INFO")
    beams(bigram_translator(tiny_tokenizer, {BOS: {X: 1.0}, X: {EOS: 1.0}}), ["a dog"], ["x"], sizes=(1, 4))
    assert caplog.messages == [
        "translating 1 sentences, beam size 1, length penalty 0 (1 of 4)",
        "translating 1 sentences, beam size 1, length penalty 1 (2 of 4)",
        "translating 1 sentences, beam size 4, length penalty 0 (3 of 4)",
        "translating 1 sentences, beam size 4, length penalty 1 (4 of 4)",
    ]


# ---- Search errors ----


def bigram_translator(tokenizer, probabilities, beam_size=1):
    model = bigram_model(probabilities, tokenizer.vocab_size)
    return Translator(model, tokenizer, Preprocessing(False, 64, "en", "de"), SearchConfig(beam_size))


def test_a_search_error_is_found_by_hand(tiny_tokenizer):
    # greedy: X with 0.6 * 0.6; the best: Y with 0.4 * 1.
    table = {BOS: {X: 0.6, Y: 0.4}, X: {EOS: 0.6, X: 0.4}, Y: {EOS: 1.0}}
    found = search_errors(bigram_translator(tiny_tokenizer, table), ["a dog", " "])
    assert (found["sentences"], found["errors"], found["none"], found["undecided"]) == (1, 1, 0, 0)
    assert (found["best_known"], found["empty_is_best"], found["empty_probability"]) == (1, 0, 0.0)
    assert (
        "the empty translation is the most probable of all: 0 of the 1 for which that is known"
        in search_errors_text(found)
    )
    wide = search_errors(bigram_translator(tiny_tokenizer, table, beam_size=2), ["a dog"])
    assert (wide["errors"], wide["none"]) == (0, 1)
    assert "a more probable translation exists: 1 of 1 (100.0 %)" in search_errors_text(found)


def test_the_empty_translation_may_be_the_most_probable_of_all(tiny_tokenizer):
    table = {BOS: {EOS: 0.3, X: 0.7}, X: {Y: 0.4, Z: 0.35, EOS: 0.25}, Y: {EOS: 1.0}, Z: {EOS: 1.0}}
    found = search_errors(bigram_translator(tiny_tokenizer, table), ["a dog"])
    assert (found["errors"], found["empty_is_best"]) == (1, 1)
    assert (found["beam_tokens"], found["best_tokens"]) == (2, 0)  # X Y with 0.28
    assert found["empty_probability"] == pytest.approx(0.3)


def test_what_exact_search_cannot_decide_is_said(tiny_tokenizer):
    table = {BOS: {X: 0.6, Y: 0.4}, X: {EOS: 0.6, X: 0.4}, Y: {EOS: 1.0}}
    found = search_errors(bigram_translator(tiny_tokenizer, table), ["a dog"], max_nodes=1)
    assert (found["errors"], found["none"], found["undecided"], found["best_known"]) == (0, 0, 1, 0)
    assert "undecided: 1 of 1" in search_errors_text(found)
    assert (found["empty_is_best"], found["empty_known"]) == (0, 1)  # X is more probable, whatever is best


def test_whether_the_empty_translation_is_best_may_stay_unknown(tiny_tokenizer):
    table = {BOS: {X: 0.6, EOS: 0.4}, X: {X: 0.9, EOS: 0.1}}
    found = search_errors(bigram_translator(tiny_tokenizer, table), ["a dog"], max_nodes=1)
    assert (found["undecided"] + found["errors"], found["empty_known"]) == (1, 0)


def test_blank_sources_leave_nothing_to_search(tiny_tokenizer):
    found = search_errors(bigram_translator(tiny_tokenizer, {BOS: {EOS: 1.0}}), ["", " "])
    assert search_errors_text(found) == "no sentence to search: all are blank\n"


def test_exact_search_logs_how_far_it_is_twenty_times_at_most(tiny_tokenizer, caplog):
    caplog.set_level("INFO")
    table = {BOS: {X: 0.6, Y: 0.4}, X: {EOS: 0.6, X: 0.4}, Y: {EOS: 1.0}}
    search_errors(bigram_translator(tiny_tokenizer, table), ["a dog"] * 45)
    assert len(caplog.messages) == 15
    assert caplog.messages[1] == "exact search: sentence 4 of 45, 3 errors so far"


def test_a_model_that_knows_its_sentences_makes_no_search_error(tiny_bundle):
    found = search_errors(Translator.from_bundle(tiny_bundle), TEXTS[:2])
    assert (found["errors"], found["none"]) == (0, 2)
    assert 0 < found["empty_probability"] < 0.1


# ---- Lengths ----


def test_lengths_are_scored_bin_by_bin():
    text = ScoredText(
        ["a b", "a b c", "a b c d e f"], ["u v w x", "u v w y", "p q"], ["u v w x", "u v", "p q r."], ""
    )  # a full stop counts
    found = lengths(text, lowercase=False)
    assert found["1-5"]["bleu"] == corpus_scores(text.hyp[:2], text.ref[:2])["bleu"]
    assert [found[name]["sentences"] for name in ("1-5", "6-10")] == [2, 1]
    assert [found[name]["length_ratio"] for name in ("1-5", "6-10")] == [6 / 8, 2.0]
    assert cells(lengths_text({"run": found}))[3] == ["6-10 (1)", f"{found['6-10']['bleu']:.1f} / 2.00"]


# ---- Rare words ----

TRAINING = [("the dog", "der Hund"), ("the cat", "die Katze"), ("the dog", "der Hund")]
TEXT = ScoredText(["the cat", "the zebra"], ["Die Katze!", "das Zebra"], ["die Hund", "Das Zebra."], "")


def test_words_are_counted_by_their_frequency_in_training():
    found = rare_words(TEXT, TRAINING, [Alignment.parse("0-0 1-1")] * 2)
    assert found["target_recall"] == {"0": {"words": 2, "accuracy": 1.0}, "1": {"words": 2, "accuracy": 0.5}}
    assert found["target_precision"] == {
        "0": {"words": 2, "accuracy": 1.0},
        "1": {"words": 1, "accuracy": 1.0},
        "2-3": {"words": 1, "accuracy": 0.0},  # Hund
    }
    assert found["source"] == {
        "0": {"words": 1, "accuracy": 1.0},  # zebra
        "1": {"words": 1, "accuracy": 0.0},  # cat
        "2-3": {"words": 2, "accuracy": 1.0},  # the
    }
    table = cells(rare_words_text(found))
    assert table[3] == ["1", "0.0 of 1", "50.0 of 2", "100.0 of 1"]


def test_a_word_that_is_wanted_twice_must_be_written_twice():
    text = ScoredText(["x"], ["der der"], ["der"], "")
    found = rare_words(text, TRAINING, [Alignment((), ())])
    assert found["target_recall"]["2-3"] == {"words": 2, "accuracy": 0.5}
    assert found["source"] == {}  # no link


def test_a_source_word_of_two_links_is_half_translated_where_one_of_them_is_there():
    text = ScoredText(["cat"], ["die Katze"], ["die Maus"], "")
    found = rare_words(text, TRAINING, [Alignment.parse("0-0 0-1")])
    assert found["source"]["1"] == {"words": 1, "accuracy": 0.5}


def test_without_gold_alignments_those_of_ibm_model_1_serve():
    text = ScoredText(["the dog"], ["der Hund"], ["der Hund"], "")
    training = [("the dog", "der Hund"), ("the cat", "der Kater"), ("the pig", "der Eber")]
    found = rare_words(text, training, None)["source"]
    assert found == {"1": {"words": 1, "accuracy": 1.0}}  # "the" explains "der" no better than no word does


def test_the_most_frequent_words_share_the_last_bin():
    text = ScoredText(["x"], ["a b c"], ["a b c"], "")
    training = [("x", "a " * 1024), ("x", "b " * 1023), ("x", "c " * 5000)]
    assert list(rare_words(text, training, [Alignment((), ())])["target_recall"]) == ["512-1023", "1024+"]


# ---- Data sizes ----


def test_runs_stand_side_by_side_by_label_and_training_pairs(tmp_path):
    runs = [
        write_run(
            tmp_path / f"{label}{size}{seed}", label, REFERENCES if size > 20 else SOURCES, seed, training_pairs=size
        )
        for label in ("a", "b")
        for size in (30, 10)
        for seed in (1, 2)
    ]
    found = data_sizes(runs, "test")
    assert list(found["a"]) == [10, 30]
    assert found["a"][30] == {"bleu": pytest.approx(100), "seeds": 2}
    assert found["b"][10]["bleu"] == corpus_scores(SOURCES, REFERENCES)["bleu"]
    assert cells(data_sizes_text(found, "test"))[3] == ["30", "100.0 (2)", "100.0 (2)"]


def test_a_run_that_does_not_say_its_training_pairs_is_named(tmp_path):
    with pytest.raises(UserError, match="does not say how many pairs"):
        data_sizes([write_run(tmp_path / "a", "a", REFERENCES)], "test")


def test_a_test_set_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match="has no test set long"):
        data_sizes([write_run(tmp_path / "a", "a", REFERENCES, training_pairs=5)], "long")
