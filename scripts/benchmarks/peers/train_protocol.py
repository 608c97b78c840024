"""How a side program of the training benchmark is asked; needs numpy and torch only."""

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch


def load_batches(file: str) -> list[dict[str, torch.Tensor]]:
    """Read the batches that all contestants train on."""
    arrays = np.load(file)
    count = sum(name.startswith("src_lengths_") for name in arrays)
    names = ("src", "src_lengths", "tgt_in", "tgt_out")
    return [{name: torch.from_numpy(arrays[f"{name}_{i}"]) for name in names} for i in range(count)]


def serve(
    steps: dict[str, Callable[[dict[str, torch.Tensor]], None]],
    batches: list[dict[str, torch.Tensor]],
    packages: list[str],
) -> None:
    """Answer each question {"variant": NAME} with target tokens per second; the first batch warms up."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is not an answer
    about = {"versions": {name: version(name) for name in packages}, "variants": list(steps)}
    answers.write(json.dumps(about) + "\n")
    answers.flush()
    for line in sys.stdin:
        step = steps[json.loads(line)["variant"]]
        step(batches[0])
        start = time.perf_counter()
        for batch in batches[1:]:
            step(batch)
        seconds = time.perf_counter() - start
        tokens = sum(int((batch["tgt_out"] != 0).sum()) for batch in batches[1:])
        answers.write(json.dumps(tokens / seconds) + "\n")
        answers.flush()
