"""Translating with CTranslate2 from a folder that `export_ctranslate2` wrote: the same translations, faster.

The engine's search follows the same rules as ours but for five, which are undone here:

- Its length limit holds for a call and ours for a sentence: sentences of the same length go into one call.
- It counts EOS into the length that it divides by: all that it found are ranked again by our score.
- Where it may not begin with EOS, it gives EOS's probability to the other words: EOS is forbidden only in a second
  search, of the sentences for which the first found an empty translation, which tells that probability.
- At the limit it ranks open hypotheses among the finished ones and returns the best K, so that one which was cut may
  push out one which was finished: such a sentence is searched again with room for all of both.
- Without a length penalty it goes on after K have finished until the best has: it is given a penalty too small to see.

One is left: where ours keeps all that finish in the last step and ranks them, the engine keeps K. So the best is the
same, and the last of an n-best list may be another. What it finds with a BOS or PAD, which ours never writes, is left
out; if nothing else is found, it searches again without them (and gives their probability to the others).
"""

import math
import os
import re
from pathlib import Path
from typing import Any

from seq2seq.data.tokenizer import BOS, EOS, PAD, Tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.bundle import TOKENIZER, Preprocessing, from_plain, read_bytes, read_json
from seq2seq.inference.export import DESCRIPTION, FORMAT, import_ctranslate2
from seq2seq.inference.score import length_normalised
from seq2seq.inference.search import Hypothesis, SearchConfig
from seq2seq.inference.translator import BATCH_SIZE, LineTranslator, Searcher


class CTranslate2Translator(LineTranslator):
    """An exported model and CTranslate2's search."""

    def __init__(
        self,
        engine: Any,
        tokenizer: Tokenizer,
        preprocessing: Preprocessing,
        search: SearchConfig,
        *,
        max_positions: int | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        """Take a `ctranslate2.Translator` with the tokenizer's vocabulary, and how long a sentence it can hold."""
        super().__init__(tokenizer, preprocessing, search, batch_size=batch_size)
        self.engine = engine
        self.max_positions = max_positions
        self._names = tokenizer.vocabulary()
        self._ids = {name: i for i, name in enumerate(self._names)}

    @classmethod
    def from_folder(cls, folder: Path, device: str = "cpu", *, batch_size: int = BATCH_SIZE) -> "CTranslate2Translator":
        """Load an exported folder.

        Raises:
            UserError: it is none, it is damaged or newer than this program, or the engine is not installed or has no
                such device.
        """
        if not re.fullmatch(r"(cpu|cuda)(:\d{1,4})?", device):
            raise UserError(f"device={device}: the engine has cpu, cuda, cuda:1 ...")
        if not (folder / DESCRIPTION).is_file():
            raise UserError(
                f"{folder} holds no {DESCRIPTION}: it was not exported; write one with seq2seq export RUN -o FOLDER"
            )
        description = read_json(folder / DESCRIPTION)
        version = description.get("format")
        if version != FORMAT:
            raise UserError(f"{folder / DESCRIPTION} has format {version}, this program reads {FORMAT}; export again")
        where = str(folder / DESCRIPTION)
        preprocessing = from_plain(Preprocessing, description.get("preprocessing"), f"{where}: preprocessing")
        search = from_plain(SearchConfig, description.get("search"), f"{where}: search")
        tokenizer = Tokenizer(read_bytes(folder / TOKENIZER), preprocessing.lowercase)
        ctranslate2 = import_ctranslate2()
        kind, _, number = device.partition(":")
        try:
            # Each batch on a core of its own: cores that share a batch wait for one another.
            engine = ctranslate2.Translator(
                str(folder),
                device=kind,
                device_index=int(number or 0),
                inter_threads=_cores() if kind == "cpu" else 1,
                intra_threads=1,
            )
        except (RuntimeError, ValueError) as error:
            way_out = "; export again" if kind == "cpu" else ""
            raise UserError(f"CTranslate2 cannot load {folder} on device={device}: {error}{way_out}") from error
        max_positions = description.get("max_positions")
        if max_positions is not None and not (isinstance(max_positions, int) and max_positions > 1):
            raise UserError(f"{where}: max_positions={max_positions!r} must be null or at least 2; export again")
        return cls(
            engine,
            tokenizer,
            preprocessing,
            search,
            max_positions=max_positions,
            batch_size=batch_size,
        )

    @property
    def max_source_tokens(self) -> int:
        """The most tokens of a line, EOS not counted, that are read."""
        limit = self.preprocessing.max_source_tokens
        return limit if self.max_positions is None else min(limit, self.max_positions - 1)

    def _searcher(self, n_best: int) -> Searcher:
        return lambda sources: self._search(sources, n_best)

    def _search(self, sources: list[list[int]], n_best: int) -> list[list[Hypothesis]]:
        found = self._found(dict(enumerate(sources)), min_length=0)
        empty = {n: h.log_prob for n, hypotheses in found.items() for h in hypotheses if not h.ids}
        for n, hypotheses in self._found({n: sources[n] for n in empty}, min_length=1).items():
            others = math.log(-math.expm1(empty[n])) if empty[n] < 0 else -math.inf  # log p(the first is not EOS)
            found[n] = _best_first([self._hypothesis(h.ids, h.log_prob + others, h.cut) for h in hypotheses])
        return [found[n][:n_best] for n in range(len(sources))]

    def _found(self, sources: dict[int, list[int]], min_length: int) -> dict[int, list[Hypothesis]]:
        """Return what the engine finds for each source, best first."""
        by_length: dict[int, list[int]] = {}
        for n in sorted(sources, key=lambda n: len(sources[n]), reverse=True):
            by_length.setdefault(len(sources[n]), []).append(n)
        waiting = [
            (n, result)
            for length, rows in by_length.items()
            for n, result in zip(rows, self._begin([sources[n] for n in rows], length, min_length), strict=True)
        ]
        found = {n: self._hypotheses(_result(result), len(sources[n])) for n, result in waiting}
        for n, hypotheses in found.items():
            if any(hypothesis.cut for hypothesis in hypotheses):
                (result,) = self._begin([sources[n]], len(sources[n]), min_length, patience=2)
                found[n] = self._hypotheses(_result(result), len(sources[n]))
            if not found[n]:
                (result,) = self._begin([sources[n]], len(sources[n]), min_length, words_only=True)
                found[n] = self._hypotheses(_result(result), len(sources[n]))
        return {n: _best_first(hypotheses) for n, hypotheses in found.items()}

    def _begin(
        self,
        sources: list[list[int]],
        length: int,
        min_length: int,
        *,
        patience: int = 1,
        words_only: bool = False,
    ) -> list[Any]:
        """Start to search for the translations of sources of one length.

        A sentence ends when `patience` times the beam size have finished, and so many may be returned. One that comes
        to its limit with fewer than K finished does so at any patience, and then has fewer than 2K hypotheses.
        """
        tokens = [[self._names[i] for i in [*source, EOS]] for source in sources]
        results: list[Any] = self.engine.translate_batch(
            tokens,
            max_batch_size=self.batch_size,
            asynchronous=True,
            beam_size=self.search.beam_size,
            patience=patience,
            num_hypotheses=patience * self.search.beam_size,  # all, to be ranked by our rule
            length_penalty=self._penalty,
            max_input_length=0,
            min_decoding_length=min_length,
            suppress_sequences=[[self._names[i]] for i in (BOS, PAD)] if words_only else None,
            max_decoding_length=self._limit(length),
            return_scores=True,
        )
        return results

    def _hypotheses(self, result: Any, length: int) -> list[Hypothesis]:
        """Return what the engine found, with our scores."""
        found = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = [self._ids[token] for token in tokens]
            if BOS in ids or PAD in ids:
                continue
            cut = len(ids) >= self._limit(length)
            log_prob = score * (len(ids) + (not cut)) ** self._penalty
            found.append(self._hypothesis(ids, log_prob, cut))
        return found

    @property
    def _penalty(self) -> float:
        return max(self.search.length_penalty, 1e-9)

    def _hypothesis(self, ids: list[int], log_prob: float, cut: bool) -> Hypothesis:
        return Hypothesis(ids, log_prob, length_normalised(log_prob, len(ids), self.search.length_penalty), cut)

    def _limit(self, length: int) -> int:
        """Return the most tokens of a translation, EOS included, of a source of so many without."""
        limit = self.search.length_limit(length + 1)
        return limit if self.max_positions is None else min(limit, self.max_positions)


def _best_first(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Rank the finished ones; those that were cut, if there are no others."""
    finished = [hypothesis for hypothesis in hypotheses if not hypothesis.cut]
    return sorted(finished or hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True)


def _result(waiting: Any) -> Any:
    """Return what the engine found, once it has."""
    try:
        return waiting.result()
    except (RuntimeError, ValueError, MemoryError) as error:  # a damaged folder shows only here
        raise UserError(f"CTranslate2 cannot translate: {error}; export again, or use smaller batches") from error


def _cores() -> int:
    """Return how many cores this process may use; where the system does not tell, how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
