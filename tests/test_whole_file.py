"""A file that is written again is the old one or the new one, never half of either."""

from pathlib import Path

import pytest

from seq2seq.whole_file import whole_file


def test_the_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("old")
    with whole_file(tmp_path / "table") as fresh:
        fresh.write_text("new")
        assert (tmp_path / "table").read_text() == "old"
    assert (tmp_path / "table").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def write_half(path: Path, error: type[BaseException]) -> None:
    with whole_file(path) as fresh:
        fresh.write_text("half")
        raise error


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_an_error_the_old_is_there_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "table").write_text("old")
    with pytest.raises(error):
        write_half(tmp_path / "table", error)
    assert (tmp_path / "table").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
