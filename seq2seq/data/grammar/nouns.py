"""Noun phrases: determiner, adjectives, noun, and what may follow it.

In German all of them show gender, number and case; in English only the noun shows its number.
"""

from collections.abc import Sequence

from seq2seq.data.grammar.lexicon import Adjective, Noun, Pool, Preposition, is_held_out
from seq2seq.data.grammar.morphology import (
    DAT,
    DEFINITE,
    ER,
    GEN,
    MIXED_ADJECTIVE,
    NOM,
    PLURAL,
    POSSESSIVE,
    SIE,
    STRONG,
    STRONG_ADJECTIVE,
    WEAK_ADJECTIVE,
    number_words,
)
from seq2seq.data.grammar.phrases import Derivation, NounPhrase, Phrase, Token, article, join, prepositional

POSSESSORS = {"my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr"}
QUANTIFIERS = {"some": "einig", "many": "viel", "several": "mehrer", "few": "wenig"}

# How an adjective bends after each determiner; after those not named here, weak.
STRONG_AFTER = {"bare", "number", "name", *QUANTIFIERS}
MIXED_AFTER = {"a", *POSSESSORS}
DEFINITE_KINDS = {"the", "this", "every", "all", "name", "owner", "which", *POSSESSORS}
COMMON = (
    ("the",) * 12 + ("a",) * 9 + ("some", "some", "number", "this", "every", "owner", "name", "my", "his", "her", "our")
)
KNOWN = ("the",) * 6 + ("this", "owner", "name", "my", "your", "his", "her", "their")
# What can be somebody's.
BELONGINGS = (
    "kin", "friend", "neighbour", "colleague", "boss", "teacher", "doctor", "guest", "lawyer", "girlfriend", "child",
    "pet", "mount", "text", "thing", "container", "vessel", "furniture", "clothes", "machine", "tool", "food", "drink",
    "home", "room", "motor", "cycle", "boats", "idea", "garden", "office", "garage",
)  # fmt: skip
OUTFIT = (
    "hat", "coat", "jacket", "dress", "scarf", "cap", "tie", "suit", "jumper", "rucksack", "umbrella", "suitcase",
)  # fmt: skip
# Of what a thing can be the part or quality: the roof of the house.
WHOLES = {
    "roof": ("building",), "door": ("building", "room"), "window": ("building", "room"), "entrance": ("building",),
    "owner": ("building", "motor", "boats"), "colour": ("thing", "clothes", "furniture"), "price": ("thing", "clothes"),
    "size": ("building", "room"), "shape": ("thing", "vessel"), "age": ("tall", "building"), "name": ("pet", "person"),
    "engine": ("motor",), "wall": ("building", "garden"),
}  # fmt: skip


def noun_phrase(
    d: Derivation,
    noun: Noun,
    case: int,
    *,
    determiners: Sequence[str] = COMMON,
    plural: float = 0.3,
    negation: int = 0,
    modifiers: str = "all",
) -> NounPhrase:
    """Determiner, adjectives, noun: the young dog - der junge Hund.

    German inflects all three for gender, number and case; the kind of determiner decides how (see `morphology`).
    `negation` is the leaf of a "not" that an indefinite phrase takes in: not ... a - kein. `modifiers` says what may
    come with the noun: "none", "adjectives", "owner" (a possessor), "genitive" (both) or "all" (a prepositional phrase
    too: only where it cannot be taken for a part of the clause).
    """
    many, kind = _number_and_determiner(d, noun, d.pick(determiners), plural)
    if kind in ("owner", "name") and modifiers in ("none", "adjectives"):
        kind = "the"
    column = PLURAL if many else noun.gender
    forms = noun.plural if many else noun.singular
    words = noun.en_plural if many else noun.en_singular
    strong = kind in STRONG_AFTER and not (negation and kind == "bare")
    table = STRONG_ADJECTIVE if strong else MIXED_ADJECTIVE if kind in MIXED_AFTER or negation else WEAK_ADJECTIVE
    english: list[Token] = []
    german: list[Token] = []
    if modifiers not in ("none", "owner") and kind != "piano" and d.chance(d.style.adjective):
        english, german = _adjectives(d, noun, table[column][case], kind)
    first = english[0].form if english else words[0]
    before, after = _determiner(d, kind, column, case, first, negation)
    head = d.leaf()
    if len(words) > 1:
        d.tags.add("compound")
    if noun.weak and not many and case != NOM:
        d.tags.add("weak_noun")
    if kind == "piano":  # plays the piano - spielt Klavier
        before = Phrase([Token("the", (-head,))], [])
    en = before.en + english + [Token(word, (head,), "noun") for word in words]
    head_word = Token(forms[case], (head,), "noun")
    de = before.de + german + [head_word]
    if not after and kind == "the" and modifiers in ("owner", "genitive", "all"):
        after = _modifier(d, noun, modifiers)
    if after:
        en, de = en + after.en, de + after.de
    return NounPhrase(
        Phrase(en, de), SIE if many else ER, head_word, noun, column,
        definite=kind in DEFINITE_KINDS, final=after is not None or noun.unarticled,
    )  # fmt: skip


def _number_and_determiner(d: Derivation, noun: Noun, kind: str, plural: float) -> tuple[bool, str]:
    """Settle on a number and on a determiner that goes with it."""
    if noun.unarticled:
        return False, "piano" if "instrument" in noun.classes else "bare"
    many = not noun.singular or (not noun.mass and d.rng.random() < plural)
    if "quality" in noun.classes:
        return False, "the"
    if (kind in POSSESSORS or kind in ("owner", "name")) and noun.classes.isdisjoint(BELONGINGS):
        kind = "the"
    if many:
        return True, {"a": "bare", "every": "all", "some": d.pick(tuple(QUANTIFIERS))}.get(kind, kind)
    if noun.mass:
        return False, "bare" if kind in ("a", "some", "number", "every") else kind
    return False, "a" if kind in ("some", "number", "bare", "all") else kind


def _determiner(
    d: Derivation, kind: str, column: int, case: int, first: str, negation: int
) -> tuple[Phrase, Phrase | None]:
    """What stands before the noun; and, for a possessor, what German puts after it."""
    if kind == "owner":
        return _owner(d, column, case)
    if negation:
        d.tags.add("kein")
        english = [Token(article(first), (d.leaf(),))] if kind == "a" else []
        leaves = (negation, *(leaf for token in english for leaf in token.leaves))
        return Phrase(english, [Token("kein" + POSSESSIVE[column][case], leaves)]), None
    if kind in ("bare", "piano"):
        return Phrase([], []), None
    leaves = (d.leaf(),)
    if kind == "the":
        en, de = "the", DEFINITE[column][case]
    elif kind == "a":
        en, de = article(first), "ein" + POSSESSIVE[column][case]
    elif kind in POSSESSORS:
        en, de = kind, POSSESSORS[kind] + POSSESSIVE[column][case]
        if POSSESSORS[kind] == "ihr":
            d.tags.add("merged")
    elif kind in QUANTIFIERS:
        en, de = kind, QUANTIFIERS[kind] + STRONG[column][case]
    elif kind == "name":
        d.tags.add("genitive")
        name = d.lexicon.people().draw(d.rng)
        return Phrase([Token(name.en + "'s", leaves, "name")], [Token(name.de + "s", leaves, "name")]), None
    elif kind == "number":
        d.tags.add("number")
        value = int(2 + d.rng.random() * 11) if d.chance(0.7) else int(13 + d.rng.random() * 87)
        en, de = number_words(value, d.lexicon.numbers_en, d.lexicon.numbers_de)
        return Phrase([Token(en, leaves, "number")], [Token(de, leaves, "number")]), None
    elif kind == "all":
        english = [Token("all", leaves), Token("the", (-leaves[0],))]
        return Phrase(english, [Token("all" + STRONG[column][case], leaves)]), None
    else:
        plural_this = kind == "this" and column == PLURAL
        en = "these" if plural_this else kind
        de = {"this": "dies", "every": "jed", "which": "welch"}[kind] + STRONG[column][case]
    return Phrase([Token(en, leaves)], [Token(de, leaves)]), None


def _owner(d: Derivation, column: int, case: int) -> tuple[Phrase, Phrase]:
    """The boy's dog - der Hund des Jungen: the possessor leads in English and follows, in the genitive, in German."""
    d.tags.add("genitive")
    owner = noun_phrase(
        d, d.lexicon.nouns_of(("person",)).draw(d.rng), GEN, determiners=("the", "the", "my", "his"), plural=0.0,
        modifiers="none",
    )  # fmt: skip
    *start, last = owner.phrase.en
    mark = "'" if last.form.endswith("s") and owner.person == SIE else "'s"
    english = [*start, last._replace(form=last.form + mark)]
    return Phrase(english, [Token(DEFINITE[column][case], (-owner.head.leaves[0],))]), Phrase([], owner.phrase.de)


def _adjectives(d: Derivation, noun: Noun, ending: str, determiner: str) -> tuple[list[Token], list[Token]]:
    """One or two adjectives, which share their ending: ein kleiner roter Ball. A superlative follows "the"."""
    pool = d.lexicon.adjectives_for(noun)
    first = draw_adjective(d, pool, noun) if len(pool) else None
    if first is None:
        return [], []
    chosen, degree = [first], 0
    if determiner == "the" and first.gradable and not first.mood and d.chance(0.08):
        degree = 2
        d.tags.add("superlative")
    elif d.chance(d.style.second_adjective):
        second = draw_adjective(d, pool, noun)
        if second is not None and second.rank != first.rank:
            chosen = sorted((first, second), key=lambda adjective: adjective.rank)
    english: list[Token] = []
    german: list[Token] = []
    for adjective in chosen:
        leaves = (d.leaf(),)
        english += [Token(word, leaves, "adjective") for word in adjective.en[degree]]
        german.append(Token(adjective.stem[degree] + ending, leaves, "adjective"))
    return english, german


def draw_adjective(d: Derivation, pool: Pool[Adjective], noun: Noun) -> Adjective | None:
    """An adjective that describes the noun, in keeping with what is held out of training."""
    for _ in range(30 if d.style.unseen == "adjective" else 4):
        adjective = pool.draw(d.rng)
        if is_held_out(adjective.name, noun.name) == (d.style.unseen == "adjective"):
            if d.style.unseen == "adjective":
                d.tags.add("unseen_adjective")
            return adjective
    return None


def _modifier(d: Derivation, noun: Noun, allowed: str) -> Phrase | None:
    """The roof of the house - das Dach des Hauses; the man from Vienna; the woman with the red hat."""
    wholes = WHOLES.get(noun.name)
    if wholes and (d.chance(0.4) or "quality" in noun.classes):
        d.tags.add("genitive")
        whole = noun_phrase(
            d, d.lexicon.nouns_of(wholes).draw(d.rng), GEN, determiners=("the", "the", "this", "my"), plural=0.0,
            modifiers="adjectives",
        ).phrase  # fmt: skip
        of = Token("of", tuple(-abs(leaf) for leaf in whole.de[0].leaves))
        return Phrase([of, *whole.en], whole.de)
    if allowed != "all" or not d.chance(d.style.postmodifier):
        return None
    if "person" in noun.classes and d.chance(0.4):
        city = d.lexicon.adverbials("city").draw(d.rng)
        return join(d.words(("from",), ("aus",)), d.words(city.en, city.de, "name"))
    if "person" in noun.classes:
        wear = d.lexicon.nouns_of(OUTFIT).draw(d.rng)
        return prepositional(
            d,
            Preposition(("with",), "mit", DAT),
            noun_phrase(d, wear, DAT, plural=0.0, determiners=("the", "a"), modifiers="adjectives"),
        )
    if not noun.classes.isdisjoint(("thing", "text", "vessel")):
        top = d.lexicon.nouns_of(("top",)).draw(d.rng)
        return prepositional(
            d,
            Preposition(("on",), "auf", DAT),
            noun_phrase(d, top, DAT, plural=0.0, determiners=("the", "a"), modifiers="adjectives"),
        )
    if "animal" in noun.classes or "building" in noun.classes:
        town = d.lexicon.nouns_of(("town",)).draw(d.rng)
        return prepositional(
            d,
            Preposition(("in",), "in", DAT),
            noun_phrase(d, town, DAT, plural=0.0, determiners=("the",), modifiers="adjectives"),
        )
    return None
