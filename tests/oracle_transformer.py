"""The Transformer once more, straight from its papers: one sentence, one word, one head at a time, nothing cached."""

import math
from typing import Any

import torch
from oracle_recurrent import Model, Result, bahdanau_decoder, cat, softmax, weighted_sum
from torch import Tensor

from seq2seq.models.transformer import Norm, Positions

Weights = list[list[list[Tensor]]]  # one entry a query, a head and a key


def linear(layer: Any, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def layer_norm(norm: Any, x: Tensor) -> Tensor:
    """Ba et al. 2016, eq. 3."""
    variance = ((x - x.mean()) ** 2).mean()
    return (x - x.mean()) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def sinusoid(position: int, size: int) -> Tensor:
    """Vaswani et al. 2017, section 3.5."""
    entries = []
    for i in range(size // 2):
        angle = position / 10000 ** (2 * i / size)
        entries += [math.sin(angle), math.cos(angle)]
    return torch.tensor(entries, dtype=torch.float64)


def embed(config: Any, embedding: Any, words: list[int]) -> list[Tensor]:
    """Vaswani et al. 2017, sections 3.4 and 3.5."""
    xs = [embedding.tokens.weight[word] * math.sqrt(config.d_model) for word in words]
    if config.positions is Positions.sinusoidal:
        return [x + sinusoid(position, config.d_model) for position, x in enumerate(xs)]
    if config.positions is Positions.learned:
        return [x + embedding.places.weight[position] for position, x in enumerate(xs)]
    return xs


def distance_vector(config: Any, part: Any, i: int, j: int) -> Tensor:
    """Shaw et al. 2018, section 3.2: a_ij = w[clip(j - i, k)]."""
    k = config.max_distance
    return part.relative.vectors[k + max(-k, min(k, j - i))]


def multi_head(
    config: Any, part: Any, xs: list[Tensor], sources: list[Tensor], *, causal: bool = False, relative: bool = False
) -> tuple[list[Tensor], Weights]:
    """Vaswani et al. 2017, eq. 1 and section 3.2.2; with relative positions Shaw et al. 2018, eq. 2 and 4."""
    size = config.d_model // config.num_heads
    keys, values = [linear(part.key, x) for x in sources], [linear(part.value, x) for x in sources]
    outputs, weights = [], []
    for i, x in enumerate(xs):
        visible = range(i + 1) if causal else range(len(sources))
        heads, alphas = [], []
        for first in range(0, config.d_model, size):
            head = slice(first, first + size)
            q = linear(part.query, x)[head]
            scores = []
            for j in visible:
                k = keys[j][head] + distance_vector(config, part, i, j) if relative else keys[j][head]
                scores.append(q @ k / math.sqrt(size))
            alphas.append(softmax(scores))
            heads.append(weighted_sum(alphas[-1], [values[j][head] for j in visible]))
        outputs.append(linear(part.output, cat(*heads)))
        weights.append(alphas)
    return outputs, weights


def feed_forward(part: Any, xs: list[Tensor]) -> list[Tensor]:
    """Vaswani et al. 2017, eq. 2."""
    return [linear(part[2], linear(part[0], x).clamp(min=0)) for x in xs]


def before(config: Any, residual: Any, xs: list[Tensor]) -> list[Tensor]:
    """Pre-norm: x + Sublayer(LayerNorm(x))."""
    return [layer_norm(residual.norm, x) for x in xs] if config.norm is Norm.pre else xs


def after(config: Any, residual: Any, xs: list[Tensor], changes: list[Tensor]) -> list[Tensor]:
    """Post-norm: LayerNorm(x + Sublayer(x)), Vaswani et al. 2017, section 3.1."""
    sums = [x + change for x, change in zip(xs, changes, strict=True)]
    return sums if config.norm is Norm.pre else [layer_norm(residual.norm, x) for x in sums]


def at_the_end(config: Any, norm: Any, xs: list[Tensor]) -> list[Tensor]:
    return [layer_norm(norm, x) for x in xs] if config.norm is Norm.pre else xs


def transformer_encoder(config: Any, encoder: Any, src: list[int]) -> list[Tensor]:
    xs, relative = embed(config, encoder.embedding, src), config.positions is Positions.relative
    for layer in encoder.layers:
        read = before(config, layer.attention_residual, xs)
        changes, _ = multi_head(config, layer.attention, read, read, relative=relative)
        xs = after(config, layer.attention_residual, xs, changes)
        read = before(config, layer.feed_forward_residual, xs)
        xs = after(config, layer.feed_forward_residual, xs, feed_forward(layer.feed_forward, read))
    return at_the_end(config, encoder.norm, xs)


def transformer(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    """Vaswani et al. 2017; the attention returned is the first head of the last layer."""
    decoder, source = model.decoder, transformer_encoder(config, model.encoder, src)
    xs, relative = embed(config, decoder.embedding, tgt), config.positions is Positions.relative
    cross: Weights = []
    for layer in decoder.layers:
        read = before(config, layer.attention_residual, xs)
        changes, _ = multi_head(config, layer.attention, read, read, causal=True, relative=relative)
        xs = after(config, layer.attention_residual, xs, changes)
        read = before(config, layer.cross_residual, xs)
        changes, cross = multi_head(config, layer.cross, read, source)
        xs = after(config, layer.cross_residual, xs, changes)
        read = before(config, layer.feed_forward_residual, xs)
        xs = after(config, layer.feed_forward_residual, xs, feed_forward(layer.feed_forward, read))
    output = decoder.embedding.tokens if config.tie_embeddings else decoder.output
    logits = [output.weight @ x for x in at_the_end(config, decoder.norm, xs)]
    return logits, [heads[0] for heads in cross]


def hybrid(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    """Domhan 2018: Bahdanau's decoder, its first state from the mean of the encoder's values."""
    h = transformer_encoder(config, model.encoder, src)
    return bahdanau_decoder(config, model.decoder, h, sum(h) / len(h), tgt)
