"""The kinds of sentences, each a rule, and how often each is used."""

import random
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate

from seq2seq.data.grammar.clauses import TENSES, Clause, Tense, arrange, between_commas
from seq2seq.data.grammar.embedding import modify, one_deeper, report, simple_clause, with_infinitive
from seq2seq.data.grammar.events import PLAIN_FRAMES, Actor, draw_object, event, narrative_verb, reference
from seq2seq.data.grammar.lexicon import load_lexicon
from seq2seq.data.grammar.morphology import ACC, DAT, DU, ER
from seq2seq.data.grammar.nouns import noun_phrase
from seq2seq.data.grammar.pair import Pair, realise
from seq2seq.data.grammar.phrases import COMMA, Derivation, NounPhrase, Phrase, Style, Token, join
from seq2seq.data.grammar.riddles import ask, draw_riddle
from seq2seq.data.grammar.states import state_of_mind, weather
from seq2seq.data.grammar.times import repeated, time_phrase

Rule = Callable[[Derivation], tuple[Phrase, str]]  # the sentence, and what closes it


# Statements ------------------------------------------------------------------------------------------------------


def statement(d: Derivation) -> tuple[Phrase, str]:
    """One main clause, perhaps with a relative clause in it."""
    clause = simple_clause(d)
    modify(d, clause)
    return main_clause(d, clause), "."


def main_clause(d: Derivation, clause: Clause) -> Phrase:
    """Verb second: the subject comes first, or an adverbial, and then the German subject follows the verb."""
    front = _opening(d, clause)
    if front is None:
        return arrange(d, clause, "statement", "verb second")
    clause.put("front", front)
    d.tags.add("inversion")
    return arrange(d, clause, "statement", "inverted")


def _opening(d: Derivation, clause: Clause) -> Phrase | None:
    """What comes before the subject, if anything. A time that does not is put in its place inside the clause."""
    fields, tense = clause.fields, clause.tense
    if tense.time and not clause.timeless and "adverb" not in fields:
        last = "tail" not in fields
        if d.chance(d.style.time if last else d.style.time * 0.4):
            phrase = time_phrase(d, tense.time)
            if not last or d.chance(d.style.front) or (clause.negated and repeated(phrase)):
                return phrase
            clause.put("time", phrase)
            return None
    chance = d.rng.random()
    if chance < 0.05:
        sudden = tense.name == "past" and not (clause.timeless or clause.negated or "adverb" in fields)
        adverb = d.lexicon.adverbials("adverb", "sudden" if sudden and chance < 0.02 else "comment").draw(d.rng)
        return d.words(adverb.en, adverb.de, "adverb")
    for name in ("place", "why"):
        if name in fields and clause.verb.frame not in ("place", "copula") and not clause.negated and d.chance(0.2):
            return fields.pop(name)
    return None


def reported(d: Derivation) -> tuple[Phrase, str]:
    """She says that he sleeps."""
    return main_clause(d, report(d)), "."


def infinitive(d: Derivation) -> tuple[Phrase, str]:
    """She tries to sleep."""
    return main_clause(d, with_infinitive(d)), "."


def riddle(d: Derivation) -> tuple[Phrase, str]:
    """A sentence whose adjective tells what "it" is."""
    plan = draw_riddle(d.rng, d.lexicon, held_out=False)
    return ask(d, plan, about_subject=d.chance(0.5)), "."


CONJUNCTIONS = (
    (("because",), "weil"), (("because",), "weil"), (("although",), "obwohl"), (("before",), "bevor"),
    (("while",), "während"), (("after",), "nachdem"), (("when",), "als"), (("if",), "wenn"), (("when",), "wenn"),
    (("until",), "bis"), (("as", "soon", "as"), "sobald"),
)  # fmt: skip


def complex_sentence(d: Derivation) -> tuple[Phrase, str]:
    """Because he is tired, he sleeps. In front, the adverbial clause is the first constituent: the verb comes next.

    "When" is als for what happened once, in the past, else wenn.
    """
    english, german = CONJUNCTIONS[int(d.rng.random() * len(CONJUNCTIONS))]
    past = german == "als" or (german != "wenn" and d.chance(0.6))
    main = event(d, verb=narrative_verb(d), tense=_tense(d, past), plain=german == "als" or d.chance(0.6))
    if english == ("when",):
        d.tags.add("sense")
    if german == "wenn":
        d.tags.add("merged")
    d.tags.add("subordinate")
    with one_deeper(d):
        tense = TENSES["past" if past else "present"]
        if german == "nachdem":
            tense = TENSES["pluperfect" if past else "perfect"]
        inner = _circumstances(d, main, tense, german)
        inner.put("opener", d.words(english, (german,)))
        phrase = arrange(d, inner, "statement", "verb last")
    if d.chance(0.35):
        d.tags.add("inversion")
        main.put("front", Phrase([*phrase.en, COMMA], [*phrase.de, COMMA]))
        return arrange(d, main, "statement", "inverted"), "."
    main.put("tail", between_commas(phrase))
    return arrange(d, main, "statement", "verb second"), "."


def _tense(d: Derivation, past: bool) -> Tense:
    return TENSES["past" if past else "future" if d.chance(0.35) else "present"]


def _circumstances(d: Derivation, main: Clause, tense: Tense, conjunction: str) -> Clause:
    """The clause after the conjunction: about the same person, who may be in some state, or about something else."""
    reason = conjunction in ("weil", "obwohl")
    plain = not reason or d.chance(0.5)
    outer = main.nominals.get("he") or main.nominals["subject"]
    again = reference(d, outer) if d.chance(0.5) else None
    if again is not None:
        actor = Actor(again, outer.noun or d.lexicon.person)
        clause = state_of_mind(d, actor, tense) if reason and d.chance(0.7) else None
        if clause is not None:
            return clause
        pool = d.lexicon.verbs_that(PLAIN_FRAMES, actor.noun)
        verb = pool.draw(d.rng)
        if not verb.same_past:
            return event(d, verb=verb, subject=actor, tense=tense, plain=plain)
    elif reason and d.chance(0.15):
        return weather(d, "past" if tense.name == "past" else "not past")
    return event(d, verb=narrative_verb(d), tense=tense, plain=plain)


# Coordination ----------------------------------------------------------------------------------------------------


def coordinated(d: Derivation) -> tuple[Phrase, str]:
    """Main clauses joined by and or but. English puts a comma before either, German only before aber."""
    low, high = d.style.clauses
    count = low + int(d.rng.random() * (high - low + 1))
    d.tags.add("coordination")
    first, *others = [main_clause(d, simple_clause(d, plain=d.chance(0.4))) for _ in range(count)]
    english, german = ("but", "aber") if d.chance(0.3) else ("and", "und")
    for other in others[:-1]:
        first = Phrase([*first.en, COMMA, *other.en], [*first.de, COMMA, *other.de])
    conjunction = d.words((english,), (german,))
    comma = [COMMA] if german == "aber" else []
    en = [*first.en, COMMA, *conjunction.en, *others[-1].en]
    return Phrase(en, [*first.de, *comma, *conjunction.de, *others[-1].de]), "."


def shared_subject(d: Derivation) -> tuple[Phrase, str]:
    """He came home and fell asleep - Er kam nach Hause und schlief ein: one subject, two predicates."""
    tense = TENSES["past" if d.chance(0.6) else "present"]
    first = event(d, verb=narrative_verb(d), tense=tense, plain=True)
    who = first.nominals.get("he") or first.nominals["subject"]
    noun = who.noun or d.lexicon.person
    pool = d.lexicon.verbs_that(PLAIN_FRAMES, noun)
    if all(verb.same_past or verb.name == first.verb.name for verb in pool.entries):
        return main_clause(d, first), "."  # a bridge collapses, and that is all it does
    verb = pool.draw(d.rng)
    while verb.same_past or verb.name == first.verb.name:
        verb = pool.draw(d.rng)
    d.tags.add("coordination")
    second = event(d, verb=verb, subject=Actor(who, noun), tense=tense, plain=True)
    second.head = None
    for name in ("he", "subject"):
        second.fields.pop(name, None)
    start = main_clause(d, first)
    conjunction = d.words(("and",), ("und",))
    return join(start, conjunction, arrange(d, second, "statement", "verb second")), "."


# Questions and requests ------------------------------------------------------------------------------------------


def yes_no_question(d: Derivation) -> tuple[Phrase, str]:
    """Does she sleep? - Schläft sie? German begins with the verb and needs no do."""
    d.tags.add("question")
    return arrange(d, simple_clause(d, plain=True), "question", "inverted"), "?"


def wh_question(d: Derivation) -> tuple[Phrase, str]:
    """What does he read? - Was liest er? The question word comes first in both; as a subject it needs no do."""
    d.tags.update(("question", "wh_question"))
    kind = d.pick(("who", "what", "what", "which", "how many", "where", "whither", "when", "why"))
    if kind == "who":
        phrase = d.words(("who",), ("wer",))
        who = NounPhrase(phrase, ER, phrase.de[0], pronoun=True)
        clause = event(d, subject=Actor(who, d.lexicon.person), frames=PLAIN_FRAMES)
        return arrange(d, clause, "statement", "verb second"), "?"
    if kind in ("what", "which", "how many"):
        clause = _object_asked(d, kind)
    elif kind in ("where", "whither"):
        d.tags.add("sense")
        pool = d.lexicon.verbs_that(("place",) if kind == "where" else ("goal", "far"), d.lexicon.person)
        verb = pool.draw(d.rng)
        while verb.frame == "goal" and verb.name != "go":  # "where does he come, run" asks for whence, or for the place
            verb = pool.draw(d.rng)
        clause = event(d, verb=verb, plain=True)
        del clause.fields["place" if kind == "where" else "goal"]
        clause.put("front", d.words(("where",), ("wo" if kind == "where" else "wohin",)))
    elif kind == "when":  # not with the perfect
        clause = event(d, verb=narrative_verb(d), tense=_tense(d, d.chance(0.6)), plain=True)
        clause.put("front", d.words(("when",), ("wann",)))
    else:
        clause = event(d, frames=("none", "acc", "goal", "dat", "double"), plain=True)
        clause.put("front", d.words(("why",), ("warum",)))
    return arrange(d, clause, "question", "inverted"), "?"


def _object_asked(d: Derivation, kind: str) -> Clause:
    """Whom does she see, whom does she help - Wen sieht sie, wem hilft sie: the verb decides the case."""
    lexicon = d.lexicon
    pool = lexicon.verbs_that(("acc", "dat"), lexicon.person)
    verb = pool.draw(d.rng)
    while verb.phrasal or verb.ambiguous:
        verb = pool.draw(d.rng)
    noun = draw_object(d, verb)
    case = DAT if verb.frame == "dat" else ACC
    if noun.unarticled:  # what does she speak: these take no "which"
        kind = "what"
    if kind == "what" and "person" in noun.classes:
        phrase = d.words(("whom",), ("wem" if case == DAT else "wen",))
        np = NounPhrase(phrase, ER, phrase.de[0], pronoun=True)
    elif kind == "what" and case == ACC:
        phrase = d.words(("what",), ("was",))
        np = NounPhrase(phrase, ER, phrase.de[0], pronoun=True)
    elif kind == "how many" and noun.plural:
        head = d.words(noun.en_plural, (noun.plural[case],), "noun")
        quantity = d.words(("how", "many"), ("wie", "vielen" if case == DAT else "viele"))
        np = NounPhrase(join(quantity, head), ER, head.de[0], pronoun=True)
    else:
        np = noun_phrase(d, noun, case, determiners=("which",), modifiers="adjectives")._replace(pronoun=True)
    clause = event(d, verb=verb, object=Actor(np, noun), plain=True)
    clause.put("front", clause.fields.pop("pronoun"))
    return clause


def imperative(d: Derivation) -> tuple[Phrase, str]:
    """Open the window! - Öffne das Fenster! To one friend, as everywhere."""
    pool = d.lexicon.verbs_that(("acc", "dat", "double", "goal", "none", "prep", "put"), d.lexicon.person)
    verb = pool.draw(d.rng)
    while verb.stative:
        verb = pool.draw(d.rng)
    silent = NounPhrase(Phrase([], []), DU, Token(""), pronoun=True)
    clause = event(d, verb=verb, subject=Actor(silent, d.lexicon.person), tense=TENSES["imperative"])
    clause.head = None
    return arrange(d, clause, "statement", "verb second"), "!"


# All -------------------------------------------------------------------------------------------------------------

RULES: tuple[tuple[float, Rule], ...] = (
    (39, statement), (6, yes_no_question), (7, wh_question), (3, imperative), (15, complex_sentence), (9, reported),
    (5, infinitive), (8, coordinated), (4, shared_subject), (3, riddle),
)  # fmt: skip
_CUMULATIVE = list(accumulate(weight for weight, _ in RULES))


def derive(rng: random.Random, style: Style, rule: Rule | None = None) -> Pair:
    """One pair by a rule, or by one drawn in proportion to its weight."""
    d = Derivation(rng, load_lexicon(), style)
    if rule is None:
        rule = RULES[bisect(_CUMULATIVE, rng.random() * _CUMULATIVE[-1])][1]
    return realise(d, *rule(d))
