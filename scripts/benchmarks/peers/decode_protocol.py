"""How a side program of the decoding benchmark is asked; needs the standard library only."""

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

BEAMS = 5


def load_work() -> dict[str, Any]:
    """Read the sentences, as text and as batches of ids, and the sizes of the model."""
    return json.loads((Path(sys.argv[2]) / "work.json").read_text())


def serve(variants: dict[str, dict[str, Callable[[], object]]], packages: list[str]) -> None:
    """Answer each question {"variant": NAME, "mode": batches or one} with seconds; each warms up once."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is not an answer
    about = {"versions": {name: version(name) for name in packages}, "variants": list(variants)}
    answers.write(json.dumps(about) + "\n")
    answers.flush()
    warm = set()
    for line in sys.stdin:
        question = json.loads(line)
        work = variants[question["variant"]][question["mode"]]
        if line not in warm:
            work()
            warm.add(line)
        start = time.perf_counter()
        work()
        answers.write(json.dumps(time.perf_counter() - start) + "\n")
        answers.flush()


def both(work: dict[str, Any], translate: Callable[[dict[str, Any]], object]) -> dict[str, Callable[[], object]]:
    """Return the two modes of a program that takes batches of ids."""
    return {mode: lambda mode=mode: [translate(batch) for batch in work[mode]] for mode in ("batches", "one")}
