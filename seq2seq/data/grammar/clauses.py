"""Clauses of the built-in language: one set of constituents, two word orders.

A clause is a set of named **fields**, each holding a phrase in both languages. Whatever a clause says, English and
German differ only in where the fields stand, and that is what the table of orders below states:

- German has the finite verb **second** in a main clause (V2): exactly one constituent precedes it. If an adverbial
  comes first, the subject steps behind the verb. In a **subordinate** clause the finite verb is last.
- What remains of the predicate (participle, infinitive, separable prefix) closes a main clause, so that the two parts
  of the verb enclose the rest: the verb bracket (Satzklammer). hat ... gekauft, ruft ... an, will ... schlafen.
- Between them (Mittelfeld): pronouns, then the known before the new, times before places.
- English keeps subject, verb and object together, and needs "do" where a simple verb is denied or asked.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from seq2seq.data.grammar.lexicon import Verb
from seq2seq.data.grammar.morphology import ER, EnglishVerb, GermanVerb, english_verb, german_verb
from seq2seq.data.grammar.phrases import COMMA, REFLEXIVE, Derivation, NounPhrase, Phrase, Token

_ENGLISH_REST = (
    "negation adverb verb weak pronoun recipient known theme new predicate oblique goal agent company manner place why "
    "time tail"
)
_GERMAN_MIDDLE = "recipient known time why adverb theme negation agent company manner place new oblique goal predicate"

# opener: conjunction, relative or question word; he: a pronoun as subject; weak: one as object that cannot be taken for
# the subject, and so comes before it (gestern sah ihn die Frau, but gestern sah der Mann sie); known, theme, new: the
# direct object.
ENGLISH = {
    "statement": f"opener front he subject finite {_ENGLISH_REST}".split(),
    "question": f"opener front finite he subject {_ENGLISH_REST}".split(),
}
GERMAN = {
    "verb second": f"he subject finite reflexive weak pronoun {_GERMAN_MIDDLE} verb tail".split(),
    "inverted": f"front finite he reflexive weak subject pronoun {_GERMAN_MIDDLE} verb tail".split(),
    "verb last": f"opener he reflexive weak subject pronoun {_GERMAN_MIDDLE} verb finite tail".split(),
}

# The auxiliaries, by person: I, you, he, we, they.
BE, WAS = ("am", "are", "is", "are", "are"), ("was", "were", "was", "were", "were")
HAVE, HAD = ("have", "have", "has", "have", "have"), ("had",) * 5
SEIN, WAR = ("bin", "bist", "ist", "sind", "sind"), ("war", "warst", "war", "waren", "waren")
HABEN, HATTE = ("habe", "hast", "hat", "haben", "haben"), ("hatte", "hattest", "hatte", "hatten", "hatten")
WERDEN, WURDE = (
    ("werde", "wirst", "wird", "werden", "werden"),
    ("wurde", "wurdest", "wurde", "wurden", "wurden"),
)
KOENNEN, KONNTE = (
    ("kann", "kannst", "kann", "können", "können"),
    ("konnte", "konntest", "konnte", "konnten", "konnten"),
)
MUESSEN, MUSSTE = (
    ("muss", "musst", "muss", "müssen", "müssen"),
    ("musste", "musstest", "musste", "mussten", "mussten"),
)
WOLLEN, WOLLTE = (
    ("will", "willst", "will", "wollen", "wollen"),
    ("wollte", "wolltest", "wollte", "wollten", "wollten"),
)
DUERFEN, DURFTE = (
    ("darf", "darfst", "darf", "dürfen", "dürfen"),
    ("durfte", "durftest", "durfte", "durften", "durften"),
)
SOLLTE = ("sollte", "solltest", "sollte", "sollten", "sollten")
MOECHTE = ("möchte", "möchtest", "möchte", "möchten", "möchten")
WANT, HAVE_TO, LIKE_TO = english_verb("want"), english_verb("have, had"), english_verb("like")


class Tense(NamedTuple):
    """A way to say when and how, in both languages. The simple past is always the Präteritum, never the Perfekt."""

    name: str
    time: str  # of the adverbials that go with it
    weight: float
    en_auxiliary: tuple[str, ...] | None  # by person; None: a simple form, which needs "do" to be denied or asked
    en_form: str  # of the main verb
    de_auxiliary: tuple[str, ...] | None
    de_form: str
    en_words: tuple[str, ...] = ()  # more words of the auxiliary: is | allowed
    light: EnglishVerb | None = None  # a full verb that does an auxiliary's work: want to
    to: bool = False
    adverb: str = ""  # what German says with an adverb instead: gerade, gern
    tag: str = ""


TENSES = {
    tense.name: tense
    for tense in (
        Tense("present", "present", 30, None, "present", None, "present"),
        Tense("past", "past", 30, None, "past", None, "past"),
        Tense("perfect", "", 12, HAVE, "participle", HABEN, "participle", tag="perfect"),
        Tense("pluperfect", "", 0, HAD, "participle", HATTE, "participle", tag="pluperfect"),
        Tense("future", "future", 7, ("will",) * 5, "base", WERDEN, "infinitive", tag="future"),
        Tense("progressive", "", 4, BE, "gerund", None, "present", adverb="gerade", tag="progressive"),
        Tense("past progressive", "", 2, WAS, "gerund", None, "past", adverb="gerade", tag="progressive"),
        Tense("can", "future", 3, ("can",) * 5, "base", KOENNEN, "infinitive", tag="modal"),
        Tense("was able", "past", 2, WAS, "base", KONNTE, "infinitive", ("able",), to=True, tag="modal"),
        Tense("must", "future", 3, ("must",) * 5, "base", MUESSEN, "infinitive", tag="modal"),
        Tense("had to", "past", 1, None, "base", MUSSTE, "infinitive", light=HAVE_TO, to=True, tag="modal"),
        Tense("has to", "future", 1, None, "base", MUESSEN, "infinitive", light=HAVE_TO, to=True, tag="modal"),
        Tense("should", "future", 2, ("should",) * 5, "base", SOLLTE, "infinitive", tag="modal"),
        Tense("wants to", "future", 3, None, "base", WOLLEN, "infinitive", light=WANT, to=True, tag="modal"),
        Tense("wanted to", "past", 2, None, "base", WOLLTE, "infinitive", light=WANT, to=True, tag="modal"),
        Tense(
            "would like",
            "future",
            2,
            ("would",) * 5,
            "base",
            MOECHTE,
            "infinitive",
            ("like",),
            to=True,
            tag="modal",
        ),
        Tense("is allowed", "future", 1, BE, "base", DUERFEN, "infinitive", ("allowed",), to=True, tag="modal"),
        Tense("was allowed", "past", 1, WAS, "base", DURFTE, "infinitive", ("allowed",), to=True, tag="modal"),
        Tense(
            "likes to",
            "",
            2,
            None,
            "base",
            None,
            "present",
            light=LIKE_TO,
            to=True,
            adverb="gern",
            tag="gern",
        ),
        Tense("passive", "past", 0, WAS, "participle", WURDE, "participle", tag="passive"),
        Tense("infinitive", "", 0, None, "base", None, "infinitive"),
        Tense("imperative", "", 0, None, "base", None, "imperative", tag="imperative"),
    )
}

BE_VERB = EnglishVerb("be", "is", "was", "been", "being")
SEIN_VERB = GermanVerb("", False, "sein", "zu sein", "gewesen", "sein", SEIN, WAR, "sei")
GEBEN_VERB = german_verb("geben, gibt, gab, hat gegeben")
COPULA = Verb("be", BE_VERB, SEIN_VERB, ("person",), "copula", (), stative=True)
THERE_IS = Verb("there be", BE_VERB, GEBEN_VERB, (), "exist", (), stative=True)
PAST_TENSES = {"past", "past progressive", "was able", "had to", "wanted to", "was allowed", "passive"}


@dataclass
class Clause:
    """The fields of a clause, and what its verb will have to agree with. English and German subjects may differ."""

    verb: Verb
    tense: Tense
    en_person: int
    de_person: int
    head: Token | None  # of the German subject
    fields: dict[str, Phrase] = field(default_factory=dict)
    nominals: dict[str, NounPhrase] = field(default_factory=dict)  # the noun phrases among them
    negated: bool = False
    timeless: bool = False  # whether it would be odd with a time, as "the house was big on Monday"

    def put(self, name: str, phrase: Phrase | NounPhrase) -> None:
        """Fill a field."""
        if isinstance(phrase, NounPhrase):
            self.nominals[name] = phrase
            phrase = phrase.phrase
        self.fields[name] = phrase


def arrange(d: Derivation, clause: Clause, english: str, german: str) -> Phrase:
    """The clause in words: conjugate, then read the fields off in either order."""
    _conjugate(d, clause, question=english == "question", last=german == "verb last")
    fields = clause.fields
    en: list[Token] = []
    de: list[Token] = []
    for name in ENGLISH[english]:
        if name in fields:
            en += fields[name].en
    for name in GERMAN[german]:
        if name in fields:
            de += fields[name].de
    return Phrase(_cannot(en), de)


def _cannot(words: list[Token]) -> list[Token]:
    """English writes can and not as one word."""
    for i, word in enumerate(words[:-1]):
        if word.form == "can" and words[i + 1].form == "not":
            return [*words[:i], Token("cannot", word.leaves + words[i + 1].leaves), *words[i + 2 :]]
    return words


def _conjugate(d: Derivation, clause: Clause, *, question: bool, last: bool) -> None:
    """Fill the fields `finite`, `verb` and `reflexive`."""
    tense, verb = clause.tense, clause.verb
    main, helper = d.leaf(), d.leaf()
    if tense.tag:
        d.tags.add(tense.tag)
    en_finite, en_verb = _english_verbs(clause, main, helper, question or "negation" in clause.fields)
    de_finite, de_verb = _german_verbs(clause, main, helper, last)
    clause.put("finite", Phrase(en_finite, de_finite))
    clause.put("verb", Phrase(en_verb, de_verb))
    if tense.adverb:
        clause.put("adverb", Phrase([], [Token(tense.adverb, (helper,))]))
    if verb.de.reflexive:
        d.tags.add("reflexive")
        clause.put("reflexive", Phrase([], [Token(REFLEXIVE[clause.de_person], (main,))]))
    if verb.de.prefix:
        d.tags.add("separable")
    if verb.ambiguous:
        d.tags.add("sense")
    if tense.de_auxiliary is MUESSEN and tense.name in ("must", "has to"):
        d.tags.add("merged")
    if clause.head is not None and de_finite:
        d.agreements.append((clause.head, de_finite[0]))
    if de_finite and de_verb and not last:
        d.brackets.append((de_finite[0], de_verb[-1]))


def _english_verbs(clause: Clause, main: int, helper: int, denied_or_asked: bool) -> tuple[list[Token], list[Token]]:
    """What comes before the subject of a question, and what stays behind."""
    tense, verb, person = clause.tense, clause.verb, clause.en_person
    past = tense.name in PAST_TENSES
    leaf, kind = (main,), "" if verb.en is BE_VERB else "verb"
    if tense.name == "infinitive":
        return [Token("to", (helper,))], [Token(word, leaf, kind) for word in verb.en.base.split(" ")]
    if tense.name == "imperative":
        return [Token("do")] if denied_or_asked else [], [Token(word, leaf, kind) for word in verb.en.base.split(" ")]
    if tense.en_auxiliary is not None:
        bond = -helper if tense.adverb else helper
        finite = [Token(tense.en_auxiliary[person], (bond,))]
        rest = [Token(word, (helper,)) for word in tense.en_words]
        if tense.to:
            rest.append(Token("to", (-main,)))
        form = getattr(verb.en, tense.en_form)
        return finite, rest + [Token(word, leaf, kind) for word in form.split(" ")]
    if verb.en is BE_VERB and tense.light is None:
        return [Token((WAS if past else BE)[person], leaf)], []
    head = tense.light or verb.en
    finite = []
    form = head.past if past else head.third if person == ER else head.base
    if denied_or_asked:
        finite = [Token("did" if past else "does" if person == ER else "do")]  # do-support: nothing in German
        form = head.base
    if tense.light is None:
        return finite, [Token(word, leaf, kind) for word in form.split(" ")]
    light = [Token(form, (helper,)), Token("to", (-main,))]
    return finite, light + [Token(word, leaf, kind) for word in verb.en.base.split(" ")]


def _german_verbs(clause: Clause, main: int, helper: int, last: bool) -> tuple[list[Token], list[Token]]:
    """The finite verb, and what closes the bracket."""
    tense, verb, person = clause.tense, clause.verb.de, clause.de_person
    leaf, kind = (main,), "" if clause.verb.en is BE_VERB else "verb"
    auxiliary = tense.de_auxiliary
    if auxiliary is not None:
        if verb.auxiliary == "sein" and auxiliary in (HABEN, HATTE):
            auxiliary = SEIN if auxiliary is HABEN else WAR
        if auxiliary is MUESSEN and tense.name == "must" and clause.negated:
            auxiliary = DUERFEN  # must not - darf nicht, but does not have to - muss nicht
        form = verb.participle if tense.de_form == "participle" else verb.infinitive
        return [Token(auxiliary[person], (helper,))], [Token(form, leaf, kind)]
    if tense.name == "infinitive":
        if verb.prefix:
            return [], [Token(verb.to_infinitive, (main, helper), kind)]
        return [], [Token("zu", (helper,)), Token(verb.infinitive, leaf, kind)]
    if tense.name == "imperative":
        form = verb.imperative
    else:
        form = (verb.present if tense.de_form == "present" else verb.past)[person]
    if last:
        return [Token(verb.prefix + form, leaf, kind)], []
    return [Token(form, leaf, kind)], [Token(verb.prefix, leaf, kind)] if verb.prefix else []


def between_commas(phrase: Phrase) -> Phrase:
    """A German subordinate clause stands between commas; those at the edge of a sentence are dropped in the end."""
    return Phrase(phrase.en, [COMMA, *phrase.de, COMMA])
