"""When: clock times, days, months, and other adverbials of time, which must suit the tense."""

from seq2seq.data.grammar.morphology import DAT, number_words
from seq2seq.data.grammar.nouns import noun_phrase
from seq2seq.data.grammar.phrases import Derivation, Phrase, Token, join, prepositional


def time_phrase(d: Derivation, time: str) -> Phrase:
    """Yesterday - gestern, on Monday - am Montag, after the concert, at half past three - um halb vier, two days ago.

    `time` is "past", "present" or "future".
    """
    d.tags.add("time")
    lexicon = d.lexicon
    chance = d.rng.random()
    if chance < 0.5:
        adverbial = lexicon.adverbials("time", time).draw(d.rng)
        return d.words(adverbial.en, adverbial.de, "time")
    if chance < 0.64:
        return join(d.words(("at",), ("um",)), clock(d))
    if chance < 0.74 and time != "present":
        day = lexicon.adverbials("day").draw(d.rng)
        d.tags.add("contraction")
        return join(d.words(("on",), ("am",)), d.words(day.en, day.de, "time"))
    if chance < 0.82:
        month = lexicon.adverbials("month").draw(d.rng)
        d.tags.add("contraction")
        return join(d.words(("in",), ("im",)), d.words(month.en, month.de, "time"))
    if chance < 0.92 or time == "present":
        preposition, classes = lexicon.prepositions("when").draw(d.rng)
        noun = lexicon.nouns_of(classes).draw(d.rng)
        inner = noun_phrase(d, noun, preposition.case, determiners=("the",), plural=0.0, modifiers="none")
        if "meal" in noun.classes:  # after breakfast - nach dem Frühstück
            head = inner.head.leaves[0]
            german = [inner.phrase.de[0]._replace(leaves=(-head,)), *inner.phrase.de[1:]]
            inner = inner._replace(phrase=Phrase(inner.phrase.en[1:], german))
        return prepositional(d, preposition, inner)
    return _distance(d, time)


def repeated(phrase: Phrase) -> bool:
    """Whether it is every day, whose place decides what is denied: not every day, or on no day."""
    return phrase.en[0].form == "every"


def _distance(d: Derivation, time: str) -> Phrase:
    """Two days ago - vor zwei Tagen; in two days - in zwei Tagen."""
    d.tags.add("number")
    lexicon = d.lexicon
    unit = lexicon.units[int(d.rng.random() * len(lexicon.units))]
    english, german = number_words(2 + int(d.rng.random() * 11), lexicon.numbers_en, lexicon.numbers_de)
    number = d.words((english,), (german,), "number")
    span = d.words(unit.en_plural, (unit.plural[DAT],), "time")
    if time != "past":
        return join(d.words(("in",), ("in",)), number, span)
    ago = d.words(("ago",), ("vor",))
    return Phrase(number.en + span.en + ago.en, ago.de + number.de + span.de)


def clock(d: Derivation) -> Phrase:
    """The time of day. German counts the half hours towards the coming hour: half past three - halb vier."""
    d.tags.add("clock")
    en, de = {1: "one", **d.lexicon.numbers_en}, {1: "eins", **d.lexicon.numbers_de}
    hour = 1 + int(d.rng.random() * 12)
    chance = d.rng.random()
    if chance < 0.4:
        number = d.words((en[hour],), ("ein" if hour == 1 else de[hour],), "number")
        return join(number, d.words(("o'clock",), ("Uhr",)))
    if chance < 0.6:
        half, number = d.words(("half",), ("halb",)), d.words((en[hour],), (de[hour % 12 + 1],), "number")
        past = Token("past", (-half.en[0].leaves[0], -number.en[0].leaves[0]))
        return Phrase([*half.en, past, *number.en], half.de + number.de)
    if chance < 0.8:
        minutes = d.words(("quarter",), ("Viertel",))
    else:
        count = (5, 10, 10, 20)[int(d.rng.random() * 4)]
        minutes = d.words((en[count],), (de[count],), "number")
    direction = d.words(("past",), ("nach",)) if d.chance(0.5) else d.words(("to",), ("vor",))
    return join(minutes, direction, d.words((en[hour],), (de[hour],), "number"))
