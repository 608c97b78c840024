"""Ctrl-C and SIGTERM, in real processes: whatever the moment, the exit code says so and no traceback is shown."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest
from small_runs import tiny_settings, write_corpus

from seq2seq.config import CONF
from seq2seq.data.tokenizer import TokenizerConfig, train_tokenizer
from seq2seq.errors import Interrupted
from seq2seq.training.checkpoints import load

ROOT = CONF.parent
BOTH = pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    """Start Python in a session of its own, so that its orphans can be found."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def in_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def wait_until(is_true: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a run that does not end by itself, and wait for its first checkpoint."""
    prefix = tiny_settings(tmp_path).data.train
    processes = []

    def run(*options: str) -> subprocess.Popen[str]:
        arguments = (
            *("data=files", f"data.train={prefix}", "data.valid_size=100", "data.test_size=12", "run_dir=run"),
            *("trainer.max_epochs=100000", "trainer.accelerator=cpu", "logger.every=1", "logger.tensorboard=false"),
            *("model.num_layers=1", "tokenizer.vocab_size=330", "trainer.validate_every=2"),
        )
        process = start(tmp_path, str(ROOT / "train.py"), *arguments, *options)
        processes.append(process)
        wait_until((tmp_path / "run" / "checkpoints" / "last.ckpt").exists, process)
        return process

    yield run
    for process in processes:
        for number in in_session(process.pid):
            os.kill(number, signal.SIGKILL)
        process.communicate()


def assert_no_orphans(process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 20  # workers look every 5 seconds whether their parent is there
    while in_session(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("program", "delay", "number", "exit_code"),
    [  # every pair of two is among the first four
        ("train", 0.2, signal.SIGINT, 130),
        ("train", 1.0, signal.SIGTERM, 143),
        ("seq2seq", 1.0, signal.SIGINT, 130),
        ("seq2seq", 0.2, signal.SIGTERM, 143),
        pytest.param("train", 1.0, signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param("train", 0.2, signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param("seq2seq", 0.2, signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param("seq2seq", 1.0, signal.SIGTERM, 143, marks=pytest.mark.slow),
    ],
)
def test_a_signal_during_the_imports_ends_the_program_without_a_word(
    tmp_path: Path, program: str, delay: float, number: int, exit_code: int
) -> None:
    (tmp_path / "text.tsv").write_text("a\tb\n")
    # The script's own first line has run when it is ready for signals; before that, the signal is Python's.
    command = {
        "train": ["import runpy, sys; sys.argv = ['train.py', 'data=files', 'data.train=none']", "train.py"],
        "seq2seq": ["import runpy, sys; sys.argv = ['seq2seq', 'translate', 'none']", "seq2seq/__main__.py"],
    }[program]
    ready = "import sys, seq2seq.signals as s; s.stop_at_once(); sys.stdout.write('ready\\n'); sys.stdout.flush()"
    process = start(
        tmp_path, "-c", f"{ready}\n{command[0]}\nrunpy.run_path({str(ROOT / command[1])!r}, run_name='__main__')"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(random.Random(delay).uniform(0, delay))
    process.send_signal(number)
    out, errors = process.communicate(timeout=600)
    assert "Traceback" not in errors
    assert (process.returncode, out) in ((exit_code, ""), (2, ""))  # 2: it was faster, and there is no such file


@pytest.mark.slow
@BOTH
def test_a_signal_while_a_corpus_is_prepared_leaves_nothing_half_made(
    tmp_path: Path, number: int, exit_code: int
) -> None:
    prefix = write_corpus(tmp_path, pairs=100_000)
    arguments = ("data=files", f"data.train={prefix}", "data.valid_size=10", "run_dir=run", "tokenizer.vocab_size=330")
    process = start(tmp_path, str(ROOT / "train.py"), *arguments)
    prepared = tmp_path / "data" / "prepared"
    wait_until(lambda: prepared.is_dir() and any(prepared.iterdir()), process)
    time.sleep(1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=600)
    assert (process.returncode, errors.splitlines()[-1]) == (exit_code, "seq2seq: interrupted")
    assert "Traceback" not in errors
    assert list(prepared.iterdir()) == []
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_signal_is_answered_while_the_tokenizer_learns() -> None:
    draw = random.Random(0)
    lines = [" ".join("".join(draw.choices("abcdefghijk", k=6)) for _ in range(12)) for _ in range(5_000)]

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise Interrupted("interrupted", number)

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        began = time.monotonic()
        with pytest.raises(Interrupted):
            train_tokenizer(lines, TokenizerConfig(vocab_size=2000))
        stopped = time.monotonic() - began
        signal.setitimer(signal.ITIMER_REAL, 0)
        began = time.monotonic()
        train_tokenizer(lines, TokenizerConfig(vocab_size=2000))
        assert stopped < (time.monotonic() - began) / 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("to_all", [False, True])
def test_one_signal_saves_the_state_and_leaves_no_process_behind(
    training: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    number: int,
    exit_code: int,
    workers: int,
    to_all: bool,
) -> None:
    process = training(f"trainer.num_workers={workers}")
    time.sleep(random.Random(number + workers).uniform(0, 2))  # in a validation as often as not
    if to_all:  # as a terminal does
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, errors = process.communicate(timeout=600)
    assert (process.returncode, out) == (exit_code, "")
    assert "Traceback" not in errors
    last_line = (
        "seq2seq: interrupted; the state is in run/checkpoints/last.ckpt; go on with: python train.py resume=run"
    )
    assert errors.splitlines()[-1] == last_line
    assert load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"] > 0
    assert not (tmp_path / "run" / "bundle").exists()
    assert not (tmp_path / "run" / "tests").exists()
    assert_no_orphans(process)


@pytest.mark.slow
@BOTH
def test_a_second_signal_does_not_wait_and_leaves_the_former_checkpoint(
    training: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: int, exit_code: int
) -> None:
    process = training("trainer.num_workers=2")
    process.send_signal(number)
    time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == exit_code
    assert "Traceback" not in errors
    assert load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"] > 0
    assert_no_orphans(process)
