"""The archive of a sweep's runs: small, the same for the same runs, and enough for tables and for going on."""

import json
import runpy
import shutil
import sys
import tarfile
from dataclasses import replace

import pytest
from small_runs import TINY, tiny_settings
from test_cli import seq2seq  # noqa: F401
from test_config import ROOT

from seq2seq.config import from_plain
from seq2seq.sweep import Found, look
from seq2seq.training.config_file import read_settings
from seq2seq.training.fit import fit

SCRIPT = str(ROOT / "scripts" / "pack_runs.py")


def settings(folder, seed):
    return replace(tiny_settings(folder, f"runs/a-s{seed}", TINY["rnn"], max_epochs=1), seed=seed, label="a")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packing")
    for seed in (1, 2):
        fit(settings(folder, seed))
    (folder / "runs" / "unfinished" / "bundle").mkdir(parents=True)
    return folder / "runs"


@pytest.fixture
def pack(monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [SCRIPT, *map(str, arguments)])
        runpy.run_path(SCRIPT, run_name="__main__")

    return run


@pytest.fixture
def unpacked(sweep, pack, tmp_path):
    pack(sweep, tmp_path / "a.tar.xz")
    with tarfile.open(tmp_path / "a.tar.xz") as tar:
        tar.extractall(tmp_path / "again", filter="data")
    return tmp_path / "again"


def test_unpacked_runs_give_the_same_tables(seq2seq, sweep, unpacked, capsys):  # noqa: F811
    tables = []
    capsys.readouterr()
    for folder in (sweep, unpacked):
        code, out, err = seq2seq("compare", folder, "--baselines", "--json")
        assert code == 0, err
        tables.append(json.loads(out))
        tables[-1]["rows"]["a"].pop("runs")
    assert tables[0] == tables[1]


def test_a_sweep_leaves_unpacked_runs_alone(sweep, unpacked):
    run = unpacked / "a-s2"
    config = replace(settings(sweep.parent, 2), run_dir=str(run))
    assert look(config, from_plain(read_settings(run / "config.yaml"))) is Found.finished


def test_neither_weights_nor_unfinished_runs_are_packed(unpacked):
    assert sorted(run.name for run in unpacked.iterdir()) == ["a-s1", "a-s2"]
    assert not [*unpacked.rglob("*.safetensors"), *unpacked.rglob("*.ckpt")]


def test_the_same_runs_give_the_same_bytes(sweep, pack, tmp_path):
    copy = shutil.copytree(sweep, tmp_path / "copy", copy_function=shutil.copyfile)
    for name, folder in (("one", sweep), ("other", copy)):
        pack(folder, tmp_path / f"{name}.tar.xz")
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "other.tar.xz").read_bytes()


def test_a_folder_without_a_finished_run_is_one_line_and_no_archive(pack, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        pack(tmp_path, tmp_path / "a.tar.xz")
    assert f"there is no finished run in {tmp_path}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_packed_is_named_and_no_archive_is_left(sweep, pack, tmp_path, capsys):
    def refused(folder, archive):
        with pytest.raises(SystemExit, match="2"):
            pack(folder, tmp_path / archive)
        return capsys.readouterr().err

    assert "o.zip does not end in .tar.xz" in refused(sweep, "o.zip")
    assert f"cannot write {tmp_path / 'nowhere' / 'a.tar.xz'}: No such file" in refused(sweep, "nowhere/a.tar.xz")
    copy = shutil.copytree(sweep, tmp_path / "copy")
    (copy / "a-s1" / "tests" / "more").symlink_to(tmp_path)
    assert f"{copy / 'a-s1' / 'tests' / 'more'} is a link" in refused(copy, "a.tar.xz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]
