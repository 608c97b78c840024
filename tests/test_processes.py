"""Several processes that train together, on the CPU: gloo needs no GPU."""

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from small_runs import FORKED, TINY, rows, tiny_settings, weights

from seq2seq.config import TrainConfig
from seq2seq.data.batch import empty_batch
from seq2seq.data.prepare import prepare
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import UserError
from seq2seq.models import build_model
from seq2seq.training import launch
from seq2seq.training.datamodule import BatchStream
from seq2seq.training.fit import fit
from seq2seq.training.hardware import choose_hardware
from seq2seq.training.loss import smoothed_cross_entropy
from seq2seq.training.processes import Processes, outside
from seq2seq.training.settings import Accelerator, TrainerConfig

Variables = Callable[[int, int, int], dict[str, str]]
MAIN = [sys.executable, "-c", "from seq2seq.config import main; main()"]
CLOCKS = {"seconds", "train/target_tokens_per_second"}


def torchrun(rank: int, world: int, port: int) -> dict[str, str]:
    return {
        **{"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        **{"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)},
    }


def srun(rank: int, world: int, port: int) -> dict[str, str]:
    return {
        **{
            "SLURM_JOB_ID": "12",
            "SLURM_STEP_NODELIST": "localhost",
            "MASTER_PORT": str(port),
            "SLURM_NTASKS": str(world),
        },
        **{"SLURM_STEP_NUM_TASKS": str(world), "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
    }


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(command: list[str], world: int, variables: Variables, folder: Path) -> list[subprocess.Popen[str]]:
    """Start the processes of a run as a launcher does."""
    port = free_port()
    return [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(variables(rank, world, port) if world > 1 else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def outputs(processes: list[subprocess.Popen[str]], timeout: float = 600) -> list[tuple[str, str]]:
    try:
        return [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def fit_with(variables: dict[str, str], dtype: torch.dtype, config: TrainConfig) -> None:
    os.environ.update(variables)
    torch.set_default_dtype(dtype)
    fit(config)


def train(config: TrainConfig, world: int, dtype: torch.dtype = torch.float32) -> None:
    """Train by processes that are told of each other as torchrun tells them."""
    port = free_port()
    told = [torchrun(rank, world, port) if world > 1 else {} for rank in range(world)]
    processes = [FORKED.Process(target=fit_with, args=(variables, dtype, config)) for variables in told]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    assert [process.exitcode for process in processes] == [0] * world


def numbers(run: Path) -> list[list[float]]:
    return [[float(row[name] or 0) for name in row if name not in CLOCKS] for row in rows(run)]


def arguments(folder: Path, *more: str) -> list[str]:
    prefix = tiny_settings(folder).data.train
    return [
        *("data=files", f"data.train={prefix}", "data.valid_size=12", "data.test_size=12", "model.num_layers=1"),
        *("logger.every=1", "tokenizer.vocab_size=330", "trainer=cpu", "trainer.batch_tokens=400", *more),
    ]


# ---- What each process gets ----


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("accumulated", [1, 4])
def test_the_processes_see_each_pair_once_an_epoch_and_make_the_same_number_of_updates(
    tmp_path: Path, world: int, accumulated: int
) -> None:
    config = tiny_settings(tmp_path)
    store = prepare(config.data, config.tokenizer).train
    streams = [
        BatchStream(store, batch_tokens=400, seed=1, epochs=3, processes=Processes(rank, world))
        for rank in range(world)
    ]
    batches = sum(streams[0].batches_of(epoch) for epoch in range(3))
    in_update = world * accumulated
    steps = -(-batches // in_update) * accumulated
    taken = [[pairs for pairs, _ in zip(stream, range(steps), strict=False)] for stream in streams]
    in_turn = [taken[rank][step] for step in range(steps) for rank in range(world)]
    ends = [sum(streams[0].batches_of(before) for before in range(epoch)) for epoch in range(4)]
    for begin, end in pairwise(ends):
        seen = Counter(int(pair) for pairs in in_turn[begin:end] for pair in pairs)
        assert seen == Counter(range(len(store)))
    assert not any(len(pairs) for pairs in in_turn[batches:])


@pytest.mark.parametrize("name", list(TINY))
def test_a_batch_without_pairs_has_no_loss_and_a_gradient_of_zero(name: str) -> None:
    model = build_model(TINY[name], 300)
    batch = empty_batch()
    logits = model(batch.src, batch.src_lengths, batch.tgt_in).logits
    loss, _ = smoothed_cross_entropy(logits, batch.tgt_out, PAD, 0.1)
    loss.backward()
    assert float(loss.detach()) == batch.num_tgt_tokens == len(batch.pair_ids) == 0
    assert all((p.grad == 0).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("name", "world"),  # 3 processes differ from 2 in how batches are divided, not in what the model does
    [("transformer", 3), *(pytest.param(name, 2, marks=pytest.mark.slow) for name in TINY)],
)
def test_processes_train_as_one_process_does_that_accumulates_as_many_batches(
    tmp_path: Path, name: str, world: int
) -> None:
    """In float64, with dropout, which is that of the batch whoever takes it."""
    alone = tiny_settings(tmp_path, "alone", TINY[name], accumulate_grad_batches=2 * world)
    together = tiny_settings(tmp_path, "together", TINY[name], accumulate_grad_batches=2)
    train(alone, 1, torch.float64)
    train(together, world, torch.float64)
    found, expected = (numbers(tmp_path / run) for run in ("together", "alone"))
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-9, abs=1e-9)
    after, before = weights(tmp_path / "together"), weights(tmp_path / "alone")
    for key in before:
        torch.testing.assert_close(after[key], before[key], rtol=0, atol=1e-9)


# ---- trainer.devices ----


def test_trainer_devices_makes_one_run_whose_files_are_written_once(tmp_path: Path) -> None:
    for run, more in (("two", ["trainer.devices=2"]), ("one", ["trainer.accumulate_grad_batches=2"])):
        command = [*MAIN, *arguments(tmp_path, "trainer.max_epochs=2", f"run_dir={run}", *more)]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("next: seq2seq translate") == 1
        assert result.stderr.count("translating test") == 1
    two, one = ({p.name for p in (tmp_path / run).iterdir()} for run in ("two", "one"))
    assert {n for n in two if "tfevents" not in n} == {n for n in one if "tfevents" not in n}
    assert (tmp_path / "two/train.log").read_text("utf-8").count("translating test") == 1
    assert "2 processes" in (tmp_path / "two/train.log").read_text("utf-8")
    for row, other in zip(numbers(tmp_path / "two"), numbers(tmp_path / "one"), strict=True):
        assert row == pytest.approx(other, rel=1e-5)
    hypotheses = [(tmp_path / run / "tests/test/hyp.txt").read_text("utf-8") for run in ("two", "one")]
    assert hypotheses[0] == hypotheses[1]


@pytest.mark.slow
def test_the_jobs_of_a_sweep_run_one_after_the_other_each_with_its_own_processes(tmp_path: Path) -> None:
    command = [*MAIN, "-m", *arguments(tmp_path, "trainer.max_steps=2", "trainer.devices=2", "seed=1,2")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("next: seq2seq translate") == 2
    (sweep,) = (tmp_path / "runs").iterdir()
    runs = sorted(path for path in sweep.iterdir() if path.is_dir())
    assert [run.name for run in runs] == ["0-transformer-files-s1", "1-transformer-files-s2"]
    assert all((run / "bundle" / "metrics.json").is_file() for run in runs)


@pytest.mark.parametrize("world", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_resume_exactly(tmp_path: Path, world: int) -> None:
    whole = tiny_settings(tmp_path, "whole", max_steps=7, max_epochs=99)
    train(whole, world)
    first = replace(whole, run_dir=str(tmp_path / "pieces"), trainer=replace(whole.trainer, max_steps=3))
    train(first, world)
    train(replace(first, resume=first.run_dir, trainer=replace(first.trainer, max_steps=7)), world)
    expected, resumed = weights(tmp_path / "whole"), weights(tmp_path / "pieces")
    assert all(torch.equal(expected[key], resumed[key]) for key in expected)
    with pytest.raises(UserError, match=rf"was trained by {world} processes, and there are 1 now: go on with as many"):
        fit(replace(first, resume=first.run_dir, trainer=replace(first.trainer, max_steps=8)))


def running(folder: Path, world: int) -> subprocess.Popen[str]:
    """Start a run that would not end, and wait for its first update."""
    more = ["trainer.max_epochs=100000", f"trainer.devices={world}", "run_dir=run", "trainer.validate_every=100000"]
    process = subprocess.Popen([*MAIN, *arguments(folder, *more)], cwd=folder, stderr=subprocess.PIPE, text=True)
    wait_for(folder / "run" / "metrics.csv", [process])
    return process


def wait_for(file: Path, processes: list[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 600
    while not file.exists():
        if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
            raise AssertionError(outputs(processes, 1))
        time.sleep(0.1)


def others(first: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True)
    return [int(pid) for pid in found.stdout.split()]


def assert_gone(pids: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"{left} are left"
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_of_two_processes_saves_its_state_and_leaves_no_process(tmp_path: Path, number: int) -> None:
    process = running(tmp_path, 2)
    pids = others(process.pid)
    assert len(pids) == 1
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors.count("interrupted; the state is in run/checkpoints/last.ckpt; go on with:") == 1
    assert (tmp_path / "run/checkpoints/last.ckpt").is_file()
    assert not (tmp_path / "run/bundle").exists()
    assert_gone(pids, 5)


def test_if_a_process_is_killed_all_end_within_a_minute_and_say_so(tmp_path: Path) -> None:
    process = running(tmp_path, 3)
    pids = others(process.pid)
    os.kill(pids[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "was killed by signal 9, so all end; go on from the last checkpoint with resume=" in errors
    assert "Traceback" not in errors
    assert_gone(pids, 5)


@pytest.mark.slow
def test_if_the_first_process_is_killed_the_others_end(tmp_path: Path) -> None:
    process = running(tmp_path, 3)
    pids = others(process.pid)
    process.kill()
    assert_gone(pids, 60)
    process.communicate()


def test_a_process_that_waits_for_the_first_ends_when_that_is_gone(tmp_path: Path) -> None:
    port = free_port()  # where nobody listens
    follower = launch.start_another(tiny_settings(tmp_path), Processes(1, 2, 1), port, 1)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            follower.wait(5)
        assert follower.stdin is not None
        follower.stdin.close()
        assert follower.wait(60) == 1
    finally:
        follower.kill()
        follower.wait()


def test_a_process_may_end_while_it_watches_for_the_end_of_the_first() -> None:
    program = (
        "import threading, time; from seq2seq.training.launch import _end_with_the_first; "
        "threading.Thread(target=_end_with_the_first, daemon=True).start(); time.sleep(0.5)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == (b"", 0)  # and stdin is still open


# ---- torchrun and srun ----


@pytest.mark.parametrize("variables", [pytest.param(torchrun, marks=pytest.mark.slow), srun])
def test_processes_started_from_outside_make_one_run(tmp_path: Path, variables: Variables) -> None:
    processes = start([*MAIN, *arguments(tmp_path, "trainer.max_steps=2")], 2, variables, tmp_path)
    told = outputs(processes)
    assert [process.returncode for process in processes] == [0, 0], told
    assert ["next: seq2seq translate" in output for output, _ in told] == [True, False]
    assert told[1] == ("", "")
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "bundle" / "metrics.json").is_file()
    with (run / "metrics.csv").open(encoding="utf-8") as stream:
        assert [row["step"] for row in csv.DictReader(stream)] == ["1", "2", "2"]


@pytest.mark.slow
def test_torchrun_itself_makes_one_run(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    command = [*launcher, str(Path(__file__).parents[1] / "train.py"), *arguments(tmp_path, "trainer.max_steps=2")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("next: seq2seq translate") == 1
    assert len(list((tmp_path / "runs").iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("signalled", [[1], [0, 0]])  # the second: by the system and by torchrun, which passes it on
def test_a_signal_to_one_process_stops_all_that_torchrun_has_started(tmp_path: Path, signalled: list[int]) -> None:
    more = ["trainer.max_epochs=100000", "run_dir=run", "trainer.validate_every=100000"]
    processes = start([*MAIN, *arguments(tmp_path, *more)], 2, torchrun, tmp_path)
    wait_for(tmp_path / "run/metrics.csv", processes)
    for number in signalled:
        processes[number].send_signal(signal.SIGTERM)
        time.sleep(0.01)
    told = outputs(processes)
    assert [process.returncode for process in processes] == [143, 143]
    assert "interrupted; the state is in run/checkpoints/last.ckpt" in told[0][1]
    assert told[1] == ("", "")


def test_processes_from_outside_end_together_if_the_first_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine", encoding="utf-8")
    processes = start([*MAIN, *arguments(tmp_path, "run_dir=run")], 2, torchrun, tmp_path)
    told = outputs(processes)
    assert [process.returncode for process in processes] == [2, 2]
    assert "run_dir=run is not empty" in told[0][1]
    assert "another process of this run has ended" in told[1][1]
    assert "Traceback" not in told[1][1]


def test_the_environment_says_which_process_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outside() is None
    for variables, launcher in ((torchrun, "torchrun"), (srun, "srun")):
        with monkeypatch.context() as patched:
            for name, value in variables(2, 4, 1).items():
                patched.setenv(name, value)
            assert outside() == Processes(2, 4, 2, launcher)
        with monkeypatch.context() as patched:
            for name, value in variables(0, 1, 1).items():
                patched.setenv(name, value)
            assert outside() is None


def test_devices_that_contradict_the_launcher_are_refused() -> None:
    two = Processes(1, 2, 1, "torchrun")
    assert choose_hardware(TrainerConfig(devices=2), two).processes == 2
    with pytest.raises(UserError, match=r"trainer\.devices=3, but torchrun has started 2 processes: leave"):
        choose_hardware(TrainerConfig(devices=3), two)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
def test_more_processes_than_gpus_are_refused(tmp_path: Path) -> None:
    too_many = torch.cuda.device_count() + 1
    with pytest.raises(UserError, match=rf"{too_many} processes need a GPU each"):
        fit(tiny_settings(tmp_path, devices=too_many, accelerator=Accelerator.gpu))
