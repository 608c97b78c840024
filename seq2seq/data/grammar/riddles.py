"""What does "it" stand for? Sentences in which only the adjective tells (after Winograd 1972).

The animal did not cross the street because it was too tired: es, das Tier. Because it was too wide: sie, die Straße.
English has one pronoun for both, German has to choose by gender; so the translation shows what has been understood.
"""

import random
from typing import NamedTuple

from seq2seq.data.grammar.clauses import COPULA, TENSES, Clause, arrange, between_commas
from seq2seq.data.grammar.events import Actor, event
from seq2seq.data.grammar.lexicon import Adjective, Lexicon, Noun, Pool, Verb, is_held_out
from seq2seq.data.grammar.morphology import ACC, ER, NOM
from seq2seq.data.grammar.nouns import noun_phrase
from seq2seq.data.grammar.phrases import Derivation, Phrase, it, join


class Situation(NamedTuple):
    """Something fails, either because of who tries it or because of what it is tried on."""

    verb: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    of_subject: tuple[str, ...]  # adjectives that give a reason only if said of the subject
    of_object: tuple[str, ...]


_EXHAUSTED = ("tired", "sick", "nervous", "hungry", "thirsty", "lazy")
_BULKY = ("big", "wide", "long", "thick")
SITUATIONS = (
    Situation("cross", ("animal",), ("way", "river"), _EXHAUSTED, ("wide", "dangerous", "slippery", "steep", "deep")),
    Situation("eat", ("animal",), ("food",), ("tired", "sick", "nervous", "lazy", "excited"),
              ("salty", "sour", "bitter", "spicy", "sweet", "hard")),
    Situation("fit into", ("thing", "clothes"), ("container",), _BULKY, ("small", "narrow", "short")),
    Situation("fit through", ("furniture",), ("opening",), _BULKY, ("small", "narrow", "low")),
    Situation("cross", ("motor",), ("bridge",), ("heavy", "slow"), ("narrow", "slippery", "steep")),
    Situation("climb", ("animal",), ("tall", "mountain", "roof", "tower"), _EXHAUSTED, ("high", "steep")),
    Situation("pull", ("mount",), ("carriage", "sledge", "boats"), _EXHAUSTED, ("heavy", "big")),
    Situation("reach", ("animal",), ("island", "mountain", "village"), ("tired", "weak", "slow"), ("remote",)),
)  # fmt: skip


class Riddle(NamedTuple):
    """Two nouns of different gender, and an adjective for each of the two readings."""

    situation: Situation
    subject: Noun
    object: Noun
    of_subject: Adjective
    of_object: Adjective


def draw_riddle(rng: random.Random, lexicon: Lexicon, *, held_out: bool) -> Riddle:
    """A riddle about two nouns that are (or are not) kept apart in training."""
    while True:
        situation = SITUATIONS[int(rng.random() * len(SITUATIONS))]
        subject = lexicon.nouns_of(situation.subjects).draw(rng)
        object = lexicon.nouns_of(situation.objects).draw(rng)
        if subject.gender == object.gender or not (subject.singular and object.singular) or subject is object:
            continue
        if is_held_out(subject.name, object.name) != held_out:
            continue
        if is_held_out(verb_of(lexicon, situation).name, object.name):  # for another part
            continue
        one, other = (
            _fitting(lexicon, situation.of_subject, subject),
            _fitting(lexicon, situation.of_object, object),
        )
        if len(one) and len(other):
            return Riddle(situation, subject, object, one.draw(rng), other.draw(rng))


def _fitting(lexicon: Lexicon, names: tuple[str, ...], noun: Noun) -> Pool[Adjective]:
    """Those of the adjectives that may describe the noun, all equally likely."""
    known = [adj for adj in lexicon.adjectives_for(noun).entries if not is_held_out(adj.name, noun.name)]
    return Pool((adj, 1.0) for adj in known if adj.name in names)


def ask(d: Derivation, riddle: Riddle, *, about_subject: bool) -> Phrase:
    """The sentence; "it" stands for the subject or for the object."""
    d.tags.update(("pronoun", "riddle", "negation", "subordinate"))
    situation = riddle.situation
    subject = noun_phrase(d, riddle.subject, NOM, determiners=("the",), plural=0.0, modifiers="none")
    verb = verb_of(d.lexicon, situation)
    case = verb.preposition.case if verb.preposition else ACC
    object = noun_phrase(d, riddle.object, case, determiners=("the",), plural=0.0, modifiers="none")
    tense = TENSES["past"]
    main = event(
        d,
        verb=verb,
        subject=Actor(subject, riddle.subject),
        object=Actor(object, riddle.object),
        tense=tense,
        plain=True,
    )
    if "theme" in main.fields:
        main.fields["known"] = main.fields.pop("theme")
    main.negated = True
    main.put("negation", d.words(("not",), ("nicht",)))
    gender, adjective = (
        (riddle.subject.gender, riddle.of_subject) if about_subject else (riddle.object.gender, riddle.of_object)
    )
    pronoun = it(d, gender)
    reason = Clause(COPULA, tense, ER, ER, pronoun.head)
    reason.put("opener", d.words(("because",), ("weil",)))
    reason.put("he", pronoun)
    too = d.words(("too",), ("zu",), "adverb")
    reason.put("predicate", join(too, d.words(adjective.en[0], (adjective.predicate,), "adjective")))
    d.level, d.depth = 0, 1
    main.put("tail", between_commas(arrange(d, reason, "statement", "verb last")))
    return arrange(d, main, "statement", "verb second")


def verb_of(lexicon: Lexicon, situation: Situation) -> Verb:
    """The verb of the situation, in the frame that goes with its nouns."""
    name, _, preposition = situation.verb.partition(" ")
    for verb in lexicon.verbs:
        suits = not preposition or (verb.preposition is not None and verb.preposition.en == (preposition,))
        if verb.name == name and suits and (name != "eat" or "animal" in verb.subjects):
            return verb
    raise AssertionError(situation.verb)
