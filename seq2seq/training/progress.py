"""What a person sees while training runs: a bar and log lines, on stderr; the same lines in train.log."""

import logging
import logging.handlers
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, TaskID, TextColumn

_NAME = "seq2seq"


class RunLog:
    """Log lines of this package on stderr, and in a file once there is one: it gets what came before as well."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, soft_wrap=True)
        shown: logging.Handler = logging.StreamHandler(self.console.file)
        if self.console.is_terminal:  # it keeps the lines above the bar
            shown = RichHandler(console=self.console, show_level=False, show_path=False, log_time_format="%X")
        else:
            shown.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        self._waiting = logging.handlers.MemoryHandler(capacity=100_000, flushLevel=logging.CRITICAL + 1)
        self._handlers = [shown, self._waiting]

    def write_to(self, file: Path) -> None:
        """Append all lines to `file`, from the first on."""
        target = _LogFile(file, encoding="utf-8")
        target.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._waiting.setTarget(target)
        self._waiting.flush()
        logging.getLogger(_NAME).removeHandler(self._waiting)
        self._handlers[1] = target
        logging.getLogger(_NAME).addHandler(target)

    @contextmanager
    def listening(self) -> Iterator["RunLog"]:
        """Listen as long as the block lasts."""
        package = logging.getLogger(_NAME)
        level = package.level
        package.setLevel(logging.INFO)
        for handler in self._handlers:
            package.addHandler(handler)
        try:
            yield self
        finally:
            package.setLevel(level)
            for handler in self._handlers:
                package.removeHandler(handler)
                handler.close()


class _LogFile(logging.FileHandler):
    """A log that cannot be written, as on a full disk, is an error like any other, not a report on stderr."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the name is logging's
        raise  # it is called where the error is caught

    def close(self) -> None:
        """Close the file; what it would not take has been reported."""
        with suppress(OSError):
            super().close()


class Bar:
    """The progress bar: share of training done, loss, validation BLEU, target tokens a second, time left.

    It is drawn on a terminal only; elsewhere the log lines have to do.
    """

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("BLEU {task.fields[bleu]}"),
            TextColumn("{task.fields[speed]} target tokens/s"),
            TextColumn("{task.fields[left]} left"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def start(self) -> None:
        """Begin to draw."""
        self._progress.start()
        self._task = self._progress.add_task("", total=1.0, epoch="1", loss="-", bleu="-", speed="-", left="-")

    def update(self, share: float, shown: dict[str, str]) -> None:
        """Show what changed: the share of training that is done, and any of epoch, loss, bleu, speed, left."""
        if self._task is not None:
            self._progress.tasks[self._task].fields.update(shown)
            self._progress.update(self._task, completed=share)

    def stop(self) -> None:
        """Leave the terminal as it is."""
        self._progress.stop()


def clock(seconds: float) -> str:
    """Return a duration for people: 45 s, 12 min, 3 h 20 min."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
