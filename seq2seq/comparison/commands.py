"""The commands that set finished runs side by side and ask what a model finds hard.

They are part of `seq2seq` (see cli.py); what each prints is text, or JSON with --json.
"""

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2seq.errors import UserError
from seq2seq.signals import raise_interrupted

if TYPE_CHECKING:
    from seq2seq.comparison.runs import Run, ScoredText
    from seq2seq.inference.translator import Translator

logger = logging.getLogger(__name__)

challenge = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Ask what a trained model finds hard.")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)]
RunFolders = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs, or of sweeps.", show_default=False)
]
TestSet = Annotated[str | None, typer.Option("--set", help="A test set of the run. [default: its first]")]
First = Annotated[int | None, typer.Option(min=1, help="Take only so many sentences. [default: all]")]
BeamSize = Annotated[int | None, typer.Option(help="[default: the run's search.beam_size]")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]


def compare(
    runs: RunFolders,
    test_set: TestSet = None,
    rungs: Annotated[
        Path | None,
        typer.Option(
            help="JSON: which label is compared with which, and what was predicted. [default: the one before]"
        ),
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Add trivial translations: copy, word for word, nearest neighbour.")
    ] = False,
    by_run: Annotated[
        bool, typer.Option("--by-run", help="A row for each run, named by its folder, whatever label it has.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs: scores with intervals, lengths, budgets, cost. Seeds with one label make one row. Markdown."""
    from seq2seq.comparison.baselines import trivial_baselines
    from seq2seq.comparison.compare import compare as compared
    from seq2seq.comparison.compare_text import comparison_text
    from seq2seq.comparison.predictions import read_rungs
    from seq2seq.comparison.runs import by_folder

    opened = by_folder(_opened(runs)) if by_run else _opened(runs)
    found = compared(
        opened,
        test_set=test_set,
        rungs=None if rungs is None else read_rungs(rungs),
        baselines=trivial_baselines(_training_pairs(opened[0])) if baselines else None,
    )
    _put(found if as_json else comparison_text(found))


def speed(
    runs: RunFolders,
    first: Annotated[int, typer.Option(min=1, help="Sentences of the first test set to translate.")] = 256,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure how fast runs translate, in turns, and keep it in RUN/speed.json, for `compare`."""
    from seq2seq.comparison.speed import BATCH_SIZE, keep_speed, measure_speed
    from seq2seq.report import markdown_table

    opened = _opened(runs)
    texts = [_text(run, None) for run in opened]
    for run, text in zip(opened, texts, strict=True):
        if text.src != texts[0].src:
            raise UserError(
                f"{opened[0].folder} and {run.folder} have different test sets: measure one after the other"
            )
    translators = {run.folder: _translator(run, device, None, batch_size=BATCH_SIZE) for run in opened}
    found = measure_speed(translators, texts[0].src[:first])
    for folder, figures in found.items():
        keep_speed(folder, figures)
    rows = {
        str(folder): [
            *(f"{one['sentences_per_second']:.1f}", f"{one['sentences_per_processor_second']:.1f}"),
            *(f"{one['milliseconds_per_sentence']:.1f}", f"{one['processor_milliseconds_per_sentence']:.1f}"),
        ]
        for folder, one in found.items()
    }
    head = ("sentences/s at batch 64", "per processor second", "ms for one sentence", "ms of the processor")
    table = "\n".join(markdown_table(head, rows)) + "\n"
    _put({str(folder): one for folder, one in found.items()} if as_json else table)


@challenge.command()
def beams(
    run: RunFolder,
    test_set: TestSet = None,
    first: First = None,
    beam_size: Annotated[
        list[int] | None, typer.Option(help="May be given several times. [default: 1, 2, 5, 10, 20, 50, 100]")
    ] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Translate with beams of 1 to 100, with and without length normalisation."""
    from seq2seq.comparison import challenges
    from seq2seq.comparison.challenges_text import beams_text

    opened = _only_run(run)
    text = _text(opened, test_set)
    sizes = beam_size or challenges.BEAM_SIZES
    found = challenges.beams(_translator(opened, device, None), text.src[:first], text.ref[:first], sizes)
    _put(found if as_json else beams_text(found))


@challenge.command("search-errors")
def search_errors(
    run: RunFolder,
    test_set: TestSet = None,
    first: First = None,
    beam_size: BeamSize = None,
    max_nodes: Annotated[
        int | None, typer.Option(min=1, help="Where exact search gives a sentence up. [default: 10000]")
    ] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Count the sentences whose most probable translation the beam misses, by exact search."""
    from seq2seq.comparison import challenges
    from seq2seq.comparison.challenges_text import search_errors_text

    opened = _only_run(run)
    sources = _text(opened, test_set).src[:first]
    nodes = challenges.MAX_NODES if max_nodes is None else max_nodes
    found = challenges.search_errors(_translator(opened, device, beam_size), sources, max_nodes=nodes)
    _put(found if as_json else search_errors_text(found))


@challenge.command()
def lengths(runs: RunFolders, test_set: TestSet = None, as_json: AsJson = False) -> None:
    """Score translations by the length of their sources."""
    from seq2seq.comparison import challenges
    from seq2seq.comparison.challenges_text import lengths_text
    from seq2seq.comparison.runs import check_same_text

    opened = _opened(runs)
    name = _name(opened[0], test_set)
    check_same_text(opened, name)
    found = {str(run.folder): challenges.lengths(_text(run, name), lowercase=run.lowercase) for run in opened}
    _put(found if as_json else lengths_text(found))


@challenge.command("rare-words")
def rare_words(run: RunFolder, test_set: TestSet = None, as_json: AsJson = False) -> None:
    """Ask for words by how often they stand in the training text."""
    from seq2seq.comparison import challenges
    from seq2seq.comparison.challenges_text import rare_words_text
    from seq2seq.data.gold import read_gold

    opened = _only_run(run)
    name = _name(opened, test_set)
    text = _text(opened, name)
    gold = read_gold(opened.folder / "tests" / name, len(text.src))
    found = challenges.rare_words(text, _training_pairs(opened), None if gold is None else gold.alignments)
    _put(found if as_json else rare_words_text(found))


@challenge.command("data-size")
def data_size(runs: RunFolders, test_set: TestSet = None, as_json: AsJson = False) -> None:
    """Set runs side by side by how many pairs they were trained on, as `experiment=data_size` makes them."""
    from seq2seq.comparison import challenges
    from seq2seq.comparison.challenges_text import data_sizes_text

    opened = _opened(runs)
    name = _name(opened[0], test_set)
    found = challenges.data_sizes(opened, name)
    _put(found if as_json else data_sizes_text(found, name))


# ---- Parts of commands ----


def _only_run(folder: Path) -> "Run":
    """Open the one run that a command is about."""
    if (folder / "config.yaml").is_file() or len(_runs_in(folder)) == 1:
        return _opened([folder])[0]
    raise UserError(f"{folder} holds several runs, and this command is about one: name its folder")


def _opened(folders: Sequence[Path]) -> "list[Run]":
    from seq2seq.comparison.runs import open_run
    from seq2seq.training.config_file import read_settings

    found = [open_run(run, read_settings(run / "config.yaml")) for folder in folders for run in _runs_in(folder)]
    raise_interrupted()  # all is imported, and what is written from here on is cleaned up
    return found


def _runs_in(folder: Path) -> list[Path]:
    """Return the folder if it is a run's, else the finished runs in it, by the number in front, then by name."""
    if (folder / "config.yaml").is_file():
        return [folder]
    all_inside = [path.parent for path in folder.glob("*/config.yaml")]
    if not all_inside:
        sweeps = sorted({str(path.parents[1]) for path in folder.glob("*/*/config.yaml")})
        hint = f"; name a sweep in it, such as {sweeps[-1]}" if sweeps else ""
        raise UserError(f"{folder} is not the folder of a run, nor of a sweep: there is no config.yaml in it{hint}")
    inside = [path for path in all_inside if (path / "bundle" / "metrics.json").is_file()]
    if not inside:
        raise UserError(f"no run in {folder} is finished yet")
    if unfinished := sorted(path.name for path in all_inside if path not in inside):
        logger.warning("%s: left out, since they are not finished: %s", folder, ", ".join(unfinished))
    return sorted(
        inside, key=lambda path: (int(first) if (first := path.name.split("-")[0]).isdigit() else 0, path.name)
    )


def _name(run: "Run", test_set: str | None) -> str:
    if test_set is not None:
        return test_set
    if not run.test_sets():
        raise UserError(f"{run.folder} has no test set; train with one")
    return run.test_sets()[0]


def _text(run: "Run", test_set: str | None) -> "ScoredText":
    from seq2seq.comparison.runs import read_test

    return read_test(run, _name(run, test_set))


def _translator(run: "Run", device: str, beam_size: int | None, batch_size: int = 64) -> "Translator":
    from dataclasses import replace

    from seq2seq.inference.bundle import load_bundle
    from seq2seq.inference.translator import Translator

    bundle = load_bundle(run.folder, device)
    if beam_size is not None:
        bundle.search = replace(bundle.search, beam_size=beam_size)
    return Translator.from_bundle(bundle, batch_size=batch_size)


def _training_pairs(run: "Run") -> Iterator[tuple[str, str]]:
    """Yield what a run was trained on: from the prepared corpus, which is made anew if it is gone."""
    from seq2seq.config import from_plain
    from seq2seq.data.prepare import prepare

    config = from_plain(run.settings)
    train = prepare(config.data, config.tokenizer).train
    return ((train.src_text(n), train.tgt_text(n)) for n in range(len(train)))


def _put(found: Any) -> None:
    sys.stdout.write(found if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False) + "\n")
