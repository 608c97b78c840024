"""Known weaknesses of neural translation, measured on a model of ours.

Koehn and Knowles 2017, "Six Challenges for Neural Machine Translation": little data, rare words, long sentences, wide
beams. Stahlberg and Byrne 2019, "On NMT Search Errors and Model Errors: Cat Got Your Tongue?": how often search misses
the most probable translation, and what that one looks like.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice
from statistics import fmean
from typing import Any

import torch

from seq2seq.comparison.runs import Run, ScoredText, by_label, check_same_text, scores_on
from seq2seq.data.ibm_model1 import MAX_PAIRS, IbmModel1, words
from seq2seq.data.tokenizer import EOS
from seq2seq.data.words import Alignment
from seq2seq.errors import UserError
from seq2seq.evaluation import SentenceStatistics, by_source_length, corpus_scores
from seq2seq.inference.exact_search import exact_search
from seq2seq.inference.score import score
from seq2seq.inference.search import beam_search
from seq2seq.inference.translator import Translator

logger = logging.getLogger(__name__)

BEAM_SIZES = (1, 2, 5, 10, 20, 50, 100)
MAX_NODES = 10_000
_MORE = 1e-4  # how much more probable, as a logarithm, is more than float32's noise
_MOST_FREQUENT = 1024


def beams(
    translator: Translator, sources: Sequence[str], references: Sequence[str], sizes: Sequence[int] = BEAM_SIZES
) -> list[dict[str, Any]]:
    """Score translations by beams of several sizes, ranked by log_prob and ranked by score, length-normalised.

    Returns:
        for each beam size and length penalty (0 and the translator's own): bleu, chrf, length_ratio; cut and empty,
        shares of translations; log_prob, the mean over sentences.
    """
    found: list[dict[str, Any]] = []
    penalties = dict.fromkeys((0.0, translator.search.length_penalty))
    for size in sizes:
        for length_penalty in penalties:
            of_all = f"{len(found) + 1} of {len(sizes) * len(penalties)}"
            what = f"{len(sources)} sentences, beam size {size}, length penalty {length_penalty:g}"
            logger.info("translating %s (%s)", what, of_all)
            search = replace(translator.search, beam_size=size, length_penalty=length_penalty)
            parts = (translator.model, translator.tokenizer, translator.preprocessing, search)
            translations = list(Translator(*parts, batch_size=translator.batch_size, warn=False).translate(sources))
            texts = [translation.text for translation in translations]
            scores = corpus_scores(texts, references, lowercase=translator.preprocessing.lowercase, ter=False)
            found.append(
                {
                    "beam_size": size,
                    "length_penalty": length_penalty,
                    **{name: scores[name] for name in ("bleu", "chrf", "length_ratio")},
                    "cut": fmean(translation.cut for translation in translations),
                    "empty": fmean(
                        not text and bool(source.strip()) for text, source in zip(texts, sources, strict=True)
                    ),
                    "log_prob": fmean(translation.log_prob for translation in translations),
                }
            )
    return found


def search_errors(translator: Translator, sources: Sequence[str], *, max_nodes: int = MAX_NODES) -> dict[str, Any]:
    """Look for translations that are more probable than those of the translator's beam, without length normalisation.

    Exact search knows the empty translation, which the beam never gives: where it is the most probable one, that is an
    error too. Blank sources are left out: they are not searched. The model is in eval mode.

    Returns:
        sentences; errors, for which a more probable translation was found; none, for which it is proved that there is
        none; undecided, for which the exact search gave up. Of the sentences that were searched to the end, best_known:
        how many; beam_tokens and best_tokens, the mean lengths of what the beam finds and of the most probable one.
        empty_is_best: how many have the empty translation as the most probable one of all, of the empty_known for which
        that is known. empty_probability, the mean over all sentences; beam_size and max_nodes.
    """
    config = replace(translator.search, length_penalty=0.0)
    model, device = translator.model, next(translator.model.parameters()).device
    errors = none = empty_is_best = empty_known = 0
    empty_probabilities, beam_tokens, best_tokens = [], [], []
    every = math.ceil(len(sources) / 20)
    for number, source in enumerate(sources):
        if number % every == 0:
            logger.info("exact search: sentence %d of %d, %d errors so far", number + 1, len(sources), errors)
        ids = translator.tokenizer.encode(source)[: translator.max_source_tokens]
        if not ids:
            continue
        src = torch.tensor([[*ids, EOS]], device=device)
        lengths = torch.tensor([src.shape[1]], device=device)
        empty = score(model, src, lengths, [[]])[0].log_prob
        empty_probabilities.append(math.exp(empty))
        beam = beam_search(model, src, lengths, config)[0][0]
        bound = -math.inf if beam.cut else beam.log_prob + _MORE
        found = exact_search(model, src, config, bound=bound, max_nodes=max_nodes)
        errors += found.ids is not None
        if found.is_proved:
            best = beam.ids if found.ids is None else found.ids
            none += found.ids is None
            empty_is_best += not best
            empty_known += 1
            beam_tokens.append(len(beam.ids))
            best_tokens.append(len(best))
        else:
            empty_known += (found.log_prob if found.ids else bound) > empty  # something else is more probable
    searched = len(empty_probabilities)
    return {
        "sentences": searched,
        "beam_size": config.beam_size,
        "max_nodes": max_nodes,
        "errors": errors,
        "none": none,
        "undecided": searched - errors - none,
        "best_known": len(best_tokens),
        "empty_is_best": empty_is_best,
        "empty_known": empty_known,
        "beam_tokens": fmean(beam_tokens) if beam_tokens else None,
        "best_tokens": fmean(best_tokens) if best_tokens else None,
        "empty_probability": fmean(empty_probabilities) if empty_probabilities else None,
    }


def lengths(text: ScoredText, *, lowercase: bool) -> dict[str, dict[str, float]]:
    """Return sentences, bleu and length_ratio by bins of source length; see `by_source_length`."""
    statistics = SentenceStatistics(text.hyp, text.ref, lowercase=lowercase)
    found = {}
    for name, chosen in by_source_length(text.src).items():
        found[name] = {
            "sentences": len(chosen),
            **{metric: statistics.score(metric, chosen) for metric in ("bleu", "length_ratio")},
        }
    return found


def rare_words(
    text: ScoredText, training: Iterable[tuple[str, str]], alignments: Sequence[Alignment] | None
) -> dict[str, dict[str, dict[str, float]]]:
    """Ask for words by how often they stand in the training text; words are in lower case, without punctuation.

    Args:
        text: a test set and its translation.
        training: the pairs (source, target) that were trained on.
        alignments: between source and reference; left open: what IBM Model 1, learned from training, finds.

    Returns:
        by bins of frequency, rare first, each with words, how many there are, and accuracy. target_recall: the share of
        the reference's words that are in the translation (twice, if they stand there twice). target_precision: the
        share of the translation's words that are in the reference. source: the share of source words whose translation
        in the reference, by the alignment, is in the translation; of several linked words, so many of them. Source
        words without a link are left out.
    """
    pairs = iter(training)
    learned_from = list(islice(pairs, MAX_PAIRS)) if alignments is None else []
    src_frequency: Counter[str] = Counter()
    tgt_frequency: Counter[str] = Counter()
    for src, tgt in chain(learned_from, pairs):  # once: they may be millions, read from files
        src_frequency.update(words(src))
        tgt_frequency.update(words(tgt))
    if alignments is None:
        logger.info("learning from %d pairs which words translate each other, by IBM Model 1", len(learned_from))
        model1 = IbmModel1(learned_from)
        alignments = [model1.align(src, ref) for src, ref in zip(text.src, text.ref, strict=True)]
    recall, precision, source = _Shares(), _Shares(), _Shares()
    for src, ref, hyp, alignment in zip(text.src, text.ref, text.hyp, alignments, strict=True):
        src_words, ref_words = words(src), words(ref)
        wanted, written = Counter(ref_words), Counter(words(hyp))
        for word, count in wanted.items():
            recall.add(tgt_frequency[word], min(count, written[word]), count)
        for word, count in written.items():
            precision.add(tgt_frequency[word], min(count, wanted[word]), count)
        linked: dict[int, list[bool]] = {}
        for i, j in alignment.sure:
            linked.setdefault(i, []).append(written[ref_words[j]] > 0)
        for i, is_there in linked.items():
            source.add(src_frequency[src_words[i]], fmean(is_there), 1)
    return {"target_recall": recall.found(), "target_precision": precision.found(), "source": source.found()}


class _Shares:
    """Sums by bins of frequency: 0, 1, 2-3, 4-7 and so on."""

    def __init__(self) -> None:
        self._right: Counter[int] = Counter()
        self._all: Counter[int] = Counter()

    def add(self, frequency: int, right: float, count: int) -> None:
        """Count words of one frequency."""
        lowest = 0 if frequency == 0 else min(_MOST_FREQUENT, 1 << (frequency.bit_length() - 1))
        self._right[lowest] += right  # type: ignore[assignment]  # parts of a word, too
        self._all[lowest] += count

    def found(self) -> dict[str, dict[str, float]]:
        """Return the shares by the names of the bins."""
        return {
            _name(lowest): {"words": self._all[lowest], "accuracy": self._right[lowest] / self._all[lowest]}
            for lowest in sorted(self._all)
        }


def _name(lowest: int) -> str:
    if lowest == _MOST_FREQUENT:
        return f"{lowest}+"
    return str(lowest) if lowest < 2 else f"{lowest}-{2 * lowest - 1}"


def data_sizes(runs: Sequence[Run], test_set: str) -> dict[str, dict[int, dict[str, float]]]:
    """Return by label and number of training pairs, few first: bleu, the mean over seeds, and seeds.

    Raises:
        UserError: runs of a label and a size that differ, test sets that do; see `by_label`, `check_same_text`.
    """
    check_same_text(runs, test_set)
    by_size: dict[int, list[Run]] = {}
    for run in runs:
        by_size.setdefault(_training_pairs(run), []).append(run)
    found: dict[str, dict[int, dict[str, float]]] = {}
    for size in sorted(by_size):
        for label, group in by_label(by_size[size]).items():
            scores = [float(scores_on(run, test_set)["bleu"]) for run in group]
            found.setdefault(label, {})[size] = {"bleu": fmean(scores), "seeds": len(scores)}
    return found


def _training_pairs(run: Run) -> int:
    pairs = run.metrics.get("training_pairs")
    if type(pairs) is not int:
        raise UserError(f"{run.folder} does not say how many pairs it was trained on: it is older than this program")
    return pairs
