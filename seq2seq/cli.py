"""The `seq2seq` command.

stdin, stdout and stderr speak UTF-8 whatever the locale. stdout carries results only; warnings and progress go to
stderr. torch and all that needs it are imported when a command runs, so that `--help` answers at once.
"""

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from seq2seq.comparison import commands
from seq2seq.data.corpus import ParallelText, read_lines
from seq2seq.data.words import word_spans
from seq2seq.errors import Interrupted, UserError
from seq2seq.signals import leave, raise_interrupted, stop_at_once
from seq2seq.streams import complain, log_to_stderr, speak_utf8
from seq2seq.whole_file import whole_file

if TYPE_CHECKING:
    from seq2seq.data.grammar import Pair
    from seq2seq.inference.bundle import Bundle
    from seq2seq.inference.search import SearchConfig
    from seq2seq.inference.translator import LineTranslator, Translation, Translator

app = typer.Typer(
    name="seq2seq", add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at data, or write it.")
app.add_typer(data_app, name="data")
app.add_typer(commands.challenge, name="challenge")
app.command()(commands.compare)
app.command()(commands.speed)


class Engine(Enum):
    """What computes a translation."""

    native = "native"
    ctranslate2 = "ctranslate2"


class Format(Enum):
    """What to export to."""

    ctranslate2 = "ctranslate2"


class Quantization(Enum):
    """Smaller numbers for the weights of an exported model."""

    int8 = "int8"
    int16 = "int16"
    float16 = "float16"
    bfloat16 = "bfloat16"


class Precision(Enum):
    """In which numbers to compute."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


Run = Annotated[Path, typer.Argument(help="A run folder, or a bundle.", show_default=False)]
BeamSize = Annotated[
    int | None,
    typer.Option(help="Translations kept open at each step; 1 is greedy. [default: the run's search.beam_size]"),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="alpha in score = log_prob / length^alpha. [default: the run's search.length_penalty]"),
]
BatchSize = Annotated[int, typer.Option(min=1, max=100_000, help="Sentences computed at a time.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
Numbers = Annotated[Precision, typer.Option("--precision", help="Numbers to compute in.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]


def main() -> None:
    """Run the command line, and exit: 0, 2 for what a user can mend, 130 or 143 when interrupted, 1 otherwise."""
    try:
        speak_utf8()
        try:
            app(prog_name="seq2seq")
        finally:
            sys.stdout.flush()
    except UserError as error:
        complain(f"error: {error}")
        sys.exit(2)
    except Interrupted as interruption:
        leave(128 + interruption.signal)
    except OSError as error:  # a full disk, most likely; what has a name may be read as well
        what = "write the output" if error.filename is None else f"read or write {error.filename}"
        complain(f"error: cannot {what}: {error.strerror or error}")
        os._exit(2)  # at once: what is left in stdout's buffer cannot be written either


@app.callback()
def prepare(context: typer.Context) -> None:
    """Train neural translation models, translate with them, and score them."""
    if context.invoked_subcommand == "train":  # has its own ways with signals and logs
        return
    log_to_stderr()
    stop_at_once()
    if hasattr(signal, "SIGPIPE"):  # a reader that left, as `head` does, is no error
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(context: typer.Context) -> None:
    """Train a model. As train.py does; `seq2seq train --help` lists the settings."""
    from seq2seq import config

    sys.argv = ["seq2seq train", *context.args]
    config.main()


@app.command()
def translate(
    run: Run,
    file: Annotated[Path | None, typer.Argument(help="Text, one sentence a line. [default: stdin]")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, whole or not at all. [default: stdout]")
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    n_best: Annotated[int, typer.Option(min=1, help="Translations of each line; above 1 needs --json.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Put score and tab before each translation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object a line, with all numbers.")] = False,
    batch_size: BatchSize = 64,
    device: Device = "cpu",
    precision: Numbers = Precision.float32,
    engine: Annotated[
        Engine, typer.Option(help="What computes; ctranslate2 takes a folder that `seq2seq export` wrote.")
    ] = Engine.native,
    line_buffered: Annotated[
        bool | None,
        typer.Option(
            "--line-buffered/--no-line-buffered",
            help="Answer each line before reading the next. [default: on if stdin is a terminal]",
        ),
    ] = None,
) -> None:
    """Translate text. A line out for each line in; blank lines stay blank."""
    if n_best > 1 and not as_json:
        raise UserError(f"--n-best {n_best} needs --json: one object a line holds them all")
    translator: LineTranslator
    if engine is Engine.native:
        translator = _translator(run, device, precision, batch_size, beam_size, length_penalty)
    elif precision is not Precision.float32:
        raise UserError(f"--precision {precision.value} needs --engine native; `seq2seq export` has --quantization")
    else:
        from seq2seq.inference.engine import CTranslate2Translator

        translator = CTranslate2Translator.from_folder(run, device, batch_size=batch_size)
        translator.search = _changed(translator.search, beam_size, length_penalty)
        raise_interrupted()
    if file is None and sys.stdin is None:
        raise UserError("stdin is closed: name a FILE, or send one to stdin")
    if line_buffered is None:
        line_buffered = file is None and sys.stdin.isatty()
    lines = read_lines(sys.stdin.buffer if file is None else file)
    options = {"chunk_lines": 1} if line_buffered else {}
    with _results(output) as results:
        for translation in translator.translate(lines, n_best, **options):
            if as_json:
                results.write(json.dumps(_as_object(translation, n_best), ensure_ascii=False))
            else:
                results.write(f"{translation.score:.4f}\t{translation.text}" if scores else translation.text)
            results.write("\n")
            if line_buffered:
                results.flush()


@app.command()
def score(
    run: Run,
    src: Annotated[Path, typer.Argument(help="Text, one sentence a line.", show_default=False)],
    tgt: Annotated[Path, typer.Argument(help="Its translation, line by line.", show_default=False)],
    normalize: Annotated[bool, typer.Option("--normalize", help="Write scores: log_prob by length.")] = False,
    length_penalty: LengthPenalty = None,
    batch_size: BatchSize = 64,
    device: Device = "cpu",
    precision: Numbers = Precision.float32,
) -> None:
    """Score given translations. A line each: the natural logarithm of its probability."""
    pairs = list(ParallelText(src, tgt).pairs())
    translator = _translator(run, device, precision, batch_size, None, length_penalty)
    for found in translator.score(pairs):
        sys.stdout.write(f"{found.score if normalize else found.log_prob:.6f}\n")


@app.command()
def evaluate(
    run: Run,
    src: Annotated[Path | None, typer.Option(help="A test set's source. [default: the run's own test sets]")] = None,
    ref: Annotated[Path | None, typer.Option(help="Its reference translation, line by line.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for src.txt, ref.txt and hyp.txt; with --src."),
    ] = None,
    as_json: AsJson = False,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    batch_size: BatchSize = 64,
    device: Device = "cpu",
    precision: Numbers = Precision.float32,
) -> None:
    """Score a model on test sets. BLEU, chrF and TER, with signatures; more where the right answers are known."""
    test_sets = _test_sets(run, src, ref, output)
    from seq2seq import evaluation
    from seq2seq.alignment import read_heads
    from seq2seq.data.gold import read_gold
    from seq2seq.inference.translator import Translator
    from seq2seq.report import scores_as_text

    bundle = _bundle(run, device, precision, beam_size, length_penalty)
    translator = Translator.from_bundle(bundle, batch_size=batch_size)
    heads = read_heads(bundle.metrics)
    tests = bundle.metrics.get("tests")
    known = list(tests) if isinstance(tests, dict) else []  # in the order that the run had them
    scores = {}
    for name in sorted(test_sets, key=lambda name: known.index(name) if name in known else len(known)):
        pairs = list(test_sets[name].pairs())
        gold = None if src is not None else read_gold(test_sets[name].src.parent, len(pairs))
        complain(f"translating {name}: {len(pairs)} sentences, beam size {translator.search.beam_size}")
        scores[name] = evaluation.evaluate(
            translator,
            [source for source, _ in pairs],
            [reference for _, reference in pairs],
            folder=output,
            lowercase=translator.preprocessing.lowercase,
            gold=gold,
            heads=heads,
        )
    if as_json:
        sys.stdout.write(json.dumps(scores, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(scores_as_text(scores))


@data_app.command()
def grammar(
    part: Annotated[
        str | None, typer.Option(help="A part of the corpus: test, pronouns, ... [default: train; all with --output]")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Pairs of each part. [default: 20; with --output, as many as data=grammar has]"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Another one draws other sentences. [default: that of data=grammar]")
    ] = None,
    show_alignment: Annotated[
        bool,
        typer.Option("--show-alignment", help="Show which words correspond: surely (0-1, -) or possibly (0p1, ~)."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write NAME.en, NAME.de, NAME.align and NAME.tags to this new folder."),
    ] = None,
) -> None:
    """Show sentence pairs of the built-in language, or write them to files."""
    from seq2seq.data import grammar as language
    from seq2seq.data.grammar.files import GrammarConfig, write_corpus

    raise_interrupted()  # what is half written is cleaned up
    config = GrammarConfig()
    seed = config.seed if seed is None else seed
    if output is None:
        for pair in language.part(part or "train", count=count or 20, seed=seed):
            sys.stdout.write(_shown(pair, show_alignment))
        return
    sizes = config.sizes()
    if part is not None:
        sizes = {part: sizes.get(part, 0)}
    counts = {name: count or size for name, size in sizes.items()}
    complain(f"writing {sum(counts.values()):,} pairs to {output}: {', '.join(counts)}")
    write_corpus(output, counts, seed)


@app.command()
def export(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write, whole or not at all.", show_default=False)
    ],
    to: Annotated[Format, typer.Option("--format", help="What to export to.")] = Format.ctranslate2,
    quantization: Annotated[
        Quantization | None, typer.Option(help="Store the weights in smaller numbers. [default: float32]")
    ] = None,
) -> None:
    """Export a Transformer for CTranslate2, an engine for production; `translate --engine ctranslate2` runs it."""
    from seq2seq.inference.bundle import load_bundle
    from seq2seq.inference.export import export_ctranslate2

    assert to is Format.ctranslate2
    bundle = load_bundle(run)
    raise_interrupted()
    export_ctranslate2(bundle, output, None if quantization is None else quantization.value)


# ---- Parts of commands ----


def _translator(
    run: Path,
    device: str,
    precision: Precision,
    batch_size: int,
    beam_size: int | None,
    length_penalty: float | None,
) -> "Translator":
    from seq2seq.inference.translator import Translator

    return Translator.from_bundle(_bundle(run, device, precision, beam_size, length_penalty), batch_size=batch_size)


def _bundle(
    run: Path, device: str, precision: Precision, beam_size: int | None, length_penalty: float | None
) -> "Bundle":
    import torch

    from seq2seq.inference.bundle import load_bundle

    bundle = load_bundle(run, device, getattr(torch, precision.value))
    bundle.search = _changed(bundle.search, beam_size, length_penalty)
    raise_interrupted()  # all is imported, and what is written from here on is cleaned up
    return bundle


def _changed(search: "SearchConfig", beam_size: int | None, length_penalty: float | None) -> "SearchConfig":
    asked = {"beam_size": beam_size, "length_penalty": length_penalty}
    changes = {name: value for name, value in asked.items() if value is not None}
    return dataclasses.replace(search, **changes)  # type: ignore[arg-type]


@contextmanager
def _results(output: Path | None) -> Iterator[TextIO]:
    """Give stdout, or a new file that takes the name of `output` when all went well."""
    if output is None:
        yield sys.stdout
        return
    is_device = output.exists() and not output.is_file()  # such as /dev/stderr, which must not be replaced
    with nullcontext(output) if is_device else whole_file(output) as fresh:
        try:
            stream = fresh.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"cannot write {output}: {error.strerror}") from error
        with stream:
            yield stream


def _shown(pair: "Pair", show_alignment: bool) -> str:
    if not show_alignment:
        return f"{pair.src}\t{pair.tgt}\n"
    src, tgt = ([text[start:end] for start, end in word_spans(text)] for text in (pair.src, pair.tgt))
    sure = set(pair.alignment.sure)
    links = "  ".join(f"{src[i]} {'-' if (i, j) in sure else '~'} {tgt[j]}" for i, j in pair.alignment.possible)
    return f"{pair.src}\n{pair.tgt}\n{pair.alignment}\n{links}\n\n"


def _as_object(translation: "Translation", n_best: int) -> dict[str, Any]:
    ranked = [
        {"text": one.text, "log_prob": one.log_prob, "score": one.score, "cut": one.cut}
        for one in (translation, *translation.alternatives)
    ]
    return ranked[0] if n_best == 1 else {**ranked[0], "n_best": ranked}


def _test_sets(run: Path, src: Path | None, ref: Path | None, output: Path | None) -> dict[str, ParallelText]:
    if src is not None and ref is not None:
        return {src.name: ParallelText(src, ref)}
    if src is not None or ref is not None:
        raise UserError("--src and --ref go together: a source and its reference translation")
    if output is not None:
        raise UserError("--output goes with --src and --ref; the run's own test sets lie in its tests folder")
    if not run.exists():
        raise UserError(f"{run} does not exist; give a run folder or a bundle")
    folders = sorted(path.parent for path in run.glob("tests/*/src.txt"))
    if not folders:
        raise UserError(f"{run} holds no test sets (tests/NAME/src.txt and ref.txt); give --src and --ref")
    return {folder.name: ParallelText(folder / "src.txt", folder / "ref.txt") for folder in folders}
