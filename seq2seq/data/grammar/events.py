"""What the sentences tell: who does what to whom, where and how; what somebody or something is like.

`event` draws a verb, then whatever its frame asks for, and fills the fields of a `Clause`; nothing is in order yet.
Drawing the parts in this way, each from the classes that suit the verb, keeps sentences sensible and the words in them
otherwise independent of each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

from seq2seq.data.grammar.clauses import PAST_TENSES, TENSES, Clause, Tense
from seq2seq.data.grammar.lexicon import Noun, Pool, Preposition, Verb, is_held_out
from seq2seq.data.grammar.morphology import ACC, DAT, DU, ER, FEMININE, ICH, NEUTER, NOM, PLURAL, SIE, WIR
from seq2seq.data.grammar.nouns import COMMON, KNOWN, noun_phrase
from seq2seq.data.grammar.phrases import (
    Derivation,
    NounPhrase,
    Phrase,
    Token,
    it,
    join,
    name_phrase,
    prepositional,
    pronoun,
)

# Frames of verbs in events; the last, in which subject and object trade places, takes no part in embedding.
PLAIN_FRAMES = ("none", "acc", "dat", "double", "prep", "goal", "far", "place", "put")
EVENT_FRAMES = (*PLAIN_FRAMES, "swap")
FRAME_TAGS = {
    "none": "intransitive", "acc": "direct_object", "dat": "dative_verb", "double": "indirect_object",
    "prep": "prepositional_object", "goal": "direction", "far": "direction", "place": "location", "put": "direction",
    "swap": "role_swap", "that": "complement", "whether": "complement", "to": "infinitive",
}  # fmt: skip
PLACES = ("building", "room", "area", "surface", "grass", "site", "town", "nature")
SUBJECT_PRONOUNS = ("I", "you", "he", "she", "we", "they", "he", "she")
# Whom one can see: not oneself.
OBJECT_PRONOUNS = {
    ICH: ("you", "he", "she", "they"), DU: ("I", "he", "she", "we", "they"), WIR: ("you", "he", "she", "they"),
    ER: ("I", "you", "he", "she", "we", "they"), SIE: ("I", "you", "he", "she", "we", "they"),
}  # fmt: skip
TENSE_POOLS: dict[str, Pool[Tense]] = {
    time: Pool((form, form.weight) for form in TENSES.values() if form.weight and (form.name in PAST_TENSES) in past)
    for time, past in {"": (True, False), "past": (True,), "not past": (False,)}.items()
}


class Actor(NamedTuple):
    """A phrase that is already there, such as a pronoun, and the noun that says what it can do and be."""

    phrase: NounPhrase
    noun: Noun


def event(
    d: Derivation,
    *,
    frames: Sequence[str] = EVENT_FRAMES,
    verb: Verb | None = None,
    subject: Actor | None = None,
    object: Actor | None = None,
    tense: Tense | None = None,
    time: str = "",
    plain: bool = False,
) -> Clause:
    """A clause about something that happens, in the `time` ("past", "not past" or either).

    What is given is not drawn; `plain` leaves out what the verb does not ask for.
    """
    if verb is None:
        pool = d.lexicon.verbs_that(tuple(frames), subject and subject.noun, object and object.noun)
        verb = pool.draw(d.rng)
    d.tags.add(FRAME_TAGS[verb.frame])
    doer = subject.phrase if subject else _experiencer(d) if verb.frame == "swap" else _doer(d, verb)
    human = "person" in verb.subjects and (doer.noun is None or "person" in doer.noun.classes)
    if tense is None:
        tense = _tense(d, verb, doer.person, time, human)
    clause = Clause(verb, tense, doer.person, doer.person, doer.head, timeless=verb.stative)
    clause.put("he" if doer.pronoun else "subject", doer)
    if not plain:
        deniable = tense.tag not in ("progressive", "gern", "pluperfect", "infinitive") and not _of_all(doer)
        clause.negated = deniable and d.chance(0.13)
        if not clause.negated and verb.frame not in ("that", "whether", "to"):
            _adverb(d, clause)
    _arguments(d, clause, object)
    if clause.negated:
        d.tags.add("negation")
        if "negation" not in clause.fields:
            clause.put("negation", d.words(("not",), ("nicht",)))
    elif not plain and human and not verb.stative and verb.frame not in ("that", "whether", "to"):
        _circumstance(d, clause)
    return clause


def narrative_verb(d: Derivation) -> Verb:
    """A verb whose past differs from its present in every person."""
    pool = d.lexicon.verbs_that(PLAIN_FRAMES)
    verb = pool.draw(d.rng)
    while verb.same_past:
        verb = pool.draw(d.rng)
    return verb


def _of_all(subject: NounPhrase) -> bool:
    """Whether it speaks of all there are: "all the doctors do not sleep" would say that some do, or that none does."""
    return bool(subject.phrase.en) and subject.phrase.en[0].form in ("all", "every")


def _tense(d: Derivation, verb: Verb, person: int, time: str, human: bool) -> Tense:
    """A tense that the verb and the subject allow."""
    for _ in range(20):
        tense = TENSE_POOLS[time].draw(d.rng)
        if tense.tag in ("progressive", "gern") and (verb.stative or not human):
            continue
        if tense.tag == "modal" and (verb.stative or not human):
            continue
        if tense.tag and (verb.frame == "swap" or (tense.tag == "perfect" and verb.stative)):
            continue
        if verb.same_past and tense.name in ("past", "present") and person != ER:
            continue  # "they put" would be the one or the other
        return tense
    return TENSES["perfect" if verb.same_past or time != "past" else "past"]


# Who and whom ----------------------------------------------------------------------------------------------------


def _doer(d: Derivation, verb: Verb) -> NounPhrase:
    """A subject that can do what the verb says: a pronoun, a name, two people, or a noun."""
    if "person" in verb.subjects:
        chance = d.rng.random() - d.style.pronoun
        if chance < 0:
            return pronoun(d, d.pick(SUBJECT_PRONOUNS), NOM)
        if chance < 0.12:
            return name_phrase(d, d.lexicon.people().draw(d.rng))
        if chance < 0.16:
            return both(d, NOM)
    return noun_phrase(d, d.lexicon.nouns_of(verb.subjects).draw(d.rng), NOM)


def _experiencer(d: Derivation) -> NounPhrase:
    """Who likes something: the English subject, a dative in German."""
    chance = d.rng.random() - d.style.pronoun
    if chance < 0:
        return pronoun(d, d.pick(SUBJECT_PRONOUNS), DAT, english_subject=True)
    if chance < 0.2:
        return name_phrase(d, d.lexicon.people().draw(d.rng))
    return noun_phrase(d, d.lexicon.nouns_of(("person",)).draw(d.rng), DAT, determiners=KNOWN, modifiers="genitive")


def both(d: Derivation, case: int) -> NounPhrase:
    """Two people joined by and: a plural."""
    d.tags.add("coordination")
    people = d.lexicon.nouns_of(("person",))
    first = noun_phrase(d, people.draw(d.rng), case, determiners=("the", "my"), plural=0.1, modifiers="adjectives")
    if d.chance(0.3):
        first = name_phrase(d, d.lexicon.people().draw(d.rng))
    second = noun_phrase(d, people.draw(d.rng), case, determiners=("the", "his"), plural=0.1, modifiers="none")
    phrase = join(first.phrase, d.words(("and",), ("und",)), second.phrase)
    return NounPhrase(phrase, SIE, second.head, None, PLURAL, final=True)


def somebody(d: Derivation, case: int, pronouns: float, subject: int = ER, of: Verb | None = None) -> NounPhrase:
    """A person who is not the subject, which has the given person: a pronoun, a name or a noun.

    `of`: the verb whose object it is, if it is one.
    """
    chance = d.rng.random() - pronouns
    if chance < 0:
        return pronoun(d, d.pick(OBJECT_PRONOUNS[subject]), case)
    if chance < 0.15:
        return name_phrase(d, d.lexicon.people().draw(d.rng))
    noun = d.lexicon.nouns_of(("person",)).draw(d.rng) if of is None else draw_object(d, of, ("person",))
    return noun_phrase(d, noun, case, determiners=KNOWN, modifiers="genitive")


def reference(d: Derivation, antecedent: NounPhrase) -> NounPhrase | None:
    """A pronoun for what a phrase names: he - er, it - er, sie, es by gender; None for das Kind and das Mädchen."""
    if antecedent.pronoun:
        name = antecedent.phrase.en[0].form if antecedent.phrase.en else ""
        return pronoun(d, name, NOM) if name in SUBJECT_PRONOUNS else None
    if antecedent.person == SIE:
        return pronoun(d, "they", NOM)
    if antecedent.noun is not None and "person" not in antecedent.noun.classes:
        return it(d, antecedent.gender)
    if antecedent.gender == NEUTER:
        return None
    return pronoun(d, "she" if antecedent.gender == FEMININE else "he", NOM)


# What the verb asks for ------------------------------------------------------------------------------------------


def _arguments(d: Derivation, clause: Clause, given: Actor | None) -> None:
    """Fill the fields of the verb's frame."""
    verb = clause.verb
    frame = verb.frame
    if frame == "acc":
        _direct_object(d, clause, given)
    elif frame == "dat":
        receiver = given.phrase if given else _object(d, clause, DAT)
        clause.put(_pronominal(receiver, given) or "recipient", receiver)
    elif frame == "double":
        receiver = somebody(d, DAT, 0.25, clause.en_person)
        clause.put(_pronominal(receiver, None) or "recipient", receiver)
        _direct_object(d, clause, given)
    elif frame == "prep":
        assert verb.preposition is not None
        inner = given.phrase if given else _object(d, clause, verb.preposition.case)
        # A bare dative stands where datives stand: hört ihm nicht zu. One that will be moved to the front stays apart.
        bare = not verb.preposition.de and given is None
        field = (_pronominal(inner, None) or "recipient") if bare else "oblique"
        clause.put(field, inner._replace(phrase=governed(d, verb.preposition, inner)))
    elif frame == "swap":
        _trade_places(d, clause)
    elif frame == "place":
        clause.put("place", place(d, verb.use))
    elif frame == "goal":
        clause.put("goal", goal(d, verb.use))
    elif frame == "far":
        clause.put("goal", journey(d))
    elif frame == "put":
        _direct_object(d, clause, given)
        clause.put("goal", located(d, verb.use))


def governed(d: Derivation, preposition: Preposition, inner: NounPhrase) -> Phrase:
    """A prepositional object; either language may do without the preposition: listens to him - hört ihm zu."""
    if preposition.de:
        return prepositional(d, preposition, inner)
    loose = (-inner.head.leaves[0],)
    return Phrase([*(Token(word, loose) for word in preposition.en), *inner.phrase.en], inner.phrase.de)


def _pronominal(np: NounPhrase, given: Actor | None) -> str:
    """The field of an object that is a pronoun; none for another. A given one will be moved to the front."""
    if not np.pronoun:
        return ""
    return "pronoun" if given or np.head.form == "sie" else "weak"


def _object(d: Derivation, clause: Clause, case: int) -> NounPhrase:
    """An object of a class that the verb takes."""
    noun = draw_object(d, clause.verb)
    if "person" in noun.classes and d.chance(0.5) and not d.style.unseen:
        return somebody(d, case, 0.5, clause.en_person, clause.verb)
    return noun_phrase(d, noun, case, determiners=KNOWN, modifiers="genitive")


def draw_object(d: Derivation, verb: Verb, classes: tuple[str, ...] = ()) -> Noun:
    """The noun of an object, of the verb's classes or of these, in keeping with what is held out of training."""
    pool = d.lexicon.nouns_of(classes or verb.objects)
    wanted = d.style.unseen == "object"
    for _ in range(30 if wanted else 8):
        noun = pool.draw(d.rng)
        if is_held_out(verb.name, noun.name) == wanted:
            if wanted:
                d.tags.add("unseen_object")
            break
    return noun


def _direct_object(d: Derivation, clause: Clause, given: Actor | None) -> None:
    """The accusative. Under negation an indefinite one turns into kein; a definite one steps to the left of nicht."""
    verb = clause.verb
    if given is not None:
        np = given.phrase
    else:
        noun = draw_object(d, verb)
        person = "person" in noun.classes
        if person and not verb.phrasal and d.chance(0.5) and not d.style.unseen:
            np = somebody(d, ACC, 0.5, clause.en_person, verb)
        elif clause.negated:
            np = _denied(d, clause, noun)
        elif verb.frame == "double":  # a determiner keeps "her" apart: gave her the book, not her books
            kinds = KNOWN if noun.mass else ("the", "a", "a", "this", "my")
            np = noun_phrase(d, noun, ACC, determiners=kinds, plural=0.0, modifiers="adjectives")
        else:
            np = noun_phrase(d, noun, ACC, determiners=KNOWN if person else COMMON, modifiers="genitive")
    moved = clause.negated or "adverb" in clause.fields
    field = "new" if not np.definite else "known" if moved else "theme"
    clause.put(_pronominal(np, given) or field, np)


def _denied(d: Derivation, clause: Clause, noun: Noun) -> NounPhrase:
    """He does not buy a book, books, bread - kein Buch, keine Bücher, kein Brot; the book - das Buch nicht.

    Without an article: speaks no Latin - kein Latein, but does not play football - spielt nicht Fußball.
    """
    kind = "a" if noun.unarticled else d.pick((*KNOWN, "a", "a", "a", "a", "a", "a"))
    leaf = d.leaf() if kind == "a" and (not noun.unarticled or "language" in noun.classes) else 0
    if leaf:
        clause.put("negation", Phrase([Token("not", (leaf,))], []))
    return noun_phrase(d, noun, ACC, determiners=(kind,), negation=leaf, modifiers="adjectives")


def _trade_places(d: Derivation, clause: Clause) -> None:
    """I like the house - Das Haus gefällt mir: who likes is the subject in English, a dative in German."""
    # Not his, her or their: "she likes her house" is about her own, but "ihr Haus gefällt ihr" may be about another's.
    kinds = [kind for kind in KNOWN if kind not in ("his", "her", "their")]
    liked = noun_phrase(d, draw_object(d, clause.verb), NOM, determiners=kinds, modifiers="genitive")
    name = "he" if "he" in clause.fields else "subject"
    who = clause.fields.pop(name)
    clause.put("he", Phrase(who.en if name == "he" else [], []))
    clause.put("subject", Phrase(who.en if name == "subject" else [], liked.phrase.de))
    clause.put("weak" if name == "he" else "recipient", Phrase([], who.de))
    clause.put("theme", Phrase(liked.phrase.en, []))
    clause.de_person, clause.head = liked.person, liked.head


# Where and whither -----------------------------------------------------------------------------------------------


def located(d: Derivation, use: str) -> Phrase:
    """A preposition for the use, and a noun that goes with it: in the garden - im Garten."""
    preposition, classes = d.lexicon.prepositions(use).draw(d.rng)
    noun = d.lexicon.nouns_of(classes).draw(d.rng)
    kinds = ("the",) * 6 + ("a", "this", "my")
    inner = noun_phrase(d, noun, preposition.case, determiners=kinds, plural=0.08, modifiers="adjectives")
    return prepositional(d, preposition, inner)


def place(d: Derivation, use: str = "") -> Phrase:
    """Where: in the garden - im Garten (dative), in Vienna, at home - zu Hause.

    Without a `use` it is a circumstance, and not upstairs: "sold the hats upstairs" might be those that are there.
    """
    if use in ("", "where", "home"):
        chance = d.rng.random()
        if chance < 0.12:
            adverb = d.lexicon.adverbials("where", "" if use else "anywhere").draw(d.rng)
            return d.words(adverb.en, adverb.de, "adverb")
        if chance < 0.24:
            city = d.lexicon.adverbials("city").draw(d.rng)
            return join(d.words(("in",), ("in",)), d.words(city.en, city.de, "name"))
    return located(d, use or "where")


def goal(d: Derivation, use: str) -> Phrase:
    """Where to: into the garden - in den Garten (accusative), to the station - zum Bahnhof, home - nach Hause."""
    if d.chance(0.12):
        adverb = d.lexicon.adverbials("whither").draw(d.rng)
        return d.words(adverb.en, adverb.de, "adverb")
    return located(d, use)


def journey(d: Derivation) -> Phrase:
    """To a town or a country by its name: nach Wien."""
    if d.chance(0.1):
        return d.words(("abroad",), ("ins", "Ausland"), "adverb")
    city = d.lexicon.adverbials("city").draw(d.rng)
    return join(d.words(("to",), ("nach",)), d.words(city.en, city.de, "name"))


# How -------------------------------------------------------------------------------------------------------------


def _adverb(d: Derivation, clause: Clause) -> None:
    """often, already, probably: before the English main verb, in the German Mittelfeld."""
    kind = {"present": "habit", "past": "habit", "perfect": "perfect", "future": "guess"}.get(clause.tense.name)
    if kind and d.chance(0.14):
        adverb = d.lexicon.adverbials("adverb", kind).draw(d.rng)
        d.tags.add("adverb")
        clause.put("adverb", d.words(adverb.en, adverb.de, "adverb"))


def _circumstance(d: Derivation, clause: Clause) -> None:
    """At most one of: with what, where, how, with whom, in spite of what."""
    if not d.chance(d.style.adverbial):
        return
    lexicon, frame, chance = d.lexicon, clause.verb.frame, d.rng.random()
    if clause.verb.tool and chance < 0.5:
        clause.put("manner", _accompanied(d, "tool", ("a", "a", "the"), 0.0))
    elif chance < 0.55 and _can_be_placed(clause):
        clause.put("place", place(d))
    elif chance < 0.75 and frame in ("none", "acc", "goal", "prep") and "adverb" not in clause.fields:
        adverb = lexicon.adverbials("adverb", "manner").draw(d.rng)
        clause.put("manner", d.words(adverb.en, adverb.de, "adverb"))
    elif chance < 0.9 and frame in ("none", "goal", "far"):
        clause.put("company", _accompanied(d, "company", ("the", "my", "his", "her", "their"), 0.2))
    elif frame != "place":
        clause.put("why", _accompanied(d, "why", ("the",), 0.0))


def _can_be_placed(clause: Clause) -> bool:
    """Whether a place would be about the event: not if something moves, or its object is a place itself."""
    verb = clause.verb
    moving = verb.moving or (verb.frame, verb.de.auxiliary) == ("prep", "sein")
    if moving or verb.frame not in ("none", "acc", "dat", "double", "prep"):
        return False
    objects = (np.noun for name, np in clause.nominals.items() if name not in ("he", "subject"))
    return all(noun is None or noun.classes.isdisjoint(PLACES) for noun in objects)


def _accompanied(d: Derivation, use: str, determiners: Sequence[str], plural: float) -> Phrase:
    preposition, classes = d.lexicon.prepositions(use).draw(d.rng)
    noun = d.lexicon.nouns_of(classes).draw(d.rng)
    inner = noun_phrase(d, noun, preposition.case, determiners=determiners, plural=plural, modifiers="adjectives")
    return prepositional(d, preposition, inner)
