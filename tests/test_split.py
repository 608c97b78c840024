"""Splitting by distinct source sentence: nothing tested is trained on."""

from collections import Counter
from pathlib import Path

import pytest

from seq2seq.data.corpus import Corpus, ParallelText
from seq2seq.data.split import Part, divide
from seq2seq.errors import UserError

# Every source has three translations, and is written in three ways that differ in case and spacing only.
PAIRS = [
    (source, f"Satz {i} {variant}")
    for variant in range(3)
    for i in range(200)
    for source in [[f"sentence {i}", f"Sentence  {i}", f"SENTENCE\u00a0{i} "][variant]]
]


def text(folder: Path, pairs: list[tuple[str, str]], name: str = "all") -> ParallelText:
    table = folder / f"{name}.tsv"
    table.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return ParallelText(table, table, (0, 1))


def spelled_alike(part: Part) -> set[str]:
    return {" ".join(src.casefold().split()) for src, _ in part.pairs()}


def test_no_source_of_validation_or_test_is_trained_on_however_it_is_spelled(tmp_path: Path) -> None:
    parts = divide(Corpus(text(tmp_path, PAIRS), None, {}, valid_size=40, test_size=60))
    train, valid, test = (spelled_alike(part) for part in (parts.train, parts.valid, parts.tests["test"]))
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_every_pair_is_in_one_part_and_the_parts_have_about_their_sizes(tmp_path: Path) -> None:
    parts = divide(Corpus(text(tmp_path, PAIRS), None, {}, valid_size=40, test_size=60))
    valid, test = parts.valid, parts.tests["test"]
    assert 40 <= len(valid) <= 42
    assert 60 <= len(test) <= 62
    together = Counter([*parts.train.pairs(), *valid.pairs(), *test.pairs()])
    assert together == Counter(PAIRS)


def test_the_split_is_the_same_each_time_and_another_for_another_seed(tmp_path: Path) -> None:
    corpus = Corpus(text(tmp_path, PAIRS), None, {}, valid_size=40, test_size=60)
    first, again, other = (list(divide(corpus._replace(split_seed=seed)).valid.pairs()) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_split_hardly_changes_when_lines_are_added(tmp_path: Path) -> None:
    few, more = (
        spelled_alike(divide(Corpus(text(tmp_path, pairs), None, {}, 0, 60)).tests["test"])
        for pairs in (PAIRS, [*PAIRS, ("one more", "noch eins")])
    )
    assert len(few & more) >= len(few) - 1


def test_a_source_that_is_repeated_without_end_is_not_what_is_tested(tmp_path: Path) -> None:
    for seed in range(20):
        repeated = [("See also", f"Siehe auch {i}") for i in range(500)]
        parts = divide(Corpus(text(tmp_path, PAIRS + repeated), None, {}, valid_size=40, test_size=60, split_seed=seed))
        assert len(parts.valid) <= 42
        assert len(parts.tests["test"]) <= 62


def test_a_text_of_one_repeated_source_is_still_split(tmp_path: Path) -> None:
    repeated = [("See also", f"Siehe auch {i}") for i in range(50)] + [(f"{i}", f"{i}") for i in range(10)]
    parts = divide(Corpus(text(tmp_path, repeated), None, {}, valid_size=15, test_size=0))
    assert len(parts.valid) >= 15


def test_a_pair_with_a_blank_side_is_never_chosen(tmp_path: Path) -> None:
    blanks = [(f"only source {i}", " ") for i in range(500)] + [("", f"nur Ziel {i}") for i in range(500)]
    parts = divide(Corpus(text(tmp_path, blanks + PAIRS), None, {}, valid_size=100, test_size=100))
    for part in (parts.valid, parts.tests["test"]):
        assert all(src.strip() and tgt.strip() for src, tgt in part.pairs())
        assert len(part) >= 100


def test_given_files_are_taken_whole(tmp_path: Path) -> None:
    valid, test = text(tmp_path, [("", "x"), ("a", "")], "valid"), text(tmp_path, PAIRS[:5], "test")
    parts = divide(Corpus(text(tmp_path, PAIRS), valid, {"newest": test}))
    assert list(parts.valid.pairs()) == [("", "x"), ("a", "")]
    assert list(parts.tests["newest"].pairs()) == list(test.pairs())
    assert len(parts.train) == len(PAIRS)


def test_a_sample_keeps_about_so_many_characters(tmp_path: Path) -> None:
    whole = divide(Corpus(text(tmp_path, PAIRS), text(tmp_path, PAIRS[:5], "valid"), {})).train
    sample = whole.sample(3000, seed=0)
    characters = sum(len(src) + len(tgt) for src, tgt in sample.pairs())
    assert 2700 < characters < 3300
    assert set(sample.pairs()) < set(whole.pairs())
    assert whole.sample(10**6, seed=0) is whole


def test_a_sample_of_a_part_keeps_as_many_characters_as_one_of_the_whole(tmp_path: Path) -> None:
    part = divide(Corpus(text(tmp_path, PAIRS), text(tmp_path, PAIRS[:5], "valid"), {})).train.first(120)
    characters = sum(len(src) + len(tgt) for src, tgt in part.sample(2000, seed=0).pairs())
    assert 1700 < characters < 2300
    assert part.sample(4000, seed=0) is part


def test_parts_larger_than_half_of_the_corpus_are_an_error_with_the_numbers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"valid_size=200 and data.test_size=101 are more than half of the 600 pairs"):
        divide(Corpus(text(tmp_path, PAIRS), None, {}, valid_size=200, test_size=101))


def test_a_text_without_lines_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no lines in it"):
        divide(Corpus(text(tmp_path, PAIRS), text(tmp_path, [], "valid"), {}))


def test_a_training_text_with_nothing_but_blanks_is_an_error(tmp_path: Path) -> None:
    blanks = text(tmp_path, [("a", ""), (" ", "b")])
    with pytest.raises(UserError, match="0 pairs left of 2, all are blank on a side"):
        divide(Corpus(blanks, blanks, {}))


def test_parts_of_an_open_size_are_a_tenth_of_a_small_text(tmp_path: Path) -> None:
    parts = divide(Corpus(text(tmp_path, PAIRS), None, {}, valid_size=None, test_size=None))
    assert 60 <= len(parts.valid) <= 75
    assert 60 <= len(parts.tests["test"]) <= 75


def test_the_first_pairs_left_for_training_can_be_trained_on(tmp_path: Path) -> None:
    pairs = [("a", "x"), ("", "y"), ("b", ""), ("c", "z"), *PAIRS]
    whole = Corpus(text(tmp_path, pairs), None, {}, valid_size=40, test_size=60)
    some = divide(whole._replace(train_size=100))
    usable = [pair for pair in divide(whole).train.pairs() if all(pair)]
    assert list(some.train.pairs()) == usable[:100]
    assert list(some.valid.pairs()) == list(divide(whole).valid.pairs())


def test_more_training_pairs_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.train_size=9 is more than the 2 pairs"):
        divide(Corpus(text(tmp_path, PAIRS[:3]), None, {}, valid_size=1, train_size=9))
