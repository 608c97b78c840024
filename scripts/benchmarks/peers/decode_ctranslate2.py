"""CTranslate2 with our exported weights, its batches side by side or each on all threads; the fastest counts."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import ctranslate2
from decode_protocol import BEAMS, load_work, serve

work = load_work()
threads = int(os.environ["OMP_NUM_THREADS"])
LONGEST = 256


def contestant(numbers: str, side_by_side: bool) -> dict[str, Callable[[], object]]:
    """Return the two modes of one kind of weights."""
    folder = Path(sys.argv[2]) / numbers
    names = vocabulary(folder)
    inter, intra = (threads, 1) if side_by_side else (1, threads)
    translator = ctranslate2.Translator(str(folder), inter_threads=inter, intra_threads=intra)
    options = {"beam_size": BEAMS, "length_penalty": 1, "max_decoding_length": LONGEST}
    whole = [[names[i] for i in ids] for batch in work["batches"] for ids in batch["src"]]
    single = [[[names[i] for i in ids] for ids in batch["src"]] for batch in work["one"]]
    return {
        "batches": lambda: translator.translate_batch(whole, max_batch_size=work["batch_size"], **options),
        "one": lambda: [translator.translate_batch(source, **options) for source in single],
    }


def vocabulary(folder: Path) -> list[str]:
    """Return the names of the ids."""
    return json.loads((folder / "shared_vocabulary.json").read_text())


serve(
    {
        f"{numbers} {'side by side' if side_by_side else 'threaded'}": contestant(numbers, side_by_side)
        for numbers in ("float32", "int8")
        for side_by_side in (True, False)
    },
    ["ctranslate2"],
)
