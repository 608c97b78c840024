"""The whole models against the papers' equations: logits and attention, word by word."""

from collections.abc import Callable

import oracle_recurrent
import oracle_transformer
import pytest
import torch
from architectures import CONFIGS, VOCAB_SIZE, assert_close, random_sources, random_words, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.models.rnn import RNNEncoder, reversed_positions
from seq2seq.models.transformer import sinusoidal_positions

ORACLES: dict[str, Callable] = {
    "rnn": oracle_recurrent.rnn,
    "bahdanau": oracle_recurrent.bahdanau,
    "luong": oracle_recurrent.luong,
    "transformer": oracle_transformer.transformer,
    "hybrid": oracle_transformer.hybrid,
}


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_the_model_computes_what_its_paper_says(name):
    model, oracle = tiny_model(name), ORACLES[name.split("-")[0]]
    src, src_lengths = random_sources([6, 1, 4])
    tgt = random_words(3, 6)
    output = model(src, src_lengths, tgt, need_weights=True)
    for row, length in enumerate(src_lengths.tolist()):
        logits, alignment = oracle(CONFIGS[name], model, src[row, :length].tolist(), tgt[row].tolist())
        assert_close(output.logits[row], torch.stack(logits))
        if output.cross is not None:
            last_layer, first_head = -1, 0
            expected = torch.stack([torch.stack(weights) for weights in alignment])
            assert_close(output.cross[row, last_layer, first_head, :, :length], expected)


# ---- Source reversal ----


def test_reversal_acts_inside_the_true_length_and_leaves_eos_last():
    src = torch.tensor([[4, 5, 6, 7, 3], [4, 5, 3, 0, 0], [3, 0, 0, 0, 0], [4, 3, 0, 0, 0]])
    order = reversed_positions(torch.tensor([5, 3, 1, 2]), src.shape[1])
    assert src.gather(1, order).tolist() == [[7, 6, 5, 4, 3], [5, 4, 3, 0, 0], [3, 0, 0, 0, 0], [4, 3, 0, 0, 0]]


@settings(derandomize=True, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), extra=st.integers(0, 3))
def test_reversing_twice_changes_nothing(lengths, extra):
    order = reversed_positions(torch.tensor(lengths), max(lengths) + extra)
    assert torch.equal(order.gather(1, order), torch.arange(order.shape[1]).expand_as(order))


def test_values_of_a_reversed_source_come_back_in_source_order():
    encoder = RNNEncoder(VOCAB_SIZE, 3, 4, reverse_source=True, embedding_std=1.0).double()
    backwards = RNNEncoder(VOCAB_SIZE, 3, 4, embedding_std=1.0).double()
    backwards.load_state_dict(encoder.state_dict())
    src, flipped = torch.tensor([[4, 5, 6, 3, 0]]), torch.tensor([[6, 5, 4, 3, 0]])
    actual, expected = encoder(src, torch.tensor([4])), backwards(flipped, torch.tensor([4]))
    assert_close(actual.values, expected.values[:, [2, 1, 0, 3, 4]])
    assert_close(actual.summary, expected.summary)


# ---- Positions ----


@settings(derandomize=True, deadline=None)
@given(start=st.integers(0, 5000), length=st.integers(1, 3))
def test_sinusoidal_positions_follow_section_3_5_however_far(start, length):
    actual = sinusoidal_positions(start, length, 10, torch.device("cpu"))
    for place in range(length):
        torch.testing.assert_close(actual[place], oracle_transformer.sinusoid(start + place, 10), rtol=0, atol=1e-9)


def encode_swapped(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of two sources that differ by an exchange of their first two words, the second exchanged back."""
    encoder = tiny_model(name).encoder
    src, exchanged = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[5, 4, 6, 3]])
    lengths = torch.tensor([4])
    return encoder(src, lengths).values, encoder(exchanged, lengths).values[:, [1, 0, 2, 3]]


def test_without_positions_self_attention_sees_a_set():
    assert_close(*encode_swapped("transformer-none-pre"))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
def test_with_positions_self_attention_sees_an_order(positions):
    assert not torch.allclose(*encode_swapped(f"transformer-{positions}-pre"))
