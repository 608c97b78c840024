"""Lines of text in, lines of text out, in the same order.

Lines are read in chunks, sorted by length within a chunk and searched in batches, so that little is padding. It does
not show: what a line becomes does not depend on the others.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, Tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.bundle import Bundle, Preprocessing
from seq2seq.inference.score import Score, padded, score
from seq2seq.inference.search import Hypothesis, SearchConfig, beam_search
from seq2seq.models.interface import Seq2Seq

logger = logging.getLogger(__name__)

CHUNK_LINES = 4096
BATCH_SIZE = 64
WEIGHTS_OF_ONE_THREAD = 2**24  # of the decoder, times beams: up to that many, a second thread has slowed a batch down

Item = TypeVar("Item")
Result = TypeVar("Result")
Searcher = Callable[[list[list[int]]], list[list[Hypothesis]]]


class Translation(NamedTuple):
    """What became of a line. A blank one stays blank, which is certain: log_prob 0."""

    text: str
    log_prob: float = 0.0
    score: float = 0.0
    cut: bool = False  # stopped by the length limit
    looping: bool = False  # see `is_looping`
    alternatives: tuple["Translation", ...] = ()  # the second best and on, if asked for


def is_looping(ids: Sequence[int]) -> bool:
    """Return whether the same 1 to 8 tokens stand at least four times in a row."""
    for period in range(1, 9):
        repeated = 0
        for earlier, token in zip(ids, ids[period:], strict=False):
            repeated = repeated + 1 if token == earlier else 0
            if repeated == 3 * period:
                return True
    return False


class LineTranslator(ABC):
    """All that text needs on its way in and out of whatever searches."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        preprocessing: Preprocessing,
        search: SearchConfig,
        *,
        batch_size: int = BATCH_SIZE,
        warn: bool = True,
    ) -> None:
        """Take the parts.

        Args:
            batch_size: sentences searched at a time.
            warn: log what was cut from lines and which characters are unknown. False for a text that is translated
                again and again, as in validation.
        """
        if batch_size < 1:
            raise UserError(f"batch_size={batch_size} must be at least 1")
        self.tokenizer = tokenizer
        self.preprocessing = preprocessing
        self.search = search
        self.batch_size = batch_size
        self.warn = warn

    def translate(
        self, lines: Iterable[str], n_best: int = 1, *, chunk_lines: int = CHUNK_LINES
    ) -> Iterator[Translation]:
        """Yield the translation of each line; with `chunk_lines` = 1, before the next line is asked for.

        Raises:
            UserError: `n_best` is larger than the beam, or the model gives NaN.
        """
        self.search.check_n_best(n_best)
        unknown, lost = _Unknown(), _Lost()
        search = self._searcher(n_best)
        for start, chunk in _chunks(lines, chunk_lines):
            sources = self._encode(chunk, start, unknown, warn=self.warn)
            translations = self._translate_chunk(sources, search)
            lost.count(sources, translations, start)
            yield from translations
        unknown.log()
        if self.warn:
            lost.log()

    def _encode(self, lines: Sequence[str], start: int, unknown: "_Unknown", *, warn: bool) -> list[list[int]]:
        sources = self.tokenizer.encode_batch(lines)
        if warn:
            for number, (line, source) in enumerate(zip(lines, sources, strict=True), start):
                unknown.count(self.tokenizer.unknown_characters(line))
                if len(source) > self.max_source_tokens:
                    logger.warning(
                        "line %d has %d tokens: only the first %d are read",
                        number,
                        len(source),
                        self.max_source_tokens,
                    )
        return [source[: self.max_source_tokens] for source in sources]

    def _translate_chunk(self, sources: list[list[int]], search: Searcher) -> list[Translation]:
        translations = [Translation("")] * len(sources)
        rows = [n for n, source in enumerate(sources) if source]
        for n, hypotheses in zip(rows, search([sources[n] for n in rows]), strict=True):
            best, *others = map(self._decode, hypotheses)
            translations[n] = best._replace(alternatives=tuple(others))
        return translations

    @property
    @abstractmethod
    def max_source_tokens(self) -> int:
        """The most tokens of a line, EOS not counted, that are read."""

    @abstractmethod
    def _searcher(self, n_best: int) -> Searcher:
        """Return what finds up to `n_best` translations of each source, which has at least one token and no EOS."""

    def _decode(self, hypothesis: Hypothesis) -> Translation:
        return Translation(
            self.tokenizer.decode(hypothesis.ids),
            hypothesis.log_prob,
            hypothesis.score,
            hypothesis.cut,
            is_looping(hypothesis.ids),
        )


class Translator(LineTranslator):
    """A model of ours and its search.

    The model may be in training: it works in eval mode and is left as it was found.
    """

    def __init__(
        self,
        model: Seq2Seq[Any, Any],
        tokenizer: Tokenizer,
        preprocessing: Preprocessing,
        search: SearchConfig,
        *,
        batch_size: int = BATCH_SIZE,
        warn: bool = True,
    ) -> None:
        """Take a model of the tokenizer's vocabulary; the rest as in `LineTranslator`."""
        super().__init__(tokenizer, preprocessing, search, batch_size=batch_size, warn=warn)
        self.model = model

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, batch_size: int = BATCH_SIZE) -> "Translator":
        """Take all from a bundle."""
        return cls(bundle.model, bundle.tokenizer, bundle.preprocessing, bundle.search, batch_size=batch_size)

    @property
    def max_source_tokens(self) -> int:
        """The most tokens of a line, EOS not counted, that are read."""
        longest = self.model.max_source_length
        limit = self.preprocessing.max_source_tokens
        return limit if longest is None else min(limit, longest - 1)

    def score(self, pairs: Iterable[tuple[str, str]], *, chunk_lines: int = CHUNK_LINES) -> Iterator[Score]:
        """Yield how likely each target is as the translation of its source.

        Raises:
            UserError: a target is longer than the model can write (names the line).
        """
        unknown = _Unknown()
        for start, chunk in _chunks(pairs, chunk_lines):
            sources = self._encode([src for src, _ in chunk], start, unknown, warn=self.warn)
            targets = self.tokenizer.encode_batch([tgt for _, tgt in chunk])
            longest = self.model.max_target_length
            for number, target in enumerate(targets, start):
                if longest is not None and len(target) >= longest:
                    raise UserError(
                        f"line {number}: the target has {len(target)} tokens, this model writes up to {longest - 1}; "
                        "leave the line out"
                    )
            yield from self._score_chunk(sources, targets)
        unknown.log()

    def attention(
        self, pairs: Iterable[tuple[str, str]], *, chunk_lines: int = CHUNK_LINES
    ) -> Iterator[Float[Tensor, "L H T S"] | None]:
        """Yield what the decoder attends to in each source while it is given the target: None if it never does.

        T is the target's tokens and EOS: row t is the attention while token t is predicted, that is after token t - 1
        was read. S is the source's tokens and EOS. Both are cut to what the model can take. Nothing is logged:
        translating the same lines says what is unusual.
        """
        unknown = _Unknown()
        longest = self.model.max_target_length
        for start, chunk in _chunks(pairs, chunk_lines):
            sources = self._encode([src for src, _ in chunk], start, unknown, warn=False)
            targets = self.tokenizer.encode_batch([tgt for _, tgt in chunk])
            yield from self._attention_of_chunk(
                sources, [ids if longest is None else ids[: longest - 1] for ids in targets]
            )

    def _searcher(self, n_best: int) -> Searcher:
        model = self.model.for_search()  # a copy of the weights as they are now: once a text, not once a chunk
        weights = sum(parameter.numel() for parameter in self.model.decoder.parameters())
        few_sentences = WEIGHTS_OF_ONE_THREAD // (weights * self.search.beam_size)
        return lambda sources: self._search(model, sources, n_best, few_sentences)

    def _search(
        self, model: Seq2Seq[Any, Any], sources: list[list[int]], n_best: int, few_sentences: int
    ) -> list[list[Hypothesis]]:
        batches = list(self._batches(sources))
        threads = 1 if len(batches) == 1 and len(sources) <= few_sentences else torch.get_num_threads()

        def search(rows: list[int]) -> list[list[Hypothesis]]:
            return beam_search(model, *self._batch([sources[n] for n in rows]), self.search, n_best)

        found: dict[int, list[Hypothesis]] = {}
        with _evaluating(self.model):
            searched = _one_core_each(search, batches, threads) if self._device.type == "cpu" else map(search, batches)
            for rows, hypotheses in zip(batches, searched, strict=True):
                found.update(zip(rows, hypotheses, strict=True))
        return [found[n] for n in range(len(sources))]

    def _score_chunk(self, sources: list[list[int]], targets: list[list[int]]) -> list[Score]:
        scores: dict[int, Score] = {}
        with _evaluating(self.model):
            for rows in self._batches(targets):
                src, src_lengths = self._batch([sources[n] for n in rows])
                batch = [targets[n] for n in rows]
                found = score(self.model, src, src_lengths, batch, length_penalty=self.search.length_penalty)
                scores.update(zip(rows, found, strict=True))
        return [scores[n] for n in range(len(sources))]

    def _attention_of_chunk(self, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor | None]:
        found: dict[int, Tensor | None] = {}
        with _evaluating(self.model), torch.inference_mode():
            for rows in self._batches(targets):
                src, src_lengths = self._batch([sources[n] for n in rows])
                tgt_in = padded([[BOS, *targets[n]] for n in rows], src.device)
                cross = self.model(src, src_lengths, tgt_in, need_weights=True).cross  # (N, L, H, T, S)
                for row, n in enumerate(rows):
                    length = len(targets[n]) + 1, len(sources[n]) + 1
                    found[n] = None if cross is None else cross[row, :, :, : length[0], : length[1]].float().cpu()
        return [found[n] for n in range(len(sources))]

    def _batches(self, sentences: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yield row numbers, the longest sentences first: if memory is too small, that shows at once."""
        ordered = sorted(range(len(sentences)), key=lambda n: len(sentences[n]), reverse=True)
        for start in range(0, len(ordered), self.batch_size):
            yield ordered[start : start + self.batch_size]

    def _batch(self, sources: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "N S"], Int[Tensor, "N"]]:
        ended = [[*source, EOS] for source in sources]
        return padded(ended, self._device), torch.tensor([len(source) for source in ended], device=self._device)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class _Unknown:
    """Counts the characters of a text that the vocabulary lacks."""

    def __init__(self) -> None:
        self.characters = self.lines = 0

    def count(self, characters: int) -> None:
        self.characters += characters
        self.lines += characters > 0

    def log(self) -> None:
        if self.characters:
            logger.warning(
                "%d characters in %d lines are not in the vocabulary: they were read byte by byte, or as unknown",
                self.characters,
                self.lines,
            )


class _Lost:
    """Counts the lines with text whose translation shows none: spaces, or bytes that make no character."""

    def __init__(self) -> None:
        self.lines = self.first = 0

    def count(self, sources: Sequence[Sequence[int]], translations: Sequence[Translation], start: int) -> None:
        for number, (source, translation) in enumerate(zip(sources, translations, strict=True), start):
            if source and not translation.text.strip():
                self.first = self.first or number
                self.lines += 1

    def log(self) -> None:
        if self.lines:
            logger.warning(
                "%d lines with text became blank, the first is line %d: the model spelled nothing that can be seen",
                self.lines,
                self.first,
            )


def _chunks(items: Iterable[Item], size: int) -> Iterator[tuple[int, list[Item]]]:
    """Yield lists of up to `size` items with the number of the first, counted from 1."""
    remaining, start = iter(items), 1
    while chunk := list(islice(remaining, size)):
        yield start, chunk
        start += len(chunk)


def _one_core_each(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Do the work on as many items at a time as there are threads, each in one; a single item has them all; in order.

    The small steps of a search leave cores waiting for one another when they share each operation, and more so on a
    busy machine; whole batches have nothing to wait for.
    """
    workers = min(threads, len(items))
    if workers < 2:
        with _threads(threads):
            return [work(item) for item in items]
    with _threads(1):  # holds for MKL everywhere, for OpenMP in this thread: hence the initializer
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or a signal: no further batch


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if number == before:
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _evaluating(model: Seq2Seq[Any, Any]) -> Iterator[None]:
    in_training = [module for module in model.modules() if module.training]
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True
