"""Phrases of the built-in language: English and German grown side by side.

A **leaf** of a derivation is one lexical choice, and its number is written on the words that express it in either
language: calls(7) the(8) girl(9) and ruft(7) das(8) Mädchen(9) an(7). Words that share a number are translations of
each other, so the gold word alignment is a by-product of the derivation, whatever the order. A word may carry two
numbers (zum = zu + dem) or none ("does" in questions). A negative number is a loose bond: a word that is there for the
sake of another, such as "of" in "the roof of the house", which German says with a genitive; it makes possible links.

A `Phrase` holds its words twice, in English and in German order. Rules join phrases and never look inside.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seq2seq.data.grammar.lexicon import Lexicon, Name, Noun, Preposition
from seq2seq.data.grammar.morphology import ACC, DU, ER, FEMININE, ICH, MASCULINE, NOM, PLURAL, SIE, WIR


class Token(NamedTuple):
    """A word, the leaves it expresses, and its kind if it is from an open class (noun, verb, ...)."""

    form: str
    leaves: tuple[int, ...] = ()
    kind: str = ""


class Phrase(NamedTuple):
    """The same thing said twice. A lone comma is a token of its own and leans on the word before it."""

    en: list[Token]
    de: list[Token]


COMMA = Token(",")


def join(*phrases: Phrase) -> Phrase:
    """One after the other, in the same order in both languages."""
    return Phrase([word for part in phrases for word in part.en], [word for part in phrases for word in part.de])


@dataclass(frozen=True)
class Style:
    """What a part of the corpus is like: chances of optional things, and limits."""

    adjective: float = 0.36
    second_adjective: float = 0.2
    postmodifier: float = 0.14  # possessor or prepositional phrase after a noun
    relative: float = 0.2
    adverbial: float = 0.5
    time: float = 0.42
    front: float = 0.35
    pronoun: float = 0.30
    embed: float = 0.25  # subordinate clauses
    clauses: tuple[int, int] = (2, 2)  # how many a coordination joins
    depth: int = 2  # of clauses within clauses
    unseen: str = ""  # "adjective" or "object": only combinations of these that are kept out of training


@dataclass
class Derivation:
    """One sentence in the making: the source of chance, the leaves so far, and what is to be noted about it."""

    rng: random.Random
    lexicon: Lexicon
    style: Style
    leaves: int = 0
    tags: set[str] = field(default_factory=set)  # "merged": German does not keep apart what English does
    depth: int = 0
    agreements: list[tuple[Token, Token]] = field(default_factory=list)  # German: head of the subject, finite verb
    brackets: list[tuple[Token, Token]] = field(default_factory=list)  # German: finite verb, end of the predicate
    level: int = 0  # of the clause being built

    def leaf(self) -> int:
        """A new number."""
        self.leaves += 1
        return self.leaves

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.rng.random() < probability

    def pick(self, options: Sequence[str]) -> str:
        """One of them, all being equally likely."""
        return options[int(self.rng.random() * len(options))]

    def words(self, en: Sequence[str], de: Sequence[str], kind: str = "") -> Phrase:
        """A leaf: all its English words belong to all its German ones."""
        leaf = (self.leaf(),)
        return Phrase([Token(word, leaf, kind) for word in en], [Token(word, leaf, kind) for word in de])


class NounPhrase(NamedTuple):
    """A noun phrase in one case, with what the rest of the sentence must know about it."""

    phrase: Phrase
    person: int
    head: Token  # the German noun or pronoun, which the verb agrees with
    noun: Noun | None = None  # None: a name or a pronoun
    gender: int = MASCULINE  # the column of the tables: that of relative and personal pronouns that refer to it
    pronoun: bool = False
    definite: bool = True
    final: bool = False  # whether something follows the noun already


# The personal pronouns. Rows: I, you (always du), he, she, it (by German gender), we, they.
PRONOUNS: dict[str, tuple[int, tuple[str, str], tuple[str, str, str]]] = {
    "I": (ICH, ("I", "me"), ("ich", "mich", "mir")),
    "you": (DU, ("you", "you"), ("du", "dich", "dir")),
    "he": (ER, ("he", "him"), ("er", "ihn", "ihm")),
    "she": (ER, ("she", "her"), ("sie", "sie", "ihr")),
    "we": (WIR, ("we", "us"), ("wir", "uns", "uns")),
    "they": (SIE, ("they", "them"), ("sie", "sie", "ihnen")),
}
IT = ("er", "sie", "es")
REFLEXIVE = ("mich", "dich", "sich", "uns", "sich")
CONTRACTIONS = {
    ("in", "dem"): "im", ("an", "dem"): "am", ("zu", "dem"): "zum", ("zu", "der"): "zur",
    ("bei", "dem"): "beim", ("von", "dem"): "vom", ("in", "das"): "ins", ("an", "das"): "ans",
}  # fmt: skip
MELTED = frozenset(CONTRACTIONS.values())


def article(word: str) -> str:
    """The English indefinite article before a word: a or an, by sound."""
    vowel = word[0] in "aeiouAEIO" and not word.startswith(("uni", "use", "one"))
    return "an" if vowel or word.startswith(("hour", "honest")) else "a"


def pronoun(d: Derivation, name: str, case: int, *, english_subject: bool = False) -> NounPhrase:
    """A personal pronoun: I - ich, me - mich or mir, by the case that German asks for."""
    person, english, german = PRONOUNS[name]
    phrase = d.words((english[case != NOM and not english_subject],), (german[case],))
    if case == ACC and german[case] == "sie":
        d.tags.add("merged")
    gender = {"she": FEMININE, "he": MASCULINE}.get(name, PLURAL)
    return NounPhrase(phrase, person, phrase.de[0], gender=gender, pronoun=True)


def it(d: Derivation, gender: int) -> NounPhrase:
    """The pronoun for a thing or an animal: German chooses by the gender of the noun that it stands for."""
    d.tags.add("pronoun")
    phrase = d.words(("it",), (IT[gender],))
    return NounPhrase(phrase, ER, phrase.de[0], gender=gender, pronoun=True)


def name_phrase(d: Derivation, name: Name) -> NounPhrase:
    """A person by name; names take no article."""
    phrase = d.words((name.en,), (name.de,), "name")
    return NounPhrase(phrase, ER, phrase.de[0], gender=FEMININE if name.female else MASCULINE)


def prepositional(d: Derivation, preposition: Preposition, inner: NounPhrase) -> Phrase:
    """Preposition and noun phrase. The definite article may melt into the preposition: zu dem -> zum."""
    phrase = d.words(preposition.en, (preposition.de,))
    return join(phrase, inner.phrase) if inner.pronoun else contract(d, phrase, inner.phrase)


def contract(d: Derivation, preposition: Phrase, inner: Phrase) -> Phrase:
    """The two in a row, melted where German melts them."""
    short = CONTRACTIONS.get((preposition.de[-1].form, inner.de[0].form))
    if short is None:
        return join(preposition, inner)
    d.tags.add("contraction")
    melted = Token(short, preposition.de[-1].leaves + inner.de[0].leaves)
    return Phrase(preposition.en + inner.en, [*preposition.de[:-1], melted, *inner.de[1:]])
