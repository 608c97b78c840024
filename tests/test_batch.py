"""Batches: what collate makes of pairs, and the laws of the token budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.batch import collate, epoch_batches
from seq2seq.data.tokenizer import BOS, EOS, PAD

sentences = st.lists(st.integers(4, 99), max_size=8).map(lambda ids: [*ids, EOS])
pair_lists = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)
lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=80)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def realistic_lengths(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    src = np.clip(rng.lognormal(2.8, 0.5, pairs), 2, 200).astype(int)
    return src, np.clip(src * rng.normal(1.1, 0.2, pairs), 2, 200).astype(int)


def padding_share(batches: list[np.ndarray], src: np.ndarray, tgt: np.ndarray) -> float:
    padded = sum(len(batch) * int(src[batch].max() + tgt[batch].max()) for batch in batches)
    return 1 - int(src.sum() + tgt.sum()) / padded


@given(pairs=pair_lists)
def test_collate_pads_every_row_on_the_right(pairs: list[tuple[list[int], list[int]]]) -> None:
    src, tgt = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    batch = collate(src, tgt, list(range(100, 100 + len(pairs))))
    width, height = max(map(len, src)), max(map(len, tgt))
    assert batch.src.tolist() == [row + [PAD] * (width - len(row)) for row in src]
    assert batch.tgt_out.tolist() == [row + [PAD] * (height - len(row)) for row in tgt]
    assert batch.tgt_in.tolist() == [[BOS, *row[:-1]] + [PAD] * (height - len(row)) for row in tgt]
    assert batch.src_lengths.tolist() == [len(row) for row in src]
    assert batch.pair_ids.tolist() == list(range(100, 100 + len(pairs)))
    assert batch.num_tgt_tokens == sum(map(len, tgt))


def test_a_blank_target_is_the_end_of_sentence_alone() -> None:
    batch = collate([[7, EOS], [8, 9, EOS]], [[EOS], [5, EOS]], [0, 1])
    assert batch.tgt_in.tolist() == [[BOS, PAD], [BOS, 5]]
    assert batch.tgt_out.tolist() == [[EOS, PAD], [5, EOS]]


def test_collate_takes_the_unsigned_ids_of_a_store() -> None:
    batch = collate([np.array([65_000, EOS], np.uint16)], [np.array([EOS], np.uint16)], np.array([3]))
    assert batch.src.tolist() == [[65_000, EOS]]
    assert batch.src.dtype == batch.tgt_in.dtype == batch.pair_ids.dtype == batch.src_lengths.dtype


def test_ids_without_an_end_are_a_fault() -> None:
    with pytest.raises(AssertionError, match="end in EOS"):
        collate([[7, 8]], [[EOS]], [0])


@given(pairs=lengths, budget=st.integers(1, 200), seed=st.integers(0, 99), epoch=st.integers(0, 3))
def test_every_pair_is_in_exactly_one_batch(pairs: list[tuple[int, int]], budget: int, seed: int, epoch: int) -> None:
    batches = epoch_batches(*columns(pairs), batch_tokens=budget, seed=seed, epoch=epoch)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(pairs)))
    assert all(len(batch) for batch in batches)


@given(pairs=lengths, budget=st.integers(1, 200), seed=st.integers(0, 99), epoch=st.integers(0, 3))
def test_no_batch_is_over_the_budget_with_its_padding_on_either_side(
    pairs: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    src, tgt = columns(pairs)
    for batch in epoch_batches(src, tgt, batch_tokens=budget, seed=seed, epoch=epoch):
        assert len(batch) == 1 or len(batch) * max(src[batch].max(), tgt[batch].max()) <= budget


@pytest.mark.parametrize("epoch", range(3))
def test_the_budget_holds_where_lengths_are_mixed_within_a_batch(epoch: int) -> None:
    src, tgt = realistic_lengths(20_000)
    for batch in epoch_batches(src, tgt, batch_tokens=1500, seed=1, epoch=epoch):
        assert len(batch) * max(src[batch].max(), tgt[batch].max()) <= 1500


def test_a_pair_over_the_budget_goes_alone() -> None:
    src, tgt = np.full(2001, 10), np.full(2001, 10)
    tgt[1234] = 3000
    batches = epoch_batches(src, tgt, batch_tokens=2048, seed=1, epoch=1)
    assert [batch.tolist() for batch in batches if 1234 in batch] == [[1234]]


def test_batches_are_full_where_lengths_are_equal() -> None:
    batches = epoch_batches(np.full(100, 10), np.full(100, 8), batch_tokens=205, seed=1, epoch=0)
    assert [len(batch) for batch in batches] == [20] * 5


@given(pairs=lengths, epoch=st.integers(0, 3))
def test_the_batches_of_an_epoch_are_a_pure_function(pairs: list[tuple[int, int]], epoch: int) -> None:
    first, second = (epoch_batches(*columns(pairs), batch_tokens=100, seed=5, epoch=epoch) for _ in range(2))
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in second]


@pytest.mark.parametrize("other", [{"seed": 1, "epoch": 2}, {"seed": 2, "epoch": 1}])
def test_another_epoch_or_seed_mixes_other_pairs_in_another_order(other: dict[str, int]) -> None:
    src, tgt = realistic_lengths(2000)
    here = epoch_batches(src, tgt, batch_tokens=1000, seed=1, epoch=1)
    there = epoch_batches(src, tgt, batch_tokens=1000, **other)
    together = {frozenset(batch.tolist()) for batch in here}
    assert sum(frozenset(batch.tolist()) in together for batch in there) < len(there) / 10
    assert [int(src[batch].max()) for batch in here] != [int(src[batch].max()) for batch in there]


def test_batches_do_not_come_in_the_order_of_their_length() -> None:
    src, tgt = realistic_lengths(5000)
    means = [float(src[batch].mean()) for batch in epoch_batches(src, tgt, batch_tokens=500, seed=3, epoch=1)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


@given(seed=st.integers(0, 99))
def test_the_first_epoch_starts_with_the_longest_sentences(seed: int) -> None:
    src, tgt = realistic_lengths(500)
    tgt[77] = 450
    assert 77 in epoch_batches(src, tgt, batch_tokens=500, seed=seed, epoch=0)[0]


@pytest.mark.parametrize("budget", [2048, 16_384])
def test_little_of_a_batch_is_padding(budget: int) -> None:
    src, tgt = realistic_lengths(30_000)
    batches = epoch_batches(src, tgt, batch_tokens=budget, seed=1, epoch=1)
    assert padding_share(batches, src, tgt) < 0.16
    unsorted = np.array_split(np.arange(len(src)), len(batches))
    assert padding_share(unsorted, src, tgt) > 0.5
