"""Coverage-guided fuzzing of what reads foreign bytes: the line reader, the tokenizer, the loaders.

    pip install -e . atheris
    python scripts/fuzz.py reader    -max_total_time=600
    python scripts/fuzz.py tokenizer -max_total_time=600
    python scripts/fuzz.py bundle    -max_total_time=600
    python scripts/fuzz.py settings  -max_total_time=600

The options behind the target are libFuzzer's; a folder among them keeps the inputs that reached new code. Whatever the
bytes, a target gives a result that keeps its promise, or a UserError of one line. Anything else stops the fuzzer, which
writes the input to a file. What it finds becomes a test.
"""

import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["seq2seq"]):
    from seq2seq.config import from_plain
    from seq2seq.data.corpus import read_lines
    from seq2seq.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
    from seq2seq.errors import UserError
    from seq2seq.inference import bundle
    from seq2seq.inference.search import SearchConfig
    from seq2seq.models import build_model
    from seq2seq.models.transformer import TransformerConfig
    from seq2seq.training.config_file import read_settings

SENTENCES = (
    "Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich.",
    "A quick brown fox jumps over it, 0123456789!",
)


def make_tokenizer() -> Tokenizer:
    """Learn a small vocabulary."""
    return train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=330))


def reader() -> Callable[[bytes], None]:
    """Line k out is line k in."""

    def check(data: bytes) -> None:
        count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        lines = list(read_lines(io.BytesIO(data), Counter()))
        assert len(lines) == count
        assert not any(set("\n\r\0") & set(line) for line in lines)

    return check


def tokenizer() -> Callable[[bytes], None]:
    """Text has ids of the vocabulary, and ids have text on one line; twice there and back is once."""
    model = make_tokenizer()

    def check(data: bytes) -> None:
        text = data.decode("utf-8", errors="ignore").translate(dict.fromkeys(b"\0\r\n"))  # as the reader leaves it
        ids = model.encode(text)
        assert all(3 < i < model.vocab_size or i == 1 for i in ids)
        once = model.decode(ids)
        assert "\n" not in once
        assert model.decode(model.encode(once)) == once
        assert len(model.pieces(ids)) == len(ids)
        assert model.unknown_characters(text) >= 0
        drawn = [byte * 256 % model.vocab_size + byte % 7 for byte in data[:50]]
        assert not set("\r\n\0") & set(model.decode([i % model.vocab_size for i in drawn]))

    return check


def loader() -> Callable[[bytes], None]:
    """A bundle one file of which is overwritten somewhere is loaded or refused."""
    folder = Path(tempfile.mkdtemp()) / "bundle"
    vocabulary = make_tokenizer()
    config = TransformerConfig(d_model=4, d_ff=4, num_heads=1, num_layers=1)
    preprocessing = bundle.Preprocessing(False, 9, "en", "de")
    model = build_model(config, vocabulary.vocab_size)
    bundle.save_bundle(folder, bundle.Bundle(model, config, vocabulary, preprocessing, SearchConfig(), {}))
    files = {path: path.read_bytes() for path in sorted(folder.iterdir())}

    def check(data: bytes) -> None:
        if len(data) < 4:
            return
        path, whole = list(files.items())[data[0] % 4]
        place = int.from_bytes(data[1:3], "little") % (len(whole) + 1)
        path.write_bytes(whole[:place] + data[4:] + (whole[place + len(data) - 4 :] if data[3] % 2 else b""))
        try:
            bundle.load_bundle(folder)
        finally:
            path.write_bytes(whole)

    return check


def settings() -> Callable[[bytes], None]:
    """The config.yaml of a run is read or refused."""
    file = Path(tempfile.mkdtemp()) / "config.yaml"

    def check(data: bytes) -> None:
        file.write_bytes(b"choices: {data: files, model: rnn}\n" + data)
        from_plain(read_settings(file))

    return check


TARGETS = {"reader": reader, "tokenizer": tokenizer, "bundle": loader, "settings": settings}


def main() -> None:
    """Fuzz the target that the command line names."""
    check = TARGETS[sys.argv.pop(1)]()

    def one_input(data: bytes) -> None:
        try:
            check(data)
        except UserError as error:
            if "\n" in str(error):
                raise AssertionError("an error of more than a line") from error

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
