"""Multi30k from a folder and from a server: checked, fetched once, and never half there."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from seq2seq.data.multi30k import CHECKSUMS, LANGUAGES, TEST_SETS, Multi30kConfig, multi30k_corpus
from seq2seq.data.prepare import find_corpus
from seq2seq.errors import UserError

PARTS = ("train", "val", *TEST_SETS)


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, remembers what was asked for."""

    asked: list[str]

    def __init__(self, *args: Any, asked: list[str], directory: str) -> None:
        self.asked = asked
        super().__init__(*args, directory=directory)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Site:
    """A web server on this machine with a made-up Multi30k, raw and normalised."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.checksums: dict[str, str] = {}
        (folder / "raw").mkdir(parents=True)
        (folder / "tok").mkdir()
        for part in PARTS:
            for language in LANGUAGES:
                text, normalized = f"{part}, {language}.\n".encode(), f"{part} , {language} .\n".encode()
                (folder / "raw" / f"{part}.{language}.gz").write_bytes(gzip.compress(text))
                (folder / "tok" / f"{part}.lc.norm.tok.{language}").write_bytes(normalized)
                self.checksums[f"{part}.{language}"] = hashlib.sha256(text).hexdigest()
                self.checksums[f"{part}.lc.norm.tok.{language}"] = hashlib.sha256(normalized).hexdigest()
        handler = partial(Handler, asked=self.asked, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    site = Site(tmp_path / "site")
    thread = threading.Thread(target=partial(site.server.serve_forever, poll_interval=0.01))
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


def config(site: Site, tmp_path: Path, **settings: Any) -> Multi30kConfig:
    return Multi30kConfig(cache_dir=str(tmp_path / "cache"), url=site.url, **settings)


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "multi30k").iterdir())


def test_the_checksums_name_every_file() -> None:
    infixes = ("", ".lc.norm.tok")
    names = {f"{part}{infix}.{language}" for part in PARTS for infix in infixes for language in LANGUAGES}
    assert set(CHECKSUMS) == names
    assert len(set(CHECKSUMS.values())) == len(names)


def test_files_are_downloaded_for_the_two_languages(site: Site, tmp_path: Path) -> None:
    corpus = multi30k_corpus(config(site, tmp_path, src_lang="fr", tgt_lang="en"), site.checksums)
    assert list(corpus.train.pairs()) == [("train, fr.", "train, en.")]
    assert corpus.valid is not None
    assert list(corpus.valid.pairs()) == [("val, fr.", "val, en.")]
    assert list(corpus.tests) == ["test_2016_flickr", "test_2017_flickr"]
    assert len(cached(tmp_path)) == len(site.asked) == 8
    assert "/raw/test_2017_flickr.fr.gz" in site.asked


def test_the_normalised_text_is_downloaded_from_its_own_folder(site: Site, tmp_path: Path) -> None:
    corpus = multi30k_corpus(config(site, tmp_path, normalized=True), site.checksums)
    assert list(corpus.train.pairs()) == [("train , en .", "train , de .")]
    assert "/tok/train.lc.norm.tok.en" in site.asked


def test_a_download_happens_once(site: Site, tmp_path: Path) -> None:
    multi30k_corpus(config(site, tmp_path), site.checksums)
    site.asked.clear()
    multi30k_corpus(config(site, tmp_path), site.checksums)
    assert site.asked == []


def test_progress_goes_to_stderr(site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    multi30k_corpus(config(site, tmp_path), site.checksums)
    out, err = capfd.readouterr()
    assert out == ""
    assert "100%" in err


@pytest.mark.parametrize(
    "wrong",
    [gzip.compress(b"another text\n"), gzip.compress(b"val, de.\n")[:-9], b"<html>", b""],
    ids=["another text", "cut off", "no archive", "empty"],
)
def test_a_wrong_or_truncated_download_is_an_error_and_does_not_stay(site: Site, tmp_path: Path, wrong: bytes) -> None:
    (site.folder / "raw" / "val.de.gz").write_bytes(wrong)
    with pytest.raises(UserError, match=r"raw/val.de.gz is not the published text.*data.dir=DIR"):
        multi30k_corpus(config(site, tmp_path), site.checksums)
    assert cached(tmp_path) == ["train.de.gz", "train.en.gz", "val.en.gz"]


def test_a_file_that_is_damaged_in_the_cache_is_fetched_again(site: Site, tmp_path: Path) -> None:
    multi30k_corpus(config(site, tmp_path), site.checksums)
    path = tmp_path / "cache" / "multi30k" / "train.en.gz"
    path.write_bytes(path.read_bytes()[:-5])
    site.asked.clear()
    corpus = multi30k_corpus(config(site, tmp_path), site.checksums)
    assert site.asked == ["/raw/train.en.gz"]
    assert list(corpus.train.pairs()) == [("train, en.", "train, de.")]


def test_a_file_that_the_server_lacks_is_an_error_that_names_the_way_out(site: Site, tmp_path: Path) -> None:
    (site.folder / "raw" / "train.en.gz").unlink()
    with pytest.raises(UserError, match=r"cannot download http.*train.en.gz \(HTTPError\): .*data.dir=DIR"):
        multi30k_corpus(config(site, tmp_path), site.checksums)
    assert cached(tmp_path) == []


def test_without_network_and_folder_one_line_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    data = Multi30kConfig(cache_dir=str(tmp_path / "cache"), url="http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"cannot download .*connect to the network, or set data.dir=DIR") as error:
        find_corpus(data)
    assert "\n" not in str(error.value)
    assert cached(tmp_path) == []


@pytest.mark.parametrize("ending", [".gz", ""])
def test_a_folder_is_read_without_network(tmp_path: Path, ending: str) -> None:
    for part in PARTS:
        for language in ("de", "fr"):
            text = f"{part} {language}\n".encode()
            (tmp_path / f"{part}.{language}{ending}").write_bytes(gzip.compress(text) if ending else text)
    data = Multi30kConfig(dir=str(tmp_path), src_lang="de", tgt_lang="fr", cache_dir=str(tmp_path / "cache"))
    corpus = find_corpus(data)
    assert list(corpus.tests["test_2017_flickr"].pairs()) == [("test_2017_flickr de", "test_2017_flickr fr")]
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_lacks_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data.dir=.*: there is no file .*train.lc.norm.tok.en.gz or .*tok.en$"):
        find_corpus(Multi30kConfig(dir=str(tmp_path), normalized=True))
