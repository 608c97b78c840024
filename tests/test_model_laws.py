"""The laws that every architecture keeps: because of them search and scoring need to know none of them."""

from dataclasses import replace
from typing import Any

import jaxtyping
import pytest
import torch
from architectures import (
    CONFIGS,
    VOCAB_SIZE,
    Sentences,
    assert_close,
    leaves,
    random_sources,
    random_words,
    sentences,
    tiny_model,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.models import Seq2Seq, build_model
from seq2seq.models.interface import padding_mask, select_rows

few = settings(max_examples=4, derandomize=True, deadline=None)
every_architecture = pytest.mark.parametrize("name", CONFIGS)
with_self_attention = pytest.mark.parametrize(
    "name", [name for name in CONFIGS if name.startswith(("transformer", "hybrid"))]
)


def decode(model: Seq2Seq[Any, Any], batch: Sentences, *, need_weights: bool = False):
    memory = model.encode(batch.src, batch.src_lengths)
    return model.decode(batch.tgt, memory, model.init_state(memory, batch.beams), need_weights=need_weights)


# ---- chunks ----


@every_architecture
@few
@given(batch=sentences(most_beams=2), data=st.data())
def test_decoding_in_chunks_equals_decoding_at_once(name, batch, data):
    model = tiny_model(name)
    length = batch.tgt.shape[1]
    cuts = sorted(data.draw(st.sets(st.integers(1, length - 1)))) if length > 1 else []

    memory = model.encode(batch.src, batch.src_lengths)
    state = model.init_state(memory, batch.beams)
    logits, cross = [], []
    for chunk in batch.tgt.tensor_split(cuts, dim=1):
        output = model.decode(chunk, memory, state, need_weights=True)
        state = output.state
        logits.append(output.logits)
        cross.append(output.cross)

    whole = decode(model, batch, need_weights=True)
    assert_close(torch.cat(logits, dim=1), whole.logits)
    assert_close(state, whole.state)
    if whole.cross is not None:
        assert_close(torch.cat(cross, dim=3), whole.cross)


# ---- rows ----


@every_architecture
@few
@given(batch=sentences(), data=st.data())
def test_selecting_rows_commutes_with_encoding_and_decoding(name, batch, data):
    model = tiny_model(name)
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(batch.src) - 1), min_size=1, max_size=4)))
    memory = model.encode(batch.src, batch.src_lengths)
    selected = select_rows(memory, rows)
    assert_close(selected, model.encode(batch.src[rows], batch.src_lengths[rows]))

    output = model.decode(batch.tgt, memory, model.init_state(memory))
    continued = model.decode(batch.tgt, memory, output.state)
    alone = model.decode(batch.tgt[rows], selected, select_rows(output.state, rows))
    assert_close(alone.logits, continued.logits[rows])
    assert_close(alone.state, select_rows(continued.state, rows))


@every_architecture
@few
@given(batch=sentences(), extra=st.integers(1, 4))
def test_source_padding_changes_nothing_whatever_its_tokens(name, batch, extra):
    model = tiny_model(name)
    width = batch.src.shape[1]
    padding = padding_mask(batch.src_lengths, width + extra)
    noise = random_words(*padding.shape, seed=2)
    padded = batch._replace(src=torch.cat([batch.src, noise[:, width:]], dim=1).where(~padding, noise))

    expected, actual = decode(model, batch, need_weights=True), decode(model, padded, need_weights=True)
    assert_close(actual.logits, expected.logits)
    assert_close(actual.state, expected.state)
    if expected.cross is not None:
        assert_close(actual.cross[..., :width], expected.cross)


# ---- beams ----


@every_architecture
@few
@given(batch=sentences(most_beams=4))
def test_beams_share_a_memory_as_if_each_had_its_own(name, batch):
    model = tiny_model(name)
    repeated = torch.arange(len(batch.src)).repeat_interleave(batch.beams)
    own = Sentences(batch.src[repeated], batch.src_lengths[repeated], batch.tgt, beams=1)
    shared, separate = decode(model, batch, need_weights=True), decode(model, own, need_weights=True)
    assert_close(shared.logits, separate.logits)
    assert_close(shared.state, separate.state)
    for kind in ("cross", "self_attention"):
        if getattr(separate, kind) is not None:
            assert_close(getattr(shared, kind), getattr(separate, kind))


@every_architecture
def test_a_source_of_one_token_a_target_of_one_and_any_number_of_beams(name):
    model = tiny_model(name)
    src, src_lengths = random_sources([1])
    tgt = random_words(1, 1)
    alone = decode(model, Sentences(src, src_lengths, tgt, beams=1)).logits
    assert alone.shape == (1, 1, VOCAB_SIZE)
    for beams in (2, 3, 4):
        together = decode(model, Sentences(src, src_lengths, tgt.expand(beams, 1), beams)).logits
        assert_close(together, alone.expand(beams, 1, VOCAB_SIZE))


# ---- causality ----


@every_architecture
@few
@given(batch=sentences(), data=st.data())
def test_a_target_word_changes_nothing_before_it(name, batch, data):
    model = tiny_model(name)
    place = data.draw(st.integers(0, batch.tgt.shape[1] - 1))
    changed = batch.tgt.clone()
    changed[:, place] += torch.where(changed[:, place] == VOCAB_SIZE - 1, -1, 1)
    before, after = decode(model, batch).logits, decode(model, batch._replace(tgt=changed)).logits
    assert_close(after[:, :place], before[:, :place])
    assert not torch.allclose(after[:, place], before[:, place])


@every_architecture
def test_every_source_word_matters(name):
    model = tiny_model(name)
    src, src_lengths = random_sources([5])
    tgt = random_words(1, 4)
    logits = model(src, src_lengths, tgt).logits
    for place in range(4):
        changed = src.clone()
        changed[0, place] = 4 if src[0, place] != 4 else 5
        assert not torch.allclose(model(changed, src_lengths, tgt).logits, logits)


# ---- attention ----


@every_architecture
@few
@given(batch=sentences(most_beams=3))
def test_attention_over_the_source_is_a_distribution_without_padding(name, batch):
    model = tiny_model(name)
    cross = decode(model, batch, need_weights=True).cross
    if name.startswith("rnn"):
        assert cross is None
        return
    config = CONFIGS[name]
    layers, heads = (config.num_layers, config.num_heads) if name.startswith("transformer") else (1, 1)
    rows, steps = batch.tgt.shape
    assert cross.shape == (rows, layers, heads, steps, batch.src.shape[1])
    padding = padding_mask(batch.src_lengths, batch.src.shape[1]).repeat_interleave(batch.beams, dim=0)
    assert (cross >= 0).all()
    assert (cross.movedim(-1, 1)[padding] == 0).all()
    total = cross.sum(dim=-1)
    if "local_p" in name:  # the softmax times a Gaussian
        assert (total <= 1 + 1e-10).all()
    else:
        assert_close(total, torch.ones_like(total))


@with_self_attention
@few
@given(batch=sentences())
def test_encoder_self_attention_is_a_distribution_without_padding(name, batch):
    model, config = tiny_model(name), CONFIGS[name]
    length = batch.src.shape[1]
    attention = model.encoder(batch.src, batch.src_lengths, need_weights=True).attention
    assert attention.shape == (len(batch.src), config.num_layers, config.num_heads, length, length)
    assert (attention >= 0).all()
    assert (attention.movedim(-1, 1)[padding_mask(batch.src_lengths, length)] == 0).all()
    assert_close(attention.sum(dim=-1), torch.ones_like(attention[..., 0]))


@pytest.mark.parametrize("name", [name for name in CONFIGS if name.startswith("transformer")])
@few
@given(batch=sentences(most_beams=2), data=st.data())
def test_decoder_self_attention_is_a_distribution_over_the_past(name, batch, data):
    model, config = tiny_model(name), CONFIGS[name]
    past = data.draw(st.integers(0, batch.tgt.shape[1] - 1))
    memory = model.encode(batch.src, batch.src_lengths)
    state = model.init_state(memory, batch.beams)
    if past:
        state = model.decode(batch.tgt[:, :past], memory, state).state
    attention = model.decode(batch.tgt[:, past:], memory, state, need_weights=True).self_attention
    rows, length = batch.tgt.shape
    assert attention.shape == (rows, config.num_layers, config.num_heads, length - past, length)
    assert (attention >= 0).all()
    for step in range(length - past):
        assert (attention[..., step, past + step + 1 :] == 0).all()
    assert_close(attention.sum(dim=-1), torch.ones_like(attention[..., 0]))


@every_architecture
@few
@given(batch=sentences(most_beams=2))
def test_asking_for_weights_changes_no_number(name, batch):
    model = tiny_model(name)
    with_weights, without = decode(model, batch, need_weights=True), decode(model, batch)
    assert_close(with_weights.logits, without.logits)
    assert_close(with_weights.state, without.state)
    assert without.cross is None
    assert without.self_attention is None
    looked_at = model.encoder(batch.src, batch.src_lengths, need_weights=True)
    unseen = model.encoder(batch.src, batch.src_lengths)
    assert_close(looked_at[:3], unseen[:3])
    assert unseen.attention is None


# ---- the contract itself ----


@every_architecture
@few
@given(batch=sentences(most_beams=2))
@torch.no_grad()
def test_writing_over_the_logits_changes_nothing_that_comes_after(name, batch):
    model = tiny_model(name)
    memory = model.encode(batch.src, batch.src_lengths)
    start = model.init_state(memory, batch.beams)
    first = model.decode(batch.tgt, memory, start)
    expected = first.logits.clone(), model.decode(batch.tgt, memory, first.state).logits.clone()
    first.logits.fill_(torch.nan)
    assert_close(model.decode(batch.tgt, memory, first.state).logits, expected[1])
    assert_close(model.decode(batch.tgt, memory, start).logits, expected[0])


@every_architecture
def test_a_state_has_one_row_for_each_beam_and_a_memory_for_each_sentence(name):
    model = tiny_model(name)
    memory = model.encode(*random_sources([3, 1]))
    assert {len(leaf) for leaf in leaves(memory)} == {2}
    assert {len(leaf) for leaf in leaves(model.init_state(memory, beams=3))} == {6}


@every_architecture
def test_without_dropout_training_and_eval_mode_agree(name):
    model = build_model(replace(CONFIGS[name], dropout=0.0), VOCAB_SIZE).double().train()
    model.load_state_dict(tiny_model(name).state_dict())
    src, src_lengths = random_sources([5, 2])
    tgt = random_words(2, 4)
    assert_close(model(src, src_lengths, tgt).logits, tiny_model(name)(src, src_lengths, tgt).logits)


def test_the_tests_check_the_shapes_that_public_signatures_promise():
    model = tiny_model("rnn-cho-1")
    src, src_lengths = random_sources([3, 2])
    with pytest.raises(jaxtyping.TypeCheckError):
        model.encode(src, src_lengths[:1])
    with pytest.raises(jaxtyping.TypeCheckError):
        model.encode(src.double(), src_lengths)
