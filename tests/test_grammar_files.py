import os
from pathlib import Path

import pytest

from seq2seq.data.gold import parse_alignments, parse_tags
from seq2seq.data.grammar import PARTS, part
from seq2seq.data.grammar.files import GrammarConfig, grammar_corpus, write_corpus
from seq2seq.data.ibm_model1 import IbmModel1
from seq2seq.data.prepare import prepare
from seq2seq.data.tokenizer import TokenizerConfig
from seq2seq.errors import UserError


def config(folder: Path, **settings: int | str) -> GrammarConfig:
    sizes = {"train_size": 60, "valid_size": 5, "test_size": 6, "challenge_size": 2}
    return GrammarConfig(cache_dir=str(folder / "cache"), **{**sizes, **settings})  # type: ignore[arg-type]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_the_corpus_is_the_parts_of_the_language(tmp_path: Path) -> None:
    corpus = grammar_corpus(config(tmp_path))
    assert list(corpus.train.pairs()) == [(pair.src, pair.tgt) for pair in part("train", count=60, seed=1)]
    assert corpus.valid is not None
    assert len(list(corpus.valid.pairs())) == 5
    assert list(corpus.tests) == [name for name in PARTS if name not in ("train", "valid")]
    assert {name: len(list(text.pairs())) for name, text in corpus.tests.items()}["pronouns"] == 2


def test_a_size_of_zero_leaves_a_part_out(tmp_path: Path) -> None:
    assert list(grammar_corpus(config(tmp_path, challenge_size=0)).tests) == ["test"]
    assert grammar_corpus(config(tmp_path, challenge_size=0, test_size=0)).tests == {}


def test_the_corpus_is_generated_once(tmp_path: Path) -> None:
    first, again = (grammar_corpus(config(tmp_path)).train.src for _ in range(2))
    assert first == again
    written = first.stat().st_mtime_ns
    grammar_corpus(config(tmp_path))
    assert first.stat().st_mtime_ns == written
    assert grammar_corpus(config(tmp_path, seed=2)).train.src != first


def test_german_to_english_is_the_same_pairs_turned(tmp_path: Path) -> None:
    there = grammar_corpus(config(tmp_path)).tests["agreement"]
    back = grammar_corpus(config(tmp_path, src_lang="de", tgt_lang="en")).tests["agreement"]
    assert list(back.pairs()) == [(tgt, src) for src, tgt in there.pairs()]
    assert there.gold is not None
    assert back.gold is not None
    alignments = parse_alignments(lines(there.gold[0]), there.gold[0])
    assert [a.reversed() for a in alignments] == parse_alignments(lines(back.gold[0]), back.gold[0])


def test_prepared_test_sets_know_their_gold(tmp_path: Path) -> None:
    prepared = prepare(config(tmp_path), TokenizerConfig(vocab_size=400))
    assert list(prepared.gold) == ["valid", *prepared.tests]
    model1 = IbmModel1((pair.src, pair.tgt) for pair in part("train", count=60, seed=1))
    for name, store in {"valid": prepared.valid, **prepared.tests}.items():
        pairs = list(part(name, count=len(store), seed=1))
        gold = prepared.gold[name]
        assert gold.alignments == [pair.alignment for pair in pairs]
        assert gold.tags == [pair.tags for pair in pairs]
        assert gold.baseline == [model1.align(pair.src, pair.tgt) for pair in pairs]


def test_a_changed_alignment_is_another_corpus(tmp_path: Path) -> None:
    first = prepare(config(tmp_path, challenge_size=0), TokenizerConfig(vocab_size=400))
    text = grammar_corpus(config(tmp_path, challenge_size=0)).tests["test"]
    assert text.gold is not None
    text.gold[0].write_text("\n" * 6, encoding="utf-8")
    again = prepare(config(tmp_path, challenge_size=0), TokenizerConfig(vocab_size=400))
    assert again.folder != first.folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"src_lang": "fr"}, "data.src_lang=fr: the built-in language has en and de"),
        ({"train_size": 0}, "data.train_size=0 must be at least 1"),
        ({"valid_size": 0}, "data.valid_size=0 must be at least 1"),
        ({"challenge_size": -1}, "data.challenge_size=-1 must be at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, settings: dict[str, int | str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config(tmp_path, **settings)


def test_a_corpus_is_written_as_files_with_alignments_and_tags(tmp_path: Path) -> None:
    write_corpus(tmp_path / "new", {"train": 4, "pronouns": 2}, seed=3)
    assert len(list((tmp_path / "new").iterdir())) == 8
    pairs = list(part("train", count=4, seed=3))
    src, tgt, align, tags = (tmp_path / "new" / f"train.{suffix}" for suffix in ("en", "de", "align", "tags"))
    assert [lines(src), lines(tgt)] == [[pair.src for pair in pairs], [pair.tgt for pair in pairs]]
    assert parse_alignments(lines(align), align) == [pair.alignment for pair in pairs]
    assert parse_tags(lines(tags), tags) == [pair.tags for pair in pairs]


def test_nothing_is_written_over_or_half_written(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "train.en").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="full is there already: name a new folder"):
        write_corpus(tmp_path / "full", {"train": 1}, seed=1)
    with pytest.raises(UserError, match="has no part 'exam': choose from train, valid"):
        write_corpus(tmp_path / "new", {"train": 1, "exam": 1}, seed=1)
    with pytest.raises(UserError, match=r"cannot write .*: (File exists|Not a directory)"):
        write_corpus(tmp_path / "full" / "train.en" / "new", {"train": 1}, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert (tmp_path / "full" / "train.en").read_text(encoding="utf-8") == "mine"


def test_nothing_beside_a_new_folder_is_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tmp").mkdir()
    (tmp_path / "notes.0123456789abcdef0123456789abcdef.tmp").write_text("mine", encoding="utf-8")
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    write_corpus(tmp_path / "new", {"train": 1}, seed=1)
    assert len(list(tmp_path.iterdir())) == 3


def test_lost_gold_is_noticed_before_training(tmp_path: Path) -> None:
    tokenizer = TokenizerConfig(vocab_size=400)
    prepared = prepare(config(tmp_path), tokenizer)
    (prepared.folder / "tests" / "test" / "gold.tags").unlink()
    with pytest.raises(UserError, match=r"gold\.tags.*: delete .*, it is made anew"):
        prepare(config(tmp_path), tokenizer)
    for name in ("gold.align", "ibm1.align"):
        (prepared.folder / "tests" / "test" / name).unlink()
    with pytest.raises(UserError, match="has lost gold alignments: delete it, it is made anew"):
        prepare(config(tmp_path), tokenizer)


def test_alignments_of_another_length_than_the_text_are_refused(tmp_path: Path) -> None:
    text = grammar_corpus(config(tmp_path)).tests["test"]
    assert text.gold is not None
    text.gold[0].write_text("0-0\n", encoding="utf-8")
    with pytest.raises(UserError, match="have not the 6 lines of the text: delete"):
        prepare(config(tmp_path), TokenizerConfig(vocab_size=400))
