"""Scores as text for the terminal, and tables in Markdown."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_WIDTH = 120
_STEPS = {"step_t": "t", "step_t_plus_1": "t+1"}


def scores_as_text(tests: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the scores of test sets by name: a table with a row a set, then what is special about each."""
    rows = [_overview(tests)]
    rows += [f"{metric}: {it}" for scores in [*tests.values()][:1] for metric, it in scores["signatures"].items()]
    annotated = {name: scores for name, scores in tests.items() if "alignment" in scores}
    for name, scores in [*annotated.items()][:1]:
        rows += _alignment(scores["alignment"].get("heads"))
        rows += _phenomena(name, scores["exact_match_by"])
    for name, scores in tests.items():
        by_measure = scores.get("exact_match_by", {})
        if name in by_measure:  # the set is about this measure
            rows.append(f"{name}, exact match in % by distance: {_by_value(by_measure[name])}")
    return "\n".join(rows) + "\n"


def _overview(tests: Mapping[str, Mapping[str, Any]]) -> str:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("test set", no_wrap=True)
    names = ("sentences", "BLEU", "chrF", "TER", "exact", "length", "cut", "looping")
    has_alignment = any("alignment" in scores for scores in tests.values())
    for name in (*names, *(("AER t", "AER t+1", "diagonal", "IBM 1") if has_alignment else ())):
        table.add_column(name, justify="right")
    for name, scores in tests.items():
        cells = [str(scores["sentences"]), *(f"{scores[metric]:.2f}" for metric in ("bleu", "chrf", "ter"))]
        cells += [_percent(scores["exact_match"]), f"{scores['length_ratio']:.3f}"]
        cells += [_percent(scores["cut"]), _percent(scores["looping"])]
        table.add_row(name, *cells, *_error_rates(scores.get("alignment")))
    console = Console(width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


def _error_rates(alignment: Mapping[str, Any] | None) -> list[str]:
    if alignment is None:
        return []
    own = [f"{alignment['aer'][step]:.3f}" if "aer" in alignment else "-" for step in _STEPS]
    return [*own, *(f"{alignment['baselines'][name]:.3f}" for name in ("diagonal", "ibm_model_1"))]


def _alignment(heads: Mapping[str, Any] | None) -> list[str]:
    if heads is None:
        return ["AER: the alignment error rate, 0 is best; this model has no attention, or none was chosen"]
    read = "; ".join(f"{_STEPS[step]}: layer {layer}, head {head}" for step, (layer, head) in heads.items())
    return ["AER: the alignment error rate of attention, 0 is best", f"  read at {read} (counted from 0)"]


def _phenomena(name: str, by: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """Return accuracy by phenomenon in columns, and by depth."""
    cells = [
        f"{phenomenon:<21}{100 * share['exact_match']:5.1f} % of {share['sentences']:<5d}"
        for phenomenon, share in by["phenomenon"].items()
    ]
    height = -(-len(cells) // 3)
    rows = [f"{name}, exact match by phenomenon:"]
    rows += ["  " + "  ".join(cells[row::height]).rstrip() for row in range(height)]
    return [*rows, f"{name}, exact match in % by depth of embedding: {_by_value(by['depth'])}"]


def _by_value(shares: Mapping[str, Mapping[str, float]]) -> str:
    return " ".join(f"{value}:{100 * share['exact_match']:.0f}" for value, share in shares.items())


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def markdown_table(head: Sequence[str], rows: Mapping[str, Sequence[str]], left: Collection[str] = ()) -> list[str]:
    """Return the lines of a table in Markdown, in columns for the terminal too; the rows' names stand in the first.

    Args:
        head: names of columns.
        rows: their cells.
        left: names of columns whose cells begin below each other, as words do; those of others end so, as numbers do.
    """
    lines = [["", *head], *([name, *cells] for name, cells in rows.items())]
    lines = [[_in_a_cell(cell) for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) + 1)]
    is_left = [True, *(name in left for name in head)]

    def shown(cells: Iterable[str]) -> str:
        columns = zip(cells, widths, is_left, strict=True)
        return (
            "| "
            + " | ".join(f"{cell:<{width}}" if left else f"{cell:>{width}}" for cell, width, left in columns)
            + " |"
        )

    rule = ["-" * width if left else "-" * (width - 1) + ":" for width, left in zip(widths, is_left, strict=True)]
    return [shown(lines[0]), shown(rule), *map(shown, lines[1:])]


def _in_a_cell(text: str) -> str:
    """Return text that neither ends the cell nor the line, nor tells the terminal anything."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.replace("|", "\\|")
