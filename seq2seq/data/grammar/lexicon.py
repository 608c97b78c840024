"""The words of the built-in language: lexicon.tsv, read into entries that know all their forms.

The table is written like a bilingual dictionary. Its last column, the sense, sorts nouns into classes (food, vehicle,
opening) and says which classes a verb or an adjective goes with, so that doors are opened and soup is eaten. Within
that, words are drawn independently and by rank, as in natural text (Zipf 1949: the frequency of a word is about
proportional to 1 / rank): nothing but the other language tells which one it was.
"""

import random
import zlib
from bisect import bisect
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from seq2seq.data.grammar.morphology import (
    ACC,
    ARTICLES,
    DAT,
    GEN,
    NEUTER,
    PLURAL,
    EnglishVerb,
    GermanVerb,
    english_degrees,
    english_plural,
    english_verb,
    german_adjective_stem,
    german_dative_plural,
    german_degrees,
    german_noun,
    german_verb,
)

Words = tuple[str, ...]
ADJECTIVE_ORDER = ("quality", "size", "age", "colour", "origin")
CASES = {"acc": ACC, "dat": DAT, "gen": GEN}


@dataclass(frozen=True, slots=True, eq=False)  # an entry equals only itself
class Noun:
    """A noun with its forms."""

    name: str  # the English singular, which identifies it
    classes: frozenset[str]
    gender: int
    en_singular: Words
    en_plural: Words
    singular: tuple[str, ...]  # by case; empty for words like Eltern
    plural: tuple[str, ...]  # empty for mass nouns
    weak: bool  # n-declension
    mass: bool  # bread: no plural, no "a"
    unarticled: bool  # football, English, the piano: German says them without an article


@dataclass(frozen=True, slots=True, eq=False)  # an entry equals only itself
class Adjective:
    """An adjective in three degrees: the English words, the German stem for endings, the German predicate form."""

    name: str
    classes: frozenset[str]
    en: tuple[Words, Words, Words]
    stem: tuple[str, str, str]
    predicate: str
    gradable: bool
    predicative: bool
    rank: int  # where it stands among others: a nice(0) big(1) old(2) red(3) Italian(4) car
    mood: bool  # a passing state of a living being, which can be the reason for what it does


class Preposition(NamedTuple):
    """A preposition and the case that it governs."""

    en: Words
    de: str
    case: int


@dataclass(frozen=True, slots=True, eq=False)  # an entry equals only itself
class Verb:
    """A verb in one of its frames: who does it, and what stands beside it."""

    name: str
    en: EnglishVerb
    de: GermanVerb
    subjects: tuple[str, ...]
    frame: str  # none, acc, dat, double, prep, goal, far, place, put, swap, that, whether, to
    objects: tuple[str, ...]
    preposition: Preposition | None = None
    use: str = ""  # for place and put: which prepositions tell where
    stative: bool = False  # no progressive, no imperative
    ambiguous: bool = False  # another German verb translates the same English one elsewhere
    same_past: bool = False  # put: past and present differ only in the third person
    phrasal: bool = False  # turn on
    tool: bool = False  # done with an instrument
    moving: bool = False  # somebody or something goes along, so that upstairs would say whither


class Adverbial(NamedTuple):
    """An adverb, or a fixed phrase that serves as one."""

    en: Words
    de: Words
    classes: frozenset[str]


class Name(NamedTuple):
    """A person."""

    en: str
    de: str
    female: bool


Entry = TypeVar("Entry")


class Pool(Generic[Entry]):
    """Entries to draw from, the earlier the likelier."""

    def __init__(self, weighted: Iterable[tuple[Entry, float]]) -> None:
        pairs = list(weighted)
        self.entries = [entry for entry, _ in pairs]
        self._cumulative = list(accumulate(weight for _, weight in pairs))

    def __len__(self) -> int:
        return len(self.entries)

    def draw(self, rng: random.Random) -> Entry:
        """One of them."""
        return self.entries[bisect(self._cumulative, rng.random() * self._cumulative[-1])]


def zipf(entries: Sequence[Entry], group: Callable[[Entry], Hashable] = lambda entry: None) -> list[float]:
    """Weights 1 / (rank + 4) within each group: Zipf's law, flattened at the top so that no word drowns the rest."""
    ranks: dict[Hashable, int] = {}
    weights = []
    for entry in entries:
        key = group(entry)
        ranks[key] = rank = ranks.get(key, 0) + 1
        weights.append(1.0 / (rank + 4.0))
    return weights


class Lexicon:
    """The whole table. It never changes; the pools that are drawn from are made on first use."""

    def __init__(self, lines: Iterable[str]) -> None:
        rows = [line.rstrip("\n").split("\t") for line in lines if line.strip() and not line.startswith("#")]
        table: dict[str, list[tuple[str, str, str]]] = {}
        for kind, english, german, sense in rows:
            table.setdefault(kind, []).append((english, german, sense))
        self.kinds = {kind: len(entries) for kind, entries in table.items()}
        self.groups = {name: tuple(members.split()) for name, members, _ in table["class"]}
        self.nouns = [_noun(*row) for row in table["noun"]]
        self.person = self.nouns[0]  # stands for anybody where only a pronoun or a name is there
        self.units = [_noun(*row) for row in table["unit"]]
        self.adjectives = [self._adjective(*row) for row in table["adjective"]]
        self.verbs = [self._verb(*row) for row in table["verb"]]
        self.verbs = [
            replace(verb, ambiguous=len({o.de.infinitive for o in self.verbs if o.name == verb.name}) > 1)
            for verb in self.verbs
        ]
        self.names = [Name(english, german, gender == "f") for english, german, gender in table["name"]]
        self.numbers_en = {int(value): english for english, _, value in table["number"]}
        self.numbers_de = {int(value): german for _, german, value in table["number"]}
        self._adverbials = {
            kind: [_adverbial(*row) for row in table[kind]]
            for kind in ("adverb", "time", "day", "month", "where", "whither", "far", "city")
        }
        self._prepositions: dict[str, list[tuple[Preposition, tuple[str, ...]]]] = {}
        for english, german, sense in table["preposition"]:
            left, use = sense.split(" > ")
            case, classes = left.split(" ", 1)
            entry = Preposition(tuple(english.split()), german, CASES[case])
            self._prepositions.setdefault(use, []).append((entry, self._expand(classes)))
        first_class = dict(zip(self.nouns, [row[2].split()[0] for row in table["noun"]], strict=True))
        self._noun_weights = list(zip(self.nouns, zipf(self.nouns, first_class.__getitem__), strict=True))
        # An adjective that suits few nouns is the likelier with these, or it would hardly occur.
        suits = [sum(not noun.classes.isdisjoint(a.classes) for noun in self.nouns) for a in self.adjectives]
        shares = [weight / (number + 5) for weight, number in zip(zipf(self.adjectives), suits, strict=True)]
        self._adjective_weights = list(zip(self.adjectives, shares, strict=True))
        self._verb_weights = list(zip(self.verbs, zipf(self.verbs), strict=True))
        known = {noun.name for noun in self.nouns}.union(*(noun.classes for noun in self.nouns), {"it"})
        users = [(verb.name, {*verb.subjects, *verb.objects}) for verb in self.verbs]
        users += [(adjective.name, set(adjective.classes)) for adjective in self.adjectives]
        unknown = [f"{name}: {' '.join(sorted(wanted - known))}" for name, wanted in users if wanted - known]
        assert not unknown, f"no noun belongs to these classes: {unknown}"

    # Pools, by what is wanted. ------------------------------------------------------------------------------------

    @cache  # noqa: B019  (one lexicon lives as long as the program)
    def nouns_of(self, classes: tuple[str, ...]) -> Pool[Noun]:
        """Nouns that belong to any of the classes, or are named."""
        return Pool((noun, weight) for noun, weight in self._noun_weights if noun.classes.intersection(classes))

    @cache  # noqa: B019
    def any_noun(self) -> Pool[Noun]:
        """All nouns."""
        return Pool(self._noun_weights)

    @cache  # noqa: B019
    def adjectives_for(self, noun: Noun) -> Pool[Adjective]:
        """Adjectives that may describe the noun."""
        return Pool((adj, weight) for adj, weight in self._adjective_weights if adj.classes & noun.classes)

    @cache  # noqa: B019
    def adjectives_that(self, noun: Noun, wanted: str) -> Pool[Adjective]:
        """Those for the noun that are "gradable", "predicative" or a "mood"."""
        return Pool(
            (adj, weight)
            for adj, weight in self._adjective_weights
            if adj.classes & noun.classes and getattr(adj, wanted)
        )

    @cache  # noqa: B019
    def verbs_that(
        self, frames: tuple[str, ...] = (), subject: Noun | None = None, object: Noun | None = None
    ) -> Pool[Verb]:
        """Verbs in one of the frames (none named: in any), that the subject can do, that can be done to the object."""
        return Pool(
            (verb, weight)
            for verb, weight in self._verb_weights
            if (not frames or verb.frame in frames)
            and "it" not in verb.subjects
            and (subject is None or subject.classes.intersection(verb.subjects))
            and (object is None or object.classes.intersection(verb.objects))
        )

    @cache  # noqa: B019
    def weather(self) -> Pool[Verb]:
        """It rains, it snows."""
        return Pool((verb, weight) for verb, weight in self._verb_weights if "it" in verb.subjects)

    @cache  # noqa: B019
    def adverbials(self, kind: str, wanted: str = "") -> Pool[Adverbial]:
        """Adverbs, times or places of a class."""
        entries = [entry for entry in self._adverbials[kind] if not wanted or wanted in entry.classes]
        return Pool(zip(entries, zipf(entries), strict=True))

    @cache  # noqa: B019
    def prepositions(self, use: str) -> Pool[tuple[Preposition, tuple[str, ...]]]:
        """Prepositions for a use (where, whither, company, ...) and the classes of nouns that each takes."""
        return Pool((entry, 1.0) for entry in self._prepositions[use])

    @cache  # noqa: B019
    def people(self) -> Pool[Name]:
        """Names."""
        return Pool(zip(self.names, zipf(self.names), strict=True))

    @cache  # noqa: B019
    def professions(self, gender: int) -> Pool[Noun]:
        """What men, or women, can be by trade."""
        jobs = ((noun, weight) for noun, weight in self._noun_weights if "job" in noun.classes)
        return Pool((noun, weight) for noun, weight in jobs if noun.gender == gender)

    # Reading ------------------------------------------------------------------------------------------------------

    def _expand(self, classes: str) -> tuple[str, ...]:
        return tuple(member for name in classes.split() for member in self.groups.get(name, (name,)))

    def _adjective(self, english: str, german: str, sense: str) -> Adjective:
        classes, _, flags = sense.partition(";")
        base, *degrees = english.split(", ")
        predicate, *stems = german.split(", ")
        more, most = degrees or english_degrees(base)
        comparative, superlative = stems or german_degrees(predicate)
        return Adjective(
            base,
            frozenset(self._expand(classes)),
            (tuple(base.split()), tuple(more.split()), tuple(most.split())),
            (german_adjective_stem(predicate), comparative, superlative),
            predicate,
            "absolute" not in flags and "attributive" not in flags,
            "attributive" not in flags,
            next((rank for rank, kind in enumerate(ADJECTIVE_ORDER) if kind in flags), 0),
            "mood" in flags,
        )  # fmt: skip

    def _verb(self, english: str, german: str, sense: str) -> Verb:
        sense, _, flags = sense.partition(";")
        subjects, frame = sense.split(" > ")
        en = english_verb(english)
        kind, objects, preposition, use = "none", "", None, ""
        head, _, rest = frame.strip().partition(" ")
        if "=" in head:
            before, after = head.split("=")
            de, case = after.split("+")
            kind, objects = "prep", rest
            preposition = Preposition(tuple(before.split()), de, CASES[case])
        elif head == "dat" and " acc " in rest:
            kind, objects = "double", rest.split(" acc ")[1]
        elif head == "acc" and " goal " in rest:
            kind, (objects, use) = "put", rest.split(" goal ")
        elif head in ("place", "goal"):
            kind, use = head, rest or "whither"
        elif head != "-":
            kind, objects = head, rest
        return Verb(
            en.base, en, german_verb(german), self._expand(subjects), kind, self._expand(objects), preposition, use,
            stative="state" in flags, same_past=en.past == en.base, phrasal=" " in en.base, tool="tool" in flags,
            moving="moving" in flags,
        )  # fmt: skip


def _noun(english: str, german: str, sense: str) -> Noun:
    one, _, many = english.partition(", ")
    lemma, *endings = german.split(", ")
    article, _, word = lemma.rpartition(" ")
    words = tuple(one.split())
    plural_words = tuple((many or english_plural(one)).split())
    classes = frozenset({*sense.split(), one})
    if endings == ["pl"]:
        cases = (word, word, german_dative_plural(word), word)
        return Noun(one, classes, PLURAL, words, words, (), cases, weak=False, mass=False, unarticled=False)
    if not article:  # Fußball spielen, Englisch lernen
        return Noun(one, classes, NEUTER, words, words, (word,) * 4, (), weak=False, mass=True, unarticled=True)
    singular, plural = german_noun(word, endings[0], endings[1] if len(endings) > 1 else None)
    weak = endings[0] in ("-n", "-en", "-ns") and article != "die"
    return Noun(
        one,
        classes,
        ARTICLES[article],
        words,
        plural_words,
        singular,
        plural or (),
        weak,
        plural is None,
        False,
    )


def _adverbial(english: str, german: str, sense: str) -> Adverbial:
    return Adverbial(tuple(english.split()), tuple(german.split()), frozenset(sense.split()))


@cache
def load_lexicon() -> Lexicon:
    """The table that ships with the package."""
    return Lexicon((files("seq2seq.data.grammar") / "lexicon.tsv").read_text(encoding="utf-8").splitlines())


@cache
def is_held_out(one: str, other: str) -> bool:
    """Whether two words that suit each other are kept apart in training: a twentieth of all combinations."""
    return zlib.crc32(f"{one}|{other}".encode()) % 20 == 0
