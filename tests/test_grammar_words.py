"""The inflection and the word list of the built-in language, against paradigms from a school grammar."""

import random
from collections import defaultdict

import pytest

from seq2seq.data.grammar.lexicon import load_lexicon
from seq2seq.data.grammar.morphology import (
    ACC,
    DAT,
    DEFINITE,
    ER,
    FEMININE,
    GEN,
    MASCULINE,
    MIXED_ADJECTIVE,
    NEUTER,
    NOM,
    PLURAL,
    POSSESSIVE,
    STRONG_ADJECTIVE,
    WEAK_ADJECTIVE,
    english_degrees,
    english_plural,
    english_verb,
    german_adjective_stem,
    german_degrees,
    german_noun,
    german_verb,
    number_words,
    umlaut,
)

LEXICON = load_lexicon()
COLUMNS = (MASCULINE, FEMININE, NEUTER, PLURAL)


def declined(table, stem=""):
    return [" ".join(stem + table[column][case] for column in COLUMNS) for case in (NOM, ACC, DAT, GEN)]


def test_the_definite_article_declines_by_gender_number_and_case():
    assert declined(DEFINITE) == ["der die das die", "den die das die", "dem der dem den", "des der des der"]


def test_kein_declines_like_ein_and_has_a_plural():
    expected = [
        "kein keine kein keine",
        "keinen keine kein keine",
        "keinem keiner keinem keinen",
        "keines keiner keines keiner",
    ]
    assert declined(POSSESSIVE, "kein") == expected


def test_adjectives_are_weak_after_der_mixed_after_ein_and_strong_alone():
    weak = [
        "alte alte alte alten",
        "alten alte alte alten",
        "alten alten alten alten",
        "alten alten alten alten",
    ]
    mixed = [
        "alter alte altes alten",
        "alten alte altes alten",
        "alten alten alten alten",
        "alten alten alten alten",
    ]
    strong = [
        "alter alte altes alte",
        "alten alte altes alte",
        "altem alter altem alten",
        "alten alter alten alter",
    ]
    assert declined(WEAK_ADJECTIVE, "alt") == weak
    assert declined(MIXED_ADJECTIVE, "alt") == mixed
    assert declined(STRONG_ADJECTIVE, "alt") == strong


@pytest.mark.parametrize(
    ("entry", "singular", "plural"),
    [
        (("Hund", "-es", "-e"), "Hund Hund Hund Hundes", "Hunde Hunde Hunden Hunde"),
        (("Frau", "-", "-en"), "Frau Frau Frau Frau", "Frauen Frauen Frauen Frauen"),
        (("Haus", "-es", "¨-er"), "Haus Haus Haus Hauses", "Häuser Häuser Häusern Häuser"),
        (("Mutter", "-", "¨-"), "Mutter Mutter Mutter Mutter", "Mütter Mütter Müttern Mütter"),
        (("Auto", "-s", "-s"), "Auto Auto Auto Autos", "Autos Autos Autos Autos"),
        (("Museum", "-s", "Museen"), "Museum Museum Museum Museums", "Museen Museen Museen Museen"),
        (
            ("Student", "-en", "-en"),
            "Student Studenten Studenten Studenten",
            "Studenten Studenten Studenten Studenten",
        ),
        (("Junge", "-n", "-n"), "Junge Jungen Jungen Jungen", "Jungen Jungen Jungen Jungen"),
        (("Name", "-ns", "-n"), "Name Namen Namen Namens", "Namen Namen Namen Namen"),
    ],
)
def test_nouns_decline_as_their_dictionary_entry_says(entry, singular, plural):
    one, many = german_noun(*entry)
    assert (" ".join(one), " ".join(many)) == (singular, plural)


def test_umlaut_raises_the_last_vowel_that_can_be_raised():
    assert [umlaut(word) for word in ("Baum", "Bruder", "Apfel", "Bahnhof")] == [
        "Bäum",
        "Brüder",
        "Äpfel",
        "Bahnhöf",
    ]


@pytest.mark.parametrize(
    ("entry", "present", "past", "participle", "infinitive", "imperative"),
    [
        ("kaufen", "kaufe kaufst kauft kaufen kaufen", "kaufte", "gekauft", "zu kaufen", "kaufe"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeiten", "arbeitete", "gearbeitet",
         "zu arbeiten", "arbeite"),
        ("öffnen", "öffne öffnest öffnet öffnen öffnen", "öffnete", "geöffnet", "zu öffnen", "öffne"),
        ("zeichnen", "zeichne zeichnest zeichnet zeichnen zeichnen", "zeichnete", "gezeichnet",
         "zu zeichnen", "zeichne"),
        ("wohnen", "wohne wohnst wohnt wohnen wohnen", "wohnte", "gewohnt", "zu wohnen", "wohne"),
        ("sammeln", "sammle sammelst sammelt sammeln sammeln", "sammelte", "gesammelt", "zu sammeln", "sammle"),
        ("spielen", "spiele spielst spielt spielen spielen", "spielte", "gespielt", "zu spielen", "spiele"),
        ("besuchen", "besuche besuchst besucht besuchen besuchen", "besuchte", "besucht", "zu besuchen", "besuche"),
        ("reparieren", "repariere reparierst repariert reparieren reparieren", "reparierte", "repariert",
         "zu reparieren", "repariere"),
        ("lesen, liest, las, hat gelesen", "lese liest liest lesen lesen", "las", "gelesen", "zu lesen", "lies"),
        ("essen, isst, aß, hat gegessen", "esse isst isst essen essen", "aß", "gegessen", "zu essen", "iss"),
        ("halten, hält, hielt, hat gehalten", "halte hältst hält halten halten", "hielt", "gehalten",
         "zu halten", "halte"),
        ("nehmen, nimmt, nahm, hat genommen", "nehme nimmst nimmt nehmen nehmen", "nahm", "genommen",
         "zu nehmen", "nimm"),
        ("ein|laden, lädt ein, lud ein, hat eingeladen", "lade lädst lädt laden laden", "lud", "eingeladen",
         "einzuladen", "lade"),
        ("auf|räumen", "räume räumst räumt räumen räumen", "räumte", "aufgeräumt", "aufzuräumen", "räume"),
    ],
)  # fmt: skip
def test_verbs_conjugate_as_their_dictionary_entry_says(entry, present, past, participle, infinitive, imperative):
    verb = german_verb(entry)
    assert " ".join(verb.present) == present
    assert verb.past[ER] == past
    assert (verb.participle, verb.to_infinitive, verb.imperative) == (participle, infinitive, imperative)


def test_verbs_of_motion_and_change_form_the_perfect_with_sein():
    with_sein = {verb.de.infinitive for verb in LEXICON.verbs if verb.de.auxiliary == "sein"}
    assert {
        "gehen",
        "kommen",
        "fahren",
        "laufen",
        "ankommen",
        "einschlafen",
        "aufstehen",
        "bleiben",
    } <= with_sein
    assert with_sein.isdisjoint({"schlafen", "kaufen", "sehen", "sitzen", "wohnen", "anrufen"})


def test_adjective_stems_lose_an_unstressed_e_before_an_ending():
    adjectives = ("dunkel", "teuer", "sauer", "hoch", "müde", "sauber", "klein")
    assert [german_adjective_stem(word) for word in adjectives] == [
        "dunkl",
        "teur",
        "saur",
        "hoh",
        "müd",
        "sauber",
        "klein",
    ]


def test_degrees_are_formed_in_both_languages():
    assert [english_degrees(word) for word in ("happy", "wide", "thin", "famous", "cheap")] == [
        ("happier", "happiest"), ("wider", "widest"), ("thinner", "thinnest"), ("more famous", "most famous"),
        ("cheaper", "cheapest"),
    ]  # fmt: skip
    assert [german_degrees(word) for word in ("breit", "schön", "spannend")] == [
        ("breiter", "breitest"), ("schöner", "schönst"), ("spannender", "spannendst"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "forms"),
    [
        ("call", "calls called called calling"),
        ("stop", "stops stopped stopped stopping"),
        ("try", "tries tried tried trying"),
        ("agree", "agrees agreed agreed agreeing"),
        ("die", "dies died died dying"),
        ("eat, ate, eaten", "eats ate eaten eating"),
        ("begin, began, begun, beginning", "begins began begun beginning"),
        ("visit", "visits visited visited visiting"),
        ("wash", "washes washed washed washing"),
    ],
)
def test_english_verbs_conjugate(entry, forms):
    verb = english_verb(entry)
    assert f"{verb.third} {verb.past} {verb.participle} {verb.gerund}" == forms


def test_phrasal_verbs_keep_their_particle():
    assert english_verb("turn on") == ("turn on", "turns on", "turned on", "turned on", "turning on")


def test_english_plurals_are_regular_where_nothing_else_is_said():
    assert [english_plural(noun) for noun in ("dog", "bus", "city", "boy", "box")] == [
        "dogs",
        "buses",
        "cities",
        "boys",
        "boxes",
    ]


def test_german_numbers_say_the_ones_first():
    numbers = LEXICON.numbers_en, LEXICON.numbers_de
    assert number_words(21, *numbers) == ("twenty-one", "einundzwanzig")
    assert number_words(47, *numbers) == ("forty-seven", "siebenundvierzig")
    assert number_words(12, *numbers) == ("twelve", "zwölf")


def test_there_are_about_fifteen_hundred_words():
    assert 1400 <= sum(LEXICON.kinds.values()) - LEXICON.kinds["class"] <= 1700


def test_no_two_nouns_share_an_english_form():
    owners = defaultdict(set)
    for noun in LEXICON.nouns:
        for form in (noun.en_singular, noun.en_plural):
            owners[form].add(noun.name)
    assert {form for form, names in owners.items() if len(names) > 1} == set()


def test_adjectives_and_names_are_unique():
    for entries in (
        [adjective.name for adjective in LEXICON.adjectives],
        [name.en for name in LEXICON.names],
    ):
        assert len(entries) == len(set(entries))


def test_verbs_with_two_translations_differ_in_frame_subjects_or_objects():
    seen = defaultdict(list)
    for verb in LEXICON.verbs:
        seen[verb.name].append(verb)
    for verbs in seen.values():
        for i, one in enumerate(verbs):
            for other in verbs[:i]:
                if one.de.infinitive == other.de.infinitive or one.frame != other.frame:
                    continue
                subjects = nouns(one.subjects) & nouns(other.subjects)
                objects = nouns(one.objects) & nouns(other.objects)
                assert not subjects or (one.objects and not objects), one.name


def nouns(classes):
    return {noun.name for noun in LEXICON.nouns if noun.classes.intersection(classes)}


def test_what_can_be_done_to_a_noun_is_not_also_an_adjective_of_it():
    """So that "the door was closed" does not mean both ist and wurde geschlossen."""
    participles = {verb.en.participle: verb for verb in LEXICON.verbs if verb.frame == "acc" and not verb.stative}
    for adjective in LEXICON.adjectives:
        verb = participles.get(adjective.name)
        if verb is not None and adjective.predicative:
            assert not nouns(adjective.classes) & nouns(verb.objects), adjective.name


def test_frequent_words_come_first_but_drown_nobody():
    pool = LEXICON.nouns_of(("food",))
    rng = random.Random(0)
    drawn = [pool.draw(rng).name for _ in range(20000)]
    assert drawn.count("bread") > 3 * drawn.count("pumpkin") > 0
    assert drawn.count("bread") < len(drawn) / 5


def test_verbs_whose_past_was_once_wrong():
    verbs = {verb.name: verb for verb in LEXICON.verbs}
    assert (verbs["swear"].en.past, verbs["swear"].en.participle) == ("swore", "sworn")
    assert verbs["shout"].de.past == ("schrie", "schriest", "schrie", "schrien", "schrien")
