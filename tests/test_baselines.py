import pytest

from seq2seq.comparison.baselines import NearestNeighbour, WordForWord, copy, trivial_baselines
from seq2seq.data.ibm_model1 import IbmModel1

PAIRS = [
    ("The dog sleeps.", "Der Hund schläft."),
    ("The cat sleeps.", "Die Katze schläft."),
    ("A dog barks.", "Ein Hund bellt."),
    ("A cat sees a dog.", "Eine Katze sieht einen Hund."),
    ("The cat barks.", "Die Katze bellt."),
]


def test_each_word_has_the_translation_that_counting_by_hand_gives():
    # Only "a" and "b" were seen with two targets: "a" with x twice and y once.
    model = IbmModel1([("a", "x"), ("a b", "x y")])
    assert model.best_translations() == {"a": "x", "b": "y"}


def test_a_model_of_nothing_translates_nothing():
    assert IbmModel1([]).best_translations() == {}
    assert WordForWord([])("Any words.") == "Any words."


def test_word_for_word_keeps_order_punctuation_and_unknown_words():
    translate = WordForWord(PAIRS)
    assert translate("Dog, zebra sleeps!") == "Hund, zebra schläft!"


def test_word_for_word_spells_as_training_does_inside_sentences_and_begins_as_the_source_does():
    translate = WordForWord([("see dogs", "Seht hunde"), ("the dogs", "die Hunde"), ("all dogs", "alle Hunde")])
    assert translate("dogs") == "Hunde"
    assert translate("The dogs") == "Die Hunde"
    assert translate("the dogs") == "die Hunde"


def test_the_neighbour_shares_most_words_and_pairs_of_words_for_its_length():
    translate = NearestNeighbour(PAIRS)
    # {the, dog, barks, the dog, dog barks}: 3 in common of 5 with "The dog sleeps.", as with "A dog barks."
    assert translate("The dog barks.") == "Der Hund schläft."
    # with "The cat barks." it shares the, cat, barks, the cat, cat barks: all five
    assert translate("the cat barks") == "Die Katze bellt."
    # a longer neighbour that holds more of the words loses to one with nothing else in it
    assert NearestNeighbour([("a b c d e f", "long"), ("a", "short")])("a") == "short"


def test_the_first_of_equal_neighbours_is_taken():
    assert NearestNeighbour([("a b", "first"), ("a c", "second")])("a") == "first"


@pytest.mark.parametrize("line", ["", "?!", "zebra"])
def test_a_line_that_shares_no_word_has_no_neighbour(line):
    assert NearestNeighbour(PAIRS)(line) == ""


def test_the_baselines_have_names_for_a_table():
    baselines = trivial_baselines(PAIRS)
    assert list(baselines) == ["copy the source", "word for word, IBM Model 1", "nearest training neighbour"]
    assert copy("a b") == "a b"
