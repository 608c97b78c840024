"""Memory and threads over thousands of steps and lines. RssAnon is what a process has asked for, files left out."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import rows, tiny_settings, write_corpus

pytestmark = pytest.mark.slow

_MOST_GROWTH = 16 * 1024  # KiB; a leak of one batch of the tiny model a step would be some hundred MiB


def memory_and_threads(pid: int) -> tuple[int, int]:
    """KiB of anonymous memory, and the number of threads."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["RssAnon"].split()[0]), int(found["Threads"])


def peak_of_training(folder: Path, pairs: int) -> int:
    """The most KiB of anonymous memory that a run of 60 updates has asked for, from the text on."""
    prefix = write_corpus(folder, pairs)
    command = [sys.executable, "-c", "from seq2seq.config import main; main()", "data=files", f"data.train={prefix}"]
    command += ["data.valid_size=12", "data.test_size=12", "model.num_layers=1", "tokenizer.vocab_size=330"]
    command += ["tokenizer.max_characters=100000", "trainer=cpu", "trainer.max_steps=60", "run_dir=run"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        time.sleep(0.01)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        if "RssAnon" in status:  # no longer there in a process that has ended
            peak = max(peak, memory_and_threads(process.pid)[0])
    assert process.returncode == 0
    return peak


def test_ten_times_the_pairs_ask_for_200_bytes_more_a_pair_at_most(tmp_path: Path) -> None:
    few, many = (peak_of_training(tmp_path / str(pairs), pairs) for pairs in (30_000, 300_000))
    assert many - few < 270_000 * 200 / 1024


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


_MULTIPLY = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
from test_long_runs import memory_and_threads
from seq2seq.training.hardware import bound_kernel_cache
torch.set_num_threads(1)
bound_kernel_cache()
weight = torch.ones(2048, 128, dtype=torch.bfloat16)
seen = []
for rows in range(100, 700):
    torch.nn.functional.linear(torch.ones(rows, 128, dtype=torch.bfloat16), weight)
    seen.append(memory_and_threads(os.getpid())[0])
print(min(seen[500:]) - max(seen[100:300]))  # the heap goes up and down
"""


def test_batches_of_ever_new_shapes_leave_no_kernels_behind() -> None:
    command = [sys.executable, "-c", _MULTIPLY, str(Path(__file__).parent)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) < _MOST_GROWTH  # a cache of 1,024 grows by 110 MiB


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
lines = (" ".join(words[i * k % 8] for k in range(1, 2 + i % 7)) for i in range(5 * 4096))
for number, _ in enumerate(translator.translate(lines), start=1):
    if number % 4096 == 0:  # the lines that are sorted and translated together
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
