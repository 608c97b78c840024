"""The seq2seq command as processes of its own: bytes, pipes, signals, what is imported."""

import os
import resource
import select
import signal
import subprocess
import sys
import time

import pytest
from conftest import SOURCES, TARGETS, text

from seq2seq.inference.export import export_ctranslate2

COMMAND = [sys.executable, "-c", "from seq2seq.cli import main; main()"]


def test_bytes_are_the_same_under_any_locale(run, tmp_path):
    (tmp_path / "in.txt").write_text(text([TARGETS[0], "Größe 漢", SOURCES[1]]), encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    outcomes = []
    for locale in (plain, {"LC_ALL": "C.UTF-8"}):
        with (tmp_path / "in.txt").open("rb") as stdin:
            finished = subprocess.run(
                [*COMMAND, "translate", run], stdin=stdin, capture_output=True, env={**os.environ, **locale}, check=True
            )
        outcomes.append((finished.stdout, finished.stderr))
    assert outcomes[0] == outcomes[1]
    assert TARGETS[1] in outcomes[0][0].decode("utf-8")
    assert outcomes[0][1].startswith(b"seq2seq: warning: 1 characters in 1 lines are not in the vocabulary")


def test_one_sentence_takes_under_4_seconds_and_imports_only_what_it_needs(run, tmp_path):
    (tmp_path / "in.txt").write_text(text([SOURCES[0]]))
    program = (
        "import atexit, sys; atexit.register(lambda: sys.stderr.write(' '.join(sys.modules))); "
        "from seq2seq.cli import main; main()"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = subprocess.run(
        [sys.executable, "-c", program, "translate", run, tmp_path / "in.txt"],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert finished.stdout == f"{TARGETS[0]}\n"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 4
    heavy = {"lightning", "hydra", "omegaconf", "sacrebleu", "tensorboard", "rich", "pooch", "torch._dynamo"}
    assert heavy & set(finished.stderr.split()) == set()


@pytest.fixture
def live(run):
    """A translator that waits for lines."""
    processes = []

    def start(*options):
        command = [*COMMAND, "translate", run, "--line-buffered", *options]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def ask(process, line):
    process.stdin.write(f"{line}\n".encode())
    assert select.select([process.stdout], [], [], 60)[0], "no answer"
    return process.stdout.readline().decode().rstrip("\n")


def test_a_line_in_a_pipe_is_answered_before_the_next_arrives(live):
    process = live()
    assert ask(process, SOURCES[0]) == TARGETS[0]
    assert ask(process, "") == ""
    assert ask(process, SOURCES[1]) == TARGETS[1]
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


def test_a_reader_that_leaves_is_no_error(live):
    process = live()
    ask(process, SOURCES[0])
    process.stdout.close()
    process.stdin.write(f"{SOURCES[1]}\n".encode())
    assert process.wait(60) == -signal.SIGPIPE
    assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_is_quiet_and_leaves_no_half_file(live, tmp_path, number, exit_code):
    process = live("-o", str(tmp_path / "out"))
    process.stdin.write(f"{SOURCES[0]}\n".encode())
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == exit_code
    assert process.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


def test_so_does_one_of_the_other_engine(tiny_bundle, tmp_path):
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    out = tmp_path / "out"
    out.mkdir()
    command = [*COMMAND, "translate", str(tmp_path / "model"), "--engine", "ctranslate2", "-o", str(out / "text")]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--line-buffered"], stdin=pipe, stderr=pipe, bufsize=0) as process:
        process.stdin.write(b"one line\n")
        deadline = time.monotonic() + 60
        while not any(path.stat().st_size for path in out.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 143
        assert process.stderr.read() == b""
    assert list(out.iterdir()) == []


def test_train_hands_everything_to_hydra():
    finished = subprocess.run([*COMMAND, "train", "--help"], capture_output=True, encoding="utf-8", check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "model=bahdanau|hybrid|luong|rnn|transformer" in finished.stdout


def test_what_cannot_be_read_is_not_said_to_be_unwritable():
    name = 300 * "x"
    finished = subprocess.run([*COMMAND, "compare", name], capture_output=True, text=True, check=False)
    expected = f"seq2seq: error: cannot read or write {name}/config.yaml: File name too long\n"
    assert (finished.returncode, finished.stdout, finished.stderr) == (2, "", expected)
