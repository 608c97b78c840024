"""Files that are damaged, crafted or foreign: one line, nothing in them is run, and no memory is taken for a lie."""

import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_runs import tiny_settings

from seq2seq.config import CONF, TrainConfig, main
from seq2seq.data.prepare import PreparedCorpus, prepare
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle
from seq2seq.signals import SIGNALS
from seq2seq.training.checkpoints import load
from seq2seq.training.config_file import read_settings
from seq2seq.training.fit import fit

ROOT = CONF.parent


class Trap:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return os._exit, (99,)


# ---- The prepared corpus ----


@pytest.fixture
def cached(tmp_path: Path) -> tuple[TrainConfig, Path]:
    config = tiny_settings(tmp_path)
    return config, prepare(config.data, config.tokenizer).folder


def prepared(config: TrainConfig) -> PreparedCorpus:
    return prepare(config.data, config.tokenizer)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", b""),
        ("manifest.json", b"\xff{}"),
        ("manifest.json", b"[]"),
        ("manifest.json", b"[" * 100_000),
        ("manifest.json", b'{"tests": {}, "tokenizer": {"fingerprint": "x"}}'),
        ("tokenizer.model", b""),
        ("tokenizer.model", b"not a model"),
        ("train/store.json", b""),
        ("train/store.json", b"3"),
        ("train/store.json", b'{"format": 1, "pairs": -1, "ids": "uint16"}'),
        ("train/store.json", b'{"format": 1, "pairs": "9", "ids": "uint16"}'),
        ("train/store.json", b'{"format": 1, "pairs": 9, "ids": "object"}'),
        ("train/store.json", b'{"format": 1, "pairs": 999999999999999999, "ids": "uint16"}'),
        ("train/src.ids", b""),
        ("valid/tgt.offsets", b""),
        ("tests/test/src.text", b"x"),
    ],
)
def test_a_damaged_cache_is_named_with_the_way_out(cached: tuple[TrainConfig, Path], name: str, content: bytes) -> None:
    config, folder = cached
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=r"is damaged.*: delete .*, it is made anew") as caught:
        prepared(config)
    assert str((folder / name).parent) in str(caught.value)
    assert "\n" not in str(caught.value)
    shutil.rmtree(folder)
    prepared(config)


@pytest.mark.parametrize("name", ["tokenizer.model", "train/store.json", "valid/src.text_offsets"])
def test_a_file_that_the_cache_lacks_is_named(cached: tuple[TrainConfig, Path], name: str) -> None:
    config, folder = cached
    (folder / name).unlink()
    with pytest.raises(UserError, match=r"(missing|damaged).*: delete .*, it is made anew") as caught:
        prepared(config)
    assert str(folder / name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "place", "value"),
    [
        ("train/src.ids", np.uint16, 5, 65_000),
        ("train/tgt.offsets", np.int64, 3, -1),
        ("train/tgt.offsets", np.int64, 0, 1),
        ("valid/src.text_offsets", np.int64, 2, 2**40),
    ],
)
def test_numbers_that_were_never_written_are_noticed(
    cached: tuple[TrainConfig, Path], name: str, kind: Any, place: int, value: int
) -> None:
    config, folder = cached
    numbers = np.fromfile(folder / name, kind)
    numbers[place] = value
    numbers.tofile(folder / name)
    with pytest.raises(UserError, match=rf"{name} is damaged \(no such numbers were written\)"):
        prepared(config)


def test_text_that_is_none_is_noticed_when_it_is_read(cached: tuple[TrainConfig, Path]) -> None:
    config, folder = cached
    text = bytearray((folder / "valid" / "src.text").read_bytes())
    text[0] = 0xFF
    (folder / "valid" / "src.text").write_bytes(text)
    with pytest.raises(UserError, match=r"src\.text is damaged"):
        prepared(config).valid.src_text(0)


def test_a_name_in_the_manifest_leads_nowhere_else(cached: tuple[TrainConfig, Path]) -> None:
    config, folder = cached
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["tests"] = {"../train": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"manifest\.json is damaged"):
        prepared(config)


# ---- Checkpoints ----


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainConfig, bytes]:
    config = tiny_settings(tmp_path_factory.mktemp("short"), max_steps=1)
    fit(config)
    return config, (Path(str(config.run_dir)) / "checkpoints" / "last.ckpt").read_bytes()


def refusal(config: TrainConfig) -> str:
    further = replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_steps=2))
    with pytest.raises(UserError) as caught:
        fit(further)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("content", [Trap(), {"callbacks": Trap()}, [1, 2], {}, {"callbacks": {"Course": {}}}, "text"])
def test_a_checkpoint_of_another_kind_is_refused_and_never_run(short: tuple[TrainConfig, bytes], content: Any) -> None:
    config, _ = short
    torch.save(content, Path(str(config.run_dir)) / "checkpoints" / "last.ckpt")
    assert "not a checkpoint of this program" in refusal(config)


@pytest.mark.parametrize("change", ["shape", "name", "number", "batches"])
def test_a_checkpoint_of_another_model_is_refused(short: tuple[TrainConfig, bytes], change: str) -> None:
    config, content = short
    last = Path(str(config.run_dir)) / "checkpoints" / "last.ckpt"
    last.write_bytes(content)
    state = load(last)
    name = next(iter(state["state_dict"]))
    match change:
        case "shape":
            state["state_dict"][name] = torch.zeros(3)
        case "name":
            state["state_dict"]["model.more"] = state["state_dict"].pop(name)
        case "number":
            state["state_dict"][name] = 3
        case "batches":
            state["loops"]["fit_loop"]["epoch_loop.batch_progress"] = "x"
    torch.save(state, last)
    assert "last.ckpt " in refusal(config)


def test_a_checkpoint_that_unfolds_in_memory_is_refused(short: tuple[TrainConfig, bytes], tmp_path: Path) -> None:
    config, content = short
    last = Path(str(config.run_dir)) / "checkpoints" / "last.ckpt"
    last.write_bytes(content)
    with zipfile.ZipFile(last) as stored, zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as deflated:
        for record in stored.infolist():
            deflated.writestr(record.filename, stored.read(record))
    shutil.copy(tmp_path / "x", last)
    assert "is damaged or not a checkpoint" in refusal(config)


def test_a_checkpoint_damaged_anywhere_loads_or_is_refused_in_one_line(
    short: tuple[TrainConfig, bytes], tmp_path: Path
) -> None:
    _, content = short
    draw = random.Random(3)
    for _ in range(200):
        damaged = bytearray(content)
        if draw.random() < 0.3:
            damaged = damaged[: draw.randrange(len(damaged))]
        else:
            for _ in range(draw.randint(1, 20)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        (tmp_path / "x.ckpt").write_bytes(damaged)
        try:
            assert isinstance(load(tmp_path / "x.ckpt"), dict)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017


# ---- Settings of a run folder ----


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: !!python/object/apply:os._exit [99]\nchoices: {}\n", "it is not YAML"),
        ("a: &a [1, 1]\nb: [*a, *a]\nchoices: {}\n", "does not say which data and model"),
        ("[" * 1500, "it is not YAML"),
        ("[" * 1500 + "]" * 1500, "it is not YAML"),
        ("choices: {data: files, model: rnn}\nseed: ${oc.env:HOME}\n", "it holds a ${...} to be filled in"),
        ("- 1\n", "does not say which data and model"),
        ("\0", "it is not YAML"),
    ],
)
def test_settings_that_this_program_never_wrote_are_refused_and_never_run(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_settings(tmp_path / "config.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_that_this_program_wrote_are_read(finished: tuple[TrainConfig, Path, str]) -> None:
    config, run, _ = finished
    assert read_settings(run / "config.yaml") == yaml.safe_load(yaml.safe_dump({**config.plain(), "resume": None}))


# ---- Bundles ----


@pytest.fixture
def bundle(tiny_bundle_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bundle_folder, tmp_path / "bundle"))


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        {"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
    ],
)
def test_a_header_that_lies_about_the_weights_is_refused_before_memory_is_taken(
    bundle: Path, header: dict[str, Any]
) -> None:
    text = json.dumps(header).encode()
    (bundle / "weights.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"\0\0\0\0")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="weights"):
        load_bundle(bundle)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000


@pytest.mark.parametrize("length", [2**63 - 1, 2**40, 10**8])
def test_a_header_that_lies_about_its_own_length_is_refused(bundle: Path, length: int) -> None:
    (bundle / "weights.safetensors").write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(UserError, match="is damaged or cut short"):
        load_bundle(bundle)


@pytest.mark.parametrize("name", ["d_model", "d_ff", "num_heads", "num_layers", "max_positions", "max_distance"])
@pytest.mark.parametrize("value", [10**9, 2**24, 2**63, 10**30])
def test_a_model_of_impossible_size_is_refused_before_memory_is_taken(bundle: Path, name: str, value: int) -> None:
    description = json.loads((bundle / "model.json").read_text())
    if name in ("max_positions", "max_distance") and value <= 2**24:
        pytest.skip("fits, where it is not used")
    description["config"][name] = value
    (bundle / "model.json").write_text(json.dumps(description))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError) as caught:
        load_bundle(bundle)
    assert "\n" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000


# ---- Streams ----


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "stdout is closed: send it to a file, or to /dev/null"),
        ("<&-", "stdin is closed: name a FILE, or send one to stdin"),
        (">/dev/full", "No space left on device"),
        (">&- 2>&-", ""),
        ("2>&-", None),
        ("2>/dev/full", None),
    ],
)
def test_closed_and_full_streams_end_in_one_line_or_do_not_matter(
    tiny_bundle_folder: Path, redirection: str, message: str | None
) -> None:
    command = f"echo x | {{ {sys.executable} -m seq2seq translate {tiny_bundle_folder} {redirection}; }}"
    finished = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    if message is None:
        assert (finished.returncode, finished.stdout.count("\n"), finished.stderr) == (0, 1, "")
        return
    assert finished.returncode == 2
    assert finished.stdout == ""
    if message:
        assert finished.stderr.startswith("seq2seq: error: ")
        assert finished.stderr.count("\n") == 1
    assert message in finished.stderr


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_train_with_closed_or_full_stdout_ends_in_one_line(redirection: str) -> None:
    command = f"{sys.executable} {ROOT / 'train.py'} --help {redirection}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1
    assert "stdout" in finished.stderr


@pytest.mark.parametrize("group", ["data", "model", "optim", "tokenizer", "trainer", "search", "logger"])
def test_a_group_without_a_choice_is_refused_in_one_line(
    group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", f"{group}=null"])
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with pytest.raises(SystemExit) as caught:
            main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert caught.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"seq2seq: error: {group}=null: a run needs one of ")
    assert errors.count("\n") == 1
