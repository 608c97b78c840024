"""kill -9 at any moment, a full disk, a folder that cannot be written, two processes in one run folder."""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_runs import FORKED, rows, tiny_settings

from seq2seq.config import TrainConfig
from seq2seq.data.prepare import prepare
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle
from seq2seq.training.checkpoints import load, save
from seq2seq.training.fit import fit
from seq2seq.training.lock import locked
from seq2seq.training.loggers import CsvLogger


def train(config: TrainConfig) -> None:
    """Train as the command does, whose workers are forked: they see that their parent is gone, and go."""
    multiprocessing.set_start_method("fork", force=True)
    fit(config)


def run_cli(arguments: list[str]) -> None:
    from seq2seq.cli import main

    sys.argv = ["seq2seq", *arguments]
    main()


def killed_when(is_time: Callable[[], bool], work: Callable[..., Any], *arguments: Any) -> bool:
    """Do the work in a process of its own, killed when it is time; return whether it came to its end."""
    process = FORKED.Process(target=work, args=arguments)
    process.start()
    while process.is_alive() and not is_time():
        process.join(0.005)
    process.kill()
    process.join()
    return process.exitcode == 0


def killed_after(seconds: float, work: Callable[..., Any], *arguments: Any) -> bool:
    deadline = time.monotonic() + seconds
    return killed_when(lambda: time.monotonic() > deadline, work, *arguments)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def seconds_of(work: Callable[..., Any], *arguments: Any) -> float:
    began = time.monotonic()
    assert killed_after(1200, work, *arguments)
    return time.monotonic() - began


def as_it_stands(config: TrainConfig) -> TrainConfig:
    """Go on with the run, if it has a checkpoint; begin again, if it was killed before that."""
    assert config.run_dir is not None
    run = Path(config.run_dir)
    if (run / "checkpoints" / "last.ckpt").exists():
        return replace(config, resume=config.run_dir)
    if run.exists():
        subprocess.run(["rm", "-r", run], check=True)
    return replace(config, resume=None)


@pytest.mark.slow
def test_whatever_was_finished_when_the_process_was_killed_is_whole_and_the_run_goes_on(tmp_path: Path) -> None:
    settings = {"max_steps": 30, "max_epochs": 99, "validate_every": 1, "num_workers": 2}
    whole = tiny_settings(tmp_path, "whole", **settings)
    longest = seconds_of(train, whole)
    config = tiny_settings(tmp_path, **settings)
    draw = random.Random(1)
    run = tmp_path / "run"
    steps, has_bundle = [0], False
    for number in range(20):
        if number % 5 == 0:  # from the beginning of all, or on the way
            config.data.cache_dir = str(tmp_path / f"cache{number}")
            subprocess.run(["rm", "-rf", run], check=True)
            has_bundle = False
        if number % 2:
            updates, size = draw.randint(1, 10), size_of(run / "metrics.csv")
            came_to_its_end = killed_when(
                lambda size=size, updates=updates: size_of(run / "metrics.csv") > size + 90 * updates,  # bytes a row
                train,
                as_it_stands(config),
            )
        else:
            came_to_its_end = killed_after(draw.uniform(0, longest), train, as_it_stands(config))
        has_bundle |= came_to_its_end
        for path in run.glob("checkpoints/*.ckpt"):
            load(path)
        has_bundle |= (run / "bundle").exists()
        if has_bundle:
            load_bundle(run)
        if (run / "checkpoints" / "last.ckpt").exists():
            steps.append(load(run / "checkpoints" / "last.ckpt")["global_step"])
        for folder in Path(config.data.cache_dir).glob("prepared/*"):
            assert folder.suffix == ".tmp" or len(prepare(config.data, config.tokenizer).train)
    assert any(0 < step < 30 for step in steps)  # not only before and after training
    assert "30 updates" in fit(as_it_stands(config))
    assert [row["step"] for row in rows(run)] == [row["step"] for row in rows(tmp_path / "whole")]
    left = [path for path in run.rglob(".*") if path.name != ".lock"]
    assert left == []


@pytest.mark.slow
def test_a_translation_that_is_killed_leaves_the_whole_file_or_none(tiny_bundle_folder: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("A tall robot waters the moss.\n" * 2000)
    arguments = ["translate", str(tiny_bundle_folder), str(source), "-o", str(out), "--beam-size", "1"]
    longest = seconds_of(run_cli, arguments)
    draw = random.Random(2)
    for _ in range(20):
        out.unlink(missing_ok=True)
        came_to_its_end = killed_after(draw.uniform(0, 1.2 * longest), run_cli, arguments)
        assert out.exists() >= came_to_its_end
        if out.exists():
            assert len(out.read_text(encoding="utf-8").splitlines()) == 2000


@pytest.mark.parametrize("age", ["old", "new"])
def test_a_bundle_whose_replacement_was_killed_is_still_there(finished: Any, tmp_path: Path, age: str) -> None:
    _, run, _ = finished
    subprocess.run(["cp", "-r", run, tmp_path / "run"], check=True)
    bundle = tmp_path / "run" / "bundle"
    if age == "old":  # between the two renames
        bundle.rename(bundle.with_name(".bundle.123.old"))
    else:
        (bundle.parent / ".bundle.123.new").mkdir()
    assert load_bundle(tmp_path / "run").metrics == load_bundle(run).metrics


def test_rows_that_a_full_disk_has_cut_are_dropped(tmp_path: Path) -> None:
    table = CsvLogger(tmp_path / "metrics.csv")
    table.log_metrics({"epoch": 1.0, "validation/chrf": 0.5}, step=100)
    whole = (tmp_path / "metrics.csv").read_bytes()
    for cut in range(1, len(whole.splitlines()[1]) + 1):
        (tmp_path / "metrics.csv").write_bytes(whole + whole.splitlines()[1][:-cut])
        table.forget_after(200)
        assert (tmp_path / "metrics.csv").read_bytes() == whole


# ---- Two at once ----


def hold(run: Path) -> None:
    with locked(run):
        time.sleep(300)


def wait_for_lock(run: Path, process: Any) -> None:
    deadline = time.monotonic() + 600
    while not (run / ".lock").exists() or (run / ".lock").read_text() != f"{process.pid}\n":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_second_process_is_refused_the_run_folder_until_the_first_is_gone_even_by_kill_9(
    tmp_path: Path,
) -> None:
    config = tiny_settings(tmp_path, max_steps=1)
    fit(config)
    holder = FORKED.Process(target=hold, args=(tmp_path / "run",))
    holder.start()
    wait_for_lock(tmp_path / "run", holder)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "run").rglob("*"))
    message = rf"run is in use by another training process \({holder.pid}\): wait for its end, or stop it"
    with pytest.raises(UserError, match=message):
        fit(replace(config, resume=config.run_dir))
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "run").rglob("*")) == before
    holder.kill()
    holder.join()
    assert "1 updates" in fit(replace(config, resume=config.run_dir))


# ---- The disk ----


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only where file systems can be mounted")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_stops_the_run_in_one_line_and_leaves_what_there_was(tmp_path: Path, disk: Path) -> None:
    config = replace(tiny_settings(tmp_path, max_steps=2, validate_every=1), run_dir=str(disk / "run"))
    fit(config)
    last = disk / "run" / "checkpoints" / "last.ckpt"
    before = last.read_bytes()
    further = replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_steps=20))
    for left in (0, len(before) // 2):  # for the log, for a checkpoint
        about = os.statvfs(disk)
        (disk / "filler").write_bytes(b"\0" * (about.f_bavail * about.f_frsize - left))
        with pytest.raises(UserError, match=r"cannot write .*(No space left on device)") as caught:
            fit(further)
        assert "\n" not in str(caught.value)
        (disk / "filler").unlink()
        load_bundle(disk / "run")
        assert load(last)["global_step"] >= 2
        assert last.read_bytes() == before or left
    assert "3 updates" in fit(replace(further, trainer=replace(config.trainer, max_steps=3)))


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path, disk: Path) -> None:
    config = replace(tiny_settings(tmp_path, max_steps=1), run_dir=str(disk / "run"))
    fit(config)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(UserError, match=r"cannot write to .*/run/\.lock: Read-only file system"):
        fit(replace(config, resume=config.run_dir))
    with pytest.raises(UserError, match=r"cannot make run_dir=.*: Read-only file system"):
        fit(replace(config, run_dir=str(disk / "other")))
    load_bundle(disk / "run")


def test_leftovers_of_killed_processes_are_removed_when_the_run_goes_on(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=1)
    fit(config)
    run = tmp_path / "run"
    save({}, run / "checkpoints" / ".last.ckpt.123.tmp")
    (run / "tests" / "test" / ".hyp.txt.123.new").touch()
    (run / ".config.yaml.123.new").touch()
    (run / ".bundle.123.new").mkdir()
    fit(replace(config, resume=config.run_dir))
    assert [path.name for path in run.rglob(".*")] == [".lock"]
