"""What every benchmark shares: side programs that answer questions, turns, medians, and what machine it was.

A side program runs in an environment of its own for as long as the benchmark lasts. It reads one JSON object a line
and answers each with one: first, unasked, `{"versions": {...}, "variants": [...]}`, then what it measured.
"""

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from seq2seq.errors import UserError
from seq2seq.training.hardware import machine, versions

T = TypeVar("T")
PEERS = Path(__file__).parent / "peers"
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all numbers to this file.", dir_okay=False, writable=True)
]


class SideProgram:
    """One long-lived process that measures on demand.

    Attributes:
        versions: of what it measures, as it says itself.
        variants: the ways in which it can do the work; the fastest counts.
    """

    def __init__(self, python: str, program: Path, arguments: Sequence[str], *, threads: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self._name = f"{python} {program.name}"
        self._process = subprocess.Popen(
            [python, str(program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        about = self._answer(dict)
        if not about.get("variants"):
            raise UserError(f"{self._name} says {about}, which names no variants: it is no side program")
        self.versions: dict[str, str] = about.get("versions", {})
        self.variants: list[str] = about["variants"]

    def ask(self, question: Mapping[str, Any]) -> float:
        """Return the answer to one question."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._answer(float)
        if answer <= 0:
            raise UserError(f"{self._name} has measured {answer}")
        return answer

    def close(self) -> None:
        """End the program: it stops when there are no more questions."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self, kind: type[T]) -> T:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UserError(f"{self._name} has ended with exit code {self._process.wait()}; see above")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, kind):
            raise UserError(f"{self._name} answers {line.strip()!r}: it is no side program")
        return answer


def parse_peers(peers: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return the interpreter of each peer from NAME=PYTHON arguments."""
    interpreters = {}
    for argument in peers:
        name, equals, python = argument.partition("=")
        if not equals or name not in known:
            raise typer.BadParameter(f"--peer {argument}: write NAME=PYTHON with NAME one of {', '.join(known)}")
        if not Path(python).is_file():
            raise typer.BadParameter(f"--peer {argument}: there is no file {python}")
        interpreters[name] = python
    return interpreters


def in_turns(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure A B A B ...: whatever else the machine does, it does to all alike."""
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            measured[name].append(measure())
    return measured


def medians(measured: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each contestant."""
    return {name: statistics.median(values) for name, values in measured.items()}


def report(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], threads: int) -> None:
    """Print a table, and the machine it was measured on."""
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    about = machine()
    console.print(f"{about['cpu']}, {os.cpu_count()} cores, {threads} threads; load {os.getloadavg()[0]:.1f}; ", end="")
    console.print(", ".join(f"{name} {number}" for name, number in versions().items()))


def check_json(path: Path | None) -> None:
    """Raise UserError if there is no folder for the file: before what takes minutes is measured."""
    if path is not None and not path.absolute().parent.is_dir():
        raise UserError(f"--json {path}: there is no folder {path.parent}")


def write_json(path: Path | None, results: Mapping[str, Any], threads: int) -> None:
    """Write the results with machine and versions, if a file was asked for."""
    if path is not None:
        about = {"machine": {**machine(), "threads": threads, "load": os.getloadavg()}, "versions": versions()}
        path.write_text(json.dumps({**about, **results}, indent=2) + "\n", encoding="utf-8")
