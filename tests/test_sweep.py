"""Sweeps that can be started again: what is found, what is left alone, what fails, who shares the work."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import rows, tiny_settings

from seq2seq.config import CONF, TrainConfig, from_plain
from seq2seq.errors import UserError
from seq2seq.sweep import Found, Sweep, look, start_over
from seq2seq.training.lock import LOCK, is_locked, locked
from seq2seq.training.run_folder import open_run

TRAIN = [sys.executable, str(CONF.parent / "train.py")]


def settings(run: Path) -> TrainConfig:
    return replace(tiny_settings(run.parent), run_dir=str(run), go_on=True)


def touch(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("", encoding="utf-8")


# ---- What a folder holds ----


def test_a_run_is_finished_by_its_bundle_and_unfinished_by_its_checkpoint(tmp_path: Path) -> None:
    config = settings(tmp_path / "run")
    assert look(config, None) is Found.nothing
    assert look(config, config) is Found.begun
    touch(tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert look(config, config) is Found.unfinished
    touch(tmp_path / "run" / "bundle" / "metrics.json")
    assert look(config, config) is Found.finished


def test_a_run_of_other_settings_is_neither_skipped_nor_gone_on_with(tmp_path: Path) -> None:
    config = settings(tmp_path / "run")
    other = replace(config, seed=2, optim=replace(config.optim, lr=0.5))
    with pytest.raises(UserError) as error:
        look(config, other)
    assert str(error.value) == (
        f"run_dir={tmp_path / 'run'} holds a run with another value of optim.lr, seed: "
        "delete it to train it anew, or choose another folder"
    )


def test_where_a_run_lies_and_what_it_may_use_make_no_other_run_of_it(tmp_path: Path) -> None:
    config = settings(tmp_path / "run")
    moved = replace(config, run_dir="elsewhere", go_on=False, trainer=replace(config.trainer, checkpoint_minutes=1.0))
    assert look(config, from_plain(moved.plain())) is Found.begun


def test_starting_over_empties_the_folder_but_for_its_lock(tmp_path: Path) -> None:
    for name in ("config.yaml", "checkpoints/best.ckpt", LOCK):
        touch(tmp_path / name)
    start_over(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_folder_with_a_name_is_needed_to_go_on() -> None:
    with pytest.raises(UserError, match="go_on=true needs run_dir="):
        TrainConfig(go_on=True)


@pytest.fixture
def held_by_another(tmp_path: Path) -> Path:
    """A run folder with a process in it, which ends with the test."""
    code = f"from pathlib import Path; from seq2seq.training.lock import locked; import time\n\
with locked(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield tmp_path
        process.kill()


def test_a_lock_is_seen_from_outside_and_left_as_it_is(held_by_another: Path) -> None:
    for _ in range(2):
        assert is_locked(held_by_another)
    with pytest.raises(UserError, match="is in use by another training process"), locked(held_by_another):
        pass


def test_a_run_that_another_process_has_begun_meanwhile_is_in_use_rather_than_not_empty(held_by_another: Path) -> None:
    touch(held_by_another / "config.yaml")
    with pytest.raises(UserError, match="is in use by another training process"), ExitStack() as held:
        open_run(settings(held_by_another), False, held)


def test_a_free_folder_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        pass
    assert not is_locked(tmp_path)


# ---- What becomes of the runs ----


def test_a_run_that_another_process_is_at_is_left_to_it(held_by_another: Path) -> None:
    sweep = Sweep()
    assert sweep.settle(settings(held_by_another), lambda run: None, ["--no-such-command"])
    assert sweep.summary() == f"1 run: 0 finished now, 1 left to another process ({held_by_another})"
    assert sweep.exit_code == 0


def test_failures_are_counted_and_decide_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep()
    config = settings(tmp_path / "run")
    sweep.settle(config, lambda run: replace(config, seed=7), [])
    assert sweep.exit_code == 2
    sweep.settle(replace(config, run_dir="nowhere"), lambda run: None, ["experiment=none_such"])
    assert sweep.exit_code == 2
    sweep.fail("other", "killed by signal 9", 1)
    assert sweep.exit_code == 1
    assert sweep.summary().splitlines()[0] == "3 runs: 0 finished now, 3 failed"
    assert sweep.summary().splitlines()[2:] == ["failed: nowhere: exit code 2", "failed: other: killed by signal 9"]
    assert "another value of seed" in capsys.readouterr().err


# ---- A ladder, from the command line ----

TINY_LADDER = [
    *("-m", "experiment=ladder_grammar", "trial=a", "data=grammar_tiny", "data.train_size=300", "data.valid_size=10"),
    *("data.test_size=10", "data.challenge_size=0", "tokenizer.vocab_size=400", "search.beam_size=2"),
    *("trainer.max_steps=6", "trainer.validate_every=2", "trainer.batch_tokens=400", "trainer.accelerator=cpu"),
    *("logger.tensorboard=false", "length_penalties=[0.6,1.0]"),
]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TRAIN, *TINY_LADDER, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def counts(output: str) -> str:
    return next(line for line in output.splitlines() if re.match(r"\d+ runs?: ", line))


def metrics_of(run: Path) -> dict[str, object]:
    metrics: dict[str, object] = json.loads((run / "bundle" / "metrics.json").read_text("utf-8"))
    return metrics


def wait_for(file: Path) -> None:
    until = time.monotonic() + 120
    while not file.is_file() and time.monotonic() < until:
        time.sleep(0.01)


def test_a_signal_is_passed_on_to_the_run_and_ends_the_sweep(tmp_path: Path) -> None:
    sweep = start(tmp_path, "rung=0-rnn", "seed=1,2", "trainer.max_steps=100000", "trainer.max_epochs=100000")
    run = tmp_path / "runs" / "ladder_grammar" / "0-rnn-s1"
    wait_for(run / "checkpoints" / "last.ckpt")
    process = int((run / LOCK).read_text("ascii"))
    sweep.send_signal(signal.SIGTERM)
    _, errors = sweep.communicate(timeout=120)
    assert sweep.returncode == 128 + signal.SIGTERM
    assert "interrupted: the same command goes on with the sweep" in errors
    assert f"the state is in {Path('runs/ladder_grammar/0-rnn-s1/checkpoints/last.ckpt')}; the same command" in errors
    assert not (run.parent / "0-rnn-s2").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_the_runs_of_an_experiment_that_is_a_sweep_by_itself_are_none(tmp_path: Path) -> None:
    tiny = [setting for setting in TINY_LADDER[2:] if not setting.startswith(("trial", "data.train_size"))]
    command = [*TRAIN, "experiment=data_size", *tiny, "data.train_size=200,300", "go_on=true"]
    command.append("run_dir=runs/d/${data.train_size}")
    process = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=240, check=False)
    assert process.returncode == 0, process.stderr
    assert counts(process.stdout) == "2 runs: 2 finished now"
    assert "the runs are in runs/d; next: seq2seq challenge data-size runs/d" in process.stderr


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_processes_started_from_outside_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    variables = {"torchrun": ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK")}
    variables["srun"] = ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID")
    for name in variables[launcher]:
        monkeypatch.setenv(name, "2")
    with pytest.raises(UserError, match=f"go_on=true does not work under {launcher}"):
        Sweep().settle(settings(tmp_path / "run"), lambda run: None, None)


@pytest.mark.slow
def test_two_sweeps_at_once_share_the_runs_and_a_third_finds_nothing_to_do(tmp_path: Path) -> None:
    runs = ["rung=0-rnn,7-transformer", "seed=1,2"]
    both = [start(tmp_path, *runs) for _ in range(2)]
    outputs = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    finished = [int(re.findall(r"(\d+) finished now", counts(output))[0]) for output, _ in outputs]
    assert sum(finished) == 4
    assert all(finished)

    third = start(tmp_path, *runs)
    output, _ = third.communicate(timeout=120)
    assert third.returncode == 0
    assert counts(output) == "4 runs: 0 finished now, 4 finished before"

    folder = tmp_path / "runs" / "ladder_grammar"
    assert sorted(run.name for run in folder.iterdir()) == [
        "0-rnn-s1",
        "0-rnn-s2",
        "7-transformer-s1",
        "7-transformer-s2",
    ]
    metrics = metrics_of(folder / "7-transformer-s2")
    assert (metrics["label"], metrics["compared_with"], metrics["seed"]) == ("7-transformer", "6-hybrid", 2)
    assert metrics["updates"] == 6
    assert not list(tmp_path.glob("runs/*-sweep"))


def test_a_killed_run_does_not_stop_the_others_and_the_same_command_goes_on_with_it(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "ladder_grammar" / "0-rnn-s1"
    arguments = ["rung=0-rnn,4-luong-dot", "seed=1", "trainer.max_steps=20"]
    first = start(tmp_path, *arguments)
    wait_for(run / "checkpoints" / "last.ckpt")
    os.kill(int((run / LOCK).read_text("ascii")), signal.SIGKILL)
    output, errors = first.communicate(timeout=240)
    assert "seq2seq: run 2 of 2: runs/ladder_grammar/4-luong-dot-s1\n" in errors
    assert "seq2seq compare" not in errors
    assert first.returncode == 1
    assert counts(output) == "2 runs: 1 finished now, 1 failed"
    assert f"0-rnn-s1: killed by signal 9, see {Path('runs/ladder_grammar/0-rnn-s1/train.log')}" in errors

    again = start(tmp_path, *arguments)
    output, errors = again.communicate(timeout=240)
    assert again.returncode == 0, errors
    assert errors.endswith("seq2seq: the runs are in runs/ladder_grammar; next: seq2seq compare runs/ladder_grammar\n")
    assert counts(output) == "2 runs: 1 finished now, 1 finished before"
    assert [int(row["step"]) for row in rows(run) if row["validation/bleu"]] == list(range(2, 21, 2))
    # What is started over loses its log; what is gone on with keeps it.
    assert (run / "train.log").read_text("utf-8").count("training rnn on CPU") == 2
