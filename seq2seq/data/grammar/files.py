"""The built-in language as a corpus of files: what `data=grammar` trains on, and `seq2seq data grammar` writes.

    <name>.en, <name>.de   a sentence a line
    <name>.align           its gold word alignment, Pharaoh format
    <name>.tags            what the pair shows, a JSON object

for each part of `parts.PARTS`; where the text is only trained on, without the last two.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from seq2seq.data.corpus import Corpus, DataConfig, ParallelText
from seq2seq.data.gold import tags_to_json
from seq2seq.data.grammar.pair import Pair
from seq2seq.data.grammar.parts import PARTS, check_parts, part
from seq2seq.data.whole_folder import whole_folder
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

CHALLENGES = tuple(name for name in PARTS if name not in ("train", "valid", "test"))
_LANGUAGES = ("en", "de")


@dataclass
class GrammarConfig(DataConfig):
    """The built-in language, generated: English and German with gold alignments; needs no files and no network.

    Attributes:
        train_size: pairs to train on, of 3 to 20 English words.
        valid_size: pairs to validate on.
        test_size: pairs of the test set, from the same distribution as training.
        challenge_size: pairs of each challenge set (longer, deeper, farther, new combinations, pronouns); 0 = none.
        seed: another one draws other sentences from the same language; not the seed of training.
    """

    train_size: int = 100_000
    valid_size: int = 1000
    test_size: int = 1000
    challenge_size: int = 500
    seed: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, language in (("src_lang", self.src_lang), ("tgt_lang", self.tgt_lang)):
            if language not in _LANGUAGES:
                raise UserError(f"data.{name}={language}: the built-in language has en and de")
        for name, least in (("train_size", 1), ("valid_size", 1), ("test_size", 0), ("challenge_size", 0)):
            if getattr(self, name) < least:
                raise UserError(f"data.{name}={getattr(self, name)} must be at least {least}")

    def sizes(self) -> dict[str, int]:
        """Return the number of pairs of each part; parts without any are left out."""
        own = {"train": self.train_size, "valid": self.valid_size, "test": self.test_size}
        sizes = {name: own.get(name, self.challenge_size) for name in PARTS}
        return {name: size for name, size in sizes.items() if size}


def grammar_corpus(config: GrammarConfig) -> Corpus:
    """Generate the corpus, or find it where it was generated before; German to English is the same pairs turned."""
    folder = Path(config.cache_dir).expanduser() / "grammar" / _fingerprint(config)
    if not folder.is_dir():
        with whole_folder(folder, in_cache=True) as building:
            for name, size in config.sizes().items():
                logger.info("generating the built-in language: %s, %d pairs", name, size)
                pairs = part(name, count=size, seed=config.seed)
                turned = pairs if config.src_lang == "en" else map(Pair.reversed, pairs)
                _write_part(building, name, turned, (config.src_lang, config.tgt_lang), with_gold=name != "train")
    texts = {name: _text(folder, name, config) for name in config.sizes()}
    train, valid = texts.pop("train"), texts.pop("valid")
    return Corpus(train, valid, texts)


def write_corpus(folder: Path, sizes: Mapping[str, int], seed: int) -> None:
    """Write a new folder that holds so many pairs of each part, English to German, with alignments and tags.

    Raises:
        UserError: the folder is there and not empty, or cannot be made; a name is no part.
    """
    check_parts(sizes)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} is there already: name a new folder")
        with whole_folder(folder, in_cache=False) as building:
            for name, size in sizes.items():
                _write_part(building, name, part(name, count=size, seed=seed), ("en", "de"), with_gold=True)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error


def _write_part(folder: Path, name: str, pairs: Iterable[Pair], languages: tuple[str, str], *, with_gold: bool) -> None:
    """Write a part as files, two or, with the gold alignments and tags, four; one pair at a time."""
    suffixes = (*languages, *(("align", "tags") if with_gold else ()))
    with ExitStack() as files:
        streams = [
            files.enter_context((folder / f"{name}.{suffix}").open("w", encoding="utf-8", newline="\n"))
            for suffix in suffixes
        ]
        for pair in pairs:
            gold = (str(pair.alignment), tags_to_json(pair.tags)) if with_gold else ()
            for stream, line in zip(streams, (pair.src, pair.tgt, *gold), strict=True):
                stream.write(f"{line}\n")


def _text(folder: Path, name: str, config: GrammarConfig) -> ParallelText:
    src, tgt, align, tags = (
        folder / f"{name}.{suffix}" for suffix in (config.src_lang, config.tgt_lang, "align", "tags")
    )
    return ParallelText(src, tgt, gold=None if name == "train" else (align, tags))


def _fingerprint(config: GrammarConfig) -> str:
    """Identify all that the files depend on: how many of what, the grammar itself, code and lexicon, and formats."""
    digest = hashlib.sha256(json.dumps([config.sizes(), config.seed, config.src_lang]).encode())
    here = Path(__file__).parent
    formats = [here.parent / "gold.py", here.parent / "words.py"]
    for file in sorted([*here.glob("*.py"), *here.glob("*.tsv"), *formats]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
