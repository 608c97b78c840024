"""Clauses within clauses: relative clauses, reported statements and questions, infinitives.

In German their finite verb comes last and they stand between commas. `Derivation.level` counts how deep we are.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from seq2seq.data.grammar.clauses import PAST_TENSES, TENSES, Clause, Tense, arrange, between_commas
from seq2seq.data.grammar.events import PLAIN_FRAMES, Actor, event, narrative_verb
from seq2seq.data.grammar.lexicon import Noun, is_held_out
from seq2seq.data.grammar.morphology import ACC, DAT, ER, GEN, NOM, RELATIVE
from seq2seq.data.grammar.phrases import MELTED, Derivation, NounPhrase, Phrase, join
from seq2seq.data.grammar.states import description, existence, passive, weather
from seq2seq.data.grammar.times import repeated, time_phrase


@contextmanager
def one_deeper(d: Derivation) -> Iterator[None]:
    """While the clause inside is built."""
    d.level += 1
    d.depth = max(d.depth, d.level)
    yield
    d.level -= 1


def time_of(tense: Tense) -> str:
    """Whether a clause is in the past, for the clauses that go along with it."""
    return "past" if tense.name in PAST_TENSES or tense.name == "pluperfect" else "not past"


def simple_clause(d: Derivation, *, time: str = "", plain: bool = False) -> Clause:
    """An event, a description, something there is, a passive, or the weather."""
    chance = d.rng.random()
    if chance < 0.72:
        return event(d, time=time, plain=plain)
    if chance < 0.88 or (chance < 0.94 and time == "not past"):
        return description(d, time=time, plain=plain)
    if chance < 0.94:
        return passive(d)
    if chance < 0.98:
        return existence(d, time)
    return weather(d, time)


# Relative clauses ------------------------------------------------------------------------------------------------


def modify(d: Derivation, clause: Clause) -> None:
    """Hang a relative clause on a noun: on the subject, or on what comes last, where nothing else could be meant."""
    fields, time = clause.fields, time_of(clause.tense)
    if clause.verb.frame == "swap" or d.level >= d.style.depth:
        return
    if "subject" in fields and d.chance(d.style.relative):
        relative = relative_clause(d, clause.nominals["subject"], time)
        if relative is not None:
            fields["subject"] = join(fields["subject"], relative)
            return
    last = [name for name in ("theme", "new", "oblique") if name in fields]
    later = ("tail", "time", "goal", "place", "manner", "company", "why", "agent", "negation", "adverb")
    # From the festival that - von dem Fest, das: no article melts into a preposition there.
    melted = "oblique" in fields and fields["oblique"].de[0].form in MELTED
    if len(last) == 1 and not melted and fields.keys().isdisjoint(later) and d.chance(d.style.relative * 1.5):
        relative = relative_clause(d, clause.nominals[last[0]], time)
        if relative is not None:
            clause.put("tail", relative)


def relative_clause(d: Derivation, np: NounPhrase, time: str) -> Phrase | None:
    """The man who sleeps - der Mann, der schläft.

    The German pronoun has the gender and number of its noun, but the case of its own clause: the book that the man
    reads - das Buch, das der Mann liest; the woman whom he helps - die Frau, der er hilft.
    """
    noun = np.noun
    if noun is None or np.final:
        return None
    with one_deeper(d):
        chance = d.rng.random()
        clause = None
        if "person" in noun.classes and chance < 0.1:
            clause = _as_possessor(d, np, time)
        elif chance < 0.55:
            clause = _as_subject(d, np, noun, time)
        clause = clause or _as_object(d, np, noun, time) or _as_subject(d, np, noun, time)
        if clause is None:
            return None
        if "opener" not in clause.fields and d.level < d.style.depth:
            modify(d, clause)
        d.tags.add("relative")
        return between_commas(arrange(d, clause, "statement", "verb last"))


def _pronoun(d: Derivation, np: NounPhrase, english: str, case: int) -> NounPhrase:
    phrase = d.words((english,), (RELATIVE[np.gender][case],))
    return NounPhrase(phrase, np.person, phrase.de[0], None, np.gender, pronoun=True)


def _as_subject(d: Derivation, np: NounPhrase, noun: Noun, time: str) -> Clause | None:
    if not len(d.lexicon.verbs_that(PLAIN_FRAMES, noun)):
        return None
    opener = _pronoun(d, np, "who" if "person" in noun.classes else "that", NOM)
    return event(d, frames=PLAIN_FRAMES, subject=Actor(opener, noun), time=time, plain=d.chance(0.5))


def _as_object(d: Derivation, np: NounPhrase, noun: Noun, time: str) -> Clause | None:
    pool = d.lexicon.verbs_that(("acc", "dat", "prep"), None, noun)
    if not len(pool):
        return None
    verb = pool.draw(d.rng)
    if is_held_out(verb.name, noun.name):
        return None
    case = verb.preposition.case if verb.preposition else DAT if verb.frame == "dat" else ACC
    english = "whom" if "person" in noun.classes else "which" if verb.preposition else "that"
    opener = _pronoun(d, np, english, case)
    clause = event(d, verb=verb, object=Actor(opener, noun), time=time, plain=True)
    clause.fields["opener"] = clause.fields.pop("oblique" if verb.frame == "prep" else "pronoun")
    return clause


def _as_possessor(d: Derivation, np: NounPhrase, time: str) -> Clause:
    """The man whose sister sings - der Mann, dessen Schwester singt."""
    relation = d.lexicon.nouns_of(("kin",)).draw(d.rng)
    whose = d.words(("whose",), (RELATIVE[np.gender][GEN],))
    head = d.words(relation.en_singular, (relation.singular[NOM],), "noun")
    opener = NounPhrase(join(whose, head), ER, head.de[0], None, relation.gender, pronoun=True)
    frames = ("none", "acc", "goal")
    return event(d, frames=frames, subject=Actor(opener, relation), time=time, plain=True)


# Reports ---------------------------------------------------------------------------------------------------------


def report(d: Derivation, time: str = "") -> Clause:
    """He says that, he asks whether: a clause as an object, in the tail of its own."""
    outer = event(d, frames=("that", "whether"), time=time)
    d.tags.add("subordinate")
    inner_time = "past" if time_of(outer.tense) == "past" else ""
    with one_deeper(d):
        if outer.verb.frame == "that":
            inner = _reported(d, inner_time)
            inner.put("opener", d.words(("that",), ("dass",)))
        else:
            inner = _indirect_question(d, inner_time)
        outer.put("tail", between_commas(arrange(d, inner, "statement", "verb last")))
    return outer


def _reported(d: Derivation, time: str) -> Clause:
    """What is reported may itself be a report, or hold a relative clause, as far as depth allows."""
    if d.level < d.style.depth and d.chance(d.style.embed):
        return report(d, time)
    clause = simple_clause(d, time=time, plain=d.chance(0.4))
    modify(d, clause)
    timed = clause.tense.time and not clause.timeless and clause.fields.keys().isdisjoint(("tail", "adverb"))
    if timed and d.chance(d.style.time * 0.5):
        phrase = time_phrase(d, clause.tense.time)
        if not (clause.negated and repeated(phrase)):
            clause.put("time", phrase)
    return clause


def _indirect_question(d: Derivation, time: str) -> Clause:
    """Whether - ob, where - wo, when - wann, why - warum: no do in English, the verb last in German."""
    d.tags.add("indirect_question")
    chance = d.rng.random()
    if chance < 0.5:
        clause = simple_clause(d, time=time, plain=True)
        clause.put("opener", d.words(("whether",), ("ob",)))
    elif chance < 0.75:
        clause = event(d, time=time, plain=True, frames=("none", "acc", "goal", "dat"))
        clause.put("opener", d.words(("why",), ("warum",)))
    elif chance < 0.88:
        clause = event(d, time=time, plain=True, frames=("place",))
        clause.put("opener", d.words(("where",), ("wo",)))
        del clause.fields["place"]
    else:
        tense = TENSES["past" if time == "past" else d.pick(("past", "present", "future"))]  # not the perfect
        clause = event(d, verb=narrative_verb(d), tense=tense, plain=True)
        clause.put("opener", d.words(("when",), ("wann",)))
        d.tags.add("sense")
    return clause


# Infinitives -----------------------------------------------------------------------------------------------------


def with_infinitive(d: Derivation) -> Clause:
    """He tries to open the door - Er versucht, die Tür zu öffnen; in order to - um ... zu."""
    purpose = d.chance(0.4)
    outer = event(d, frames=("goal",) if purpose else ("to",), plain=True)
    who = outer.nominals.get("he") or outer.nominals["subject"]
    noun = who.noun or d.lexicon.person
    pool = d.lexicon.verbs_that(("acc", "double") if purpose else ("acc", "none", "dat", "double", "put"), noun)
    verb = pool.draw(d.rng)
    while verb.stative:
        verb = pool.draw(d.rng)
    silent = NounPhrase(Phrase([], []), who.person, who.head, pronoun=True)
    d.tags.add("infinitive")
    with one_deeper(d):
        inner = event(d, verb=verb, subject=Actor(silent, noun), tense=TENSES["infinitive"], plain=True)
        inner.head = None
        if purpose:
            d.tags.add("purpose")
            inner.put("opener", d.words(("in", "order"), ("um",)))
        outer.put("tail", between_commas(arrange(d, inner, "statement", "verb last")))
    return outer
