import pytest

from seq2seq.data.words import Alignment, word_spans


def test_words_leave_punctuation_out_and_keep_what_joins_them() -> None:
    text = "Er sagt: „O'clock, twenty-one!“"
    assert [text[start:end] for start, end in word_spans(text)] == ["Er", "sagt", "O'clock", "twenty-one"]


def test_an_alignment_is_read_back_from_pharaoh_format() -> None:
    alignment = Alignment(sure=((0, 0), (2, 1)), possible=((0, 0), (1, 1), (2, 1)))
    assert str(alignment) == "0-0 1p1 2-1"
    assert Alignment.parse(str(alignment)) == alignment
    assert Alignment.parse("") == Alignment((), ())


def test_links_are_sorted_however_they_are_written() -> None:
    assert Alignment.parse("2-1 0p3 0-0") == Alignment(((0, 0), (2, 1)), ((0, 0), (0, 3), (2, 1)))


@pytest.mark.parametrize("text", ["0", "0-", "a-b", "0-0,1-1", "-1-0", "0_0", "9999999999-0", "٣-٤"])
def test_what_is_no_link_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no link of Pharaoh format"):
        Alignment.parse(text)


def test_turned_around_twice_an_alignment_is_the_same() -> None:
    alignment = Alignment.parse("0-1 0-2 1p0")
    assert alignment.reversed() == Alignment.parse("1-0 2-0 0p1")
    assert alignment.reversed().reversed() == alignment
