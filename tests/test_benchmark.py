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


@pytest.mark.slow
def test_attention_is_measured_for_each_kind_and_length(tmp_path: Path) -> None:
    found = measured(tmp_path, "attention", "--shortest", "8", "--longest", "16", "--repeats", "1")
    assert len(found["attention"]) == 6
    assert all(set(lengths) == {"8", "16"} for lengths in found["attention"].values())
