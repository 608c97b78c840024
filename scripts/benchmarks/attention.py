"""Time and memory of attention against the length of the sentence, for each architecture's kind.

Self-attention scores every pair of positions; a fused kernel never holds them all in memory. Attention over the source
is measured as one training pass has it, a query a target position; Luong's local attention looks through a window, but
hides the rest with a mask, so it costs what global attention does.
"""

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from benchmarks.common import JsonFile, check_json, report, write_json
from seq2seq.errors import UserError
from seq2seq.models.attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    KeysValues,
    MultiHeadAttention,
    attend,
    monotonic_centers,
    outside_window,
)
from seq2seq.streams import complain

SIZE, HEADS, HALF_WIDTH = 128, 4, 10
QUERIES_AT_A_TIME = 64  # additive scores keep a vector for each pair; the decoder has few queries at a time


def _multi_head(fused: bool, length: int) -> Callable[[], Tensor]:
    attention = MultiHeadAttention(SIZE, HEADS)
    x = torch.randn(1, length, SIZE)

    def forward() -> Tensor:
        source: KeysValues = attention.keys_values(x)
        return attention(x, source, need_weights=not fused)[0]

    return forward


def _by_score(score: AdditiveScore | DotScore, window: bool, length: int) -> Callable[[], Tensor]:
    values = torch.randn(1, length, SIZE)
    queries = torch.randn(1, length, SIZE)
    steps = torch.arange(length)[None]
    lengths = torch.tensor([length])

    def forward() -> Tensor:
        keys = score.keys(values)
        contexts = []
        for part, at in zip(queries.split(QUERIES_AT_A_TIME, 1), steps.split(QUERIES_AT_A_TIME, 1), strict=True):
            hidden = outside_window(monotonic_centers(at, lengths), HALF_WIDTH, length) if window else None
            contexts.append(attend(score(part, keys), values, hidden)[0])
        return torch.cat(contexts, dim=1)

    return forward


KINDS: dict[str, Callable[[int], Callable[[], Tensor]]] = {
    "bahdanau additive": lambda length: _by_score(AdditiveScore(SIZE, SIZE, SIZE), False, length),
    "luong dot": lambda length: _by_score(DotScore(), False, length),
    "luong general": lambda length: _by_score(GeneralScore(SIZE, SIZE), False, length),
    "luong general, local-m": lambda length: _by_score(GeneralScore(SIZE, SIZE), True, length),
    "transformer, unfused": lambda length: _multi_head(False, length),
    "transformer, fused": lambda length: _multi_head(True, length),
}


def main(
    shortest: Annotated[int, typer.Option(min=1)] = 256,
    longest: Annotated[int, typer.Option(min=1)] = 8192,
    repeats: Annotated[int, typer.Option(min=1, help="Passes; the fastest counts.")] = 3,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    json_file: JsonFile = None,
) -> None:
    """Show how time and memory of attention grow with the length, the length doubled each time."""
    check_json(json_file)
    if shortest > longest:
        raise UserError(f"--shortest {shortest} is more than --longest {longest}")
    lengths = [shortest * 2**n for n in range(int(math.log2(longest / shortest)) + 1)]
    results = {kind: {length: _measured(kind, length, repeats, threads) for length in lengths} for kind in KINDS}
    for name, unit, show in (
        ("milliseconds", "seconds", lambda value: f"{1000 * value:,.1f}"),
        ("MiB above the start", "mib", lambda value: f"{value:,.0f}"),
    ):
        rows = [[kind, *(show(measured[n][unit]) for n in lengths)] for kind, measured in results.items()]
        report(
            f"{name} by length, forward, one sentence, size {SIZE}", ["attention", *map(str, lengths)], rows, threads
        )
    write_json(json_file, {"attention": results, "repeats": repeats}, threads)


def _measured(kind: str, length: int, repeats: int, threads: int) -> dict[str, float]:
    """Measure in a process of its own: the peak of memory is a process's."""
    complain(f"measuring {kind} at length {length}")
    arguments = [sys.executable, "-m", "benchmarks.attention", kind, str(length), str(repeats), str(threads)]
    here = Path(__file__).parent.parent
    finished = subprocess.run(arguments, cwd=here, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(finished.stdout)
    return found


@torch.inference_mode()
def _measure(kind: str, length: int, repeats: int) -> dict[str, float]:
    torch.manual_seed(1)
    KINDS[kind](64)()  # what the first call costs is not attention's
    forward = KINDS[kind](length)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        forward()
        taken.append(time.perf_counter() - start)
    mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (
        1024**2 if sys.platform == "darwin" else 1024
    )
    return {"seconds": min(taken), "mib": mib}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[4]))
    sys.stdout.write(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
