"""What is known of a text beside its sentences: right word alignments, what each pair shows, and an alignment to beat.

They lie in a store and in a run's `tests/<name>/` as files with one line a pair:

    gold.align   word alignments in Pharaoh format, "0-0 1-2 3p4" (see `Alignment`)
    gold.tags    what each pair shows, a JSON object (see `Tags`)
    ibm1.align   the alignment that IBM Model 1 finds, which attention should beat
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from seq2seq.data.corpus import read_lines
from seq2seq.data.grammar import Tags
from seq2seq.data.words import Alignment
from seq2seq.errors import UserError

ALIGNMENTS, TAGS, BASELINE = "gold.align", "gold.tags", "ibm1.align"


class Gold(NamedTuple):
    """The right answers for a text of N pairs."""

    alignments: list[Alignment]
    tags: list[Tags]
    baseline: list[Alignment]  # of IBM Model 1

    def files(self) -> dict[str, str]:
        """Return the files that hold it: their content by name."""
        lines = {
            ALIGNMENTS: map(str, self.alignments),
            TAGS: map(tags_to_json, self.tags),
            BASELINE: map(str, self.baseline),
        }
        return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}


def read_gold(folder: Path, pairs: int, way_out: str = "take an unbroken copy") -> Gold | None:
    """Return what is known of the text of so many pairs in a folder, or None if that is nothing.

    Raises:
        UserError: a file is missing while the others are there, is damaged, or has another number of lines; `way_out`
            is what to do about it.
    """
    paths = [folder / name for name in (ALIGNMENTS, TAGS, BASELINE)]
    if not any(path.exists() for path in paths):
        return None
    try:
        alignments, tags, baseline = (list(read_lines(path)) for path in paths)
        for path, lines in zip(paths, (alignments, tags, baseline), strict=True):
            if len(lines) != pairs:
                raise UserError(f"{path} has {len(lines)} lines, the text beside it {pairs}")
        return Gold(
            parse_alignments(alignments, paths[0]), parse_tags(tags, paths[1]), parse_alignments(baseline, paths[2])
        )
    except UserError as error:
        raise UserError(f"{error}: {way_out}") from error


def parse_alignments(lines: Iterable[str], file: Path) -> list[Alignment]:
    """Read Pharaoh lines; a UserError names the line that is none."""
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(Alignment.parse(line))
        except ValueError as error:
            raise UserError(f"{file}, line {number}: {error}") from error
    return found


def parse_tags(lines: Iterable[str], file: Path) -> list[Tags]:
    """Read lines that `tags_to_json` wrote; a UserError names the line that is none."""
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            tags = Tags(**{**values, "phenomena": tuple(values["phenomena"])})
            if not all(isinstance(name, str) for name in (*values["phenomena"], tags.template)) or not (
                isinstance(values["phenomena"], list) and all(type(number) is int for number in tags[1:5])
            ):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(f"{file}, line {number} is not a JSON object of {', '.join(Tags._fields)}") from error
        found.append(tags)
    return found


def tags_to_json(tags: Tags) -> str:
    """Return the line that holds one pair's tags."""
    return json.dumps(tags._asdict(), ensure_ascii=False)
