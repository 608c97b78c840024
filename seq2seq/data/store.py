"""Sentence pairs in flat files: token ids and text, each with offsets, memory-mapped.

A store is a folder. For each side, "src" and "tgt", it holds

    <side>.ids            every sentence's ids, EOS last, one after the other: uint16, or int32 for large vocabularies
    <side>.offsets        int64; sentence i is ids[offsets[i] : offsets[i + 1]]
    <side>.text           every sentence as it was read, UTF-8
    <side>.text_offsets   int64, in bytes

and store.json, the number of pairs and the type of the ids.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.batch import Batch, collate
from seq2seq.data.tokenizer import EOS
from seq2seq.errors import UserError

STORE_FORMAT = 1
_OFFSET = np.dtype(np.int64)


class PairStore:
    """Sentence pairs on disk. Opening one reads only the lengths; pickling one takes its path along, not its data."""

    def __init__(self, folder: Path) -> None:
        """Open a store; a UserError if its files are not whole."""
        self.folder = folder
        about_file = folder / "store.json"
        if not about_file.is_file():
            raise UserError(f"{about_file} is missing: delete the prepared corpus, it is made anew")
        try:
            about = json.loads(about_file.read_text(encoding="utf-8"))
            version, pairs, ids = about["format"], about["pairs"], about["ids"]
        except (ValueError, LookupError, TypeError, RecursionError):
            version = pairs = ids = None
        if version != STORE_FORMAT or type(pairs) is not int or pairs < 0 or ids not in ("uint16", "int32"):
            raise UserError(f"{about_file} is damaged: delete the prepared corpus, it is made anew")
        self._src = _Side(folder, "src", pairs, np.dtype(ids))
        self._tgt = _Side(folder, "tgt", pairs, np.dtype(ids))
        self.src_lengths = self._src.lengths
        self.tgt_lengths = self._tgt.lengths

    def __reduce__(self) -> tuple[type["PairStore"], tuple[Path]]:
        return PairStore, (self.folder,)

    def __len__(self) -> int:
        return len(self.src_lengths)

    def src(self, i: int) -> NDArray[np.integer]:
        """Return the source ids of pair i, EOS last: a read-only view of the file."""
        return self._src.ids_of(i)

    def tgt(self, i: int) -> NDArray[np.integer]:
        """Return the target ids of pair i, EOS last: a read-only view of the file."""
        return self._tgt.ids_of(i)

    def src_text(self, i: int) -> str:
        """Return the source sentence of pair i as it was read."""
        return self._src.text_of(i)

    def tgt_text(self, i: int) -> str:
        """Return the target sentence of pair i as it was read."""
        return self._tgt.text_of(i)

    def check_ids(self, vocab_size: int) -> None:
        """Raise UserError if an id is none of a vocabulary of this size."""
        for side in (self._src, self._tgt):
            side.check_ids(vocab_size)

    def batch(self, indices: Sequence[int] | NDArray[np.integer]) -> Batch:
        """Return the batch of these pairs; their numbers are its `pair_ids`."""
        return collate([self.src(i) for i in indices], [self.tgt(i) for i in indices], indices)


class _Side:
    """One language of a store."""

    def __init__(self, folder: Path, side: str, pairs: int, ids: np.dtype[Any]) -> None:
        self._offsets = _mapped(folder / f"{side}.offsets", _OFFSET, pairs + 1)
        self._ids = _mapped(folder / f"{side}.ids", ids, int(self._offsets[-1]))
        self._text_offsets = _mapped(folder / f"{side}.text_offsets", _OFFSET, pairs + 1)
        self._text = _mapped(folder / f"{side}.text", np.dtype(np.uint8), int(self._text_offsets[-1]))
        lengths = np.diff(self._offsets)
        if self._offsets[0] != 0 or lengths.min(initial=1) < 1:
            raise _wrong_numbers(folder / f"{side}.offsets")
        if self._text_offsets[0] != 0 or np.diff(self._text_offsets).min(initial=0) < 0:
            raise _wrong_numbers(folder / f"{side}.text_offsets")
        self._folder, self._name = folder, side
        self.lengths: NDArray[np.int32] = lengths.astype(np.int32)  # (N,) EOS counted

    def ids_of(self, i: int) -> NDArray[np.integer]:
        return self._ids[self._offsets[i] : self._offsets[i + 1]]

    def text_of(self, i: int) -> str:
        try:
            return self._text[self._text_offsets[i] : self._text_offsets[i + 1]].tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise _wrong_numbers(self._folder / f"{self._name}.text") from error

    def check_ids(self, vocab_size: int) -> None:
        if len(self._ids) and not 0 <= self._ids.min() <= self._ids.max() < vocab_size:
            raise _wrong_numbers(self._folder / f"{self._name}.ids")


def _wrong_numbers(path: Path) -> UserError:
    return UserError(f"{path} is damaged (no such numbers were written): delete the prepared corpus, it is made anew")


def _mapped(path: Path, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    size = path.stat().st_size if path.exists() else -1
    expected = length * dtype.itemsize
    if size != expected:
        raise UserError(
            f"{path} is damaged ({size} bytes, not {expected}): delete the prepared corpus, it is made anew"
        )
    if length == 0:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    # The plain array over the map: each slice of a np.memmap would cost microseconds.
    return np.asarray(np.memmap(path, dtype, mode="r", shape=(length,)))


class StoreWriter:
    """Appends pairs to a store chunk by chunk and keeps none of them in memory; made by `write_store`."""

    def __init__(self, folder: Path, ids: np.dtype[Any], files: ExitStack) -> None:
        self.pairs = 0
        self._src = _SideWriter(folder, "src", ids, files)
        self._tgt = _SideWriter(folder, "tgt", ids, files)

    def append(
        self,
        src: Sequence[Sequence[int]],
        tgt: Sequence[Sequence[int]],
        src_texts: Sequence[str],
        tgt_texts: Sequence[str],
    ) -> None:
        """Append pairs, their ids without EOS."""
        assert len(src) == len(tgt) == len(src_texts) == len(tgt_texts)
        self._src.append(src, src_texts)
        self._tgt.append(tgt, tgt_texts)
        self.pairs += len(src)


class _SideWriter:
    def __init__(self, folder: Path, side: str, ids: np.dtype[Any], files: ExitStack) -> None:
        self._dtype = ids
        self._ids = _Flat(folder / f"{side}.ids", folder / f"{side}.offsets", files)
        self._text = _Flat(folder / f"{side}.text", folder / f"{side}.text_offsets", files)

    def append(self, sentences: Sequence[Sequence[int]], texts: Sequence[str]) -> None:
        ended = [[*ids, EOS] for ids in sentences]
        self._ids.append(np.fromiter(chain.from_iterable(ended), self._dtype), [len(ids) for ids in ended])
        encoded = [text.encode("utf-8") for text in texts]
        self._text.append(np.frombuffer(b"".join(encoded), np.uint8), [len(text) for text in encoded])


class _Flat:
    """Two growing files: values one after the other, and where each item ends."""

    def __init__(self, values: Path, offsets: Path, files: ExitStack) -> None:
        self._values = files.enter_context(values.open("wb"))
        self._offsets = files.enter_context(offsets.open("wb"))
        self._offsets.write(np.zeros(1, _OFFSET).tobytes())
        self._end = 0

    def append(self, values: NDArray[Any], lengths: Sequence[int]) -> None:
        ends = self._end + np.cumsum(lengths, dtype=_OFFSET)
        self._values.write(values.tobytes())
        self._offsets.write(ends.tobytes())
        self._end += len(values)


@contextmanager
def write_store(folder: Path, vocab_size: int) -> Iterator[StoreWriter]:
    """Make a new store; it can be opened once the block has ended without an error."""
    folder.mkdir(parents=True)
    ids = np.dtype(np.uint16 if vocab_size <= 2**16 else np.int32)
    with ExitStack() as files:
        writer = StoreWriter(folder, ids, files)
        yield writer
    about = {"format": STORE_FORMAT, "pairs": writer.pairs, "ids": ids.name}
    (folder / "store.json").write_text(json.dumps(about), encoding="utf-8")
