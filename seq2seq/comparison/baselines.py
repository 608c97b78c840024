"""Trivial ways to translate, which a model should beat.

Each is made from training pairs and called with a line:

* copy: the source itself.
* word for word: each word's most probable translation by IBM Model 1 (Brown et al. 1993), in source order, spelled as
  training spells it most often; unknown words and punctuation stay as they are; the first letter is upper case if the
  source's is.
* nearest neighbour: the target of the training pair whose source is most similar. Similarity is Dice's coefficient
  2 |A and B| / (|A| + |B|) of the sets A and B of a sentence's words and pairs of adjacent words, in lower case and
  without punctuation; of equally similar ones the first.

Only the first 100,000 pairs are used: they are kept in memory.

N training pairs.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.ibm_model1 import MAX_PAIRS, IbmModel1, words
from seq2seq.data.words import word_spans

logger = logging.getLogger(__name__)


def trivial_baselines(pairs: Iterable[tuple[str, str]]) -> dict[str, Callable[[str], str]]:
    """Return the baselines by name, made from training pairs (source, target)."""
    pairs = list(islice(pairs, MAX_PAIRS))
    logger.info("learning trivial translations from %d pairs", len(pairs))
    return {
        "copy the source": copy,
        "word for word, IBM Model 1": WordForWord(pairs),
        "nearest training neighbour": NearestNeighbour(pairs),
    }


def copy(line: str) -> str:
    """Return the line."""
    return line


class WordForWord:
    """Translates each word by itself."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._translations = IbmModel1(pairs).best_translations()
        spellings: dict[str, Counter[str]] = {}
        for _, target in pairs:
            for number, (start, end) in enumerate(word_spans(target)):
                if number:  # the first of a sentence is upper case, whatever it is elsewhere
                    spellings.setdefault(target[start:end].lower(), Counter())[target[start:end]] += 1
        self._spelling = {word: found.most_common(1)[0][0] for word, found in spellings.items()}

    def __call__(self, line: str) -> str:
        """Translate a line."""
        parts, end = [], 0
        for start, stop in word_spans(line):
            parts.append(line[end:start])
            end = stop
            translation = self._translations.get(line[start:stop].lower())
            parts.append(line[start:stop] if translation is None else self._spelling.get(translation, translation))
        translated = "".join([*parts, line[end:]])
        return translated[:1].upper() + translated[1:] if line[:1].isupper() else translated


class NearestNeighbour:
    """Translates a sentence as the most similar one of training was."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._targets = [target for _, target in pairs]
        places: dict[str, list[int]] = {}
        sizes = []
        for number, (source, _) in enumerate(pairs):
            features = _features(source)
            sizes.append(len(features))
            for feature in features:
                places.setdefault(feature, []).append(number)
        self._sizes = np.array(sizes, np.float64)  # (N,)
        self._places: dict[str, NDArray[np.int64]] = {name: np.array(found) for name, found in places.items()}

    def __call__(self, line: str) -> str:
        """Translate a line; one that shares no word with training gets the empty translation."""
        features = _features(line)
        found = [self._places[feature] for feature in features if feature in self._places]
        if not found:
            return ""
        shared = np.bincount(np.concatenate(found), minlength=len(self._sizes))
        return self._targets[int(np.argmax(2 * shared / (self._sizes + len(features))))]


def _features(line: str) -> set[str]:
    own = words(line)
    return {*own, *map(" ".join, pairwise(own))}
