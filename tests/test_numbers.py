"""Extremes of length, and repetition: what training computes is finite, and the same each time."""

from pathlib import Path

import pytest
import torch
from architectures import CONFIGS, VOCAB_SIZE, random_words
from small_runs import TINY, rows, tiny_settings, weights

from seq2seq.data.batch import collate
from seq2seq.data.multi30k import Multi30kConfig
from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.models import build_model
from seq2seq.training.fit import fit
from seq2seq.training.loss import smoothed_cross_entropy

CLOCKS = {"seconds", "train/target_tokens_per_second"}
FORMATS = [torch.float32, torch.bfloat16]


def assert_trains_finitely(config: object, lengths: list[int], number_format: torch.dtype) -> None:
    torch.manual_seed(1)
    model = build_model(config, VOCAB_SIZE)
    sides = ([[*random_words(1, n - 1, seed)[0].tolist(), EOS] for n in lengths] for seed in (1, 2))
    batch = collate(*sides, range(len(lengths)))
    with torch.autocast("cpu", torch.bfloat16, enabled=number_format is torch.bfloat16):
        logits = model(batch.src, batch.src_lengths, batch.tgt_in).logits
        loss, _ = smoothed_cross_entropy(logits, batch.tgt_out, PAD, 0.1)
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_source_of_one_token_gives_finite_gradients_alone_and_beside_longer_ones(
    name: str, number_format: torch.dtype
) -> None:
    assert_trains_finitely(CONFIGS[name], [1], number_format)
    assert_trains_finitely(CONFIGS[name], [1, 2, 14], number_format)


@pytest.mark.parametrize("number_format", FORMATS)
@pytest.mark.parametrize("name", list(TINY))
def test_the_longest_training_pairs_give_finite_gradients(name: str, number_format: torch.dtype) -> None:
    assert_trains_finitely(TINY[name], [Multi30kConfig().max_tokens + 1, 1], number_format)


@pytest.mark.parametrize("name", list(TINY))
def test_the_same_seed_gives_the_same_run_bit_for_bit(tmp_path: Path, name: str) -> None:
    for run in ("one", "other"):
        fit(tiny_settings(tmp_path, run, TINY[name], max_steps=4, validate_every=3))
    one, other = weights(tmp_path / "one"), weights(tmp_path / "other")
    assert all(torch.equal(one[key], other[key]) for key in one)
    written = [
        [{key: value for key, value in row.items() if key not in CLOCKS} for row in rows(tmp_path / run)]
        for run in ("one", "other")
    ]
    assert written[0] == written[1]
