"""The whole way from files to stores, and the cache: complete or not there."""

import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from seq2seq.data.corpus import FilesConfig
from seq2seq.data.multi30k import Multi30kConfig
from seq2seq.data.prepare import PreparedCorpus, prepare
from seq2seq.data.store import PairStore
from seq2seq.data.tokenizer import EOS, TokenizerConfig
from seq2seq.errors import UserError

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ZAHLEN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]

Pairs = list[tuple[str, str]]


def counted(pairs: int) -> Pairs:
    """Make pairs that differ: the digits of their numbers in words."""
    return [
        (" ".join(NUMBERS[int(d)] for d in str(i)), " ".join(ZAHLEN[int(d)] for d in str(i)))
        for i in range(100, 100 + pairs)
    ]


def write(folder: Path, name: str, pairs: Pairs, newline: str = "\n") -> str:
    for language, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        text = "".join(line + newline for line in side)
        (folder / f"{name}.{language}").write_bytes(text.encode("utf-8"))
    return str(folder / name)


class Folder:
    """A user's folder: training, validation and test files and a cache."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cache = path / "cache"
        self.train(counted(100))
        write(path, "valid", [("one hundred", "hundert"), ("two", "zwei")])
        write(path, "test", [("three", "drei")])

    def train(self, pairs: Pairs, newline: str = "\n") -> None:
        write(self.path, "train", pairs, newline)

    def data(self, **settings: Any) -> FilesConfig:
        files = {name: str(self.path / name) for name in ("train", "valid", "test")}
        return FilesConfig(**{"cache_dir": str(self.cache), **files, **settings})

    def prepare(self, **settings: Any) -> PreparedCorpus:
        return prepare(self.data(**settings), TokenizerConfig(vocab_size=300))

    def prepared(self) -> list[str]:
        folder = self.cache / "prepared"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def texts(store: PairStore) -> Pairs:
    return [(store.src_text(i), store.tgt_text(i)) for i in range(len(store))]


def test_pairs_come_back_with_their_ids_and_text(folder: Folder) -> None:
    corpus = folder.prepare()
    assert texts(corpus.train) == counted(100)
    assert texts(corpus.tests["test"]) == [("three", "drei")]
    for i in (0, 99):
        assert corpus.train.src(i).tolist() == [*corpus.tokenizer.encode(corpus.train.src_text(i)), EOS]
        assert corpus.train.tgt(i).tolist() == [*corpus.tokenizer.encode(corpus.train.tgt_text(i)), EOS]


def test_order_is_kept_over_many_chunks(folder: Folder) -> None:
    folder.train(counted(20_500))
    corpus = folder.prepare()
    assert texts(corpus.train) == counted(20_500)
    assert corpus.tokenizer.decode(corpus.train.tgt(20_499)) == corpus.train.tgt_text(20_499)


def test_a_pair_that_is_blank_on_a_side_goes_on_both_and_is_counted(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second, third, *rest = counted(100)
    folder.train([first, ("", second[1]), third, (third[0], "\u00a0\u200b"), *rest])
    corpus = folder.prepare()
    assert texts(corpus.train) == [first, third, *rest]
    assert corpus.manifest["train"]["dropped"] == {"blank": 2, "too_long": 0, "length_ratio": 0}
    assert "99 of 101 pairs kept; dropped 2 blank on a side" in caplog.text


def test_long_and_uneven_pairs_are_left_out_of_training(folder: Folder) -> None:
    folder.train([*counted(100), ("one " * 50, "eins " * 50), ("one", "eins zwei " * 10)])
    corpus = folder.prepare(max_tokens=40)
    assert texts(corpus.train) == counted(100)
    assert corpus.manifest["train"]["dropped"] == {"blank": 0, "too_long": 1, "length_ratio": 1}


def test_if_every_pair_is_too_long_the_numbers_say_so_and_nothing_is_left_behind(folder: Folder) -> None:
    folder.train([("one " * 60, "eins " * 60)] * 50)
    with pytest.raises(UserError, match=r"0 pairs left of 50: .*longest is 60, limit is 40"):
        folder.prepare(max_tokens=40)
    assert folder.prepared() == []


def test_equal_pairs_are_all_kept(folder: Folder) -> None:
    folder.train([("one two", "eins zwei")] * 100)
    assert len(folder.prepare().train) == 100


def test_validation_and_test_keep_every_line(folder: Folder) -> None:
    pairs = [("", "leer"), ("one " * 500, "eins"), ("two", ""), ("two", "")]
    write(folder.path, "valid", pairs)
    write(folder.path, "test", pairs)
    corpus = folder.prepare(max_tokens=40)
    assert texts(corpus.valid) == texts(corpus.tests["test"]) == [(src, tgt) for src, tgt in pairs]
    assert corpus.valid.tgt(2).tolist() == [EOS]


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_different_line_counts_stop_everything_before_any_work(
    folder: Folder, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with (folder.path / f"{name}.de").open("a") as file:
        file.write("zu viel\n")
    with pytest.raises(UserError, match=rf"{name}\.en has \d+ lines, but .*{name}\.de has \d+:"):
        folder.prepare()
    assert "learning a tokenizer" not in caplog.text
    assert folder.prepared() == []


def test_a_bad_byte_stops_everything_before_any_work(folder: Folder) -> None:
    (folder.path / "valid.de").write_bytes(b"hundert\ngr\xfcn\n")
    with pytest.raises(UserError, match=r"valid\.de, line 2, byte 10 of the file: 0xfc"):
        folder.prepare()
    assert folder.prepared() == []


def test_dropped_nul_characters_are_in_the_log_and_the_manifest(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.train([*counted(100), ("o\0ne\0", "eins")])
    corpus = folder.prepare()
    assert corpus.manifest["train"]["nul_characters"] == 2
    assert "dropped 2 NUL characters" in caplog.text
    assert texts(corpus.train)[-1] == ("one", "eins")


def test_line_ends_of_another_system_change_nothing(folder: Folder) -> None:
    plain = folder.prepare()
    folder.train(counted(100), newline="\r\n")
    other = folder.prepare()
    assert texts(other.train) == texts(plain.train)
    assert other.tokenizer.fingerprint == plain.tokenizer.fingerprint


def test_both_spellings_of_a_space_have_the_same_ids_in_training(folder: Folder) -> None:
    folder.train([*counted(100), ("10\u00a0km", "10 km")])
    corpus = folder.prepare()
    assert corpus.train.src(100).tolist() == corpus.train.tgt(100).tolist()


def test_lower_casing_changes_the_ids_and_not_the_text(folder: Folder) -> None:
    folder.train([*counted(100), ("ONE", "Eins")])
    corpus = prepare(folder.data(), TokenizerConfig(vocab_size=300, lowercase=True))
    assert texts(corpus.train)[-1] == ("ONE", "Eins")
    assert corpus.tokenizer.decode(corpus.train.src(100)) == "one"
    assert corpus.tokenizer.encode("ONE") == corpus.tokenizer.encode("one")


def test_a_large_corpus_teaches_the_tokenizer_by_a_sample_and_the_manifest_says_so(folder: Folder) -> None:
    folder.train(counted(1000))
    whole = folder.prepare()
    part = prepare(folder.data(), TokenizerConfig(vocab_size=300, max_characters=3000))
    assert whole.manifest["tokenizer"]["learned_from_pairs"] == 1000
    assert 50 < part.manifest["tokenizer"]["learned_from_pairs"] < 150
    assert len(part.train) == 1000


def test_parts_are_split_off_where_there_are_no_files(folder: Folder) -> None:
    folder.train(counted(500))
    corpus = folder.prepare(valid=None, test=None, valid_size=50, test_size=60)
    sizes = [len(store) for store in (corpus.train, corpus.valid, corpus.tests["test"])]
    assert sizes == [390, 50, 60]
    together = texts(corpus.train) + texts(corpus.valid) + texts(corpus.tests["test"])
    assert sorted(together) == sorted(counted(500))
    assert corpus.manifest["tests"]["test"]["sources_in_training"] == 0


def test_a_corpus_may_do_without_a_test(folder: Folder) -> None:
    assert folder.prepare(test=None, test_size=0).tests == {}


def test_test_sentences_that_are_in_training_too_are_counted_and_kept(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder.path, "test", [("Two  One one", "x"), ("new", "neu"), ("", "")])
    folder.train([("two one one", "zwei eins eins"), ("", "leer"), *counted(50)])
    corpus = folder.prepare()
    assert corpus.manifest["tests"]["test"]["sources_in_training"] == 1
    assert "test: 1 of 3 source sentences are in training too" in caplog.text
    assert len(corpus.tests["test"]) == 3


def test_multi30k_has_two_test_sets_in_order(tmp_path: Path) -> None:
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        write(tmp_path, name, counted(50))
    data = Multi30kConfig(dir=str(tmp_path), cache_dir=str(tmp_path / "cache"))
    corpus = prepare(data, TokenizerConfig(vocab_size=300))
    assert list(corpus.tests) == ["test_2016_flickr", "test_2017_flickr"]


def test_the_second_time_comes_from_the_cache(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    first = folder.prepare()
    before = (first.folder / "manifest.json").stat()
    caplog.set_level(logging.INFO)
    second = folder.prepare()
    assert "using the corpus prepared in" in caplog.text
    assert (second.folder / "manifest.json").stat() == before
    assert second.manifest == first.manifest
    assert second.tokenizer.fingerprint == first.tokenizer.fingerprint


def test_the_same_files_elsewhere_come_from_the_cache(folder: Folder, tmp_path: Path) -> None:
    first = folder.prepare()
    for file in folder.path.glob("*.??"):
        file.rename(file.with_name(f"moved-{file.name}"))
    moved = {name: str(folder.path / f"moved-{name}") for name in ("train", "valid", "test")}
    assert folder.prepare(**moved).folder == first.folder


def test_anything_that_goes_in_makes_another_cache(folder: Folder) -> None:
    folder.prepare()
    folder.prepare(max_tokens=99)
    folder.prepare(test=None, test_size=0)
    prepare(folder.data(), TokenizerConfig(vocab_size=310))
    folder.train(counted(99))
    folder.prepare()
    assert len(folder.prepared()) == 5


def test_a_folder_without_a_manifest_is_not_trusted(folder: Folder) -> None:
    (folder.prepare().folder / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"has no manifest.json.*delete it"):
        folder.prepare()


def test_a_cache_folder_that_cannot_be_written_is_an_error(folder: Folder) -> None:
    blocked = folder.path / "blocked"
    blocked.write_text("a file where a folder should be")
    with pytest.raises(UserError, match=r"cannot write to data.cache_dir=.*blocked \("):
        folder.prepare(cache_dir=str(blocked))


PREPARE = """
import json, sys, time
from pathlib import Path
from seq2seq.data.prepare import FilesConfig, TokenizerConfig, prepare
data = FilesConfig(**json.loads(sys.argv[1]))
Path(sys.argv[2]).touch()
while not Path(sys.argv[3]).exists():
    time.sleep(0.001)
corpus = prepare(data, TokenizerConfig(vocab_size=300))
assert len(corpus.train) > 9_000
"""


def start_preparing(folder: Folder, processes: int) -> list[subprocess.Popen[bytes]]:
    """Start processes that prepare the folder, all at the same moment."""
    go, ready = folder.path / "go", [folder.path / f"ready{i}" for i in range(processes)]
    command = [sys.executable, "-c", PREPARE, json.dumps(asdict(folder.data()))]
    started = [subprocess.Popen([*command, str(file), str(go)]) for file in ready]
    while not all(file.exists() for file in ready):
        assert all(process.poll() is None for process in started)
        time.sleep(0.01)
    go.touch()
    return started


def test_two_processes_at_once_do_not_break_each_other(folder: Folder) -> None:
    folder.train(counted(10_000))
    processes = start_preparing(folder, 2)
    most = 0
    while any(process.poll() is None for process in processes):
        most = max(most, len(folder.prepared()))
        time.sleep(0.005)
    assert [process.returncode for process in processes] == [0, 0]
    assert most == 2, "they did not meet"
    assert folder.prepared() == [folder.prepare().folder.name]


def test_a_process_killed_in_the_middle_leaves_nothing_that_is_trusted(folder: Folder) -> None:
    folder.train(counted(10_000))
    (process,) = start_preparing(folder, 1)
    while not folder.prepared():
        time.sleep(0.01)
    process.kill()
    process.wait()
    (abandoned,) = folder.prepared()
    assert abandoned.endswith(".tmp")
    assert folder.prepare().folder.name in folder.prepared()
    assert abandoned in folder.prepared(), "it might have been at work"

    yesterday = time.time() - 25 * 3600
    left = folder.cache / "prepared" / abandoned
    for path in (left, *left.rglob("*")):
        os.utime(path, (yesterday, yesterday))
    folder.train(counted(10))
    folder.prepare()
    assert abandoned not in folder.prepared()
