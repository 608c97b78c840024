"""The store gives back what was written, and a small pickle of it too."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from seq2seq.data.store import PairStore, write_store
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.errors import UserError

SRC, TGT = [[5, 6, 7], [], [8]], [[9], [10, 11], []]
SRC_TEXTS, TGT_TEXTS = ["größer 🦜", "", "c"], ["x", "\u2028y", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with write_store(tmp_path / "store", vocab_size=300) as store:
        store.append(SRC[:2], TGT[:2], SRC_TEXTS[:2], TGT_TEXTS[:2])
        store.append([], [], [], [])
        store.append(SRC[2:], TGT[2:], SRC_TEXTS[2:], TGT_TEXTS[2:])
    return tmp_path / "store"


def test_ids_come_back_with_an_end_of_sentence(folder: Path) -> None:
    store = PairStore(folder)
    assert len(store) == 3
    assert [store.src(i).tolist() for i in range(3)] == [[5, 6, 7, EOS], [EOS], [8, EOS]]
    assert [store.tgt(i).tolist() for i in range(3)] == [[9, EOS], [10, 11, EOS], [EOS]]
    assert store.src_lengths.tolist() == [4, 1, 2]
    assert store.tgt_lengths.tolist() == [2, 3, 1]


def test_text_comes_back_as_it_was_read(folder: Path) -> None:
    store = PairStore(folder)
    assert [store.src_text(i) for i in range(3)] == SRC_TEXTS
    assert [store.tgt_text(i) for i in range(3)] == TGT_TEXTS


def test_a_batch_holds_the_pairs_asked_for(folder: Path) -> None:
    batch = PairStore(folder).batch(np.array([2, 0]))
    assert batch.src.tolist() == [[8, EOS, PAD, PAD], [5, 6, 7, EOS]]
    assert batch.tgt_in.tolist() == [[BOS, PAD], [BOS, 9]]
    assert batch.pair_ids.tolist() == [2, 0]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.int32)])
def test_the_largest_id_fits(tmp_path: Path, vocab_size: int, dtype: type) -> None:
    with write_store(tmp_path / "store", vocab_size) as store:
        store.append([[vocab_size - 1]], [[4]], ["a"], ["b"])
    ids = PairStore(tmp_path / "store").src(0)
    assert ids.tolist() == [vocab_size - 1, EOS]
    assert ids.dtype == dtype


def test_nobody_can_write_to_a_store_by_accident(folder: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        PairStore(folder).src(0)[0] = 1


def test_a_pickled_store_is_small_and_opens_again(tmp_path: Path) -> None:
    with write_store(tmp_path / "store", vocab_size=300) as store:
        store.append([[4] * 50] * 1000, [[5] * 50] * 1000, ["a"] * 1000, ["b"] * 1000)
    pickled = pickle.dumps(PairStore(tmp_path / "store"))
    assert len(pickled) < 1000
    assert pickle.loads(pickled).src(999).tolist() == [4] * 50 + [EOS]


def test_an_empty_store_opens(tmp_path: Path) -> None:
    with write_store(tmp_path / "store", vocab_size=300):
        pass
    assert len(PairStore(tmp_path / "store")) == 0


@pytest.mark.parametrize("name", ["src.ids", "tgt.offsets", "src.text", "tgt.text_offsets"])
@pytest.mark.parametrize("damage", ["shorter", "gone"])
def test_a_damaged_file_is_an_error_that_names_it(folder: Path, name: str, damage: str) -> None:
    if damage == "gone":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    with pytest.raises(UserError, match=rf"{name} is damaged .* delete the prepared corpus"):
        PairStore(folder)


def write_half(folder: Path) -> None:
    with write_store(folder, vocab_size=300) as store:
        store.append(SRC, TGT, SRC_TEXTS, TGT_TEXTS)
        raise RuntimeError("interrupted")


def test_an_interrupted_store_cannot_be_taken_for_a_whole_one(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="interrupted"):
        write_half(tmp_path / "store")
    with pytest.raises(UserError, match=r"store.json is missing"):
        PairStore(tmp_path / "store")
