"""The parts of the built-in corpus: what each promises about what others have seen."""

import hashlib
import re
from collections import Counter
from functools import cache

import pytest

from seq2seq.data.grammar import PARTS, part
from seq2seq.data.grammar.files import GrammarConfig
from seq2seq.data.grammar.lexicon import is_held_out, load_lexicon
from seq2seq.errors import UserError

LEXICON = load_lexicon()


@cache
def pairs(name, count=600, seed=1):
    return list(part(name, count=count, seed=seed))


def test_a_part_is_the_same_for_the_same_seed():
    text = "".join(f"{pair.src}\t{pair.tgt}\t{pair.alignment}\n" for pair in pairs("train", 1000))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "96ed0d9b1a3e2eddf4db19ecba66a2216997123996ec8857720a902fae79807d"
    )


def test_a_longer_part_begins_with_the_shorter_one():
    assert pairs("train", 1000)[:50] == pairs("train", 50)


def test_other_seeds_and_parts_give_other_sentences():
    assert pairs("train", 50, seed=2) != pairs("train", 50)
    assert pairs("valid", 50) != pairs("test", 50)


def test_an_unknown_part_is_an_error_that_names_the_known_ones():
    with pytest.raises(UserError, match="no part 'dev': choose from train, valid, test"):
        next(part("dev", count=1, seed=1))


@pytest.mark.parametrize("name", PARTS)
def test_a_part_gives_as_many_distinct_sentences_as_asked(name):
    assert len({pair.src for pair in pairs(name, 36)}) == len(pairs(name, 36)) == 36


def test_training_sentences_have_3_to_20_words_and_about_10_on_average():
    lengths = [pair.tags.length for pair in pairs("train", 2000)]
    assert min(lengths) >= 3
    assert max(lengths) <= 20
    assert 9 <= sum(lengths) / len(lengths) <= 11


def test_no_sentence_is_in_two_shares_on_either_side():
    shares = [pairs("train", 8000, 3), pairs("valid", 150), pairs("test", 150), pairs("agreement", 36)]
    for side in ("src", "tgt"):
        seen = [{getattr(pair, side) for pair in share} for share in shares]
        assert all(not one & other for i, one in enumerate(seen) for other in seen[:i])


def test_new_templates_occur_nowhere_else():
    new = {pair.tags.template for pair in pairs("new_templates", 60)}
    for name, count in (("train", 1000), ("valid", 150), ("test", 150)):
        assert not new & {pair.tags.template for pair in pairs(name, count)}


def test_training_never_combines_what_is_held_out():
    names = {
        form[0]: noun.name for noun in LEXICON.nouns for form in (noun.en_singular, noun.en_plural) if len(form) == 1
    }
    adjectives = {adjective.name for adjective in LEXICON.adjectives}

    def combined(pair):
        """Adjectives, in their first degree, before a noun of one word."""
        words = [*re.findall(r"[^\s,.?!]+", pair.src), ""]
        kinds = [*pair.tags.template.rstrip(".?!").split(), ""]
        at = [i for i in range(len(kinds) - 2) if kinds[i : i + 2] == ["adjective", "noun"] and kinds[i + 2] != "noun"]
        return [(words[i], names[words[i + 1]]) for i in at if words[i] in adjectives and words[i + 1] in names]

    assert not [pair.src for pair in pairs("train", 8000, 3) if any(is_held_out(*two) for two in combined(pair))]
    new = [pair for pair in pairs("new_combinations", 200) if "unseen_adjective" in pair.tags.phenomena]
    assert len(new) > 80
    assert sum(any(is_held_out(*two) for two in combined(pair)) for pair in new) > 0.7 * len(new)


@pytest.mark.parametrize("growth", ["coordination", "embedding"])
@pytest.mark.parametrize(("low", "high"), [(21, 40), (41, 60)])
def test_long_sentences_are_as_long_as_they_say(low, high, growth):
    assert all(low <= pair.tags.length <= high for pair in pairs(f"length_{low}_{high}_{growth}", 60))


def test_deep_sentences_go_one_and_two_levels_beyond_training():
    assert max(pair.tags.depth for pair in pairs("train", 2000)) == 2
    assert {pair.tags.depth for pair in pairs("depth_3", 60)} == {3}
    assert {pair.tags.depth for pair in pairs("depth_4", 60)} == {4}


@pytest.mark.parametrize("name", ["agreement", "bracket"])
def test_distances_from_1_to_12_are_equally_frequent(name):
    counted = Counter(getattr(pair.tags, name) for pair in pairs(name, 36))
    assert counted == dict.fromkeys(range(1, 13), 3)


def test_pronouns_are_pairs_in_which_one_adjective_decides():
    everything = pairs("pronouns", 200)
    for one, other in zip(everything[::2], everything[1::2], strict=True):
        differ = [pair for pair in zip(one.src.split(), other.src.split(), strict=True) if pair[0] != pair[1]]
        assert len(differ) == 1, (one.src, other.src)
        pronouns = [re.search(r"weil (er|sie|es) zu", pair.tgt)[1] for pair in (one, other)]
        assert pronouns[0] != pronouns[1]


def test_pronouns_agree_with_the_noun_that_the_adjective_is_true_of():
    for index, pair in enumerate(pairs("pronouns", 200)):
        subject, object = re.match(r"The (.+?) (?:did not) \w+ (?:\w+ )??the (.+?) because", pair.src).groups()
        noun = next(noun for noun in LEXICON.nouns if noun.name == (subject, object)[index % 2])
        assert f"weil {('er', 'sie', 'es')[noun.gender]} zu" in pair.tgt, pair


def test_a_part_that_has_not_so_many_sentences_says_how_many_it_has():
    with pytest.raises(UserError, match=r"the part pronouns of the built-in language has no more than \d\d\d pairs"):
        list(part("pronouns", count=2000, seed=1))


def test_every_part_has_as_many_pairs_as_the_default_corpus_asks_for():
    assert len(list(part("pronouns", count=GrammarConfig().challenge_size, seed=1))) == 500
