"""scripts/benchmark.py, on tiny work: that it measures something, not what."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_runs import tiny_settings, write_corpus

from seq2seq.training.fit import fit

SCRIPT = Path(__file__).parent.parent / "scripts" / "benchmark.py"


def measured(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the benchmark; return what it wrote with --json."""
    file = folder / "speeds.json"
    command = [sys.executable, str(SCRIPT), *arguments, "--threads", "1", "--json", str(file)]
    subprocess.run(command, cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_training_is_measured_in_both_formats(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    text = ["--data", "corpus", "--valid", "corpus", "--vocab-size", "313"]
    found = measured(
        tmp_path, "train", *text, "--model", "rnn", "--batch-tokens", "200", "--batches", "1", "--rounds", "1"
    )
    assert set(found["training"]["rnn"]["medians"]) == {"ours float32", "ours bf16_mixed"}
    assert all(speed > 0 for speed in found["training"]["rnn"]["medians"].values())


def test_decoding_is_measured_in_batches_and_one_by_one(tmp_path: Path) -> None:
    fit(tiny_settings(tmp_path, max_steps=1))
    work = ["run", "corpus.en", "--sentences", "4", "--single", "2", "--batch-size", "2", "--rounds", "1"]
    found = measured(tmp_path, "decode", *work)
    assert {mode: taken["sentences"] for mode, taken in found["decoding"].items()} == {"batches": 4, "one": 2}
    assert all(seconds > 0 for taken in found["decoding"].values() for seconds in taken["medians"].values())


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a text, one without text, and two peers that are none."""
    folder = tmp_path_factory.mktemp("work")
    fit(tiny_settings(folder, max_steps=1))
    (folder / "blank.en").write_text("\n \n")
    for name, text in (("silent", ""), ("talks", "echo hello\n")):
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decode", "nowhere", "corpus.en"], "nowhere does not exist"),
        (["decode", "run", "nowhere.en"], "nowhere.en"),
        (["decode", "run", "blank.en"], "blank.en has no line with text"),
        (["decode", "run", "corpus.en", "--json", "nowhere/x.json"], "--json nowhere/x.json: there is no folder"),
        (["decode", "run", "corpus.en", "--peer", "marian=./silent"], "silent decode_marian.py has ended"),
        (["decode", "run", "corpus.en", "--peer", "marian=./talks"], "talks decode_marian.py answers 'hello'"),
        (["attention", "--shortest", "512", "--longest", "256"], "--shortest 512 is more than --longest 256"),
    ],
)
def test_what_a_user_can_mend_is_said_in_one_line(work: Path, arguments: list[str], message: str) -> None:
    command = [sys.executable, str(SCRIPT), *arguments]
    finished = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, timeout=300)
    assert finished.returncode == 2
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stderr.count("\n") == 1


@pytest.mark.slow
def test_attention_is_measured_for_each_kind_and_length(tmp_path: Path) -> None:
    found = measured(tmp_path, "attention", "--shortest", "8", "--longest", "16", "--repeats", "1")
    assert len(found["attention"]) == 6
    assert all(set(lengths) == {"8", "16"} for lengths in found["attention"].values())
