import hashlib
import json
import subprocess
import sys

import pytest
from conftest import PAIRS

from seq2seq.alignment import STEPS, Head
from seq2seq.data.gold import Gold, read_gold
from seq2seq.data.grammar import Tags
from seq2seq.data.words import Alignment
from seq2seq.errors import UserError
from seq2seq.evaluation import corpus_scores, evaluate, exact_match_by
from seq2seq.inference.translator import Translator

SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))
ODD = ["Ein Satz mit „Zitat“, 3.50 € & mehr .", "</s> <unk> ⁇", "", "x\u2028y\x0bz  ", "Groß und GROSS"]
ODD_REFERENCES = ["Ein Satz mit „Zitat“, 3,50 € und mehr.", "</s> <unk>", "Etwas.", "x y z", "groß und gross \u00a0"]


def sacrebleu_command(folder, *options):
    command = [sys.executable, "-m", "sacrebleu", folder / "ref.txt", "-i", folder / "hyp.txt", "-w", "15", *options]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    return json.loads(finished.stdout)


# ---- Corpus scores ----


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_and_signatures_equal_the_sacrebleu_command(lowercase, tmp_path):
    (tmp_path / "hyp.txt").write_bytes("".join(f"{line}\n" for line in ODD).encode())
    (tmp_path / "ref.txt").write_bytes("".join(f"{line}\n" for line in ODD_REFERENCES).encode())
    scores = corpus_scores(ODD, ODD_REFERENCES, lowercase=lowercase)
    options = ["--lowercase", "--chrf-lowercase"] if lowercase else []
    bleu, chrf, ter = sacrebleu_command(tmp_path, "-m", "bleu", "chrf", "ter", *options)
    for name, expected in (("bleu", bleu), ("chrf", chrf), ("ter", ter)):
        assert f"{scores[name]:.15f}" == f"{expected['score']:.15f}"
        assert scores["signatures"][name] == expected["signature"]


def test_it_is_one_corpus_score_and_no_mean_of_parts():
    hypotheses, references = ["a b c d e f"] * 3 + ["x"], ["a b c d e f"] * 3 + ["u v w x y z"]
    whole = corpus_scores(hypotheses, references)["bleu"]
    parts = [corpus_scores([h], [r])["bleu"] for h, r in zip(hypotheses, references, strict=True)]
    assert whole != pytest.approx(sum(parts) / 4, abs=1)


def test_references_are_one_a_sentence():
    hypotheses = ["A cat sat there .", "x", "y"]
    references = ["A cat sat there .", "Two dogs ran off .", "No one came ."]
    assert corpus_scores(hypotheses, references)["bleu"] < 50


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [("abc", ["a", "b", "c"]), (["a"], "a"), (["a"], [["a"]]), ([["a"]], ["a"]), ([None], ["a"])],
)
def test_anything_but_lists_of_strings_is_refused(hypotheses, references):
    with pytest.raises(TypeError, match="must be a list of strings"):
        corpus_scores(hypotheses, references)


def test_different_numbers_of_lines_are_refused_with_both_counts():
    with pytest.raises(UserError, match="3 hypotheses but 2 references"):
        corpus_scores(["a"] * 3, ["a"] * 2)


def test_nothing_to_score_is_refused():
    with pytest.raises(UserError, match="nothing to score"):
        corpus_scores([], [])


def test_empty_hypotheses_count():
    references = ["Nobody painted the third violin."] * 10
    assert corpus_scores([""] * 10, references)["bleu"] == 0.0
    assert corpus_scores([""] * 10, references)["length_ratio"] == 0.0
    half_empty = corpus_scores(references[:5] + [""] * 5, references)
    assert 0 < half_empty["bleu"] < 50
    assert half_empty["exact_match"] == 0.5


def test_an_empty_reference_counts_against_what_was_written_for_it():
    hypotheses = [f"sentence number {n} of ten" for n in range(10)]
    references = [*hypotheses[:9], ""]
    scores = corpus_scores(hypotheses, references)
    assert 0 < scores["bleu"] < 100
    assert scores["length_ratio"] > 1
    assert corpus_scores(["x"], [""])["length_ratio"] == 1.0
    assert corpus_scores([""], [""])["exact_match"] == 1.0


def test_a_perfect_translation_is_perfect():
    scores = corpus_scores(TARGETS, TARGETS)
    assert (scores["bleu"], scores["chrf"], scores["ter"]) == pytest.approx((100, 100, 0))
    assert (scores["exact_match"], scores["length_ratio"], scores["sentences"]) == (1.0, 1.0, 6)


def test_white_space_at_the_end_of_a_line_counts_for_nothing():
    assert corpus_scores(["a b \u00a0"], ["a b"])["exact_match"] == 1.0


def test_lower_casing_is_said_in_the_signatures():
    upper = [line.upper().replace("SS", "ß") for line in TARGETS]
    cased, lowercased = (corpus_scores(upper, TARGETS, lowercase=lowercase) for lowercase in (False, True))
    assert cased["bleu"] < 50 < lowercased["bleu"]
    assert (cased["exact_match"], lowercased["exact_match"]) == (0.0, 1.0)
    assert "case:mixed" in cased["signatures"]["bleu"]
    assert "case:lc" in lowercased["signatures"]["bleu"]
    assert "case:lc" in lowercased["signatures"]["chrf"]


# ---- Test sets ----


def test_a_test_set_is_translated_scored_and_written(tiny_bundle, tmp_path):
    references = [*TARGETS[:4], "Das ist\u2028etwas anderes.", TARGETS[5]]
    folder = tmp_path / "tests" / "riddles"
    scores = evaluate(Translator.from_bundle(tiny_bundle), SOURCES, references, folder=folder)
    assert (folder / "src.txt").read_bytes().decode() == "".join(f"{line}\n" for line in SOURCES)
    assert (folder / "ref.txt").read_bytes().decode() == "".join(f"{line}\n" for line in references)
    assert (folder / "hyp.txt").read_bytes().decode() == "".join(f"{line}\n" for line in TARGETS)
    assert f"{scores['bleu']:.15f}" == f"{sacrebleu_command(folder, '-m', 'bleu')['score']:.15f}"
    both = (folder / "src.txt").read_bytes() + (folder / "ref.txt").read_bytes()
    assert scores["test_set_sha256"] == hashlib.sha256(both).hexdigest()
    assert (scores["cut"], scores["looping"], scores["exact_match"]) == (0.0, 0.0, 5 / 6)
    assert json.loads(json.dumps(scores)) == scores
    assert [path.name for path in folder.parent.iterdir()] == ["riddles"]


def test_the_shares_of_cut_and_looping_translations_are_reported(tiny_bundle):
    tiny_bundle.search.max_length_ratio, tiny_bundle.search.max_length_extra = 0.0, 1
    scores = evaluate(Translator.from_bundle(tiny_bundle), [SOURCES[0], ""], ["x", ""])
    assert (scores["cut"], scores["looping"]) == (0.5, 0.0)


def test_an_untrained_model_can_be_evaluated(tiny_bundle):
    for parameter in tiny_bundle.model.parameters():
        parameter.data.normal_(std=0.3)
    scores = evaluate(Translator.from_bundle(tiny_bundle), SOURCES, TARGETS)
    assert 0 <= scores["bleu"] < 10


def test_sources_without_references_are_refused_before_any_is_translated(tiny_bundle):
    calls = []
    tiny_bundle.model.encoder.embedding.register_forward_pre_hook(lambda *_: calls.append(1))
    with pytest.raises(UserError, match="6 sources but 5 references"):
        evaluate(Translator.from_bundle(tiny_bundle), SOURCES, TARGETS[:5])
    assert not calls
    evaluate(Translator.from_bundle(tiny_bundle), SOURCES[:1], TARGETS[:1])
    assert calls


def test_what_else_lies_in_the_folder_is_left_alone(tiny_bundle, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    evaluate(Translator.from_bundle(tiny_bundle), SOURCES[:1], ["x"], folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "src.txt", "ref.txt", "hyp.txt"}
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_written_is_named(tiny_bundle, tmp_path):
    (tmp_path / "hyp.txt").mkdir()
    with pytest.raises(UserError, match=r"cannot write .*hyp\.txt"):
        evaluate(Translator.from_bundle(tiny_bundle), SOURCES[:1], ["x"], folder=tmp_path)


# ---- What a text's tags tell ----


def test_exact_matches_are_counted_by_what_sentences_show():
    tags = [
        Tags(("question", "time"), depth=0, agreement=2, bracket=0, length=4, template=""),
        Tags(("time",), depth=1, agreement=10, bracket=3, length=4, template=""),
        Tags((), depth=0, agreement=2, bracket=0, length=4, template=""),
    ]
    found = exact_match_by([True, False, False], tags)
    assert list(found["phenomenon"].items()) == [
        ("time", {"sentences": 2, "exact_match": 0.5}),
        ("question", {"sentences": 1, "exact_match": 1.0}),
    ]
    assert found["depth"] == {"0": {"sentences": 2, "exact_match": 0.5}, "1": {"sentences": 1, "exact_match": 0.0}}
    assert list(found["agreement"]) == ["2", "10"]
    assert found["bracket"] == {"3": {"sentences": 1, "exact_match": 0.0}}


def test_gold_is_scored_and_written_beside_the_texts(tiny_bundle, tmp_path):
    tags = [Tags(("all",), 0, 0, 0, 5, "")] * 6
    known = Gold([Alignment.parse("0-0")] * 6, tags, [Alignment.parse("0-0")] * 6)
    translator = Translator.from_bundle(tiny_bundle)
    found = evaluate(
        translator, SOURCES, TARGETS, folder=tmp_path, gold=known, heads={step: Head(0, 1) for step in STEPS}
    )
    assert found["exact_match_by"]["phenomenon"]["all"] == {"sentences": 6, "exact_match": 1.0}
    assert found["alignment"]["heads"] == {"step_t": [0, 1], "step_t_plus_1": [0, 1]}
    assert read_gold(tmp_path, 6) == known
    assert "alignment" not in evaluate(translator, SOURCES, TARGETS)
