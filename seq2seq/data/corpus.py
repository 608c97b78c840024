"""Where the text comes from: the line reader, parallel texts, and the settings that name them."""

import gzip
import logging
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from seq2seq.errors import UserError

logger = logging.getLogger(__name__)


def read_lines(source: Path | str | BinaryIO, counts: Counter[str] | None = None) -> Iterator[str]:
    """Yield the lines of a file (".gz" too) or a binary stream: the one line reader of the project.

    Text is UTF-8, and only LF ends a line: line k out is line k in, whatever else stands in it. CR at the end of a
    line is stripped, any other CR is a space, a byte order mark at the start and all NUL characters are dropped. A
    line is yielded as soon as its LF has arrived, so a pipe can be answered line by line.

    Args:
        source: a path, or a stream such as `sys.stdin.buffer`.
        counts: where to add the number of dropped "nul" characters; without it they are logged at the end.

    Raises:
        UserError: the file cannot be read, or a byte is not UTF-8 (names file, line and byte).
    """
    name = str(source) if isinstance(source, Path | str) else str(getattr(source, "name", "the input"))
    own_counts: Counter[str] = Counter()
    try:
        if isinstance(source, Path | str):
            with gzip.open(source) if str(source).endswith(".gz") else Path(source).open("rb") as stream:
                yield from _decoded(stream, name, own_counts)
        else:
            yield from _decoded(source, name, own_counts)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(f"cannot read {name}: {reason}") from error
    if counts is not None:
        counts.update(own_counts)
    elif own_counts["nul"]:
        logger.warning("%s: dropped %d NUL characters", name, own_counts["nul"])


def _decoded(stream: Any, name: str, counts: Counter[str]) -> Iterator[str]:
    offset = 0
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}, byte {offset + error.start} of the file: 0x{raw[error.start]:02x} is not "
                "UTF-8; convert the file, as with iconv -f ENCODING -t UTF-8"
            ) from error
        offset += len(raw)
        if number == 1:
            line = line.removeprefix("\ufeff")
        line = line.rstrip("\r\n").replace("\r", " ")
        if "\0" in line:
            counts["nul"] += line.count("\0")
            line = line.replace("\0", "")
        yield line


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs: two files, one sentence a line, or two columns of a tab-separated file.

    Attributes:
        columns: the source and the target column of a TSV file, counted from 0; then `src` and `tgt` are that file.
        gold: the files of its word alignments and its tags, where these are known; see `gold`.
    """

    src: Path
    tgt: Path
    columns: tuple[int, int] | None = None
    gold: tuple[Path, Path] | None = None

    def __str__(self) -> str:
        return str(self.src) if self.columns else f"{self.src} and {self.tgt}"

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the text."""
        return (self.src,) if self.columns else (self.src, self.tgt)

    def pairs(self, counts: Counter[str] | None = None) -> Iterator[tuple[str, str]]:
        """Yield (source, target), blank lines included; `counts` as in `read_lines`.

        Raises:
            UserError: as `read_lines`; also if the two files have different numbers of lines, or a TSV line has too
                few columns.
        """
        if self.columns:
            yield from self._column_pairs(self.columns, counts)
            return
        for src, tgt in zip_longest(read_lines(self.src, counts), read_lines(self.tgt, counts)):
            if src is None or tgt is None:
                src_count, tgt_count = (sum(1 for _ in read_lines(file, Counter())) for file in self.files)
                raise UserError(
                    f"{self.src} has {src_count} lines, but {self.tgt} has {tgt_count}: line k of one must translate "
                    "line k of the other"
                )
            yield src, tgt

    def _column_pairs(self, columns: tuple[int, int], counts: Counter[str] | None) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(read_lines(self.src, counts), start=1):
            if not line.strip():
                yield "", ""
                continue
            cells = line.split("\t")
            if len(cells) <= max(columns):
                raise UserError(
                    f"{self.src}, line {number}: {len(cells)} columns, but data.tsv_columns={list(columns)} (counted "
                    f"from 0) needs {max(columns) + 1}"
                )
            yield cells[columns[0]], cells[columns[1]]


class Corpus(NamedTuple):
    """The texts to train, validate and test on, or how many pairs of the training text to split off for that."""

    train: ParallelText
    valid: ParallelText | None
    tests: dict[str, ParallelText]
    valid_size: int | None = 0  # None: 1,000, or a tenth of the pairs if that is fewer
    test_size: int | None = 0
    split_seed: int = 0
    train_size: int | None = None  # train on the first so many pairs; None: on all


@dataclass
class DataConfig:
    """What all data has in common.

    Attributes:
        cache_dir: where downloads and prepared corpora are kept.
        max_tokens: training pairs with more tokens (pieces) on either side are left out.
        max_length_ratio: so are those with a side this many times longer than the other, the end of sentence counted.
    """

    src_lang: str = "en"
    tgt_lang: str = "de"
    cache_dir: str = "data"
    max_tokens: int = 256
    max_length_ratio: float = 5.0

    def __post_init__(self) -> None:
        if not self.src_lang or not self.tgt_lang or self.src_lang == self.tgt_lang:
            raise UserError(
                f"data.src_lang={self.src_lang} and data.tgt_lang={self.tgt_lang} must be two different languages"
            )
        if self.max_tokens < 1:
            raise UserError(f"data.max_tokens={self.max_tokens} must be at least 1")
        if not self.max_length_ratio >= 1:
            raise UserError(f"data.max_length_ratio={self.max_length_ratio} must be at least 1")


@dataclass
class FilesConfig(DataConfig):
    """A user's own text.

    `train`, `valid` and `test` are each one path or two. One path is a TSV file (".tsv" or ".tsv.gz"), or a prefix to
    which ".<src_lang>" and ".<tgt_lang>" are added; two are [SRC, TGT]. Plain files may be gzipped, ".gz".

    Attributes:
        valid_size: without `valid`, split off about this many pairs of `train`; whole sets of pairs that share a
            source sentence, so that none of its sentences is trained on. Left open: 1,000, or a tenth of the pairs if
            that is fewer.
        test_size: the same for `test`; 0 = no test.
        split_seed: chooses those pairs.
        train_size: train on the first so many pairs, of those that are not split off; left open: on all.
        tsv_columns: the source and the target column, counted from 0.
    """

    train: Any = None
    valid: Any = None
    test: Any = None
    valid_size: int | None = None
    test_size: int | None = None
    split_seed: int = 0
    train_size: int | None = None
    tsv_columns: list[int] = field(default_factory=lambda: [0, 1])

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train is None:
            raise UserError("data.train is not set: give a .tsv file, the prefix of two files, or [SRC, TGT]")
        for name in ("train", "valid", "test"):
            value = getattr(self, name)
            paths = [] if value is None else _as_list(value)
            if (value is not None and not 1 <= len(paths) <= 2) or not all(
                isinstance(path, str) and path for path in paths
            ):
                raise UserError(f"data.{name}={value} must be one path, or two: [SRC, TGT]")
        if self.valid_size is not None and self.valid_size < (self.valid is None):
            raise UserError(f"data.valid_size={self.valid_size} must be at least 1, or data.valid set")
        check_train_size(self.train_size)
        for name in ("test_size", "split_seed"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 2**63:
                raise UserError(f"data.{name}={value} must be at least 0, and below 2**63")
        if len(self.tsv_columns) != 2 or min(self.tsv_columns) < 0 or len(set(self.tsv_columns)) != 2:
            raise UserError(f"data.tsv_columns={self.tsv_columns} must be two different columns, counted from 0")


def check_train_size(train_size: int | None) -> None:
    """Raise UserError for less than one pair."""
    if train_size is not None and train_size < 1:
        raise UserError(f"data.train_size={train_size} must be at least 1")


def files_corpus(data: FilesConfig) -> Corpus:
    """Find the files of a user's corpus; a UserError names a missing one."""
    return Corpus(
        train=_parallel_text("train", data.train, data),
        valid=None if data.valid is None else _parallel_text("valid", data.valid, data),
        tests={} if data.test is None else {"test": _parallel_text("test", data.test, data)},
        valid_size=data.valid_size if data.valid is None else 0,
        test_size=data.test_size if data.test is None else 0,
        split_seed=data.split_seed,
        train_size=data.train_size,
    )


def _parallel_text(name: str, value: Any, data: FilesConfig) -> ParallelText:
    setting, paths = f"data.{name}={value}", [Path(path).expanduser() for path in _as_list(value)]
    if len(paths) == 2:
        src, tgt = (existing_file(setting, [path]) for path in paths)
    elif paths[0].name.endswith((".tsv", ".tsv.gz")):
        table = existing_file(setting, paths)
        src_column, tgt_column = data.tsv_columns
        count = next(read_lines(table, Counter()), "").count("\t") + 1
        if count > 2:
            logger.info(
                "%s has %d columns: %s is read from column %d, %s from column %d (data.tsv_columns, counted from 0)",
                *(table, count, data.src_lang, src_column, data.tgt_lang, tgt_column),
            )
        return ParallelText(table, table, columns=(src_column, tgt_column))
    else:
        plain = [Path(f"{paths[0]}.{language}") for language in (data.src_lang, data.tgt_lang)]
        src, tgt = (existing_file(setting, [path, Path(f"{path}.gz")]) for path in plain)
    return ParallelText(src, tgt)


def existing_file(setting: str, candidates: list[Path]) -> Path:
    """Return the first candidate that is a file; a UserError names the setting and all of them."""
    for path in candidates:
        if path.is_file():
            return path
    raise UserError(f"{setting}: there is no file {' or '.join(map(str, candidates))}")


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
