"""Sentences in which nobody does anything: what things are like, what there is, what was done, the weather."""

from seq2seq.data.grammar.clauses import COPULA, TENSES, THERE_IS, Clause, Tense
from seq2seq.data.grammar.events import SUBJECT_PRONOUNS, Actor, draw_object, located, somebody
from seq2seq.data.grammar.lexicon import Adjective, Noun, Pool, Preposition, is_held_out
from seq2seq.data.grammar.morphology import ACC, DAT, ER, NOM
from seq2seq.data.grammar.nouns import KNOWN, noun_phrase
from seq2seq.data.grammar.phrases import (
    Derivation,
    Phrase,
    Token,
    article,
    join,
    name_phrase,
    prepositional,
    pronoun,
)


def description(d: Derivation, *, subject: Actor | None = None, time: str = "", plain: bool = False) -> Clause:
    """Somebody or something is very old, older than his brother, as old as the house."""
    lexicon = d.lexicon
    if subject is None and not plain and d.chance(0.08):
        return profession(d, time)
    if subject is None:
        if d.chance(d.style.pronoun * 0.6):
            subject = Actor(pronoun(d, d.pick(SUBJECT_PRONOUNS), NOM), lexicon.person)
        else:
            noun = _describable(d)
            subject = Actor(noun_phrase(d, noun, NOM, determiners=KNOWN, modifiers="owner"), noun)
    np, noun = subject
    tense = TENSES["past" if time == "past" or (time == "" and d.chance(0.45)) else "present"]
    clause = Clause(COPULA, tense, np.person, np.person, np.head)
    clause.put("he" if np.pronoun else "subject", np)
    if not plain and d.chance(0.15):
        clause.negated = True
        clause.put("negation", d.words(("not",), ("nicht",)))
        d.tags.add("negation")
    comparable = lexicon.adjectives_that(noun, "gradable")
    if len(comparable) and "quality" not in noun.classes and not (plain or clause.negated) and d.chance(0.3):
        clause.put("predicate", comparison(d, noun))
        return clause
    adjective = _said_of(d, lexicon.adjectives_that(noun, "predicative"), noun)
    clause.timeless = not adjective.mood
    if adjective.mood and not plain and not clause.negated and d.chance(0.2):
        adverb = lexicon.adverbials("adverb", "habit").draw(d.rng)
        clause.put("adverb", d.words(adverb.en, adverb.de, "adverb"))
    phrase = d.words(adjective.en[0], (adjective.predicate,), "adjective")
    if adjective.gradable and d.chance(0.35) and not clause.negated:
        degree = lexicon.adverbials("adverb", "degree").draw(d.rng)
        phrase = join(d.words(degree.en, degree.de, "adverb"), phrase)
    clause.put("predicate", phrase)
    return clause


def _said_of(d: Derivation, pool: Pool[Adjective], noun: Noun) -> Adjective:
    """An adjective for the predicate: one that goes with the noun in training, if there is one."""
    for _ in range(20):
        adjective = pool.draw(d.rng)
        if not is_held_out(adjective.name, noun.name):
            break
    return adjective


def _describable(d: Derivation) -> Noun:
    """A noun that some adjective fits."""
    while True:
        noun = d.lexicon.any_noun().draw(d.rng)
        if len(d.lexicon.adjectives_that(noun, "predicative")) > 3:
            return noun


def profession(d: Derivation, time: str) -> Clause:
    """She is a nurse - Sie ist Krankenschwester: German names a profession without an article."""
    d.tags.add("profession")
    named = d.chance(0.5)
    np = name_phrase(d, d.lexicon.people().draw(d.rng)) if named else pronoun(d, d.pick(("he", "she")), NOM)
    noun = d.lexicon.professions(np.gender).draw(d.rng)
    tense = TENSES["past" if time == "past" or (time == "" and d.chance(0.45)) else "present"]
    clause = Clause(COPULA, tense, ER, ER, np.head, timeless=True)
    clause.put("he" if np.pronoun else "subject", np)
    phrase = d.words(noun.en_singular, (noun.singular[NOM],), "noun")
    loose = Token(article(phrase.en[0].form), (-phrase.de[0].leaves[0],))
    clause.put("predicate", Phrase([loose, *phrase.en], phrase.de))
    return clause


def comparison(d: Derivation, noun: Noun) -> Phrase:
    """Older than my brother - älter als mein Bruder; as old as - so alt wie."""
    d.tags.add("comparison")
    lexicon = d.lexicon
    adjective = _said_of(d, lexicon.adjectives_that(noun, "gradable"), noun)
    other = lexicon.nouns_of(tuple(sorted(noun.classes & adjective.classes))).draw(d.rng)
    than = noun_phrase(d, other, NOM, determiners=("the", "the", "my", "this"), plural=0.2, modifiers="none").phrase
    if d.chance(0.3):
        equal = d.words(adjective.en[0], (adjective.predicate,), "adjective")
        return join(d.words(("as",), ("so",)), equal, d.words(("as",), ("wie",)), than)
    degree = d.words(adjective.en[1], (adjective.stem[1],), "adjective")
    return join(degree, d.words(("than",), ("als",)), than)


def state_of_mind(d: Derivation, subject: Actor, tense: Tense) -> Clause | None:
    """He was very tired: a passing state, which can be a reason; None for what has no mind."""
    pool = d.lexicon.adjectives_that(subject.noun, "mood")
    if not len(pool):
        return None
    np = subject.phrase
    clause = Clause(COPULA, tense, np.person, np.person, np.head)
    clause.put("he", np)
    adjective = pool.draw(d.rng)
    phrase = d.words(adjective.en[0], (adjective.predicate,), "adjective")
    if d.chance(0.4):
        phrase = join(d.words(("very",), ("sehr",), "adverb"), phrase)
    clause.put("predicate", phrase)
    return clause


def existence(d: Derivation, time: str) -> Clause:
    """There is a dog in the garden - Es gibt einen Hund im Garten."""
    d.tags.add("existential")
    noun = d.lexicon.nouns_of(("animal", "plant", "building", "nature")).draw(d.rng)
    kinds = ("a", "a", "a", "number", "some")
    np = noun_phrase(d, noun, ACC, determiners=kinds, modifiers="adjectives")
    tense = TENSES["past" if time == "past" or (time == "" and d.chance(0.4)) else "present"]
    clause = Clause(THERE_IS, tense, np.person, ER, None, timeless=True)
    clause.put("he", d.words(("there",), ("es",)))
    clause.put("theme", np)
    clause.put("place", located(d, "exist"))
    return clause


def passive(d: Derivation) -> Clause:
    """The house was built by the king - Das Haus wurde vom König gebaut."""
    lexicon = d.lexicon
    verb = lexicon.verbs_that(("acc",), lexicon.person).draw(d.rng)
    while verb.stative or verb.phrasal or verb.name in ("play", "learn", "speak", "meet"):
        verb = lexicon.verbs_that(("acc",), lexicon.person).draw(d.rng)
    noun = draw_object(d, verb)
    while noun.unarticled:
        noun = draw_object(d, verb)
    np = noun_phrase(d, noun, NOM, determiners=KNOWN, modifiers="genitive")
    clause = Clause(verb, TENSES["passive"], np.person, np.person, np.head)
    clause.put("subject", np)
    if verb.ambiguous or d.chance(0.5):
        agent = somebody(d, DAT, 0.0)
        clause.put("agent", prepositional(d, Preposition(("by",), "von", DAT), agent))
    return clause


def weather(d: Derivation, time: str) -> Clause:
    """It is raining - Es regnet gerade."""
    d.tags.add("weather")
    verb = d.lexicon.weather().draw(d.rng)
    names = () if time == "past" else ("present", "progressive", "future")
    if time != "not past":
        names = (*names, "past", "past progressive")
    clause = Clause(verb, TENSES[d.pick(names)], ER, ER, None)
    clause.put("he", d.words(("it",), ("es",)))
    return clause
