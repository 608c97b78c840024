"""What the challenges found, as text for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from seq2seq.report import markdown_table


def beams_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a row for each beam size and length penalty."""
    head = ("BLEU", "chrF", "length", "cut, %", "empty, %", "log_prob")
    rows = {
        f"beam {one['beam_size']}, length penalty {one['length_penalty']:g}": [
            *(f"{one['bleu']:.2f}", f"{one['chrf']:.2f}", f"{one['length_ratio']:.3f}"),
            *(f"{100 * one['cut']:.1f}", f"{100 * one['empty']:.1f}", f"{one['log_prob']:.3f}"),
        ]
        for one in found
    }
    return _lines(markdown_table(head, rows))


def lengths_text(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return a table with a row a bin and columns for each run: BLEU and length ratio."""
    bins = dict.fromkeys(name for run in found.values() for name in run)
    rows = {
        f"{name} ({next(int(run[name]['sentences']) for run in found.values() if name in run)})": [
            f"{run[name]['bleu']:.1f} / {run[name]['length_ratio']:.2f}" if name in run else "-"
            for run in found.values()
        ]
        for name in bins
    }
    note = "Rows: words of the source (sentences). BLEU / length of the translations by that of the references."
    return _lines([*markdown_table(list(found), rows), "", note])


def rare_words_text(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return a table with a row for each bin of frequency."""
    kinds = {
        "source": "source words translated, %",
        "target_recall": "reference words written, %",
        "target_precision": "written words in the reference, %",
    }
    bins = sorted(
        {name for shares in found.values() for name in shares}, key=lambda name: int(name.split("-")[0].rstrip("+"))
    )

    def cell(share: Mapping[str, float] | None) -> str:
        return "-" if share is None else f"{100 * share['accuracy']:.1f} of {share['words']:.0f}"

    rows = {name: [cell(found[kind].get(name)) for kind in kinds] for name in bins}
    return _lines([*markdown_table(list(kinds.values()), rows), "", "Rows: how often a word stands in training."])


def search_errors_text(found: Mapping[str, Any]) -> str:
    """Return the counts in sentences."""
    count = found["sentences"]
    if not count:
        return "no sentence to search: all are blank\n"

    def share(number: int, of: int) -> str:
        return f"{number} of {of} ({100 * number / of:.1f} %)"

    lines = [
        f"beam {found['beam_size']} without length normalisation, against exact search of up to {found['max_nodes']} "
        "nodes a sentence:",
        f"  search errors, a more probable translation exists: {share(found['errors'], count)}",
        f"  no error, proved: {share(found['none'], count)}",
        f"  undecided: {share(found['undecided'], count)}",
    ]
    if known := found["empty_known"]:
        lines.append(
            f"  the empty translation is the most probable of all: {found['empty_is_best']} of the {known} for which "
            "that is known"
        )
    if found["best_known"]:
        lines.append(
            f"  tokens, where the most probable is known: {found['beam_tokens']:.1f} by the beam, "
            f"{found['best_tokens']:.1f} in the best"
        )
    return _lines([*lines, f"  probability of the empty translation, mean: {found['empty_probability']:.2e}"])


def data_sizes_text(found: Mapping[str, Mapping[int, Mapping[str, float]]], test_set: str) -> str:
    """Return a table with a row for each number of training pairs."""
    sizes = sorted({size for scores in found.values() for size in scores})

    def cell(scores: Mapping[str, float] | None) -> str:
        return "-" if scores is None else f"{scores['bleu']:.1f} ({scores['seeds']:.0f})"

    rows = {f"{size:,}": [cell(scores.get(size)) for scores in found.values()] for size in sizes}
    return _lines([*markdown_table(list(found), rows), "", f"Rows: training pairs. BLEU on {test_set} (seeds)."])


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
