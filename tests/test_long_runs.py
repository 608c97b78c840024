"""Memory and threads over thousands of steps and lines. RssAnon is what a process has asked for, files left out."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import rows, tiny_settings

pytestmark = pytest.mark.slow

_MOST_GROWTH = 16 * 1024  # KiB; a leak of one batch of the tiny model a step would be some hundred MiB


def memory_and_threads(pid: int) -> tuple[int, int]:
    """KiB of anonymous memory, and the number of threads."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["RssAnon"].split()[0]), int(found["Threads"])


def test_memory_and_threads_stay_as_they_are_over_2000_training_steps(tmp_path: Path) -> None:
    prefix = tiny_settings(tmp_path).data.train
    command = [sys.executable, "-c", "from seq2seq.config import main; main()", "data=files", f"data.train={prefix}"]
    command += ["data.valid_size=12", "data.test_size=12", "model.num_layers=1", "tokenizer.vocab_size=330"]
    command += ["trainer=cpu", "trainer.batch_tokens=200", "trainer.max_steps=2000", "trainer.max_epochs=10000"]
    command += ["trainer.validate_every=250", "run_dir=run"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    seen: list[tuple[int, tuple[int, int]]] = []
    while process.poll() is None:
        time.sleep(0.2)
        written = rows(tmp_path / "run") if (tmp_path / "run" / "metrics.csv").exists() else []
        steps = [int(row["step"]) for row in written if (row["step"] or "").isdigit()]
        if steps and steps[-1] < 1990 and process.poll() is None:
            seen.append((steps[-1], memory_and_threads(process.pid)))
    assert process.returncode == 0
    early = [numbers for step, numbers in seen if 500 <= step < 1000]  # two validations have been by then
    late = [numbers for step, numbers in seen if step >= 1750]
    assert early
    assert late
    assert max(memory for memory, _ in late) - max(memory for memory, _ in early) < _MOST_GROWTH
    assert max(threads for _, threads in late) <= max(threads for _, threads in early)


_TRANSLATE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_long_runs import memory_and_threads
import os
import torch
torch.set_num_threads(1)
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.translator import Translator
translator = Translator.from_bundle(load_bundle(Path(sys.argv[1])))
words = "otter moon bread robot violin pears green tall".split()
lines = (" ".join(words[i * k % 8] for k in range(1, 2 + i % 7)) for i in range(20_000))
for number, _ in enumerate(translator.translate(lines), start=1):
    if number % 4000 == 0:
        print(*memory_and_threads(os.getpid()), flush=True)
"""


def test_memory_and_threads_stay_as_they_are_over_20000_translated_lines(tiny_bundle_folder: Path) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", _TRANSLATE, str(tiny_bundle_folder), here]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = [tuple(map(int, line.split())) for line in result.stdout.splitlines()]
    assert len(seen) == 5
    assert seen[-1][0] - seen[0][0] < _MOST_GROWTH
    assert seen[-1][1] == seen[0][1]
