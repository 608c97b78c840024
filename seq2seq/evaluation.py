"""The scores of a model on a test set.

Corpus scores by sacreBLEU, which only this file calls: Post 2018, "A Call for Clarity in Reporting BLEU Scores". Where
a text's tags and word alignments are known (see `gold`), also accuracy by phenomenon and the alignment error rate.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.alignment import Head, alignment_scores
from seq2seq.data.gold import Gold
from seq2seq.data.grammar import Tags
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator
from seq2seq.whole_file import whole_file


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, ter: bool = True
) -> dict[str, Any]:
    """Score translations against one reference each, as the `sacrebleu` command does with its defaults.

    Every line counts: an empty hypothesis matches nothing and shortens the translation; an empty reference can match
    nothing, and what was written for it lengthens the translation.

    Args:
        lowercase: score lower-cased text; the signatures say so. (TER always does, as in the command.)
        ter: TER too, which takes far longer than the others.

    Returns:
        bleu, chrf and ter from 0 to 100 (ter: 0 is best, and it may exceed 100); exact_match, the share of hypotheses
        that are their reference; length_ratio, of words, hypotheses to references; sentences; signatures.

    Raises:
        TypeError: an argument is a single string, or holds anything but strings.
        UserError: different numbers of hypotheses and references, or none.
    """
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(lines, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError(f"{name} must be a list of strings, one a sentence")
    if len(hypotheses) != len(references):
        raise UserError(
            f"there are {len(hypotheses)} hypotheses but {len(references)} references: line k must translate line k"
        )
    if not hypotheses:
        raise UserError("there is nothing to score: no hypotheses and no references")
    hypotheses = [line.rstrip() for line in hypotheses]  # so does the command
    references = [line.rstrip() for line in references]
    metrics = {"bleu": BLEU(lowercase=lowercase), "chrf": CHRF(lowercase=lowercase), **({"ter": TER()} if ter else {})}
    scores = {name: metric.corpus_score(hypotheses, [references]) for name, metric in metrics.items()}
    return {
        **{name: score.score for name, score in scores.items()},
        "exact_match": sum(_matches(hypotheses, references, lowercase)) / len(references),
        "length_ratio": scores["bleu"].sys_len / max(1, scores["bleu"].ref_len),
        "sentences": len(references),
        "signatures": {name: str(metric.get_signature()) for name, metric in metrics.items()},
    }


class SentenceStatistics:
    """What each of N sentences adds to the corpus scores, so that any choice of them is scored in microseconds.

    Attributes:
        sentences: N.
    """

    def __init__(self, hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> None:
        hypotheses, references = [line.rstrip() for line in hypotheses], [line.rstrip() for line in references]
        self.sentences = len(references)
        self._metrics = {"bleu": BLEU(lowercase=lowercase), "chrf": CHRF(lowercase=lowercase)}
        self._counts = {  # sacreBLEU's own: lengths and matches, which add up over sentences
            name: np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)
            for name, metric in self._metrics.items()
        }
        self._matches = np.array(_matches(hypotheses, references, lowercase), dtype=np.float64)

    def scores(self, metric: str, times: Float[NDArray[np.float64], "R N"]) -> Float[NDArray[np.float64], "R"]:
        """Return a corpus score for each row, in which sentence n counts as often as the row says.

        Args:
            metric: bleu, chrf, length_ratio or exact_match, as in `corpus_scores`.
            times: at least one sentence a row.
        """
        if metric == "exact_match":
            shares: NDArray[np.float64] = times @ self._matches / times.sum(axis=1)
            return shares
        if metric == "length_ratio":
            written, asked = (times @ self._counts["bleu"][:, :2]).T
            ratios: NDArray[np.float64] = written / np.maximum(1, asked)
            return ratios
        sums = (times @ self._counts[metric]).round().astype(np.int64).tolist()
        return np.array([self._metrics[metric]._compute_score_from_stats(row).score for row in sums])

    def score(self, metric: str, chosen: Sequence[int] | None = None) -> float:
        """Return the corpus score of the chosen sentences, or of all."""
        times = np.ones((1, self.sentences)) if chosen is None else np.zeros((1, self.sentences))
        if chosen is not None:
            times[0, list(chosen)] = 1.0
        return float(self.scores(metric, times)[0])


_LONGEST_WORDS = (5, 10, 15, 20, 30, 40, 60)


def by_source_length(sources: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the sentences in each bin of source length, "6-10": words between white space, short first.

    Bins without a sentence are left out; so are blank sources, which have no length.
    """
    bins: dict[str, list[int]] = {}
    shortest = 1
    lengths = [len(source.split()) for source in sources]
    for longest in (*_LONGEST_WORDS, None):
        name = f"{shortest}+" if longest is None else f"{shortest}-{longest}"
        chosen = [
            n for n, length in enumerate(lengths) if length >= shortest and (longest is None or length <= longest)
        ]
        if chosen:
            bins[name] = chosen
        shortest = (longest or 0) + 1
    return bins


def _matches(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool) -> list[bool]:
    sides = (
        [line.rstrip().lower() if lowercase else line.rstrip() for line in side] for side in (hypotheses, references)
    )
    return list(map(str.__eq__, *sides))


def exact_match_by(matches: Sequence[bool], tags: Sequence[Tags]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the share of sentences translated exactly, among those that have something in common.

    Args:
        matches: whether each sentence is.
        tags: what each shows.

    Returns:
        phenomenon: by what the sentences show, the most frequent first; depth, agreement and bracket: by the measures
        of `Tags`, near to far; agreement and bracket without 0, where there is nothing to measure. Each entry:
        sentences, exact_match.
    """
    found = {
        "phenomenon": _shares((name, match) for match, tag in zip(matches, tags, strict=True) for name in tag.phenomena)
    }
    found["phenomenon"] = dict(sorted(found["phenomenon"].items(), key=lambda item: -item[1]["sentences"]))
    for measure in ("depth", "agreement", "bracket"):
        values = [(getattr(tag, measure), match) for match, tag in zip(matches, tags, strict=True)]
        shares = _shares((value, match) for value, match in values if value or measure == "depth")
        found[measure] = {str(value): shares[value] for value in sorted(shares)}
    return found


def _shares(items: Iterable[tuple[Any, bool]]) -> dict[Any, dict[str, float]]:
    matches: dict[Any, list[bool]] = {}
    for name, match in items:
        matches.setdefault(name, []).append(match)
    return {name: {"sentences": len(own), "exact_match": sum(own) / len(own)} for name, own in matches.items()}


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    folder: Path | None = None,
    lowercase: bool = False,
    gold: Gold | None = None,
    heads: dict[str, Head] | None = None,
) -> dict[str, Any]:
    """Translate a test set and score the translations.

    Args:
        sources: the lines to translate.
        references: their translations, as they were read: neither tokenised nor lower-cased.
        folder: where to write src.txt, ref.txt and hyp.txt, if anywhere.
        lowercase: see `corpus_scores`.
        gold: what is known of the test set besides; written to `folder` too.
        heads: which attention to read word alignments from, by step; see `choose_heads`.

    Returns:
        what `corpus_scores` returns; cut and looping, the shares of translations that the length limit stopped and that
        repeat themselves (see `is_looping`); test_set_sha256, the checksum of src.txt and ref.txt one after the other.
        With `gold` also exact_match_by and alignment, see `exact_match_by` and `alignment_scores`.
    """
    if len(sources) != len(references):
        raise UserError(
            f"there are {len(sources)} sources but {len(references)} references: line k must translate line k"
        )
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    translations = list(translator.translate(sources))
    hypotheses = [translation.text for translation in translations]
    scores = corpus_scores(hypotheses, references, lowercase=lowercase)
    src, ref, hyp = (_as_file(lines) for lines in (sources, references, hypotheses))
    if folder is not None:
        known = {} if gold is None else {name: content.encode() for name, content in gold.files().items()}
        for name, content in {"src.txt": src, "ref.txt": ref, "hyp.txt": hyp, **known}.items():
            _write_whole(folder / name, content)
    if gold is not None:
        scores["exact_match_by"] = exact_match_by(_matches(hypotheses, references, lowercase), gold.tags)
        scores["alignment"] = alignment_scores(translator, sources, references, gold, heads)
    return {
        **scores,
        "cut": sum(translation.cut for translation in translations) / len(translations),
        "looping": sum(translation.looping for translation in translations) / len(translations),
        "test_set_sha256": hashlib.sha256(src + ref).hexdigest(),
    }


def _write_whole(path: Path, content: bytes) -> None:
    try:
        with whole_file(path) as fresh:
            fresh.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _as_file(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
