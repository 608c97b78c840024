from collections import defaultdict

import pytest

from seq2seq.data.ibm_model1 import IbmModel1, words

PAIRS = [
    ("the house", "das Haus"),
    ("the book", "das Buch"),
    ("a book", "ein Buch"),
    ("the old house", "das alte Haus"),
]


def oracle(pairs: list[tuple[str, str]], iterations: int) -> dict[tuple[str, str], float]:
    """Brown et al. 1993, equations 5 to 10, as loops: t(f | e), the empty e being NULL."""
    corpus = [(["", *words(src)], words(tgt)) for src, tgt in pairs]
    t: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts: dict[tuple[str, str], float] = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for src, tgt in corpus:
            for f in tgt:
                normaliser = sum(t[e, f] for e in src)
                for e in src:
                    counts[e, f] += t[e, f] / normaliser
                    totals[e] += t[e, f] / normaliser
        t = defaultdict(float, {(e, f): count / totals[e] for (e, f), count in counts.items()})
    return t


@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_probabilities_equal_the_equations_written_as_loops(iterations: int) -> None:
    pairs = [*PAIRS, ("book book", "Buch"), ("", "ja"), ("no", "")]
    model = IbmModel1(pairs, iterations)
    expected = oracle(pairs, iterations)
    for e in ("", "the", "a", "book", "house", "old", "no"):
        for f in ("das", "haus", "buch", "ein", "alte", "ja"):
            assert model.probability(e, f) == pytest.approx(expected[e, f], abs=1e-12), (e, f)


def test_words_that_occur_together_are_aligned() -> None:
    model = IbmModel1(PAIRS * 5, 20)
    assert str(model.align("The book.", "Das Buch.")) == "0-0 1-1"
    assert str(model.align("the old house", "Haus, das alte")) == "0-1 1-2 2-0"


def test_a_word_that_only_null_explains_stays_alone() -> None:
    model = IbmModel1([("a", "x z"), ("b", "y z"), ("c", "w z"), ("d", "v z")], 20)
    assert str(model.align("a", "x z")) == "0-0"


def test_what_was_never_seen_has_no_probability_and_no_link() -> None:
    model = IbmModel1(PAIRS)
    assert model.probability("zebra", "Buch") == model.probability("book", "zebra") == 0.0
    assert str(model.align("zebra", "Zebra")) == ""
    assert str(model.align("", "")) == ""


def test_nothing_can_be_learned_from_nothing() -> None:
    assert str(IbmModel1([]).align("the book", "das Buch")) == ""
