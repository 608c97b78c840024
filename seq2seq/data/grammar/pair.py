"""From a derivation to a sentence pair: text, gold word alignment, tags.

**What is a word.** In the text punctuation leans on the word before it ("Hund,"). Alignments count words without it:
`word_spans` finds them in any text of either language, by letters, digits and what joins them inside a word (o'clock,
twenty-one, teacher's).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from seq2seq.data.grammar.phrases import COMMA, Derivation, Phrase, Token

Link = tuple[int, int]
_WORD = re.compile(r"\w+(?:['’-]\w+)*['’]?")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words are: (start, end) in characters, punctuation left out. Alignments number these, from 0."""
    return [match.span() for match in _WORD.finditer(text)]


class Alignment(NamedTuple):
    """Links (source word, target word), counted from 0 and sorted; the sure ones are among the possible ones.

    Sure links say the same; possible ones (Och and Ney 2003) are the words that one language needs beside them, as "of"
    beside the genitive in "the roof of the house". Some words have no link: "does" in a question.
    """

    sure: tuple[Link, ...]
    possible: tuple[Link, ...]

    def __str__(self) -> str:
        """Pharaoh format: "0-0 1-2 3p4", where p marks a link that is possible but not sure."""
        sure = set(self.sure)
        return " ".join(f"{i}{'-' if (i, j) in sure else 'p'}{j}" for i, j in self.possible)

    @classmethod
    def parse(cls, text: str) -> "Alignment":
        """The alignment that `str` writes so."""
        sure, possible = [], []
        for item in text.split():
            source, mark, target = re.fullmatch(r"(\d+)([-p])(\d+)", item).groups()  # type: ignore[union-attr]
            possible.append((int(source), int(target)))
            if mark == "-":
                sure.append(possible[-1])
        return cls(tuple(sure), tuple(possible))


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
