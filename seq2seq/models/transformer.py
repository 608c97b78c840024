"""The Transformer, Vaswani et al. 2017: attention in place of recurrence; and a hybrid with a recurrent decoder.

Shapes: B batch, N sentences, K beams, R = N*K rows, S source length, T target length, P tokens already consumed,
V vocabulary, L layers, H heads, D model size, F inner size of the feed-forward layer, d = D / H the size of a head.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2seq.errors import UserError
from seq2seq.models.attention import KeysValues, MultiHeadAttention, causal_mask
from seq2seq.models.checks import check_dropout, check_sizes
from seq2seq.models.dropout import Dropout
from seq2seq.models.interface import Decoder, DecoderOutput, Encoder, EncoderOutput, Seq2Seq, padding_mask
from seq2seq.models.rnn_attention import (
    AttentionMemory,
    BahdanauDecoder,
    BahdanauDecoderConfig,
    BahdanauState,
)
from seq2seq.models.transformer_step import PackedEncoder, TransformerStep


class Positions(Enum):
    """How a word's position reaches the model; without it, attention sees a set."""

    sinusoidal = "sinusoidal"
    learned = "learned"
    relative = "relative"
    none = "none"


class Norm(Enum):
    """Where the layer normalisation stands: before each sub-layer, or after each residual sum as in the paper."""

    pre = "pre"
    post = "post"


@dataclass
class TransformerEncoderConfig:
    """What the encoder of the Transformer and of the hybrid need.

    Attributes:
        d_model: size of a word's vector throughout.
        d_ff: inner size of the feed-forward layers.
        num_heads: attentions side by side, each of size d_model / num_heads.
        num_layers: of the encoder, and of the Transformer's decoder.
        positions: sinusoidal, learned, relative or none.
        max_positions: positions=learned: the longest sentence, in tokens.
        max_distance: positions=relative: larger distances share a vector.
        norm: pre (before each sub-layer) or post (after each residual sum, as in the paper).
        dropout: on embeddings and on what each sub-layer adds.
    """

    d_model: int = 128
    d_ff: int = 256
    num_heads: int = 4
    num_layers: int = 2
    positions: Positions = Positions.sinusoidal
    max_positions: int = 512
    max_distance: int = 16
    norm: Norm = Norm.pre
    dropout: float = 0.3

    def __post_init__(self) -> None:
        check_sizes(self, "d_model", "d_ff", "num_heads", "num_layers", "max_positions", "max_distance")
        check_dropout(self.dropout)
        if self.d_model % self.num_heads:
            raise UserError(f"model.d_model={self.d_model} must be a multiple of model.num_heads={self.num_heads}")
        if self.positions is Positions.sinusoidal and self.d_model % 2:
            raise UserError(f"model.d_model={self.d_model} must be even for model.positions=sinusoidal")


@dataclass
class TransformerConfig(TransformerEncoderConfig):
    """The Transformer, small enough for two cores; encoder and decoder share their sizes.

    Attributes:
        tie_embeddings: one matrix for source words, target words and the output, section 3.4.
    """

    tie_embeddings: bool = True


# ---- Parts ----


def sinusoidal_positions(start: int, length: int, size: int, device: torch.device) -> Float[Tensor, "T D"]:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same, section 3.5; computed, so without a limit."""
    dtype = torch.float32 if device.type == "mps" else torch.float64  # Apple's GPUs have no float64
    positions = torch.arange(start, start + length, device=device, dtype=dtype)
    rates = torch.exp(torch.arange(0, size, 2, device=device, dtype=dtype) * (-math.log(10000.0) / size))
    angles = positions[:, None] * rates  # (T, D/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Embedding(nn.Module):
    """Token vectors, scaled by sqrt(D), plus position vectors, sections 3.4 and 3.5."""

    def __init__(self, config: TransformerEncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.positions = config.positions
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.places = None
        if config.positions is Positions.learned:
            self.places = nn.Embedding(config.max_positions, config.d_model)
            nn.init.normal_(self.places.weight, std=config.d_model**-0.5)
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Int[Tensor, "R T"], past: int = 0) -> Float[Tensor, "R T D"]:
        """Embed tokens that follow `past` others."""
        x = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        positions = self.position_vectors(past, tokens.shape[1])
        return self.dropout(x if positions is None else x + positions)

    def position_vectors(self, past: int, length: int) -> Float[Tensor, "T D"] | None:
        """Return what is added to the tokens that follow `past` others: None where nothing is."""
        weight = self.tokens.weight
        if self.places is not None:
            assert past + length <= self.places.num_embeddings, "a sentence longer than the table of positions"
            return self.places.weight[past : past + length]
        if self.positions is Positions.sinusoidal:
            return sinusoidal_positions(past, length, weight.shape[1], weight.device).to(weight.dtype)
        return None


class Residual(nn.Module):
    """What stands around every sub-layer: a residual sum, dropout and a normalisation before or after."""

    def __init__(self, config: TransformerEncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm is Norm.pre

    def before(self, x: Float[Tensor, "R T D"]) -> Float[Tensor, "R T D"]:
        """Return what the sub-layer reads."""
        return self.norm(x) if self.pre else x

    def after(self, x: Float[Tensor, "R T D"], change: Float[Tensor, "R T D"]) -> Float[Tensor, "R T D"]:
        """Add what the sub-layer wrote."""
        x = x + self.dropout(change.to(x.dtype))  # autocast: the sum stays in float32
        return x if self.pre else self.norm(x)


def feed_forward(config: TransformerEncoderConfig) -> nn.Sequential:
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, eq. 2."""
    return nn.Sequential(nn.Linear(config.d_model, config.d_ff), nn.ReLU(), nn.Linear(config.d_ff, config.d_model))


def self_attention(config: TransformerEncoderConfig) -> MultiHeadAttention:
    """Attention of a sentence to itself: the only place where relative positions act."""
    max_distance = config.max_distance if config.positions is Positions.relative else None
    return MultiHeadAttention(config.d_model, config.num_heads, max_distance)


def final_norm(config: TransformerEncoderConfig) -> nn.Module:
    """Pre-normalised stacks end in one more normalisation; post-normalised ones have it already."""
    return nn.LayerNorm(config.d_model) if config.norm is Norm.pre else nn.Identity()


def init_weights(module: nn.Module) -> None:
    """Glorot-uniform matrices and zero biases in every linear layer."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


# ---- Encoder ----


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward layer."""

    def __init__(self, config: TransformerEncoderConfig) -> None:
        super().__init__()
        self.attention = self_attention(config)
        self.attention_residual = Residual(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Float[Tensor, "B S D"], hidden_mask: Bool[Tensor, "B 1 1 S"], *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B H S S"] | None]:
        """Return the layer's output and, if asked for, its attention."""
        read = self.attention_residual.before(x)
        context, weights = self.attention(
            read, self.attention.keys_values(read), hidden_mask, need_weights=need_weights
        )
        x = self.attention_residual.after(x, context)
        x = self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x)))
        return x, weights


class TransformerEncoder(Encoder):
    """L layers of self-attention: every source word sees every other in one step."""

    def __init__(self, config: TransformerEncoderConfig, embedding: Embedding) -> None:
        super().__init__()
        self.values_size = self.summary_size = config.d_model
        self.max_source_length = config.max_positions if config.positions is Positions.learned else None
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.norm = final_norm(config)
        init_weights(self)

    def forward(
        self, src: Int[Tensor, "B S"], src_lengths: Int[Tensor, "B"], *, need_weights: bool = False
    ) -> EncoderOutput:
        """Encode."""
        padding = padding_mask(src_lengths, src.shape[1])
        x = self.embedding(src)
        all_weights = []
        for layer in self.layers:
            x, weights = layer(x, padding[:, None, None], need_weights=need_weights)
            all_weights.append(weights)
        attention = torch.stack(all_weights, dim=1) if need_weights else None  # (B, L, H, S, S)
        return self.summarise(x, src_lengths, padding, attention)

    def summarise(
        self,
        x: Float[Tensor, "B S D"],
        src_lengths: Int[Tensor, "B"],
        padding_mask: Bool[Tensor, "B S"],
        attention: Float[Tensor, "B L H S S"] | None = None,
    ) -> EncoderOutput:
        """Normalise what the last layer wrote, and add the mean over each sentence's own length."""
        x = self.norm(x)
        summary = x.masked_fill(padding_mask[:, :, None], 0.0).sum(dim=1) / src_lengths[:, None]
        return EncoderOutput(x, padding_mask, summary, attention)

    def for_search(self) -> Encoder:
        """Return a `PackedEncoder`, which knows all positions but relative ones."""
        return self if self.embedding.positions is Positions.relative else PackedEncoder(self)


# ---- Decoder ----


class TransformerMemory(NamedTuple):
    """The source's keys and values for each layer's cross-attention."""

    layers: tuple[KeysValues, ...]  # L times (N, H, S, d)
    padding_mask: Tensor  # (N, S), True = padding


class TransformerState(NamedTuple):
    """The KV cache: keys and values of the target tokens consumed so far, for each layer's self-attention."""

    layers: tuple[KeysValues, ...]  # L times (R, H, P, d)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, then a feed-forward layer."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = self_attention(config)
        self.attention_residual = Residual(config)
        self.cross = MultiHeadAttention(config.d_model, config.num_heads)
        self.cross_residual = Residual(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        source: KeysValues,
        padding: Bool[Tensor, "N 1 1 S"],
        past: KeysValues,
        future: Bool[Tensor, "T PT"] | None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "R T D"], KeysValues, Tensor | None, Tensor | None]:
        """Return the output, the longer cache, and the weights of self- and cross-attention if asked for."""
        read = self.attention_residual.before(x)
        new = self.attention.keys_values(read)
        cache = KeysValues(*(torch.cat(pair, dim=2) for pair in zip(past, new, strict=True)))
        context, weights = self.attention(read, cache, future, need_weights=need_weights)
        x = self.attention_residual.after(x, context)
        context, cross = self.cross(self.cross_residual.before(x), source, padding, need_weights=need_weights)
        x = self.cross_residual.after(x, context)
        x = self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x)))
        return x, cache, weights, cross


class TransformerDecoder(Decoder[TransformerMemory, TransformerState]):
    """L layers; a word sees the words before it and the whole source."""

    def __init__(self, config: TransformerConfig, embedding: Embedding) -> None:
        super().__init__()
        self.max_target_length = config.max_positions if config.positions is Positions.learned else None
        self.embedding = embedding
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_layers))
        self.norm = final_norm(config)
        init_weights(self)
        tokens = embedding.tokens
        self.output = nn.Linear(config.d_model, tokens.num_embeddings, bias=False)
        nn.init.normal_(self.output.weight, std=config.d_model**-0.5)
        if config.tie_embeddings:
            self.output.weight = tokens.weight

    def memory(self, encoded: EncoderOutput) -> TransformerMemory:
        """Project the source for every layer once."""
        layers = cast("Iterable[DecoderLayer]", self.layers)
        keys_values = tuple(layer.cross.keys_values(encoded.values) for layer in layers)
        return TransformerMemory(keys_values, encoded.padding_mask)

    def init_state(self, memory: TransformerMemory, beams: int = 1) -> TransformerState:
        """Return caches of length 0."""
        sentences, heads, _, size = memory.layers[0].keys.shape
        empty = memory.layers[0].keys.new_zeros(sentences * beams, heads, 0, size)
        return TransformerState(tuple(KeysValues(empty, empty) for _ in memory.layers))

    def forward(
        self,
        tgt: Int[Tensor, "R T"],
        memory: TransformerMemory,
        state: TransformerState,
        *,
        need_weights: bool = False,
    ) -> DecoderOutput[TransformerState]:
        """Consume all tokens at once, each behind the causal mask."""
        past, steps = state.layers[0].keys.shape[2], tgt.shape[1]
        x = self.embedding(tgt, past)
        future, padding = causal_mask(steps, past, tgt.device), memory.padding_mask[:, None, None]
        caches, all_weights, all_cross = [], [], []
        for layer, source, before in zip(self.layers, memory.layers, state.layers, strict=True):
            x, cache, weights, cross = layer(x, source, padding, before, future, need_weights=need_weights)
            caches.append(cache)
            all_weights.append(weights)
            all_cross.append(cross)
        return DecoderOutput(
            self.output(self.norm(x)),
            TransformerState(tuple(caches)),
            torch.stack(all_cross, dim=1) if need_weights else None,  # (R, L, H, T, S)
            torch.stack(all_weights, dim=1) if need_weights else None,  # (R, L, H, T, P + T)
        )

    def for_search(self) -> Decoder[Any, Any]:
        """Return a `TransformerStep`, which knows all positions but relative ones."""
        return self if self.embedding.positions is Positions.relative else TransformerStep(self)


def build_transformer(config: TransformerConfig, vocab_size: int) -> Seq2Seq[TransformerMemory, TransformerState]:
    """Build the Transformer of Vaswani et al. 2017."""
    source = Embedding(config, vocab_size)
    target = source if config.tie_embeddings else Embedding(config, vocab_size)
    return Seq2Seq(TransformerEncoder(config, source), TransformerDecoder(config, target))


# ---- Hybrid ----


@dataclass
class HybridConfig(TransformerEncoderConfig, BahdanauDecoderConfig):
    """A self-attention encoder under Bahdanau's recurrent decoder, Domhan 2018."""

    def __post_init__(self) -> None:
        TransformerEncoderConfig.__post_init__(self)
        BahdanauDecoderConfig.__post_init__(self)


def build_hybrid(config: HybridConfig, vocab_size: int) -> Seq2Seq[AttentionMemory, BahdanauState]:
    """Build the hybrid: which half of the Transformer is it that matters?"""
    encoder = TransformerEncoder(config, Embedding(config, vocab_size))
    return Seq2Seq(encoder, BahdanauDecoder(config, vocab_size, encoder.values_size, encoder.summary_size))
