"""Where torch has the same layer, ours computes the same numbers from the same weights."""

import pytest
import torch
from architectures import VOCAB_SIZE, assert_close, random_sources, random_words
from torch import Tensor, nn

from seq2seq.models.attention import MultiHeadAttention, causal_mask
from seq2seq.models.interface import padding_mask
from seq2seq.models.rnn import RNNEncoder
from seq2seq.models.transformer import (
    DecoderLayer,
    EncoderLayer,
    KeysValues,
    Norm,
    Positions,
    TransformerConfig,
    TransformerEncoder,
    build_transformer,
)

D_MODEL, D_FF, HEADS = 8, 12, 2
SOURCE, TARGET = 5, 4
SOURCE_PADDING = padding_mask(torch.tensor([SOURCE, 2, 1]), SOURCE)
FUTURE = causal_mask(TARGET, 0, torch.device("cpu"))

both_norms = pytest.mark.parametrize("norm", Norm)
with_and_without_weights = pytest.mark.parametrize("need_weights", [True, False])


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def randomize(module: nn.Module) -> nn.Module:
    """Random biases and norms too, so that none of them can be forgotten."""
    for seed, parameter in enumerate(module.parameters()):
        nn.init.normal_(parameter, std=0.7, generator=torch.Generator().manual_seed(seed))
    return module.double().eval()


def config(norm: Norm) -> TransformerConfig:
    return TransformerConfig(
        d_model=D_MODEL, d_ff=D_FF, num_heads=HEADS, num_layers=2, norm=norm, positions=Positions.none, dropout=0.0
    )


# ---- Copying our weights into torch's modules ----


def torch_attention(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True).double()
    copy_attention(ours, theirs)
    return theirs


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    residuals = [ours.attention_residual, ours.feed_forward_residual]
    if isinstance(ours, DecoderLayer):
        copy_attention(ours.cross, theirs.multihead_attn)
        residuals.insert(1, ours.cross_residual)
    for number, residual in enumerate(residuals, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[0].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[2].state_dict())


def torch_layer(kind: type[nn.Module], norm: Norm) -> nn.Module:
    layer = kind(D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True, norm_first=norm is Norm.pre)
    return layer.double().eval()


# ---- Attention ----


@pytest.mark.parametrize(
    ("padding", "future"), [(None, None), (SOURCE_PADDING, None), (None, FUTURE)], ids=["open", "padding", "causal"]
)
@with_and_without_weights
def test_self_attention_equals_torch(padding, future, need_weights):
    ours = randomize(MultiHeadAttention(D_MODEL, HEADS))
    x = random(3, SOURCE if future is None else TARGET, D_MODEL)
    hidden = future if padding is None else padding[:, None, None]
    actual, weights = ours(x, ours.keys_values(x), hidden, need_weights=need_weights)
    expected, expected_weights = torch_attention(ours)(
        x, x, x, key_padding_mask=padding, attn_mask=future, average_attn_weights=False
    )
    assert_close(actual, expected)
    if need_weights:
        assert_close(weights, expected_weights)


@with_and_without_weights
def test_cross_attention_equals_torch(need_weights):
    ours = randomize(MultiHeadAttention(D_MODEL, HEADS))
    x, source = random(3, TARGET, D_MODEL), random(3, SOURCE, D_MODEL)
    hidden = SOURCE_PADDING[:, None, None]
    actual, weights = ours(x, ours.keys_values(source), hidden, need_weights=need_weights)
    expected, expected_weights = torch_attention(ours)(
        x, source, source, key_padding_mask=SOURCE_PADDING, average_attn_weights=False
    )
    assert_close(actual, expected)
    if need_weights:
        assert_close(weights, expected_weights)


# ---- Transformer layers ----


@both_norms
@with_and_without_weights
def test_encoder_layer_equals_torch(norm, need_weights):
    ours, theirs = randomize(EncoderLayer(config(norm))), torch_layer(nn.TransformerEncoderLayer, norm)
    copy_layer(ours, theirs)
    x = random(3, SOURCE, D_MODEL)
    actual, _ = ours(x, SOURCE_PADDING[:, None, None], need_weights=need_weights)
    assert_close(actual, theirs(x, src_key_padding_mask=SOURCE_PADDING))


@both_norms
@with_and_without_weights
def test_decoder_layer_equals_torch(norm, need_weights):
    ours, theirs = randomize(DecoderLayer(config(norm))), torch_layer(nn.TransformerDecoderLayer, norm)
    copy_layer(ours, theirs)
    x, source = random(3, TARGET, D_MODEL), random(3, SOURCE, D_MODEL)
    empty = torch.zeros(3, HEADS, 0, D_MODEL // HEADS, dtype=torch.float64)
    actual, cache, _, _ = ours(
        x,
        ours.cross.keys_values(source),
        SOURCE_PADDING[:, None, None],
        KeysValues(empty, empty),
        FUTURE,
        need_weights=need_weights,
    )
    assert_close(actual, theirs(x, source, tgt_mask=FUTURE, memory_key_padding_mask=SOURCE_PADDING))
    assert cache.keys.shape == cache.values.shape == (3, HEADS, TARGET, D_MODEL // HEADS)


def torch_encoder(ours: TransformerEncoder, norm: Norm) -> nn.TransformerEncoder:
    final = nn.LayerNorm(D_MODEL).double() if norm is Norm.pre else None
    layer = torch_layer(nn.TransformerEncoderLayer, norm)
    theirs = nn.TransformerEncoder(layer, len(ours.layers), final, enable_nested_tensor=False)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(mine, other)
    if final is not None:
        final.load_state_dict(ours.norm.state_dict())
    return theirs


@both_norms
def test_whole_encoder_equals_torch(norm):
    ours = randomize(build_transformer(config(norm), VOCAB_SIZE)).encoder
    src, src_lengths = random_sources([SOURCE, 2, 1])
    embedded = ours.embedding.tokens(src) * D_MODEL**0.5
    expected = torch_encoder(ours, norm)(embedded, src_key_padding_mask=SOURCE_PADDING)
    encoded = ours(src, src_lengths)
    assert_close(encoded.values, expected)
    for row, length in enumerate(src_lengths.tolist()):
        assert_close(encoded.summary[row], expected[row, :length].mean(dim=0))


@both_norms
def test_whole_decoder_equals_torch(norm):
    model = randomize(build_transformer(config(norm), VOCAB_SIZE))
    ours = model.decoder
    final = nn.LayerNorm(D_MODEL).double() if norm is Norm.pre else None
    theirs = nn.TransformerDecoder(torch_layer(nn.TransformerDecoderLayer, norm), len(ours.layers), final)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(mine, other)
    if final is not None:
        final.load_state_dict(ours.norm.state_dict())
    src, src_lengths = random_sources([SOURCE, 2, 1])
    tgt = random_words(3, TARGET)
    states = theirs(
        ours.embedding.tokens(tgt) * D_MODEL**0.5,
        model.encoder(src, src_lengths).values,
        tgt_mask=FUTURE,
        memory_key_padding_mask=SOURCE_PADDING,
    )
    assert_close(model(src, src_lengths, tgt).logits, ours.output(states))


# ---- Recurrent encoders: packed and fused against one word, one layer, one sentence at a time ----


@pytest.mark.parametrize("cell", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_stacked_recurrent_encoder_equals_its_cells_stepped_by_hand(cell, num_layers):
    size = 4
    encoder = randomize(RNNEncoder(VOCAB_SIZE, 3, size, cell=cell, num_layers=num_layers, embedding_std=1.0))
    src, src_lengths = random_sources([4, 1, 3])
    encoded = encoder(src, src_lengths)
    for row, length in enumerate(src_lengths.tolist()):
        words = encoder.embedding(src[row, :length])
        finals = []
        for layer in range(num_layers):
            words, final = run_layer(encoder.rnn, words, f"l{layer}")
            finals.append(final)
        assert_close(encoded.values[row, :length], words)
        hiddens_then_cells = [torch.cat(states) for states in zip(*finals, strict=True)]
        assert_close(encoded.summary[row], torch.cat(hiddens_then_cells))


def test_a_bidirectional_encoder_joins_both_directions_and_summarises_by_the_backward_state_at_the_first_word():
    size = 4
    encoder = randomize(RNNEncoder(VOCAB_SIZE, 3, size, bidirectional=True, backward_summary=True, embedding_std=1.0))
    src, src_lengths = random_sources([4, 1, 3])
    encoded = encoder(src, src_lengths)
    for row, length in enumerate(src_lengths.tolist()):
        words = encoder.embedding(src[row, :length])
        forward, _ = run_layer(encoder.rnn, words, "l0")
        backward, _ = run_layer(encoder.rnn, words.flip(0), "l0_reverse")
        assert_close(encoded.values[row, :length], torch.cat([forward, backward.flip(0)], dim=1))
        assert_close(encoded.summary[row], backward[-1])


def run_layer(rnn: nn.GRU | nn.LSTM, words: Tensor, name: str) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Step torch's own cell through one sentence; return the hidden states and the final state or states."""
    cell = (nn.LSTMCell if isinstance(rnn, nn.LSTM) else nn.GRUCell)(words.shape[1], rnn.hidden_size).double()
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, kind).data = getattr(rnn, f"{kind}_{name}").data
    zeros = torch.zeros(1, rnn.hidden_size, dtype=torch.float64)
    state = (zeros, zeros) if isinstance(rnn, nn.LSTM) else zeros
    hiddens = []
    for word in words:
        state = cell(word[None], state)
        hiddens.append(state[0][0] if isinstance(state, tuple) else state[0])
    final = state if isinstance(state, tuple) else (state,)
    return torch.stack(hiddens), tuple(part[0] for part in final)
