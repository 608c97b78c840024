"""How fast finished runs translate, measured in turns: a machine that is busy for a while slows all of them.

Two figures: sentences per second in batches of 64, and the time that one sentence takes alone, which is what somebody
waits for. Both are medians over the rounds. Processor seconds are given beside the clock's: on one thread they hardly
change with what else the machine does.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from seq2seq.comparison.runs import SPEED
from seq2seq.errors import UserError
from seq2seq.inference.bundle import write_json
from seq2seq.inference.translator import Translator
from seq2seq.training.hardware import machine
from seq2seq.whole_file import whole_file

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
ROUNDS = 3
_ALONE = 20  # sentences translated one at a time in each round


def measure_speed(
    translators: Mapping[Path, Translator], lines: Sequence[str], rounds: int = ROUNDS
) -> dict[Path, dict[str, Any]]:
    """Return for each run what its speed.json holds.

    Args:
        translators: by run folder, with batches of `BATCH_SIZE`.
        lines: what they translate, the same for all.
        rounds: each run has one turn a round.
    """
    batched: dict[Path, list[tuple[float, float]]] = {folder: [] for folder in translators}
    alone: dict[Path, list[tuple[float, float]]] = {folder: [] for folder in translators}
    for translator in translators.values():
        list(translator.translate(lines[:2]))  # what happens only once
    for number in range(rounds):
        for folder, translator in translators.items():
            logger.info("translating %d sentences with %s, round %d of %d", len(lines), folder, number + 1, rounds)
            batched[folder].append(_timed(translator, lines, len(lines)))
            alone[folder].append(_timed(translator, lines[:_ALONE], 1))
    return {
        folder: {
            "sentences_per_second": median(len(lines) / clock for clock, _ in batched[folder]),
            "sentences_per_processor_second": median(len(lines) / used for _, used in batched[folder]),
            "milliseconds_per_sentence": median(1000 * clock / len(lines[:_ALONE]) for clock, _ in alone[folder]),
            "processor_milliseconds_per_sentence": median(
                1000 * used / len(lines[:_ALONE]) for _, used in alone[folder]
            ),
            "batch_size": BATCH_SIZE,
            "beam_size": translator.search.beam_size,
            "sentences": len(lines),
            "rounds": rounds,
            "device": str(next(translator.model.parameters()).device),
            "machine": machine(),
        }
        for folder, translator in translators.items()
    }


def _timed(translator: Translator, lines: Sequence[str], chunk_lines: int) -> tuple[float, float]:
    """Return the seconds of the clock and of the processor."""
    clock, used = time.perf_counter(), time.process_time()
    list(translator.translate(lines, chunk_lines=chunk_lines))
    return time.perf_counter() - clock, time.process_time() - used


def keep_speed(folder: Path, found: Mapping[str, Any]) -> None:
    """Write it to the run's folder, where `compare` looks; a UserError if that cannot be written."""
    try:
        with whole_file(folder / SPEED) as fresh:
            write_json(fresh, dict(found))
    except OSError as error:
        raise UserError(f"cannot write {folder / SPEED}: {error.strerror}") from error
    logger.info("kept in %s", folder / SPEED)
