"""Which pairs are trained on, and which are kept back: split by distinct source sentence."""

import hashlib
import logging
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.corpus import Corpus, ParallelText
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

_PROGRESS_EVERY = 1_000_000
_PAIRS_KEPT_BACK = 1000  # for validation and for test, where the user does not say how many


@dataclass(frozen=True)
class Survey:
    """What one pass over a parallel text of N pairs found."""

    text: ParallelText
    sources: NDArray[np.uint64]  # (N,) a hash of each source sentence
    blank: NDArray[np.bool_]  # (N,) True where a side is blank
    characters: int  # of both sides
    nul: int  # NUL characters that the reader drops


@dataclass(frozen=True)
class Part:
    """The pairs of a text that belong together: those marked."""

    survey: Survey
    marked: NDArray[np.bool_]  # (N,)

    def __len__(self) -> int:
        return int(self.marked.sum())

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield (source, target), blank lines included."""
        already_counted = Counter[str]()
        return compress(self.survey.text.pairs(already_counted), self.marked)

    def without_blank(self) -> "Part":
        """Return the pairs with text on both sides."""
        return Part(self.survey, self.marked & ~self.survey.blank)

    def first(self, pairs: int) -> "Part":
        """Return the first so many pairs that have text on both sides."""
        chosen = np.flatnonzero(self.without_blank().marked)
        if pairs > len(chosen):
            raise UserError(
                f"data.train_size={pairs} is more than the {len(chosen)} pairs of {self.survey.text} that are left to "
                "train on: lower it, or leave it out"
            )
        marked = np.zeros_like(self.marked)
        marked[chosen[:pairs]] = True
        return Part(self.survey, marked)

    def sample(self, max_characters: int, seed: int) -> "Part":
        """Return some of the pairs, chosen at random, with about so many characters; all if there are no more."""
        characters = self.survey.characters * len(self) / len(self.marked)  # about so many are in this part
        share = max_characters / characters
        if share >= 1:
            return self
        size = max(1, int(len(self) * share))
        chosen = np.random.default_rng(seed).choice(np.flatnonzero(self.marked), size, replace=False)
        marked = np.zeros_like(self.marked)
        marked[chosen] = True
        return Part(self.survey, marked)

    def sources(self) -> NDArray[np.uint64]:
        """Return the hashes of the source sentences that have text on both sides."""
        return self.survey.sources[self.without_blank().marked]


@dataclass(frozen=True)
class Parts:
    """A corpus, divided."""

    train: Part
    valid: Part
    tests: dict[str, Part]


def divide(corpus: Corpus) -> Parts:
    """Read every text of a corpus once, and say which pairs are for what.

    Every fault of the files shows here, before any work is done. Parts that the corpus does not have as files are
    split off the training text; all pairs of one source sentence go to the same part, so none of a test's sentences
    is trained on.

    Raises:
        UserError: as `ParallelText.pairs`; a text without lines; nothing to train on, or less than asked for.
    """
    train = _survey(corpus.train, corpus.split_seed)
    usable = len(train.blank) - int(train.blank.sum())
    if usable == 0:
        raise UserError(f"{corpus.train}: 0 pairs left of {len(train.blank)}, all are blank on a side")
    left_open = min(_PAIRS_KEPT_BACK, max(1, usable // 10))
    valid_size = left_open if corpus.valid_size is None else corpus.valid_size
    test_size = left_open if corpus.test_size is None else corpus.test_size
    if valid_size + test_size > usable // 2:
        raise UserError(
            f"data.valid_size={valid_size} and data.test_size={test_size} are more than half of the "
            f"{usable} pairs of {corpus.train}: make them smaller, or give files as data.valid and data.test"
        )
    often = max(1, min((size for size in (valid_size, test_size) if size), default=0) // 10)
    test = _lowest(train, test_size, often)
    valid = _lowest(train, int(test.sum()) + valid_size, often) & ~test if valid_size else test & False
    tests = {name: _whole(text, corpus.split_seed) for name, text in corpus.tests.items()}
    if test_size:
        tests["test"] = Part(train, test)
    rest = Part(train, ~test & ~valid)
    return Parts(
        train=rest if corpus.train_size is None else rest.first(corpus.train_size),
        valid=_whole(corpus.valid, corpus.split_seed) if corpus.valid else Part(train, valid),
        tests=tests,
    )


def _lowest(found: Survey, pairs: int, often: int) -> NDArray[np.bool_]:
    """Mark at least so many pairs, those whose sources have the lowest hashes; none with a blank side.

    A random choice that hardly changes when the corpus grows, and takes all pairs of a source or none. A source with
    more than `often` pairs stays in training, if there are enough others: alone it could be far more than all.
    """
    if pairs == 0:
        return np.zeros_like(found.blank)
    eligible = ~found.blank
    sources, counts = np.unique(found.sources[eligible], return_counts=True)
    rare = np.isin(found.sources, sources[counts <= often]) & eligible
    if rare.sum() >= pairs:
        eligible = rare
    bound = np.partition(found.sources[eligible], pairs - 1)[pairs - 1]
    marked: NDArray[np.bool_] = (found.sources <= bound) & eligible
    return marked


def _whole(text: ParallelText, seed: int) -> Part:
    found = _survey(text, seed)
    return Part(found, np.ones_like(found.blank))


def _survey(text: ParallelText, seed: int) -> Survey:
    sources, blank, counts, characters = array("Q"), bytearray(), Counter[str](), 0
    for src, tgt in text.pairs(counts):
        sources.append(_source_hash(src, seed))
        blank.append(not src.strip() or not tgt.strip())
        characters += len(src) + len(tgt)
        if len(sources) % _PROGRESS_EVERY == 0:
            logger.info("read %d pairs of %s", len(sources), text)
    if not sources:
        raise UserError(f"{text}: there are no lines in it")
    hashes, is_blank = np.frombuffer(sources, np.uint64), np.frombuffer(blank, np.bool_)
    return Survey(text, hashes, is_blank, characters, nul=counts["nul"])


def _source_hash(text: str, seed: int) -> int:
    """Hash a source sentence so that spacing, case and Unicode's compatible spellings make no difference."""
    same = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    digest = hashlib.blake2b(same.encode("utf-8"), digest_size=8, key=seed.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")
