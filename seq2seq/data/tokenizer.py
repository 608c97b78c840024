"""SentencePiece, and the only definition of the special ids.

The policy for text, the same in training and in translation:

* Text is lower-cased if the tokenizer was made so (`str.lower`), then normalised by SentencePiece's `nmt_nfkc`
  rules: Unicode NFKC, every kind of space is one space, runs of spaces are one, control characters are dropped.
* A character outside the vocabulary is spelled in UTF-8 bytes (`byte_fallback`), so any text comes back whole.
  Without byte fallback it becomes UNK, which decodes to a visible "⁇".
* Text that looks like a special piece ("</s>", "<0x41>") is text: only the code sets PAD, BOS and EOS.
* Decoding drops bytes that make no character, and control characters: one sentence stays one line.
"""

import hashlib
import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

import sentencepiece

from seq2seq.data.words import word_spans
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

PAD, UNK, BOS, EOS = 0, 1, 2, 3

# SentencePiece passes over longer lines when it learns; they are tokenised all the same.
_LONGEST_LINE_BYTES = 8192
# The sums of the unigram model depend on how many threads share them: a fixed number keeps machines equal.
_TRAINING_THREADS = 4
_SILENT = 3
# SentencePiece starts threads for a list of texts, which takes longer than fewer texts than this do on one core.
_FEW_TEXTS = 32

# What decoded bytes may hold and a line of text may not.
_NOT_IN_A_LINE = dict.fromkeys((*range(32), 127, 65533)) | {ord(space): " " for space in "\t\n\r"}


class TokenizerType(Enum):
    """How SentencePiece chooses its pieces."""

    unigram = "unigram"  # Kudo 2018, "Subword Regularization"
    bpe = "bpe"  # Sennrich, Haddow, Birch 2016, "Neural Machine Translation of Rare Words with Subword Units"


@dataclass
class TokenizerConfig:
    """How to learn the pieces, one vocabulary for both languages.

    Attributes:
        vocab_size: pieces, special ones included; fewer where the corpus does not hold so many.
        byte_fallback: spell characters outside the vocabulary in bytes; else they become UNK.
        character_coverage: share of the corpus' characters that get pieces of their own.
        lowercase: lower-case all text, in training and in translation.
        max_characters: learn from a random sample of about this size if the training text is larger; unigram needs
            some 20 bytes of memory for each character.
    """

    type: TokenizerType = TokenizerType.unigram
    vocab_size: int = 8000
    byte_fallback: bool = True
    character_coverage: float = 0.9999
    lowercase: bool = False
    max_characters: int = 20_000_000

    def __post_init__(self) -> None:
        reserved = 4 + 256 * self.byte_fallback
        if self.vocab_size <= reserved:
            pieces = "the 4 special and 256 byte pieces" if self.byte_fallback else "the 4 special pieces"
            raise UserError(f"tokenizer.vocab_size={self.vocab_size} must be more than {reserved}, {pieces}")
        if self.vocab_size > 1_000_000:
            raise UserError(f"tokenizer.vocab_size={self.vocab_size} must be at most 1000000")
        if not 0.9 <= self.character_coverage <= 1.0:
            raise UserError(f"tokenizer.character_coverage={self.character_coverage} must be between 0.9 and 1.0")
        if self.max_characters < 1:
            raise UserError(f"tokenizer.max_characters={self.max_characters} must be at least 1")


class Tokenizer:
    """Text to ids and back. Immutable.

    Attributes:
        model: the serialised SentencePiece model.
        lowercase: whether text is lower-cased first.
        vocab_size: the number of pieces, special ones included.
        fingerprint: SHA-256 of the model and `lowercase`, in hex.
    """

    def __init__(self, model: bytes, lowercase: bool = False) -> None:
        """Load a serialised model; a UserError if it is none, or one with other special ids than ours."""
        sentencepiece.set_min_log_level(_SILENT)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(model)
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"the tokenizer model ({len(model)} bytes) is not a SentencePiece model; take an unbroken copy"
            ) from error
        special = tuple(getattr(self._processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos"))
        if special != (PAD, UNK, BOS, EOS):
            raise UserError(
                f"the tokenizer model numbers pad, unk, bos, eos as {special}, not {(PAD, UNK, BOS, EOS)}; "
                "train it with this package"
            )
        self.model = model
        self.lowercase = lowercase
        self.vocab_size: int = self._processor.vocab_size()
        self.fingerprint = hashlib.sha256(model + (b"\1" if lowercase else b"\0")).hexdigest()

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[bytes, bool]]:
        return Tokenizer, (self.model, self.lowercase)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        ids: list[int] = self._processor.encode(self._cased(text))
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores; of a few on this one, as starting threads takes longer."""
        if len(texts) < _FEW_TEXTS:
            return [self.encode(text) for text in texts]
        ids: list[list[int]] = self._processor.encode([self._cased(text) for text in texts])
        return ids

    def word_pieces(self, text: str) -> list[list[int]]:
        """Return for each word of a text (see `word_spans`) the places of its pieces among the text's ids.

        A piece that is only the space before a word is the word's first; punctuation belongs to none; a piece that two
        words share counts with both.
        """
        text = self._cased(text)
        offsets = self._processor.encode(text, return_type="offset_mapping")["offsets"]  # in characters
        spans = [(begin, max(end, begin + 1) + text[begin:end].isspace()) for begin, end in offsets]
        return [
            [n for n, (begin, end) in enumerate(spans) if begin < word_end and end > word_start]
            for word_start, word_end in word_spans(text)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; PAD, BOS and EOS have none. Any sequence of ids has a text, on one line."""
        text: str = self._processor.decode([int(i) for i in ids])
        return text.translate(_NOT_IN_A_LINE)

    def vocabulary(self) -> list[str]:
        """Return the name of every id, as SentencePiece knows it: "▁a", "<0x41>", "</s>"."""
        names: list[str] = self._processor.id_to_piece(list(range(self.vocab_size)))
        return names

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a label for each id, for display; "▁" marks the start of a word.

        A character that is spelled in bytes stands at its first byte, "·" at the others; a byte that belongs to no
        whole character is shown as ⟨F0⟩.
        """
        labels: list[str] = []
        while len(labels) < len(ids):
            rest = [int(i) for i in ids[len(labels) : len(labels) + 4]]
            if not self._processor.is_byte(rest[0]):
                labels.append(self._processor.id_to_piece(rest[0]))
                continue
            spelled = self._first_character(rest)
            character = spelled.decode("utf-8", errors="ignore")
            labels += [character, *"·" * (len(spelled) - 1)] if character else [f"⟨{spelled[0]:02X}⟩"]
        return labels

    def unknown_characters(self, text: str) -> int:
        """Count the characters of a text that have no piece: spelled in bytes, or UNK."""
        text = self._cased(text)
        count = 0
        for i, piece in zip(self._processor.encode(text), self._processor.encode(text, out_type=str), strict=True):
            if i == UNK:
                count += len(piece)
            elif self._processor.is_byte(i):
                count += self._byte(i) & 0xC0 != 0x80  # every byte of a character but its first is 10xxxxxx
        return count

    def _cased(self, text: str) -> str:
        return text.lower() if self.lowercase else text

    def _byte(self, byte_piece: int) -> int:
        return int(self._processor.id_to_piece(byte_piece)[3:5], 16)  # "<0x41>"

    def _first_character(self, ids: Sequence[int]) -> bytes:
        """Return the bytes of the character that starts at ids[0], or that byte alone if none does."""
        spelled = bytearray()
        for i in ids:
            if not self._processor.is_byte(i):
                break
            spelled.append(self._byte(i))
            if spelled.decode("utf-8", errors="ignore"):
                return bytes(spelled)
        return bytes(spelled[:1])


def train_tokenizer(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Learn the pieces from the training lines of both languages. The same lines give the same tokenizer.

    A vocabulary larger than the text supports is made smaller, with a warning. One too small for the characters of
    the text, and a text without any, raise a UserError.
    """
    fed = _Fed(lines, config.lowercase)
    model = io.BytesIO()
    try:
        # Beside the main thread, which answers signals: the library does not for minutes.
        learning = ThreadPoolExecutor(1).submit(
            sentencepiece.SentencePieceTrainer.train,
            sentence_iterator=iter(fed),
            model_writer=model,
            model_type=config.type.value,
            vocab_size=config.vocab_size,
            hard_vocab_limit=False,
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            normalization_rule_name="nmt_nfkc",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            unk_surface="⁇",
            max_sentence_length=_LONGEST_LINE_BYTES,
            num_threads=_TRAINING_THREADS,
            minloglevel=_SILENT,
        )
        learning.result()
    except RuntimeError as error:
        raise _explained(error, fed, config) from error
    tokenizer = Tokenizer(model.getvalue(), config.lowercase)
    if tokenizer.vocab_size < config.vocab_size:
        logger.warning(
            "tokenizer.vocab_size=%d is more than this text supports: %d pieces are used",
            config.vocab_size,
            tokenizer.vocab_size,
        )
    return tokenizer


class _Fed:
    """The lines on their way into SentencePiece, which turns an error in them into one of its own."""

    def __init__(self, lines: Iterable[str], lowercase: bool) -> None:
        self.lines = lines
        self.lowercase = lowercase
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self.lines:
                yield line.lower() if self.lowercase else line
        except BaseException as error:
            self.error = error
            raise


def _explained(error: RuntimeError, fed: _Fed, config: TokenizerConfig) -> BaseException:
    """Return what to raise for an error of SentencePiece: the cause in the user's words where we know it."""
    if fed.error is not None:
        return fed.error
    if too_small := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        return UserError(
            f"tokenizer.vocab_size={config.vocab_size} is too small for the characters of the training text: set it "
            f"to {too_small[1]} or more, or lower tokenizer.character_coverage={config.character_coverage}"
        )
    if re.search(r"sentences_\.empty|all_chars_count", str(error)):
        return UserError(
            "the training text has nothing to learn a tokenizer from: every line is blank or longer than "
            f"{_LONGEST_LINE_BYTES} bytes"
        )
    return error
