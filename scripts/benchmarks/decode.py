"""Translating speed: beam 5, in batches and one sentence at a time, on the same sentences.

Our models and CTranslate2 search with the weights of a trained run, so their translations have the same lengths. Peers
that cannot load them have random weights of the same sizes, and must write as many tokens for each batch as its
translations by the run have on average.
"""

import json
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

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
from benchmarks.peers.decode_protocol import BEAMS
from seq2seq.data.corpus import read_lines
from seq2seq.data.tokenizer import EOS
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.export import export_ctranslate2
from seq2seq.inference.search import SearchConfig
from seq2seq.inference.translator import Translator


def main(
    run: Annotated[Path, typer.Argument(help="A run folder or a bundle of a Transformer.")],
    text: Annotated[Path, typer.Argument(help="Source text, one sentence a line.")],
    sentences: Annotated[int, typer.Option(min=1, help="Sentences of a turn, in batches.")] = 1000,
    single: Annotated[int, typer.Option(min=1, help="Sentences of a turn, one at a time.")] = 100,
    batch_size: Annotated[int, typer.Option(min=1)] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each contestant.")] = 5,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    peer: Annotated[
        list[str] | None, typer.Option(help="NAME=PYTHON, NAME marian, joeynmt or ctranslate2; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random weights.")] = 1,
    json_file: JsonFile = None,
) -> None:
    """Compare sentences per second in decoding, in turns with peers."""
    pythons = {"ours": sys.executable, **parse_peers(peer or [], ["marian", "joeynmt", "ctranslate2"])}
    bundle = replace(load_bundle(run), search=SearchConfig(BEAMS))
    check_json(json_file)
    lines = [line for line in read_lines(text) if line.strip()][:sentences]
    if not lines:
        raise UserError(f"{text} has no line with text")
    results, rows = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "ctranslate2" in pythons:
            for variant, quantization in (("float32", None), ("int8", "int8")):
                export_ctranslate2(bundle, folder / variant, quantization)
        question = _work(Translator.from_bundle(bundle), lines, batch_size, single)
        (folder / "work.json").write_text(json.dumps({**question, "config": _sizes(bundle), "seed": seed}))
        arguments = [str(run.absolute()), str(folder)]
        programs = {
            who: SideProgram(python, PEERS / f"decode_{who}.py", arguments, threads=threads)
            for who, python in pythons.items()
        }
        for mode, count in (("batches", len(lines)), ("one", min(single, len(lines)))):
            contestants = {
                f"{who} {variant}": partial(program.ask, {"variant": variant, "mode": mode})
                for who, program in programs.items()
                for variant in program.variants
            }
            measured = in_turns(contestants, rounds)
            seconds = medians(measured)
            results[mode] = {
                "seconds": measured,
                "medians": seconds,
                "sentences": count,
                "versions": {who: program.versions for who, program in programs.items()},
            }
            best = {who: min(s for n, s in seconds.items() if n.split()[0] == who) for who in programs}
            for contestant, taken in seconds.items():
                ratios = [f"{best[who] / taken:.2f}" for who in pythons if who != "ours"]
                speed = f"{count / taken:,.0f}/s" if mode == "batches" else f"{1000 * taken / count:.1f} ms each"
                rows.append([mode, contestant, speed, *ratios])
        for program in programs.values():
            program.close()
    header = ["mode", "program, numbers", "speed", *(f"to best {who}" for who in pythons if who != "ours")]
    title = f"decoding {len(lines)} sentences, beam {BEAMS}, batches of {batch_size}, medians of {rounds} turns"
    report(title, header, rows, threads)
    write_json(json_file, {"decoding": results, "seed": seed, "rounds": rounds, "batch_size": batch_size}, threads)


def _work(translator: Translator, lines: list[str], batch_size: int, single: int) -> dict[str, object]:
    """Return the batches of ids, longest first as our translator has them, and how many tokens each shall become."""
    tokenizer = translator.tokenizer
    targets = [tokenizer.encode(found.text) for found in translator.translate(lines)]
    sources = [[*ids, EOS] for ids in tokenizer.encode_batch(lines)]
    lengths = [len(target) + 1 for target in targets]
    order = sorted(range(len(lines)), key=lambda n: len(sources[n]), reverse=True)
    groups = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def batch(rows: list[int]) -> dict[str, object]:
        return {"src": [sources[n] for n in rows], "length": round(sum(lengths[n] for n in rows) / len(rows))}

    return {
        "lines": lines,
        "batch_size": batch_size,
        "batches": [batch(rows) for rows in groups],
        "one": [batch([n]) for n in range(min(single, len(lines)))],
    }


def _sizes(bundle: object) -> dict[str, int]:
    """Return what a peer needs for a model of the same sizes."""
    config = bundle.config
    names = ("d_model", "d_ff", "num_heads", "num_layers")
    return {**{name: getattr(config, name) for name in names}, "vocab_size": bundle.tokenizer.vocab_size}
