"""Corpus scores by sacreBLEU, which only this file calls: Post 2018, "A Call for Clarity in Reporting BLEU Scores"."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> dict[str, Any]:
    """Score translations against one reference each, as the `sacrebleu` command does with its defaults.

    Every line counts: an empty hypothesis matches nothing and shortens the translation; an empty reference can match
    nothing, and what was written for it lengthens the translation.

    Args:
        lowercase: score lower-cased text; the signatures say so. (TER always does, as in the command.)

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
    metrics = {"bleu": BLEU(lowercase=lowercase), "chrf": CHRF(lowercase=lowercase), "ter": TER()}
    scores = {name: metric.corpus_score(hypotheses, [references]) for name, metric in metrics.items()}
    if lowercase:
        hypotheses, references = ([line.lower() for line in side] for side in (hypotheses, references))
    matches = sum(map(str.__eq__, hypotheses, references))
    return {
        **{name: score.score for name, score in scores.items()},
        "exact_match": matches / len(references),
        "length_ratio": scores["bleu"].sys_len / max(1, scores["bleu"].ref_len),
        "sentences": len(references),
        "signatures": {name: str(metric.get_signature()) for name, metric in metrics.items()},
    }


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    folder: Path | None = None,
    lowercase: bool = False,
) -> dict[str, Any]:
    """Translate a test set and score the translations.

    Args:
        sources: the lines to translate.
        references: their translations, as they were read: neither tokenised nor lower-cased.
        folder: where to write src.txt, ref.txt and hyp.txt, if anywhere.
        lowercase: see `corpus_scores`.

    Returns:
        what `corpus_scores` returns; cut and looping, the shares of translations that the length limit stopped and that
        repeat themselves (see `is_looping`); test_set_sha256, the checksum of src.txt and ref.txt one after the other.
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
        for name, content in (("src.txt", src), ("ref.txt", ref), ("hyp.txt", hyp)):
            _write_whole(folder / name, content)
    return {
        **scores,
        "cut": sum(translation.cut for translation in translations) / len(translations),
        "looping": sum(translation.looping for translation in translations) / len(translations),
        "test_set_sha256": hashlib.sha256(src + ref).hexdigest(),
    }


def _write_whole(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    finally:
        fresh.unlink(missing_ok=True)


def _as_file(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
