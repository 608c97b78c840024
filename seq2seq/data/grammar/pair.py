"""From a derivation to a sentence pair: text, gold word alignment, tags."""

from collections.abc import Sequence
from typing import NamedTuple

from seq2seq.data.grammar.phrases import COMMA, Derivation, Phrase, Token
from seq2seq.data.words import Alignment, Link


class Tags(NamedTuple):
    """What a pair shows. Distances count words on the German side; 0 where there is nothing to measure."""

    phenomena: tuple[str, ...]  # sorted: relative, separable, kein, ...
    depth: int  # of clauses within clauses
    agreement: int  # from the head of a subject to its finite verb, the longest in the sentence
    bracket: int  # from a finite verb to the far end of its bracket, the longest
    length: int  # in English words
    template: str  # the English sentence, open-class words replaced by their kind


class Pair(NamedTuple):
    """An English sentence and its German translation."""

    src: str
    tgt: str
    alignment: Alignment
    tags: Tags

    def reversed(self) -> "Pair":
        """The pair from German to English; the tags stay as they are."""
        return Pair(self.tgt, self.src, self.alignment.reversed(), self.tags)


def realise(d: Derivation, phrase: Phrase, end: str) -> Pair:
    """The pair in writing. `end` is the punctuation that closes it."""
    src, en = write(phrase.en, end)
    tgt, de = write(phrase.de, end)
    return Pair(src, tgt, align(en, de), _tags(d, en, de, end))


def write(tokens: Sequence[Token], end: str) -> tuple[str, list[Token]]:
    """The text, and its words. Commas of clauses that meet, open or close the sentence are one, or none."""
    words: list[Token] = []
    parts: list[str] = []
    comma = False
    for token in tokens:
        if token is COMMA:
            comma = True
            continue
        if comma and parts:
            parts.append(", ")
        elif parts:
            parts.append(" ")
        comma = False
        parts.append(token.form)
        words.append(token)
    text = "".join(parts)
    return text[0].upper() + text[1:] + end, words


def align(en: Sequence[Token], de: Sequence[Token]) -> Alignment:
    """Words link where they share a leaf: surely if both express it, possibly if either only leans on it."""
    holders: dict[int, list[tuple[int, bool]]] = {}
    for j, token in enumerate(de):
        for leaf in token.leaves:
            if leaf > 0:
                holders.setdefault(leaf, []).append((j, True))
            else:
                holders.setdefault(-leaf, []).append((j, False))
    links: dict[Link, bool] = {}
    for i, token in enumerate(en):
        for leaf in token.leaves:
            for j, firm in holders.get(abs(leaf), ()):
                links[i, j] = links.get((i, j), False) or (firm and leaf > 0)
    possible = sorted(links)
    return Alignment(tuple([link for link in possible if links[link]]), tuple(possible))


def _tags(d: Derivation, en: Sequence[Token], de: Sequence[Token], end: str) -> Tags:
    agreement = max([abs(de.index(verb) - de.index(head)) for head, verb in d.agreements], default=0)
    bracket = max([de.index(right) - de.index(left) for left, right in d.brackets], default=0)
    template = " ".join([token.kind or token.form for token in en]) + end
    return Tags(tuple(sorted(d.tags)), d.depth, agreement, bracket, len(en), template)
