"""From a corpus to stores of token ids, cached under a fingerprint of everything that goes in.

    <cache_dir>/prepared/<fingerprint>/   tokenizer.model, train/, valid/, tests/<name>/, manifest.json

A text with gold alignments takes them along (see `gold`), and what IBM Model 1, trained on the same pairs, makes of it.

A folder is built under a temporary name and renamed when it is complete, so one that has its final name can be
trusted. Two processes may prepare the same corpus at once: the first to finish gives its folder the name, the other
uses that one. The text is streamed and written in chunks, so it may be larger than memory.
"""

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import version
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.clean import Cleaning
from seq2seq.data.corpus import Corpus, DataConfig, FilesConfig, files_corpus, read_lines
from seq2seq.data.gold import Gold, parse_alignments, parse_tags, read_gold
from seq2seq.data.grammar.files import GrammarConfig, grammar_corpus
from seq2seq.data.ibm_model1 import IbmModel1
from seq2seq.data.multi30k import Multi30kConfig, multi30k_corpus
from seq2seq.data.split import Part, divide
from seq2seq.data.store import STORE_FORMAT, PairStore, write_store
from seq2seq.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from seq2seq.data.whole_folder import whole_folder
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

FORMAT = 2
_CHUNK = 10_000  # pairs tokenised and written at once
_PROGRESS_EVERY = 500_000
_LATER = ("train_size",)  # options that came later: left open, the fingerprint is what it was without them
# Where things lie does not change what comes of them.
_PLACES = ("cache_dir", "dir", "url", "train", "valid", "test")


@dataclass(frozen=True)
class PreparedCorpus:
    """A corpus ready to be trained on.

    Attributes:
        gold: what is known besides of "valid" and of tests, by name.
        manifest: what went in, and what was left out.
    """

    folder: Path
    tokenizer: Tokenizer
    train: PairStore
    valid: PairStore
    tests: dict[str, PairStore]
    gold: dict[str, Gold]
    manifest: dict[str, Any]


def prepare(data: DataConfig, tokenizer: TokenizerConfig) -> PreparedCorpus:
    """Return the prepared corpus, from the cache if it has been prepared before.

    Pairs that are blank on either side, too long or of a wild length ratio are left out of training, and counted;
    validation and test keep every line.

    Raises:
        UserError: files that are missing, damaged or do not match line by line; nothing left to train on; settings
            that do not fit the corpus; a cache folder that cannot be written.
    """
    try:
        corpus = find_corpus(data)
        fingerprint = _fingerprint(corpus, data, tokenizer)
        folder = Path(data.cache_dir).expanduser() / "prepared" / fingerprint
        if (folder / "manifest.json").is_file():
            logger.info("using the corpus prepared in %s", folder)
        else:
            _build_and_rename(folder, corpus, data, tokenizer, fingerprint)
    except OSError as error:
        raise UserError(
            f"cannot write to data.cache_dir={data.cache_dir} ({error.strerror}): free it, or set another folder"
        ) from error
    try:
        return _opened(folder)
    except OSError as error:
        raise UserError(f"cannot read {error.filename or folder}: {error.strerror}") from error


def find_corpus(data: DataConfig) -> Corpus:
    """Return the files that a data setting stands for; downloads them if it must."""
    match data:
        case GrammarConfig():
            return grammar_corpus(data)
        case Multi30kConfig():
            return multi30k_corpus(data)
        case FilesConfig():
            return files_corpus(data)
    raise AssertionError(f"no corpus for {type(data).__name__}")


def _opened(folder: Path) -> PreparedCorpus:
    """Open a prepared corpus; a UserError names what is damaged in it."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        names, expected = list(manifest["tests"]), manifest["tokenizer"]["fingerprint"]
        annotated = list(manifest["gold"])
        lowercase = bool(manifest["tokenizer"]["lowercase"])
        is_whole = manifest["fingerprint"] == folder.name and all(Path(name).name == name for name in names)
    except (ValueError, LookupError, TypeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{folder / 'manifest.json'} is damaged: delete {folder}, it is made anew")
    try:
        tokenizer = Tokenizer((folder / "tokenizer.model").read_bytes(), lowercase)
    except (UserError, FileNotFoundError):
        tokenizer = None
    if tokenizer is None or tokenizer.fingerprint != expected:
        raise UserError(f"{folder / 'tokenizer.model'} is damaged: delete {folder}, it is made anew")
    stores = {name: PairStore(folder / name) for name in ("train", "valid", *(f"tests/{name}" for name in names))}
    for store in stores.values():
        store.check_ids(tokenizer.vocab_size)
    gold = {
        name: read_gold(store.folder, len(store), f"delete {folder}, it is made anew") for name, store in stores.items()
    }
    if sorted(name for name, found in gold.items() if found is not None) != annotated:
        raise UserError(f"{folder} has lost gold alignments: delete it, it is made anew")
    return PreparedCorpus(
        folder,
        tokenizer,
        train=stores["train"],
        valid=stores["valid"],
        tests={name: stores[f"tests/{name}"] for name in names},
        gold={name.removeprefix("tests/"): found for name, found in gold.items() if found is not None},
        manifest=manifest,
    )


def _fingerprint(corpus: Corpus, data: DataConfig, tokenizer: TokenizerConfig) -> str:
    texts = {"train": corpus.train, "valid": corpus.valid, **corpus.tests}
    went_in = {
        "formats": [FORMAT, STORE_FORMAT],
        "sentencepiece": version("sentencepiece"),
        "data": _plain(data),
        "tokenizer": _plain(tokenizer),
        "files": [
            [name, [_sha256(file) for file in (*text.files, *(text.gold or ()))]]
            for name, text in texts.items()
            if text
        ],
    }
    if corpus.train_size is not None:
        went_in["sample"] = "of what is trained on"  # once it was a smaller one, by the length of the whole text
    return hashlib.sha256(json.dumps(went_in, sort_keys=True).encode("utf-8")).hexdigest()[:16]


def _plain(config: DataConfig | TokenizerConfig) -> dict[str, Any]:
    fields = {
        name: value
        for name, value in asdict(config).items()
        if name not in _PLACES and not (name in _LATER and value is None)
    }
    return {name: value.value if isinstance(value, Enum) else value for name, value in fields.items()}


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error


def _build_and_rename(
    folder: Path, corpus: Corpus, data: DataConfig, tokenizer: TokenizerConfig, fingerprint: str
) -> None:
    if folder.exists() and not (folder / "manifest.json").is_file():
        raise UserError(f"{folder} has no manifest.json, so it is not whole: delete it, it is made anew")
    with whole_folder(folder, in_cache=True) as building:
        manifest = {"format": FORMAT, "fingerprint": fingerprint, **_build(building, corpus, data, tokenizer)}
        text = json.dumps(manifest, ensure_ascii=False, indent=2)
        (building / "manifest.json").write_text(text + "\n", encoding="utf-8")


def _build(folder: Path, corpus: Corpus, data: DataConfig, config: TokenizerConfig) -> dict[str, Any]:
    """Write everything but the manifest, and return what that says."""
    parts = divide(corpus)
    tests = "".join(f", {len(part)} for {name}" for name, part in parts.tests.items())
    logger.info("%d pairs for training, %d for validation%s", len(parts.train), len(parts.valid), tests)
    learnable = parts.train.without_blank()
    sample = learnable.sample(config.max_characters, seed=0)
    logger.info("learning a tokenizer from %d of %d pairs", len(sample), len(learnable))
    tokenizer = train_tokenizer(chain.from_iterable(sample.pairs()), config)
    (folder / "tokenizer.model").write_bytes(tokenizer.model)

    trained_on = np.unique(parts.train.sources())
    held_out = {"valid": parts.valid, **{f"tests/{name}": part for name, part in parts.tests.items()}}
    written = {name: _write_whole(folder / name, part, tokenizer, trained_on) for name, part in held_out.items()}
    annotated = sorted(name for name, part in held_out.items() if part.survey.text.gold)
    _write_gold({folder / name: held_out[name] for name in annotated}, learnable)
    return {
        "data": {"type": type(data).__name__, **asdict(data)},
        "tokenizer": {
            **_plain(config),
            "vocab_size": tokenizer.vocab_size,
            "fingerprint": tokenizer.fingerprint,
            "learned_from_pairs": len(sample),
        },
        "train": _write_cleaned(folder / "train", parts.train, tokenizer, data),
        "gold": annotated,
        "valid": written.pop("valid"),
        "tests": {name.removeprefix("tests/"): about for name, about in written.items()},
    }


class _Chunk(NamedTuple):
    """Some pairs, tokenised."""

    src: list[list[int]]
    tgt: list[list[int]]
    src_texts: list[str]
    tgt_texts: list[str]

    def only(self, kept: NDArray[np.bool_]) -> "_Chunk":
        return _Chunk._make(list(compress(column, kept)) for column in self)


def _tokenised(part: Part, tokenizer: Tokenizer) -> Iterator[_Chunk]:
    pairs = part.pairs()
    done = 0
    while rows := list(islice(pairs, _CHUNK)):
        src_texts, tgt_texts = (list(column) for column in zip(*rows, strict=True))
        yield _Chunk(tokenizer.encode_batch(src_texts), tokenizer.encode_batch(tgt_texts), src_texts, tgt_texts)
        done += len(rows)
        if done % _PROGRESS_EVERY == 0:
            logger.info("tokenised %d of %d pairs", done, len(part))


def _write_cleaned(folder: Path, part: Part, tokenizer: Tokenizer, data: DataConfig) -> dict[str, Any]:
    """Write the training pairs that are fit for it, both sides together."""
    cleaning = Cleaning(data.max_tokens, data.max_length_ratio)
    with write_store(folder, tokenizer.vocab_size) as store:
        for chunk in _tokenised(part, tokenizer):
            kept = cleaning.keep(*(np.array([len(ids) for ids in side]) for side in (chunk.src, chunk.tgt)))
            store.append(*chunk.only(kept))
    return {**_origin(part), **cleaning.account()}


def _write_whole(folder: Path, part: Part, tokenizer: Tokenizer, trained_on: NDArray[np.uint64]) -> dict[str, Any]:
    """Write every line of a validation or test text, and count those whose source is trained on."""
    with write_store(folder, tokenizer.vocab_size) as store:
        for chunk in _tokenised(part, tokenizer):
            store.append(*chunk)
    seen = int(np.isin(part.sources(), trained_on).sum())
    if seen:
        logger.warning("%s: %d of %d source sentences are in training too", folder.name, seen, len(part))
    return {**_origin(part), "pairs": len(part), "sources_in_training": seen}


def _write_gold(parts: dict[Path, Part], train: Part) -> None:
    """Write what is known of texts beside them; the word alignment to beat is learned from the training text."""
    if not parts:
        return
    logger.info("aligning words by IBM Model 1, to compare attention with")
    model1 = IbmModel1(train.pairs())
    for folder, part in parts.items():
        assert part.survey.text.gold is not None
        align, tags = part.survey.text.gold
        gold = Gold(
            parse_alignments(read_lines(align), align),
            parse_tags(read_lines(tags), tags),
            [model1.align(src, tgt) for src, tgt in part.pairs()],
        )
        if not len(gold.alignments) == len(gold.tags) == len(part):
            raise UserError(f"{align} and {tags} have not the {len(part)} lines of the text: delete {align.parent}")
        for name, content in gold.files().items():
            (folder / name).write_text(content, encoding="utf-8", newline="\n")


def _origin(part: Part) -> dict[str, Any]:
    if part.survey.nul:
        logger.warning("%s: dropped %d NUL characters", part.survey.text, part.survey.nul)
    return {"files": [str(file) for file in part.survey.text.files], "nul_characters": part.survey.nul}
