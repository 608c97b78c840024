"""A sweep that can be started again: `go_on`. Each run has a folder of its own name and a process of its own.

What is finished is left alone, what was interrupted goes on, what another process is at is left to it: so two sweeps of
the same command share the work. A run that fails, or is killed, does not stop those after it. If the sweep itself is
killed, its run goes on to its end.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from seq2seq.errors import Interrupted, UserError
from seq2seq.signals import SIGNALS
from seq2seq.streams import complain, put
from seq2seq.training.launcher import launched_by
from seq2seq.training.lock import LOCK, is_locked, locked

if TYPE_CHECKING:
    from seq2seq.config import TrainConfig

# What may differ between a run and its settings now, and yet it is the same run: where it lies, what it may use.
_IRRELEVANT = ("run_dir", "resume", "go_on", "logger")
_IRRELEVANT_OF_TRAINER = ("accelerator", "num_workers", "checkpoint_minutes")


class Found(Enum):
    """What the folder of a run holds."""

    nothing = "nothing"
    begun = "begun"  # without a checkpoint yet
    unfinished = "unfinished"
    finished = "finished"


def look(config: "TrainConfig", stored: "TrainConfig | None") -> Found:
    """Return what `config.run_dir` holds, `stored` being the settings in its config.yaml, if it has one.

    Raises:
        UserError: a run of other settings.
    """
    run = Path(str(config.run_dir))
    if stored is None:
        return Found.nothing
    if differing := _differing(_relevant(config.plain()), _relevant(stored.plain())):
        raise UserError(
            f"run_dir={run} holds a run with another value of {', '.join(differing)}: "
            "delete it to train it anew, or choose another folder"
        )
    if (run / "bundle" / "metrics.json").is_file():
        return Found.finished
    return Found.unfinished if (run / "checkpoints" / "last.ckpt").is_file() else Found.begun


def _relevant(settings: dict[str, Any]) -> dict[str, Any]:
    trainer = {name: value for name, value in settings["trainer"].items() if name not in _IRRELEVANT_OF_TRAINER}
    return {**{name: value for name, value in settings.items() if name not in _IRRELEVANT}, "trainer": trainer}


def _differing(one: Any, other: Any, prefix: str = "") -> list[str]:
    """Return the dotted names whose values differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix]
    names = dict.fromkeys((*one, *other))
    inner = ((one.get(name), other.get(name), f"{prefix}.{name}".removeprefix(".")) for name in names)
    return [name for parts in inner for name in _differing(*parts)]


def start_over(run: Path) -> None:
    """Empty the folder of a run that was stopped before its first checkpoint.

    Raises:
        UserError: another process is at it.
    """
    if run.is_dir():
        with locked(run):
            for path in run.iterdir():
                if path.name != LOCK:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


class Sweep:
    """The runs of a sweep so far, by what became of them."""

    def __init__(self) -> None:
        self.done: list[str] = []  # by this process
        self.before: list[str] = []  # by an earlier one
        self.elsewhere: list[str] = []  # another process is at it
        self.failed: dict[str, str] = {}  # and why
        self.exit_code = 0

    def __len__(self) -> int:
        return len(self.done) + len(self.before) + len(self.elsewhere) + len(self.failed)

    def settle(
        self,
        config: "TrainConfig",
        stored: Callable[[Path], "TrainConfig | None"],
        arguments: Sequence[str] | None,
    ) -> bool:
        """Turn to what `config.run_dir` holds already; return whether nothing is left to do for the caller.

        Args:
            stored: returns the settings in a run's folder, if it has any.
            arguments: start this run of a sweep as a command of its own; None: the caller trains, and no sweep.

        Raises:
            UserError: without a sweep, if the folder holds another run, or another process is in it; under torchrun or
                srun.
            Interrupted: SIGINT or SIGTERM came; the run has been told.
        """
        if (launched := launched_by()) is not None:
            raise UserError(
                f"go_on=true does not work under {launched[-1]}, whose processes cannot agree on what is left "
                "to do: leave it out, and go on with resume=RUN"
            )
        run = Path(str(config.run_dir))
        if arguments is not None:
            try:
                self._run(str(run), look(config, stored(run)), arguments)
            except UserError as error:
                self.fail(str(run), str(error), 2)
            return True
        found = look(config, stored(run))
        if found is Found.finished:
            put(f"{run} is finished\n")
        elif found is Found.unfinished:
            config.resume = config.run_dir
        elif found is Found.begun:
            start_over(run)
        return found is Found.finished

    def _run(self, run_dir: str, found: Found, arguments: Sequence[str]) -> None:
        """See to it that a run of a sweep is finished, if nobody else is at it."""
        if is_locked(Path(run_dir)):
            self.elsewhere.append(run_dir)
        elif found is Found.finished:
            self.before.append(run_dir)
        elif (code := train_apart(arguments)) == 0:
            self.done.append(run_dir)
        elif is_locked(Path(run_dir)):  # another process was faster
            self.elsewhere.append(run_dir)
        else:
            how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            log = Path(run_dir, "train.log")
            self.fail(run_dir, f"{how}, see {log}" if log.is_file() else how, 2 if code == 2 else 1)

    def fail(self, run_dir: str, reason: str, exit_code: int) -> None:
        """Note a run that will not be finished."""
        self.failed[run_dir] = reason
        self.exit_code = 1 if 1 in (exit_code, self.exit_code) else exit_code
        complain(f"error: {run_dir}: {reason}")

    def summary(self) -> str:
        """Return what became of the runs, a line for each kind, a line for each failure."""
        counts = [
            (f"{len(self.done)} finished now", True),
            (f"{len(self.before)} finished before", self.before),
            (f"{len(self.elsewhere)} left to another process ({', '.join(self.elsewhere)})", self.elsewhere),
            (f"{len(self.failed)} failed", self.failed),
        ]
        runs = "1 run" if len(self) == 1 else f"{len(self)} runs"
        lines = [f"{runs}: {', '.join(text for text, is_said in counts if is_said)}"]
        return "\n".join([*lines, *(f"failed: {run}: {reason}" for run, reason in self.failed.items())])


def train_apart(arguments: Sequence[str]) -> int:
    """Train in a process of its own, so that no other dies with it; return its exit code, negative for a signal.

    It hears of a signal once, from here: in the terminal's own group it would hear twice, and end without saving.

    Raises:
        Interrupted: SIGINT or SIGTERM came to this process, and has been passed on.
    """
    received: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if process is not None:
            process.send_signal(number)

    handlers = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        if not received:
            process = subprocess.Popen(
                [sys.executable, "-m", "seq2seq", "train", *arguments],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for number in received:  # while it was being started
                process.send_signal(number)
            code = process.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        raise Interrupted("interrupted: the same command goes on with the sweep", received[0])
    return code
