import json
from pathlib import Path

import pytest

from seq2seq.data.gold import ALIGNMENTS, BASELINE, TAGS, Gold, read_gold
from seq2seq.data.grammar import part
from seq2seq.data.words import Alignment
from seq2seq.errors import UserError

PAIRS = list(part("test", count=3, seed=1))
GOLD = Gold(
    [pair.alignment for pair in PAIRS],
    [pair.tags for pair in PAIRS],
    [Alignment.parse("0-0"), Alignment.parse(""), Alignment.parse("1-2 0-1")],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in GOLD.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def test_what_is_known_is_read_back_as_it_was_written(folder: Path) -> None:
    assert read_gold(folder, 3) == GOLD


def test_a_text_of_which_nothing_is_known_has_no_gold(tmp_path: Path) -> None:
    assert read_gold(tmp_path, 3) is None


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / TAGS).unlink()
    with pytest.raises(UserError, match=TAGS):
        read_gold(folder, 3)


def test_another_number_of_lines_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match=rf"{ALIGNMENTS} has 3 lines, the text beside it 4"):
        read_gold(folder, 4)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (ALIGNMENTS, "0-0 x", "line 2: 'x' is no link"),
        (BASELINE, "0:0", "line 2: '0:0' is no link"),
        (TAGS, "{", "line 2 is not a JSON object of phenomena, depth"),
        (TAGS, "[]", "line 2 is not"),
        (TAGS, '{"depth": 1}', "line 2 is not"),
        (TAGS, '{"phenomena": []}', "line 2 is not"),
        (TAGS, "[" * 100_000, "line 2 is not"),
        *(
            (TAGS, json.dumps({**PAIRS[0].tags._asdict(), name: value}), "line 2 is not")
            for name, value in (
                ("phenomena", "abc"),
                ("phenomena", [1]),
                ("depth", "x"),
                ("agreement", None),
                ("template", 1),
            )
        ),
    ],
)
def test_a_damaged_line_is_named(folder: Path, name: str, line: str, message: str) -> None:
    lines = (folder / name).read_text(encoding="utf-8").splitlines()
    lines[1] = line
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_gold(folder, 3)
