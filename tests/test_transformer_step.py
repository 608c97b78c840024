"""The law of `TransformerStep`: whatever search does with it, its numbers are those of `TransformerDecoder`."""

import pytest
import torch
from architectures import CONFIGS, Sentences, assert_close, random_sources, sentences, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.tokenizer import BOS
from seq2seq.inference.search import SearchConfig, beam_search
from seq2seq.models import build_model
from seq2seq.models.interface import select_rows
from seq2seq.models.transformer import Positions, TransformerConfig, TransformerEncoderConfig
from seq2seq.models.transformer_step import (
    FEW_MULTIPLICATIONS,
    POSITIONS,
    PackedEncoder,
    PackedProduct,
    StepEmbedding,
    TransformerStep,
    product_of,
)

READ = [
    name
    for name, config in CONFIGS.items()
    if isinstance(config, TransformerEncoderConfig) and config.positions is not Positions.relative
]
FAST = [name for name in READ if isinstance(CONFIGS[name], TransformerConfig)]
every_transformer = pytest.mark.parametrize("name", FAST)


@every_transformer
@settings(max_examples=6, derandomize=True, deadline=None)
@given(batch=sentences(most_beams=3), data=st.data())
@torch.no_grad()
def test_step_by_step_with_any_reordering_of_beams_the_logits_are_the_decoder_s(name, batch: Sentences, data):
    model, beams = tiny_model(name), batch.beams
    fast = model.for_search()
    assert isinstance(fast.decoder, TransformerStep)
    memory, fast_memory = (one.encode(batch.src, batch.src_lengths) for one in (model, fast))
    state, fast_state = model.init_state(memory, beams), fast.init_state(fast_memory, beams)
    for token in batch.tgt.split(1, dim=1):
        expected, found = model.decode(token, memory, state), fast.decode(token, fast_memory, fast_state)
        again = fast.decode(token, fast_memory, fast_state)  # a state may be continued twice
        assert_close(found.logits, expected.logits)
        assert_close(again.logits, expected.logits)
        parents = data.draw(st.lists(st.integers(0, beams - 1), min_size=len(token), max_size=len(token)))
        rows = torch.arange(len(token)) // beams * beams + torch.tensor(parents)
        state, fast_state = select_rows(expected.state, rows), select_rows(found.state, rows)
        backwards = torch.arange(len(token)).flip(0)  # selecting again selects from what was selected
        state, fast_state = select_rows(state, backwards), select_rows(fast_state, backwards)


@pytest.mark.parametrize("name", READ)
def test_a_source_is_read_as_the_encoder_reads_it(name):
    model, (src, src_lengths) = tiny_model(name), random_sources([5, 3, 7])
    reader = model.for_search().encoder
    assert isinstance(reader, PackedEncoder)
    for several in (slice(0, 3), slice(2, 3)):  # with padding and without
        expected, found = (one(src[several], src_lengths[several]) for one in (model.encoder, reader))
        assert found.padding_mask.equal(expected.padding_mask)
        assert_close(found.values, expected.values)
        assert_close(found.summary, expected.summary)


@every_transformer
@pytest.mark.parametrize("lengths", [[5, 3, 7], [5, 5, 5]])
@torch.no_grad()
def test_sentences_may_leave_the_batch(name, lengths):
    model = tiny_model(name)
    fast, keep = model.for_search(), torch.tensor([2, 0])
    src, src_lengths = random_sources(lengths)
    token = torch.full((3, 1), BOS)
    results = []
    for one in (model, fast):
        memory = one.encode(src, src_lengths)
        state = select_rows(one.decode(token, memory, one.init_state(memory)).state, keep)
        results.append(one.decode(token[keep], select_rows(memory, keep), state).logits)
    assert_close(*results)


@every_transformer
@pytest.mark.parametrize("past", [0, 1, POSITIONS - 1, POSITIONS, POSITIONS + 300])
def test_tokens_are_embedded_as_the_decoder_does_at_any_position_it_knows(name, past):
    decoder = tiny_model(name).decoder
    tokens = torch.tensor([4, 7, 4])
    if decoder.max_target_length is None or past < decoder.max_target_length:
        found = StepEmbedding(decoder.embedding)(tokens, past)
        assert_close(found, decoder.embedding(tokens[:, None], past)[:, 0])


def test_relative_positions_are_left_to_the_decoder_itself():
    model = build_model(TransformerConfig(d_model=8, d_ff=8, num_heads=2, positions=Positions.relative), 12)
    assert model.for_search().decoder is model.decoder
    assert model.for_search().encoder is model.encoder


@pytest.mark.parametrize("shape", [(3, 32), (FEW_MULTIPLICATIONS // 3200 + 1, 32), (7, 50, 32)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_product_is_the_product_of_its_layers_one_after_the_other(shape, bias):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(32, size, bias=bias) for size in (70, 30)]
    product = product_of(*layers)
    assert isinstance(product, PackedProduct)
    if shape != (3, 32):
        product.weight = torch.full_like(product.weight, torch.nan)  # it is the packed one that is used
    x = torch.randn(shape)
    with torch.inference_mode():
        expected = torch.cat([layer(x) for layer in layers], dim=-1)
        torch.testing.assert_close(product(x), expected, rtol=1e-5, atol=1e-5)


def test_in_float32_the_packed_product_finds_the_same_translations():
    torch.manual_seed(1)
    model = build_model(TransformerConfig(d_model=32, d_ff=64, num_heads=4), 3000).eval()
    src, src_lengths = random_sources([9, 4, 6])
    fast = model.for_search()
    assert isinstance(fast.decoder.output, PackedProduct)
    assert FEW_MULTIPLICATIONS < 3 * 5 * 32 * 3000
    expected, found = (beam_search(one, src, src_lengths, SearchConfig(beam_size=5)) for one in (model, fast))
    assert [best.ids for (best,) in found] == [best.ids for (best,) in expected]
    assert [best.score for (best,) in found] == pytest.approx([best.score for (best,) in expected], abs=1e-4)


def test_the_model_s_mode_is_not_touched():
    model = build_model(TransformerConfig(d_model=8, d_ff=8, num_heads=2), 12).train()
    model.for_search()
    assert all(module.training for module in model.modules())
