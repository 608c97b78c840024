import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from test_config import ROOT, composed

SIZES = [
    "data=grammar_tiny",
    "data.challenge_size=0",
    "tokenizer.vocab_size=400",
    "search.beam_size=1",
    "model.dropout=0.1",
]


def test_no_number_of_updates_ends_a_run_before_its_minutes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "gpu_compare.py"))
    assert composed(*script["SETTINGS"], "data=grammar").trainer.max_steps is None


@pytest.mark.slow
def test_the_four_models_are_trained_for_as_long_and_put_side_by_side(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "gpu_compare.py"), "--trainer", "cpu", "--minutes", "0.02"]
    options = ["--output", "compared", "--json", "numbers.json", "--bleu", "0", "--bleu", "99"]
    result = subprocess.run([*command, *options, *SIZES], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["models"]
    assert list(found) == ["rnn", "bahdanau", "luong", "transformer"]
    for model, numbers in found.items():
        assert (tmp_path / "compared" / model / "bundle").is_dir()
        assert numbers["minutes_to_bleu"]["0.0"] == pytest.approx(numbers["curve"][0][0])
        assert numbers["minutes_to_bleu"]["99.0"] is None
        assert f"\n {model} " in result.stdout


@pytest.mark.slow
def test_a_run_that_fails_ends_the_comparison(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "gpu_compare.py"), "--trainer", "cpu", "data.test_sice=1"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "there is no option data.test_sice" in result.stderr
