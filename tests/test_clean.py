"""What is left out of training, and the account of it."""

import logging

import numpy as np
import pytest

from seq2seq.data.clean import Cleaning
from seq2seq.errors import UserError


def kept(cleaning: Cleaning, pairs: list[tuple[int, int]]) -> list[bool]:
    src, tgt = np.array(pairs).T
    return [bool(mark) for mark in cleaning.keep(src, tgt)]


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ((0, 5), "blank"),
        ((5, 0), "blank"),
        ((0, 99), "blank"),
        ((11, 5), "too_long"),
        ((5, 11), "too_long"),
        ((10, 10), None),
        ((1, 6), "length_ratio"),
        ((6, 1), "length_ratio"),
        ((1, 5), None),
    ],
)
def test_a_pair_is_dropped_for_one_reason_or_kept(pair: tuple[int, int], reason: str | None) -> None:
    cleaning = Cleaning(max_tokens=10, max_length_ratio=3.0)
    assert kept(cleaning, [pair]) == [reason is None]
    assert {name for name, count in cleaning.dropped.items() if count} == ({reason} if reason else set())


def test_the_account_adds_up_over_chunks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cleaning = Cleaning(max_tokens=10, max_length_ratio=3.0)
    kept(cleaning, [(5, 5)] * 20 + [(0, 3)])
    kept(cleaning, [(5, 5), (3, 12)])
    assert cleaning.account() == {
        "read": 23,
        "pairs": 21,
        "dropped": {"blank": 1, "too_long": 1, "length_ratio": 0},
        "longest": 12,
    }
    assert "21 of 23 pairs kept; dropped 1 blank on a side, 1 too long (longest is 12, limit is 10)" in caplog.text
    assert caplog.records[0].levelno == logging.INFO


def test_a_large_loss_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cleaning = Cleaning(max_tokens=10, max_length_ratio=3.0)
    kept(cleaning, [(5, 5)] * 5 + [(11, 11)])
    cleaning.account()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_nothing_left_is_an_error_with_the_numbers() -> None:
    cleaning = Cleaning(max_tokens=40, max_length_ratio=5.0)
    kept(cleaning, [(60, 60)] * 50)
    with pytest.raises(UserError, match=r"^0 pairs left of 50: .*longest is 60, limit is 40.*data.max_tokens"):
        cleaning.account()
