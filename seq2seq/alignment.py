"""Does attention align words? What the decoder looks at, against the words that translate each other.

The reference is given to the decoder (teacher forcing); its attention is summed over the pieces of a source word and
averaged over the pieces of a target word; EOS and punctuation drop out; a target word is aligned with the source word
that has most. Read at step t, while the word is predicted, and at step t + 1, when it has just been read: which of the
two shows the alignment depends on whether a decoder attends before its update or after. The Transformer attends in
every layer and head; the one to read is chosen on validation data, for either step.

Shapes: L layers, H heads, T target tokens with EOS, S source tokens without, W target words, V source words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.data.gold import Gold
from seq2seq.data.words import Alignment, Link, word_spans
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator

STEPS = ("step_t", "step_t_plus_1")
_DAMAGED = "metrics.json of the bundle is damaged: attention_heads is not a layer and a head a step; copy it again"


class Head(NamedTuple):
    """Which of the decoder's attentions, counted from 0."""

    layer: int
    head: int


def alignment_error_rate(found: Iterable[Iterable[Link]], gold: Iterable[Alignment]) -> float:
    """Return 1 - (|A & S| + |A & P|) / (|A| + |S|) over all sentences: 0 is best, Och and Ney 2003, section 5.

    Args:
        found: the links A of each sentence.
        gold: its sure links S and possible links P.
    """
    right = total = 0
    for links, alignment in zip(found, gold, strict=True):
        own, sure = set(links), set(alignment.sure)
        right += len(own & sure) + len(own & set(alignment.possible))
        total += len(own) + len(sure)
    return 1 - right / total if total else 0.0


def diagonal(src_words: int, tgt_words: int) -> list[Link]:
    """Align each target word with the source word at the same share of the sentence."""
    if not src_words:
        return []
    return [(round(j * (src_words - 1) / max(1, tgt_words - 1)), j) for j in range(tgt_words)]


def word_attention(
    attention: Float[Tensor, "L H T S"], src_pieces: Sequence[Sequence[int]], tgt_pieces: Sequence[Sequence[int]]
) -> Float[Tensor, "L H W V"]:
    """Return attention between words: summed over a source word's pieces, averaged over a target word's.

    Args:
        attention: of target pieces to source pieces.
        src_pieces: the places of each source word's pieces, as `Tokenizer.word_pieces` gives them; those beyond S, in
            a source that was cut, count nothing.
        tgt_pieces: the same for the target words.
    """
    return (
        _membership(tgt_pieces, attention.shape[2], mean=True)
        @ attention
        @ _membership(src_pieces, attention.shape[3], mean=False).T
    )


def _membership(words: Sequence[Sequence[int]], pieces: int, *, mean: bool) -> Tensor:
    matrix = torch.zeros(len(words), pieces)
    for n, places in enumerate(words):
        inside = [place for place in places if place < pieces]
        if inside:
            matrix[n, inside] = 1 / len(inside) if mean else 1.0
    return matrix


def attended_words(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> list[NDArray[np.int64]] | None:
    """Return for each pair the source word that each target word attends to most; None for a model without attention.

    An array is (2, L, H, W): at step t and at step t + 1; -1 where no word is attended to, as with words that were cut
    off. W is 0 if the source has no words.
    """
    found: list[NDArray[np.int64]] = []
    pairs = list(zip(sources, targets, strict=True))
    # No more than a batch at a time: attention is large.
    found_attention = translator.attention(pairs, chunk_lines=translator.batch_size)
    for (src, tgt), attention in zip(pairs, found_attention, strict=True):
        if attention is None:
            return None
        src_pieces, tgt_pieces = (translator.tokenizer.word_pieces(text) for text in (src, tgt))
        without_eos = attention[..., :-1]
        words = torch.stack([word_attention(without_eos[:, :, step:], src_pieces, tgt_pieces) for step in (0, 1)])
        if not src_pieces:
            words = words.new_zeros(*words.shape[:3], 0, 1)
        weights, places = words.max(dim=-1)
        found.append(torch.where(weights > 0, places, -1).numpy())
    return found


def _links(attended: Iterable[NDArray[np.int64]], step: int, head: Head) -> Iterator[list[Link]]:
    for words in attended:
        yield [(int(i), j) for j, i in enumerate(words[step, head.layer, head.head]) if i >= 0]


def choose_heads(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], gold: Gold
) -> dict[str, Head] | None:
    """Return for either step the layer and head that align validation data best; None for a model without attention."""
    attended = attended_words(translator, sources, targets)
    if not attended:
        return None
    heads = [Head(layer, head) for layer, head in np.ndindex(attended[0].shape[1:3])]

    def error_rate(step: int, head: Head) -> float:
        return alignment_error_rate(_links(attended, step, head), gold.alignments)

    return {name: min(heads, key=lambda head: error_rate(step, head)) for step, name in enumerate(STEPS)}


def read_heads(metrics: Mapping[str, Any]) -> dict[str, Head] | None:
    """Return the heads that a bundle's metrics name, if any; a UserError for what is none."""
    found = metrics.get("attention_heads")
    if found is None:
        return None
    try:
        heads = {step: Head(*found[step]) for step in STEPS}
    except (TypeError, KeyError) as error:
        raise UserError(_DAMAGED) from error
    if not all(type(number) is int and number >= 0 for head in heads.values() for number in head):
        raise UserError(_DAMAGED)
    return heads


def alignment_scores(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    gold: Gold,
    heads: dict[str, Head] | None,
) -> dict[str, Any]:
    """Return alignment error rates: of the model's attention at the chosen heads, and of what it should beat.

    Returns:
        aer: by step, for a model with attention; heads: which layer and head each is of; baselines: the error rates
        of the diagonal and of IBM Model 1.
    """
    counts = [(len(word_spans(src)), len(word_spans(tgt))) for src, tgt in zip(sources, targets, strict=True)]
    baselines = {
        "diagonal": alignment_error_rate([diagonal(*count) for count in counts], gold.alignments),
        "ibm_model_1": alignment_error_rate([links.sure for links in gold.baseline], gold.alignments),
    }
    attended = None if heads is None else attended_words(translator, sources, targets)
    if heads is None or not attended:
        return {"baselines": baselines}
    if any(head.layer >= attended[0].shape[1] or head.head >= attended[0].shape[2] for head in heads.values()):
        raise UserError(_DAMAGED)
    aer = {
        name: alignment_error_rate(_links(attended, step, heads[name]), gold.alignments)
        for step, name in enumerate(STEPS)
    }
    return {"aer": aer, "heads": {name: list(head) for name, head in heads.items()}, "baselines": baselines}
