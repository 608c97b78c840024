"""The Transformer as search runs it: the same weights and the same numbers in fewer, larger operations.

A step of search is so small that starting its operations takes longer than computing them. Here the queries, keys and
values of a layer are one product, the source's keys and values of all layers another, and keys and values are kept in
one tensor a layer: not one for all, which would not stay in the processor's cache. Matrices are packed for oneDNN,
which then multiplies up to twice as fast as torch's default. Read transformer.py first: what is computed is said there,
and a law holds the two together.

Shapes: N sentences, K beams, R = N*K rows (R0 one step earlier), S source length, P tokens already consumed, L layers,
H heads, D model size, d = D / H the size of a head, V vocabulary, O results of a product.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2seq.models.interface import Decoder, DecoderOutput, Encoder, EncoderOutput, padding_mask

if TYPE_CHECKING:
    from seq2seq.models.transformer import Embedding, TransformerDecoder, TransformerEncoder


POSITIONS = 512  # whose vectors are computed beforehand, where there is no limit
FEW_MULTIPLICATIONS = 1_000_000  # of a product: up to that many, starting oneDNN takes longer than what it gains
SCORES_AT_A_TIME = 16  # of float32 in a register: torch's fused attention computes what is left over one by one


# ---- Parts ----


class Product:
    """x W^T + b with a matrix that does not change."""

    def __init__(self, *layers: nn.Linear) -> None:
        """Stack the rows of one or more layers."""
        weight = torch.cat([layer.weight.detach() for layer in layers])
        self.weight = weight.T.contiguous().T  # (O, D), column by column: quicker where x has few rows
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.bias = torch.cat(biases) if biases else None

    def __call__(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows O"]:
        """Multiply."""
        return F.linear(x, self.weight, self.bias)


class PackedProduct(Product):
    """The same in oneDNN's own order of the matrix where there is much to do: float32 on a CPU only."""

    def __init__(self, *layers: nn.Linear) -> None:
        super().__init__(*layers)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def __call__(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows O"]:
        """Multiply."""
        if x.numel() * len(self.weight) < FEW_MULTIPLICATIONS:
            return super().__call__(x)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return product


def product_of(*layers: nn.Linear) -> Product:
    """Return the product of these layers that is fastest where their weights are."""
    weight = layers[0].weight
    packs = weight.device.type == "cpu" and weight.dtype is torch.float32 and torch.backends.mkldnn.is_available()
    return (PackedProduct if packs else Product)(*layers)


class Normalisation:
    """A layer normalisation without the machinery around a module, which takes as long as the numbers."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.arguments = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps

    def __call__(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Normalise."""
        return torch.layer_norm(x, *self.arguments)


class PackedLayer:
    """What the layers of the encoder and of the decoder have in common."""

    def __init__(self, layer: Any) -> None:
        """Take the weights of an `EncoderLayer` or a `DecoderLayer`."""
        self.heads = layer.attention.num_heads
        self.pre = layer.attention_residual.pre
        self.attention_norm = Normalisation(layer.attention_residual.norm)
        self.feed_forward_norm = Normalisation(layer.feed_forward_residual.norm)
        self.query_key_value = product_of(layer.attention.query, layer.attention.key, layer.attention.value)
        self.output = product_of(layer.attention.output)
        self.inner, self.outer = product_of(layer.feed_forward[0]), product_of(layer.feed_forward[2])

    def feed_forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Run the last sub-layer."""
        inner = self.inner(self.before(self.feed_forward_norm, x)).relu_()
        return self.after(self.feed_forward_norm, x, self.outer(inner))

    def before(self, norm: Normalisation, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Return what a sub-layer reads."""
        return norm(x) if self.pre else x

    def after(
        self, norm: Normalisation, x: Float[Tensor, "*rows D"], change: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """Add what it wrote."""
        return x + change if self.pre else norm(x + change)


# ---- Encoder ----


class PackedEncoderLayer(PackedLayer):
    """One layer for a whole source."""

    def __call__(self, x: Float[Tensor, "N S D"], visible: Bool[Tensor, "N 1 1 S"] | None) -> Float[Tensor, "N S D"]:
        """Return the output; `visible` is False on padding, and None where there is none."""
        projected = self.query_key_value(self.before(self.attention_norm, x))
        heads = projected.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, N, H, S, d)
        context = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=visible)
        x = self.after(self.attention_norm, x, self.output(context.transpose(1, 2).flatten(2)))
        return self.feed_forward(x)


class PackedEncoder(Encoder):
    """A `TransformerEncoder` in search: its matrices copied as they are now, the rest shared with it."""

    def __init__(self, encoder: "TransformerEncoder") -> None:
        super().__init__()
        self.values_size, self.summary_size = encoder.values_size, encoder.summary_size
        self.max_source_length = encoder.max_source_length
        self.embedding, self.summarise = encoder.embedding, encoder.summarise
        layers: list[Any] = list(encoder.layers)
        self.layers = [PackedEncoderLayer(layer) for layer in layers]

    def forward(
        self, src: Int[Tensor, "N S"], src_lengths: Int[Tensor, "N"], *, need_weights: bool = False
    ) -> EncoderOutput:
        """Encode."""
        assert not need_weights, "search needs none"
        padding = padding_mask(src_lengths, src.shape[1])
        visible = ~padding[:, None, None] if padding.any() else None
        x = self.embedding(src)
        for layer in self.layers:
            x = layer(x, visible)
        return self.summarise(x, src_lengths, padding)


# ---- Decoder ----


class StepMemory(NamedTuple):
    """The source's keys and values for every layer's cross-attention."""

    keys_values: Tensor  # (N, L, 2, H, S, d); S is filled up to a multiple of SCORES_AT_A_TIME
    bias: Tensor  # (N, 1, 1, S) added to the scores: 0, or minus infinity on padding; (N, 1, 1, 0) if there is none


class StepState(NamedTuple):
    """The KV cache of the beams of one step earlier, and which of them each row continues.

    So a beam's keys and values are copied once a step, when the next are added to them; until then those of beams that
    were not selected stay in memory.
    """

    layers: tuple[Tensor, ...]  # L times (R0, P, 2, H, d)
    rows: Tensor  # (R,)

    def select_rows(self, rows: Int[Tensor, "R"]) -> "StepState":
        """Select rows and leave the copying to the next step."""
        return self._replace(rows=self.rows[rows])


class StepEmbedding:
    """Token vectors and position vectors, most of those computed beforehand."""

    def __init__(self, embedding: "Embedding") -> None:
        self.weight = embedding.tokens.weight.detach()
        self.scale = math.sqrt(embedding.tokens.embedding_dim)
        self.position_vectors = embedding.position_vectors
        limit = None if embedding.places is None else embedding.places.num_embeddings
        table = embedding.position_vectors(0, limit or POSITIONS)
        self.table = None if table is None else table.detach()  # (P, D)

    def __call__(self, tokens: Int[Tensor, "R"], past: int) -> Float[Tensor, "R D"]:
        """Embed a token a row, each after `past` others."""
        x = F.embedding(tokens, self.weight)
        if self.table is None:
            return x * self.scale
        place = self.table[past] if past < len(self.table) else self.position_vectors(past, 1)
        assert place is not None
        return torch.add(place, x, alpha=self.scale)


class StepLayer(PackedLayer):
    """One layer for one token."""

    def __init__(self, layer: Any) -> None:
        """Take the weights of a `DecoderLayer`."""
        super().__init__(layer)
        self.cross_norm = Normalisation(layer.cross_residual.norm)
        self.cross_query, self.cross_output = product_of(layer.cross.query), product_of(layer.cross.output)

    def __call__(
        self,
        x: Float[Tensor, "R D"],
        source: Float[Tensor, "N 2 H S d"],
        bias: Float[Tensor, "N 1 1 S"] | None,
        past: Float[Tensor, "R0 P 2 H d"],
        rows: Int[Tensor, "R"],
    ) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R P1 2 H d"]]:
        """Return the output and the longer cache, whose row i continues row `rows[i]` of the one before."""
        projected = self.query_key_value(self.before(self.attention_norm, x))
        new = projected.view(x.shape[0], 3, self.heads, -1)  # (R, 3, H, d)
        steps = past.shape[1]
        longer = past.new_empty(x.shape[0], steps + 1, *past.shape[2:])
        torch.index_select(past, 0, rows, out=longer[:, :steps])
        longer[:, steps] = new[:, 1:]
        x = self.after(self.attention_norm, x, self.output(_attend(new[:, :1], longer.permute(0, 2, 3, 1, 4), None)))
        queries = self.cross_query(self.before(self.cross_norm, x))
        queries = queries.view(len(source), -1, self.heads, past.shape[-1])  # (N, K, H, d)
        x = self.after(self.cross_norm, x, self.cross_output(_attend(queries, source, bias)))
        return self.feed_forward(x), longer


def _attend(
    queries: Float[Tensor, "N K H d"], keys_values: Float[Tensor, "N 2 H S d"], bias: Float[Tensor, "N 1 1 S"] | None
) -> Float[Tensor, "R D"]:
    keys, values = keys_values.unbind(1)  # (N, H, S, d)
    context = F.scaled_dot_product_attention(queries.transpose(1, 2), keys, values, attn_mask=bias)
    return context.transpose(1, 2).reshape(queries.shape[0] * queries.shape[1], -1)


class TransformerStep(Decoder[StepMemory, StepState]):
    """A `TransformerDecoder` for one token at a time: its matrices copied as they are now, the rest shared with it."""

    def __init__(self, decoder: "TransformerDecoder") -> None:
        super().__init__()
        self.max_target_length = decoder.max_target_length
        layers: list[Any] = list(decoder.layers)
        self.embedding = StepEmbedding(decoder.embedding)
        self.norm = decoder.norm
        self.layers = [StepLayer(layer) for layer in layers]
        self.source = product_of(*(part for layer in layers for part in (layer.cross.key, layer.cross.value)))
        self.output = product_of(decoder.output)

    def memory(self, encoded: EncoderOutput) -> StepMemory:
        """Project the source for all layers at once."""
        shape = (len(self.layers), 2, self.layers[0].heads, -1)
        projected = self.source(encoded.values).unflatten(2, shape)  # (N, S, L, 2, H, d)
        keys_values = projected.permute(0, 2, 3, 4, 1, 5)
        padding = encoded.padding_mask
        if len(padding) > 1:  # for a sentence alone it gains nothing
            extra = -padding.shape[1] % SCORES_AT_A_TIME
            keys_values, padding = F.pad(keys_values, (0, 0, 0, extra)), F.pad(padding, (0, extra), value=True)
        padding = padding if padding.any() else padding[:, :0]
        bias = torch.zeros_like(padding, dtype=projected.dtype).masked_fill(padding, -torch.inf)
        return StepMemory(keys_values.contiguous(), bias[:, None, None])

    def init_state(self, memory: StepMemory, beams: int = 1) -> StepState:
        """Return a cache of length 0."""
        sentences, layers, _, heads, _, size = memory.keys_values.shape
        empty = memory.keys_values.new_empty(sentences * beams, 0, 2, heads, size)
        return StepState((empty,) * layers, torch.arange(len(empty), device=empty.device))

    def forward(
        self, tgt: Int[Tensor, "R T"], memory: StepMemory, state: StepState, *, need_weights: bool = False
    ) -> DecoderOutput[StepState]:
        """Consume one token."""
        assert tgt.shape[1] == 1, "one token at a time"
        assert not need_weights, "search needs none"
        x = self.embedding(tgt[:, 0], state.layers[0].shape[1])  # (R, D)
        bias = memory.bias if memory.bias.shape[3] else None
        caches = []
        for layer, source, past in zip(self.layers, memory.keys_values.unbind(1), state.layers, strict=True):
            x, longer = layer(x, source, bias, past, state.rows)
            caches.append(longer)
        every_row = torch.arange(len(x), device=x.device)
        return DecoderOutput(self.output(self.norm(x))[:, None], StepState(tuple(caches), every_row))
