"""How words bend: the inflection of German and English, as plain functions from strings to strings.

Nothing here knows a word list. A dictionary gives what cannot be predicted (der Hund, -es, -e; sehen, sieht, sah, hat
gesehen; eat, ate, eaten) and these rules do the rest. Paradigms are tuples, indexed by the constants below.

- **Case** (German): nominative for the subject, accusative for the direct object, dative for the indirect one, genitive
  for a possessor. Prepositions and some verbs ask for a case of their own.
- **Person**: the five that the language uses, I, you (du), he/she/it, we, they. ihr and Sie do not occur.
- **Declension** of adjectives: the ending -er, -es, ... that shows case and gender stands once in a noun phrase: on the
  article if it has one, else on the adjective. Hence weak endings after der, strong ones without an article, mixed ones
  after ein, which shows nothing in three places (ein alter Mann, ein altes Haus).
"""

from typing import NamedTuple

NOM, ACC, DAT, GEN = range(4)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)  # the four columns of every German declension
ARTICLES = {"der": MASCULINE, "die": FEMININE, "das": NEUTER}
ICH, DU, ER, WIR, SIE = range(5)
PERSONS = range(5)

# Rows: the columns above; entries: nominative, accusative, dative, genitive.
DEFINITE = (
    ("der", "den", "dem", "des"),
    ("die", "die", "der", "der"),
    ("das", "das", "dem", "des"),
    ("die", "die", "den", "der"),
)
# The pronoun that opens a relative clause is the article, but for the genitive and the dative plural.
RELATIVE = (
    ("der", "den", "dem", "dessen"),
    ("die", "die", "der", "deren"),
    ("das", "das", "dem", "dessen"),
    ("die", "die", "denen", "deren"),
)
# dieser, jeder, welcher, alle: stem + ending.
STRONG = (
    ("er", "en", "em", "es"),
    ("e", "e", "er", "er"),
    ("es", "es", "em", "es"),
    ("e", "e", "en", "er"),
)
# ein, kein, mein: as dieser, but bare in three places.
POSSESSIVE = (("", "en", "em", "es"), STRONG[FEMININE], ("", "", "em", "es"), STRONG[PLURAL])

WEAK_ADJECTIVE = (
    ("e", "en", "en", "en"),
    ("e", "e", "en", "en"),
    ("e", "e", "en", "en"),
    ("en", "en", "en", "en"),
)
MIXED_ADJECTIVE = (
    ("er", "en", "en", "en"),
    ("e", "e", "en", "en"),
    ("es", "es", "en", "en"),
    ("en", "en", "en", "en"),
)
STRONG_ADJECTIVE = (
    ("er", "en", "em", "en"),  # -en beside a genitive noun that already ends in -s: trotz starken Regens
    ("e", "e", "er", "er"),
    ("es", "es", "em", "en"),
    ("e", "e", "en", "er"),
)

_VOWELS = "aeiou"
_UMLAUT = {"a": "ä", "o": "ö", "u": "ü", "A": "Ä", "O": "Ö", "U": "Ü"}


def umlaut(word: str) -> str:
    """The word with its last a, o, u or au raised: Baum -> Bäum, Vater -> Väter."""
    at = max(i for i, letter in enumerate(word) if letter in _UMLAUT)
    if word[at] == "u" and at and word[at - 1] in "aA":
        at -= 1
    return word[:at] + _UMLAUT[word[at]] + word[at + 1 :]


def german_noun(lemma: str, genitive: str, plural: str | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Singular and plural by case, from dictionary endings such as -es and ¨-e (or a plural written out).

    A genitive in -n or -en marks the weak nouns (n-declension), which end so in every case but the nominative: den
    Studenten. -ns is the mixed type: den Namen, des Namens. Nouns without a plural are mass nouns.
    """
    gen = lemma + genitive.removeprefix("-")
    oblique = lemma
    if genitive in ("-n", "-en"):
        oblique = gen
    elif genitive == "-ns":
        oblique = lemma + "n"
    singular = (lemma, oblique, oblique, gen)
    if plural is None:
        return singular, None
    if plural.startswith("¨-"):
        many = umlaut(lemma) + plural.removeprefix("¨-")
    elif plural.startswith("-"):
        many = lemma + plural.removeprefix("-")
    else:
        many = plural
    return singular, (many, many, german_dative_plural(many), many)


def german_dative_plural(plural: str) -> str:
    """The dative plural ends in -n wherever it can: den Hunden, but den Frauen, den Autos."""
    return plural if plural.endswith(("n", "s")) else plural + "n"


def german_adjective_stem(adjective: str) -> str:
    """What endings are added to: dunkel -> dunkl-, teuer -> teur-, hoch -> hoh-, müde -> müd-."""
    if adjective == "hoch":
        return "hoh"
    if adjective.endswith("e"):
        return adjective[:-1]
    if adjective.endswith("el") or adjective.endswith(("auer", "euer")):
        return adjective[:-2] + adjective[-1]
    return adjective


class GermanVerb(NamedTuple):
    """All forms of a German verb. Finite ones lack the separable prefix, which stands alone in a main clause."""

    prefix: str  # "an" in anrufen, else ""
    reflexive: bool
    infinitive: str  # anrufen
    to_infinitive: str  # anzurufen
    participle: str  # angerufen
    auxiliary: str  # "haben" or "sein"
    present: tuple[str, ...]  # by person
    past: tuple[str, ...]
    imperative: str


def german_verb(entry: str) -> GermanVerb:
    """The paradigm of a dictionary entry: "kaufen", "an|rufen, ruft an, rief an, hat angerufen", "sich freuen"."""
    lemma, *parts = [part.strip() for part in entry.split(",")]
    reflexive = lemma.startswith("sich ")
    prefix, _, base = lemma.removeprefix("sich ").rpartition("|")
    stem = base.removesuffix("n").removesuffix("e")
    auxiliary = "haben"
    if parts:
        third, past, perfect = parts
        third, past = third.removesuffix(" " + prefix), past.removesuffix(" " + prefix)
        helper, _, participle = perfect.partition(" ")
        auxiliary = {"hat": "haben", "ist": "sein"}[helper]
    else:
        third = _with_link(stem, "t")
        past = _with_link(stem, "te")
        unstressed = base.startswith(("be", "ver", "ent", "er", "ge", "zer", "über", "unter"))
        ge = "" if unstressed or base.endswith("ieren") else "ge"
        participle = prefix + ge + third
    present = _present(base, stem, third)
    imperative = present[ICH]
    if third != _with_link(stem, "t") and "e" in stem and "i" in third:
        imperative = third.removesuffix("t")  # e becomes i and no ending follows: nimm, lies, hilf
    return GermanVerb(
        prefix, reflexive, prefix + base, f"{prefix}zu{base}" if prefix else f"zu {base}",
        participle, auxiliary, present, _past(past), imperative,
    )  # fmt: skip


def _with_link(stem: str, ending: str) -> str:
    """An e keeps the ending apart where it could not be spoken: arbeit-e-t, öffn-e-t, but lern-t."""
    spoken = "aeiouäöülrmn"
    before = stem[-3:-2] if stem[-2:-1] == "h" else stem[-2:-1]  # a mute h, as in wohnen, does not count
    cluster = stem.endswith(("m", "n")) and before not in spoken
    return f"{stem}e{ending}" if stem.endswith(("t", "d")) or cluster else stem + ending


def _second_person(stem: str) -> str:
    """Du kaufst, du arbeitest; a hiss swallows the s: du liest, du sitzt."""
    return stem + "t" if stem.endswith(("s", "ß", "z", "x")) else _with_link(stem, "st")


def _present(base: str, stem: str, third: str) -> tuple[str, ...]:
    if base == "wissen":
        return ("weiß", "weißt", "weiß", "wissen", "wissen")
    if base == "mögen":
        return ("mag", "magst", "mag", "mögen", "mögen")
    if base == "haben":
        return ("habe", "hast", "hat", "haben", "haben")
    first = stem[:-2] + "le" if base.endswith("eln") else stem + "e"
    second = _second_person(stem)
    if third != _with_link(stem, "t"):  # a strong verb that changes its vowel: gibt, hält, lädt
        changed = third if stem.endswith("t") and not third.endswith("et") else third.removesuffix("t")
        second = changed + ("t" if changed.endswith(("s", "ß", "z")) else "st")
    return (first, second, third, base, base)


def _past(third: str) -> tuple[str, ...]:
    """Weak: -te, -test, -ten; strong: the bare stem and -st, -en."""
    if third.endswith("te") or third == "wurde":
        return (third, third + "st", third, third + "n", third + "n")
    second = third + ("est" if third.endswith(("s", "ß", "z", "t", "d")) else "st")
    plural = third + ("n" if third.endswith("ie") else "en")  # schrie, schrien
    return (third, second, third, plural, plural)


def english_plural(noun: str) -> str:
    """The regular plural: dogs, buses, cities, boxes."""
    if noun.endswith(("s", "sh", "ch", "x", "z")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


class EnglishVerb(NamedTuple):
    """All forms of an English verb; a phrasal verb keeps its particle in each: turns on, turning on."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str


def english_verb(entry: str) -> EnglishVerb:
    """The paradigm of "call", "buy, bought", "eat, ate, eaten", "begin, began, begun, beginning" or "turn on"."""
    base, *parts = [part.strip() for part in entry.split(",")]
    word, space, particle = base.partition(" ")
    tail = space + particle
    gerund = _add_vowel_ending(word, "ing") + tail
    if parts and parts[-1].removesuffix(tail).endswith("ing"):
        gerund = parts.pop()
    past = parts[0] if parts else _add_vowel_ending(word, "ed") + tail
    if not parts and gerund.removesuffix(tail) != _add_vowel_ending(word, "ing"):
        past = gerund.removesuffix(tail).removesuffix("ing") + "ed" + tail
    third = {"have": "has", "go": "goes", "do": "does"}.get(word, english_plural(word)) + tail
    return EnglishVerb(base, third, past, parts[1] if len(parts) > 1 else past, gerund)


def _add_vowel_ending(word: str, ending: str) -> str:
    if word.endswith("ie") and ending == "ing":
        return word[:-2] + "ying"
    if word.endswith("ee"):
        return word + ending.removeprefix("e")
    if word.endswith("e"):
        return word[:-1] + ending
    if word.endswith("y") and word[-2] not in _VOWELS and ending != "ing":
        return word[:-1] + "i" + ending
    if _doubles(word):
        return word + word[-1] + ending
    return word + ending


def _doubles(word: str) -> bool:
    """A short word in consonant, vowel, consonant doubles the last: stop, stopping; big, bigger."""
    if len(word) < 3 or word[-1] in "aeiouwxyh" or word[-2] not in _VOWELS:
        return False
    vowels = sum(letter in _VOWELS for letter in word)
    return vowels == 1 or (vowels == 2 and word[:2] == "qu")


def english_degrees(adjective: str) -> tuple[str, str]:
    """Comparative and superlative: older, oldest; happier, happiest; more famous, most famous."""
    syllables = _syllables(adjective)
    if adjective.endswith("y") and adjective[-2] not in _VOWELS and syllables == 2:
        return adjective[:-1] + "ier", adjective[:-1] + "iest"
    if syllables == 1:
        return _add_vowel_ending(adjective, "er"), _add_vowel_ending(adjective, "est")
    return "more " + adjective, "most " + adjective


def _syllables(word: str) -> int:
    """Groups of vowel letters, a final silent e not counted: near enough to choose -er or more."""
    letters = word.removesuffix("e") if not word.endswith("le") else word
    groups = sum(letter in "aeiouy" and (i == 0 or letters[i - 1] not in "aeiouy") for i, letter in enumerate(letters))
    return max(1, groups)


def german_degrees(adjective: str) -> tuple[str, str]:
    """Comparative and superlative stems: kleiner, kleinst; hungriger, hungrigst; berühmter, berühmtest."""
    stem = german_adjective_stem(adjective)
    link = "e" if adjective.endswith(("t", "d", "s", "ß", "z")) and not adjective.endswith("end") else ""
    return stem + "er", adjective + link + "st"


def number_words(value: int, english: dict[int, str], german: dict[int, str]) -> tuple[str, str]:
    """A number below a hundred in both languages; German says the ones first: twenty-one, einundzwanzig."""
    if value in english:
        return english[value], german[value]
    tens, ones = value // 10 * 10, value % 10
    one = "one" if ones == 1 else english[ones]
    eins = "ein" if ones == 1 else german[ones]
    return f"{english[tens]}-{one}", f"{eins}und{german[tens]}"
