"""The tokenizer: any text in, the same text out, and no surprise from SentencePiece."""

import io
import pickle
import random
import unicodedata

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.tokenizer import (
    BOS,
    EOS,
    PAD,
    UNK,
    Tokenizer,
    TokenizerConfig,
    TokenizerType,
    train_tokenizer,
)
from seq2seq.errors import UserError

BOTH_TYPES = pytest.mark.parametrize("type", list(TokenizerType))
NOT_CONTROL = ["</s>", "<s>", "<pad>", "<unk>", "<0x41>", "Wie setzt man </s> in HTML?", "</s></s> <pad>"]


def some_lines(count: int = 200) -> list[str]:
    """Make simple sentences, German and English mixed."""
    rng = random.Random(0)
    nouns = ["Hund", "Katze", "Bruder", "Schwester", "horse", "garden", "window", "Fenster", "Garten"]
    verbs = ["sieht", "findet", "malt", "sees", "finds", "paints"]
    return [f"{rng.choice(nouns)} {rng.choice(verbs)} {rng.randrange(100)} {rng.choice(nouns)}." for _ in range(count)]


def make(type: TokenizerType = TokenizerType.unigram, vocab_size: int = 320, **settings: bool) -> Tokenizer:
    return train_tokenizer(some_lines(), TokenizerConfig(type=type, vocab_size=vocab_size, **settings))


UNIGRAM, BPE = make(TokenizerType.unigram), make(TokenizerType.bpe)
WITHOUT_BYTES = make(vocab_size=70, byte_fallback=False)


def test_special_ids_are_the_first_four() -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert UNIGRAM.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


@BOTH_TYPES
def test_the_same_lines_give_the_same_tokenizer(type: TokenizerType) -> None:
    assert make(type).fingerprint == make(type).fingerprint


@BOTH_TYPES
def test_a_vocabulary_too_large_for_the_text_is_made_smaller_with_a_warning(
    type: TokenizerType, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = make(type, vocab_size=8000)
    assert 260 < tokenizer.vocab_size < 8000
    assert f"tokenizer.vocab_size=8000 is more than this text supports: {tokenizer.vocab_size}" in caplog.text


def test_a_vocabulary_that_fits_is_filled_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert make(vocab_size=300).vocab_size == 300
    assert not caplog.records


@BOTH_TYPES
def test_a_vocabulary_too_small_for_the_characters_is_an_error_that_names_a_size_that_works(
    type: TokenizerType,
) -> None:
    lines = ["".join(chr(0x4E00 + 10 * row + i) for i in range(10)) for row in range(50)]
    with pytest.raises(UserError, match=r"vocab_size=300 is too small .* set it to \d+ or more") as error:
        train_tokenizer(lines, TokenizerConfig(type=type, vocab_size=300, character_coverage=1.0))
    enough = int(str(error.value).split("set it to ")[1].split()[0])
    assert enough > 500
    config = TokenizerConfig(type=type, vocab_size=enough, character_coverage=1.0)
    assert train_tokenizer(lines, config).vocab_size == enough


@pytest.mark.parametrize("lines", [[], ["", "  "], ["x" * 10_000]])
def test_a_text_without_anything_to_learn_is_an_error(lines: list[str]) -> None:
    with pytest.raises(UserError, match="nothing to learn a tokenizer from"):
        train_tokenizer(lines, TokenizerConfig())


def test_an_error_in_the_lines_is_raised_as_it_is() -> None:
    def lines() -> object:
        yield "one line"
        raise UserError("line 2 is bad")

    with pytest.raises(UserError, match=r"^line 2 is bad$"):
        train_tokenizer(lines(), TokenizerConfig())  # type: ignore[arg-type]


def test_sentencepiece_writes_nothing_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    make(vocab_size=8000)
    with pytest.raises(UserError):
        train_tokenizer(["abc"], TokenizerConfig(vocab_size=5, byte_fallback=False))
    with pytest.raises(UserError):
        Tokenizer(b"no model")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", NOT_CONTROL)
@BOTH_TYPES
def test_text_that_looks_like_a_special_piece_is_text(type: TokenizerType, text: str) -> None:
    tokenizer = UNIGRAM if type is TokenizerType.unigram else BPE
    ids = tokenizer.encode(text)
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert tokenizer.decode(ids) == text


@BOTH_TYPES
def test_text_that_looks_like_a_special_piece_is_text_even_if_the_corpus_is_full_of_it(
    type: TokenizerType,
) -> None:
    lines = some_lines() + NOT_CONTROL * 100
    tokenizer = train_tokenizer(lines, TokenizerConfig(type=type, vocab_size=400))
    for text in NOT_CONTROL:
        assert not {PAD, UNK, BOS, EOS} & set(tokenizer.encode(text))
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_text_that_looks_like_a_special_piece_has_no_control_id_without_byte_fallback() -> None:
    for text in NOT_CONTROL:
        assert not {PAD, BOS, EOS} & set(WITHOUT_BYTES.encode(text))


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\t", "  "])
def test_every_kind_of_space_gives_the_ids_of_a_plain_space(space: str) -> None:
    assert UNIGRAM.encode(f"10{space}km") == UNIGRAM.encode("10 km")


def test_a_line_of_spaces_and_invisible_characters_has_no_ids() -> None:
    assert UNIGRAM.encode(" \u00a0\t\u200b") == []


@pytest.mark.parametrize("tokenizer", [UNIGRAM, BPE])
@given(words=st.lists(st.text("aäßzH19.,<>/漢字🦜👍ñ", min_size=1), min_size=1))
def test_any_text_comes_back_whole(tokenizer: Tokenizer, words: list[str]) -> None:
    text = " ".join(words)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("tokenizer", [UNIGRAM, BPE])
def test_an_emoji_cut_in_its_bytes_leaves_the_rest_of_the_text(tokenizer: Tokenizer) -> None:
    text = "Er sagte 🦜 und ging."
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    for cut in range(len(ids)):
        assert text.startswith(tokenizer.decode(ids[:cut]))


@given(ids=st.lists(st.integers(0, UNIGRAM.vocab_size - 1)))
def test_any_ids_decode_to_one_line_without_broken_characters(ids: list[int]) -> None:
    text = UNIGRAM.decode(ids)
    assert not set("\n\r\0\ufffd") & set(text)
    assert "<0x" not in text


def test_special_ids_are_passed_over_in_decoding() -> None:
    ids = UNIGRAM.encode("Hund sieht Katze.")
    assert UNIGRAM.decode([BOS, *ids[:2], PAD, *ids[2:], EOS, PAD]) == "Hund sieht Katze."


def test_without_byte_fallback_an_unknown_character_is_visible() -> None:
    ids = WITHOUT_BYTES.encode("Hund 漢 Katze")
    assert UNK in ids
    assert WITHOUT_BYTES.decode(ids) == "Hund ⁇ Katze"


@pytest.mark.parametrize("tokenizer", [UNIGRAM, BPE, WITHOUT_BYTES])
def test_characters_without_a_piece_are_counted(tokenizer: Tokenizer) -> None:
    assert tokenizer.unknown_characters("Hund sieht Katze") == 0
    assert tokenizer.unknown_characters("Hund 👍 漢字 ñ Katze") == 4


@given(ids=st.lists(st.integers(0, BPE.vocab_size - 1)))
def test_every_id_has_a_label_without_byte_codes(ids: list[int]) -> None:
    labels = BPE.pieces(ids)
    assert len(labels) == len(ids)
    assert not any("<0x" in label or not label for label in labels)


def test_a_character_spelled_in_bytes_is_shown_at_its_first_byte() -> None:
    ids = UNIGRAM.encode("🦜ñ")
    assert UNIGRAM.pieces(ids) == ["▁", "🦜", "·", "·", "·", "ñ", "·"]
    assert UNIGRAM.pieces(ids[:4]) == ["▁", "⟨F0⟩", "⟨9F⟩", "⟨A6⟩"]


@pytest.mark.parametrize("lines", [0, 5, 50])  # a few and many go different ways
def test_a_batch_is_encoded_as_its_texts_are_one_by_one(lines: int) -> None:
    texts = [*some_lines(lines), "", "🦜"]
    assert UNIGRAM.encode_batch(texts) == [UNIGRAM.encode(text) for text in texts]


def test_lower_casing_belongs_to_the_tokenizer() -> None:
    tokenizer = make(lowercase=True)
    assert tokenizer.encode("GROẞER Hund") == tokenizer.encode("großer hund")
    assert tokenizer.decode(tokenizer.encode("Der HUND")) == "der hund"
    assert tokenizer.unknown_characters("HUND") == 0
    assert Tokenizer(tokenizer.model, lowercase=False).fingerprint != tokenizer.fingerprint


def test_pieces_are_learned_from_lower_cased_text() -> None:
    config = TokenizerConfig(vocab_size=300, lowercase=True)
    loud, soft = ([change(line) for line in some_lines()] for change in (str.upper, str.lower))
    assert train_tokenizer(loud, config).fingerprint == train_tokenizer(soft, config).fingerprint


def test_a_pickled_tokenizer_is_the_same() -> None:
    tokenizer = make(lowercase=True)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.fingerprint == tokenizer.fingerprint
    assert copy.encode("Der HUND") == tokenizer.encode("Der HUND")


def test_a_broken_model_is_refused() -> None:
    with pytest.raises(UserError, match="not a SentencePiece model"):
        Tokenizer(UNIGRAM.model[:1000])


def test_an_empty_model_is_refused() -> None:
    with pytest.raises(UserError, match="not a SentencePiece model"):
        Tokenizer(b"")


def test_a_model_with_other_special_ids_is_refused() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(some_lines()), model_writer=model, vocab_size=60, minloglevel=3
    )
    with pytest.raises(UserError, match=r"numbers pad, unk, bos, eos as \(-1, 0, 1, 2\)"):
        Tokenizer(model.getvalue())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 260}, "vocab_size=260 must be more than 260"),
        ({"vocab_size": 2_000_000_000}, "vocab_size=2000000000 must be at most 1000000"),
        ({"vocab_size": 4, "byte_fallback": False}, "vocab_size=4 must be more than 4"),
        ({"character_coverage": 1.5}, r"character_coverage=1.5 must be between 0.9 and 1.0"),
        ({"max_characters": 0}, "max_characters=0 must be at least 1"),
    ],
)
def test_an_impossible_setting_is_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TokenizerConfig(**settings)  # type: ignore[arg-type]


def test_no_id_decodes_to_a_control_character(tiny_tokenizer: Tokenizer) -> None:
    for i in range(tiny_tokenizer.vocab_size):
        assert not any(
            unicodedata.category(character) == "Cc" and ord(character) < 128 for character in tiny_tokenizer.decode([i])
        )
