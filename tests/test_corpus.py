"""The line reader and the texts it reads: line k out is line k in, or one clear error."""

import gzip
import io
import os
import threading
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.corpus import (
    DataConfig,
    FilesConfig,
    ParallelText,
    files_corpus,
    read_lines,
)
from seq2seq.data.multi30k import Multi30kConfig
from seq2seq.errors import UserError


def lines_of(raw: bytes) -> list[str]:
    return list(read_lines(io.BytesIO(raw)))


def write(path: Path, raw: str | bytes) -> Path:
    path.write_bytes(raw.encode("utf-8") if isinstance(raw, str) else raw)
    return path


@pytest.fixture(params=["file", "gzip", "stream"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path | BinaryIO:
    """The same bytes behind each kind of source."""
    raw = b"\xef\xbb\xbfrot\rblau\ngelb\r\n\n\xe2\x80\xa8x\xc2\x85y\0\r\r\nletzte"
    match request.param:
        case "file":
            return write(tmp_path / "a.en", raw)
        case "gzip":
            return write(tmp_path / "a.en.gz", gzip.compress(raw))
    return io.BytesIO(raw)


def test_only_a_line_feed_ends_a_line_in_every_kind_of_source(source: Path | BinaryIO) -> None:
    counts = Counter[str]()
    assert list(read_lines(source, counts)) == ["rot blau", "gelb", "", "\u2028x\x85y", "letzte"]
    assert counts == {"nul": 1}


def test_files_with_carriage_returns_read_like_those_without() -> None:
    assert lines_of(b"eins\r\nzwei\r\n") == lines_of(b"eins\nzwei\n") == ["eins", "zwei"]


def test_an_empty_source_has_no_lines_and_a_lone_line_feed_is_one_blank_line() -> None:
    assert lines_of(b"") == []
    assert lines_of(b"\n") == [""]


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    assert lines_of("\ufeffa\n\ufeffb\n".encode()) == ["a", "\ufeffb"]


def test_dropped_nul_characters_are_logged_if_nobody_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    assert lines_of(b"a\0b\n\0\n") == ["ab", ""]
    assert "the input: dropped 2 NUL characters" in caplog.text


@given(raw=st.binary())
def test_any_bytes_give_their_lines_or_an_error(raw: bytes) -> None:
    pieces = raw.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    try:
        expected = [piece.decode("utf-8") for piece in pieces]
    except UnicodeDecodeError:
        with pytest.raises(UserError, match="is not UTF-8"):
            lines_of(raw)
        return
    lines = list(read_lines(io.BytesIO(raw), Counter()))
    assert len(lines) == len(expected)
    assert not any(set("\r\n\0") & set(line) for line in lines)


def test_a_byte_that_is_not_utf8_is_named_by_file_line_and_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.en", "größe\ngr".encode() + b"\xfcn\nrot\n")
    with pytest.raises(UserError, match=r"a\.en, line 2, byte 10 of the file: 0xfc is not UTF-8; .*iconv"):
        list(read_lines(path))


def test_a_character_cut_off_by_the_end_of_the_file_is_an_error() -> None:
    with pytest.raises(UserError, match="line 1, byte 1 of the file: 0xc3"):
        lines_of(b"a\xc3")


@pytest.mark.parametrize(
    ("name", "raw"),
    [("cut.gz", gzip.compress(b"ein langer Satz\n" * 99, mtime=0)[:-20]), ("none.gz", b"just text\n")],
    ids=["cut off", "no archive"],
)
def test_a_damaged_archive_is_an_error(tmp_path: Path, name: str, raw: bytes) -> None:
    with pytest.raises(UserError, match=f"cannot read .*{name}"):
        list(read_lines(write(tmp_path / name, raw)))


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*gone.en: No such file"):
        list(read_lines(tmp_path / "gone.en"))
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        list(read_lines(tmp_path))


def test_a_line_from_a_pipe_is_there_as_soon_as_its_line_feed() -> None:
    reading, writing = os.pipe()
    answered = threading.Event()
    lines: list[str] = []

    def read() -> None:
        with os.fdopen(reading, "rb") as stream:
            for line in read_lines(stream):
                lines.append(line)
                answered.set()

    reader = threading.Thread(target=read)
    reader.start()
    os.write(writing, "Größe\nund der An".encode())
    in_time = answered.wait(timeout=10)
    so_far = list(lines)
    os.write(writing, b"fang\n")
    os.close(writing)
    reader.join()
    assert in_time
    assert so_far == ["Größe"]
    assert lines == ["Größe", "und der Anfang"]


def test_two_files_give_pairs(tmp_path: Path) -> None:
    src, tgt = write(tmp_path / "a.en", "one\n\nthree\n"), write(tmp_path / "a.de", "eins\r\nzwei\r\ndrei")
    assert list(ParallelText(src, tgt).pairs()) == [("one", "eins"), ("", "zwei"), ("three", "drei")]


@pytest.mark.parametrize(("src_count", "tgt_count"), [(100, 99), (3, 5), (0, 1)])
def test_different_numbers_of_lines_are_an_error_that_names_files_and_numbers(
    tmp_path: Path, src_count: int, tgt_count: int
) -> None:
    src, tgt = write(tmp_path / "a.en", "x\n" * src_count), write(tmp_path / "a.de", "y\n" * tgt_count)
    with pytest.raises(UserError, match=rf"a\.en has {src_count} lines, but .*a\.de has {tgt_count}:"):
        list(ParallelText(src, tgt).pairs())


def test_which_columns_of_a_wider_table_are_read_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    wide, narrow = write(tmp_path / "w.tsv", "web\tone\teins\n"), write(tmp_path / "n.tsv", "one\teins\n")
    files_corpus(FilesConfig(train=str(wide), valid=str(narrow)))
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "w.tsv has 3 columns: en is read from column 0, de from column 1 (data.tsv_columns, counted from 0)"
    )


def test_columns_of_a_table_give_pairs(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "web\tone\teins\nbook\t\tzwei\r\n")
    assert list(ParallelText(table, table, (1, 2)).pairs()) == [("one", "eins"), ("", "zwei")]
    assert list(ParallelText(table, table, (2, 0)).pairs()) == [("eins", "web"), ("zwei", "book")]


def test_a_blank_line_of_a_table_is_a_blank_pair(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "one\teins\n \n\ntwo\tzwei\n")
    assert list(ParallelText(table, table, (0, 1)).pairs()) == [("one", "eins"), ("", ""), ("", ""), ("two", "zwei")]


def test_a_table_line_with_too_few_columns_is_an_error(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "one\teins\ntwo\n")
    with pytest.raises(UserError, match=r"a\.tsv, line 2: 1 columns, but data.tsv_columns=\[0, 1\]"):
        list(ParallelText(table, table, (0, 1)).pairs())


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_prefix_stands_for_two_files(tmp_path: Path, ending: str) -> None:
    for language in ("en", "de"):
        write(tmp_path / f"a.{language}{ending}", b"")
    corpus = files_corpus(FilesConfig(train=str(tmp_path / "a"), src_lang="de", tgt_lang="en"))
    assert corpus.train.files == (tmp_path / f"a.de{ending}", tmp_path / f"a.en{ending}")


def test_two_paths_and_a_table_are_taken_as_they_are(tmp_path: Path) -> None:
    one, two, table = (write(tmp_path / name, b"") for name in ("one.txt", "two.txt", "a.tsv.gz"))
    corpus = files_corpus(FilesConfig(train=[str(one), str(two)], valid=str(table), tsv_columns=[1, 2]))
    assert corpus.train == ParallelText(one, two)
    assert corpus.valid == ParallelText(table, table, (1, 2))


def test_parts_are_split_off_only_where_no_files_are_given(tmp_path: Path) -> None:
    table = str(write(tmp_path / "a.tsv", b""))
    sizes = [
        files_corpus(FilesConfig(train=table, valid=valid, test=test, valid_size=7, test_size=5))[3:5]
        for valid, test in ((None, None), (table, None), (None, table), (table, table))
    ]
    assert sizes == [(7, 5), (0, 5), (7, 0), (0, 0)]


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data.train=.*corpus: there is no file .*corpus.en or .*corpus.en.gz"):
        files_corpus(FilesConfig(train=str(tmp_path / "corpus")))
    table = str(write(tmp_path / "a.tsv", b""))
    with pytest.raises(UserError, match=r"data.valid=.*b.tsv: there is no file .*b.tsv$"):
        files_corpus(FilesConfig(train=table, valid=str(tmp_path / "b.tsv")))
    with pytest.raises(UserError, match=r"data.test=.*there is no file .*two.txt$"):
        files_corpus(FilesConfig(train=table, test=[table, str(tmp_path / "two.txt")]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"src_lang": "de"}, "data.src_lang=de and data.tgt_lang=de must be two different languages"),
        ({"tgt_lang": ""}, "must be two different languages"),
        ({"max_tokens": 0}, "data.max_tokens=0 must be at least 1"),
        ({"max_length_ratio": 0.5}, "data.max_length_ratio=0.5 must be at least 1"),
        ({"max_length_ratio": float("nan")}, "data.max_length_ratio=nan must be at least 1"),
    ],
)
def test_an_impossible_setting_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DataConfig(**settings)  # type: ignore[arg-type]


def test_a_language_that_multi30k_lacks_is_refused_with_the_choices() -> None:
    with pytest.raises(UserError, match=r"data.tgt_lang=cs must be one of en, de, fr"):
        Multi30kConfig(tgt_lang="cs")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "data.train is not set"),
        ({"train": ["a", "b", "c"]}, r"data.train=.* must be one path, or two"),
        ({"train": "a", "valid": 5}, "data.valid=5 must be one path, or two"),
        ({"train": "a", "test": [None, "b"]}, r"data.test=.* must be one path, or two"),
        ({"train": "a", "valid_size": 0}, "data.valid_size=0 must be at least 1"),
        ({"train": "a", "test_size": -1}, "data.test_size=-1 must be at least 0"),
        ({"train": "a", "split_seed": -1}, "data.split_seed=-1 must be at least 0"),
        ({"train": "a", "split_seed": 2**64}, "data.split_seed=18446744073709551616 must be at least 0, and below"),
        ({"train": []}, r"data.train=\[\] must be one path, or two"),
        ({"train": "a", "tsv_columns": [1]}, r"data.tsv_columns=\[1\] must be two different columns"),
        ({"train": "a", "tsv_columns": [1, 1]}, "must be two different columns"),
        ({"train": "a", "tsv_columns": [-1, 1]}, "must be two different columns"),
    ],
)
def test_impossible_files_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FilesConfig(**settings)  # type: ignore[arg-type]


def test_no_validation_size_is_needed_beside_a_validation_file() -> None:
    assert FilesConfig(train="a", valid="b", valid_size=0).valid_size == 0


def test_no_training_pair_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"data\.train_size=0 must be at least 1"):
        FilesConfig(train="x", train_size=0)
