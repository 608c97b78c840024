"""Training speed: whole steps, forward, label-smoothed loss, backward, clipping and Adam, on the same real batches."""

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.common import (
    PEERS,
    JsonFile,
    SideProgram,
    check_json,
    in_turns,
    medians,
    parse_peers,
    report,
    write_json,
)
from seq2seq.data.corpus import FilesConfig
from seq2seq.data.prepare import prepare
from seq2seq.data.tokenizer import TokenizerConfig
from seq2seq.training.datamodule import BatchStream

_MODELS = {"ours": ("transformer", "bahdanau", "luong", "rnn"), "marian": ("transformer",)}
_MODELS["joeynmt"] = ("transformer", "bahdanau")


def main(
    data: Annotated[str, typer.Option(help="Prefix of the training text, as data.train.")],
    valid: Annotated[str, typer.Option(help="Prefix of the validation text, as data.valid.")],
    src_lang: Annotated[str, typer.Option()] = "en",
    tgt_lang: Annotated[str, typer.Option()] = "de",
    vocab_size: Annotated[int, typer.Option(min=100)] = 8000,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a batch, padding counted.")] = 4096,
    batches: Annotated[int, typer.Option(min=1, help="Batches of a turn.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each contestant.")] = 5,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    model: Annotated[list[str] | None, typer.Option(help="transformer, bahdanau, luong, rnn; may be repeated.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="NAME=PYTHON, NAME marian or joeynmt; repeatable.")] = None,
    cache_dir: Annotated[str, typer.Option(help="Where the prepared corpus is kept.")] = "data",
    seed: Annotated[int, typer.Option()] = 1,
    json_file: JsonFile = None,
) -> None:
    """Compare target tokens per second in training, in turns with peers."""
    models = model or ["transformer", "bahdanau"]
    for name in models:
        if name not in _MODELS["ours"]:
            raise typer.BadParameter(f"--model {name}: choose from {', '.join(_MODELS['ours'])}")
    pythons = {"ours": sys.executable, **parse_peers(peer or [], ["marian", "joeynmt"])}
    check_json(json_file)
    config = FilesConfig(train=data, valid=valid, src_lang=src_lang, tgt_lang=tgt_lang, cache_dir=cache_dir)
    corpus = prepare(config, TokenizerConfig(vocab_size=vocab_size))
    results = {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "batches.npz"
        stream = BatchStream(corpus.train, batch_tokens=batch_tokens, seed=seed, epochs=batches + 2)
        _write_batches(stream, batches + 1, file)
        for name in models:
            programs = {
                who: SideProgram(
                    python,
                    PEERS / f"train_{who}.py",
                    [str(file), name, str(corpus.tokenizer.vocab_size), str(seed)],
                    threads=threads,
                )
                for who, python in pythons.items()
                if name in _MODELS[who]
            }
            contestants = {
                f"{who} {variant}": partial(program.ask, {"variant": variant})
                for who, program in programs.items()
                for variant in program.variants
            }
            measured = in_turns(contestants, rounds)
            speeds = medians(measured)
            results[name] = {
                "turns": measured,
                "medians": speeds,
                "versions": {who: program.versions for who, program in programs.items()},
            }
            best = {who: max(v for n, v in speeds.items() if n.split()[0] == who) for who in programs}
            for contestant, speed in speeds.items():
                ratios = [f"{speed / best[who]:.2f}" if who in best else "" for who in pythons if who != "ours"]
                rows.append([name, contestant, f"{speed:,.0f}", *ratios])
            for program in programs.values():
                program.close()
    header = [
        "model",
        "program, format, attention",
        "target tokens/s",
        *(f"to best {w}" for w in pythons if w != "ours"),
    ]
    report(f"training, batches of {batch_tokens} tokens, medians of {rounds} turns", header, rows, threads)
    write_json(json_file, {"training": results, "seed": seed, "batches": batches, "rounds": rounds}, threads)


def _write_batches(stream: BatchStream, count: int, file: Path) -> None:
    """Write the first batches after that of the longest sentences, which is not like the others."""
    pairs = iter(stream)
    next(pairs)
    arrays = {}
    for i in range(count):
        batch = stream.store.batch(next(pairs))
        for name in ("src", "src_lengths", "tgt_in", "tgt_out"):
            arrays[f"{name}_{i}"] = getattr(batch, name).numpy()
    np.savez(file, **arrays)
