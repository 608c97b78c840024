"""Multi30k: from the user's folder, or downloaded once and checked.

Elliott, Frank, Sima'an, Specia 2016, "Multi30K: Multilingual English-German Image Descriptions"; French: Elliott et
al. 2017. The text is for non-commercial research and education.
"""

import gzip
import hashlib
import logging
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pooch

from seq2seq.data.corpus import Corpus, DataConfig, ParallelText, check_train_size, existing_file
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

LANGUAGES = ("en", "de", "fr")
URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
TEST_SETS = ("test_2016_flickr", "test_2017_flickr")

# SHA-256 of the text itself: gzip writes the same text in many ways.
CHECKSUMS = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
    "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
    "test_2017_flickr.fr": "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
    "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "train.lc.norm.tok.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "val.lc.norm.tok.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
    "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "test_2016_flickr.lc.norm.tok.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
    "test_2017_flickr.lc.norm.tok.en": "c9d1dfd7a26add989382e534af235af9f0f658b2a30e7eb0efdaf142496ee54f",
    "test_2017_flickr.lc.norm.tok.de": "02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6",
    "test_2017_flickr.lc.norm.tok.fr": "c0583117a47b31e8a6c6a97cfe8de153e462074668f4e994764fcc80b21d33b4",
}


@dataclass
class Multi30kConfig(DataConfig):
    """Multi30k task 1, 29,000 pairs of image captions (Elliott et al. 2016; French: Elliott et al. 2017).

    Attributes:
        dir: a folder that holds the files, "train.en.gz" and so on; else they are downloaded once.
        normalized: read the lower-cased, punctuation-normalised, Moses-tokenised text, ".lc.norm.tok".
        url: where to download from: a folder that has `raw/` and `tok/`.
        train_size: train on the first so many pairs; left open: on all.
    """

    dir: str | None = None
    normalized: bool = False
    url: str = URL
    train_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, language in (("src_lang", self.src_lang), ("tgt_lang", self.tgt_lang)):
            if language not in LANGUAGES:
                raise UserError(f"data.{name}={language} must be one of {', '.join(LANGUAGES)}")
        check_train_size(self.train_size)


def multi30k_corpus(data: Multi30kConfig, checksums: Mapping[str, str] = CHECKSUMS) -> Corpus:
    """Find the files in `data.dir`, or download those that are not yet in `data.cache_dir`.

    What is downloaded must have these checksums, and so must what lies in the cache.

    Raises:
        UserError: `data.dir` lacks a file, or the download failed or brought something else.
    """
    infix = ".lc.norm.tok" if data.normalized else ""

    def text(part: str) -> ParallelText:
        names = [f"{part}{infix}.{language}" for language in (data.src_lang, data.tgt_lang)]
        src, tgt = (_in_folder(data.dir, name) if data.dir else _fetched(data, name, checksums[name]) for name in names)
        return ParallelText(src, tgt)

    return Corpus(text("train"), text("val"), {name: text(name) for name in TEST_SETS}, train_size=data.train_size)


def _in_folder(folder: str, name: str) -> Path:
    path = Path(folder).expanduser() / name
    return existing_file(f"data.dir={folder}", [path.with_name(f"{name}.gz"), path])


def _fetched(data: Multi30kConfig, name: str, checksum: str) -> Path:
    remote = f"tok/{name}" if data.normalized else f"raw/{name}.gz"
    path = Path(data.cache_dir).expanduser() / "multi30k" / Path(remote).name
    if not path.is_file() or _checksum(path) != checksum:
        _download(f"{data.url}/{remote}", path, checksum)
    return path


def _download(url: str, path: Path, checksum: str) -> None:
    """Bring a file into the cache: it gets its name there only once its text has been checked."""
    logger.info("downloading %s", url)
    path.parent.mkdir(parents=True, exist_ok=True)
    arriving = path.with_name(f"{uuid.uuid4().hex}.{path.name}")
    try:
        # pooch's own check is of the file as it comes, compressed; so only its download and progress bar are used.
        pooch.HTTPDownloader(progressbar=True)(url, str(arriving), None)
        if _checksum(arriving) != checksum:
            raise UserError(
                f"{url} is not the published text of Multi30k (SHA-256 differs): try again, or set data.dir=DIR to a "
                "folder that holds the files"
            )
        arriving.replace(path)
    except OSError as error:
        if error.errno is not None:  # of the disk; those of the network have none
            raise
        raise UserError(
            f"cannot download {url} ({type(error).__name__}): connect to the network, or set data.dir=DIR to a folder "
            f"that holds {path.name} and the other files"
        ) from error
    finally:
        arriving.unlink(missing_ok=True)


def _checksum(path: Path) -> str | None:
    """Return the SHA-256 of the text in a file, or None if it cannot be decompressed."""
    digest = hashlib.sha256()
    try:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None
    return digest.hexdigest()
