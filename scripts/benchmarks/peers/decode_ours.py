"""Our own translator, text to text."""

import sys
from collections.abc import Callable

import torch
from decode_protocol import BEAMS, load_work, serve

from seq2seq.allocator import keep_freed_memory
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.search import SearchConfig
from seq2seq.inference.translator import Translator

keep_freed_memory()  # as the program does
work = load_work()


def contestant(dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """Return the two modes in one kind of numbers."""
    translator = Translator.from_bundle(load_bundle(sys.argv[1], "cpu", dtype), batch_size=work["batch_size"])
    translator.search, translator.warn = SearchConfig(BEAMS), False
    single = work["lines"][: len(work["one"])]
    return {
        "batches": lambda: list(translator.translate(work["lines"])),
        "one": lambda: list(translator.translate(single, chunk_lines=1)),
    }


serve({"float32": contestant(torch.float32), "bfloat16": contestant(torch.bfloat16)}, ["torch"])
