"""Where attention is computed: all of it, in historical order.

Every kind of attention answers the same question, "which source positions matter for this query?", in three steps:
*score* each key against the query, turn the scores into weights with a softmax, and sum the values by weight.
Of these only the score changed (the Transformer also has several side by side, and every word attends):

    2014  Bahdanau   additive        v . tanh(W query + U key)
    2015  Luong      multiplicative  query . key, query . W key
    2017  Vaswani    scaled, in parallel heads, of learned projections   (W_q query) . (W_k key) / sqrt(d_k)

The other two steps are `attend`, the one masked softmax and weighted sum of the package. (To translate,
transformer_step.py runs the Transformer's in fewer operations; a law holds it to what stands here.)

Shapes: B batch, N sentences, K beams, R = N*K rows, Q queries of a sentence (K*T of them), S keys, T target length,
H heads, D model size, A attention size, d = D / H the size of a head.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2seq.models.interface import by_sentence


def masked_softmax(
    scores: Float[Tensor, "*B Q S"], hidden_mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*B Q S"]:
    """Softmax over the keys, exactly 0 where `hidden_mask` (broadcastable to the scores) is True.

    Every query must see at least one key; sources end in EOS and windows are never empty, so it does. Computed in
    float32 or better: sums of bfloat16 numbers would be rough, and slow on a CPU.
    """
    if hidden_mask is not None:
        scores = scores.masked_fill(hidden_mask, -math.inf)
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def attend(
    scores: Float[Tensor, "*B Q S"],
    values: Float[Tensor, "*B S D"],
    hidden_mask: Bool[Tensor, "..."] | None = None,
    factor: Float[Tensor, "*B Q S"] | None = None,
) -> tuple[Float[Tensor, "*B Q D"], Float[Tensor, "*B Q S"]]:
    """Return the context of each query, the values summed by softmaxed scores, and the weights.

    `factor` multiplies the softmaxed weights: the Gaussian of local-p, else None.
    """
    weights = masked_softmax(scores, hidden_mask)
    if factor is not None:
        weights = weights * factor
    return weights.to(values.dtype) @ values, weights


# ---- Bahdanau, Cho, Bengio (2015): additive ----


class AdditiveScore(nn.Module):
    """score = v . tanh(W query + U key), Bahdanau et al. 2015, appendix A.1.2."""

    def __init__(self, query_size: int, value_size: int, attention_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, attention_size, bias=False)  # W_a
        self.key = nn.Linear(value_size, attention_size, bias=False)  # U_a
        self.energy = nn.Linear(attention_size, 1, bias=False)  # v_a

    def keys(self, values: Float[Tensor, "N S D"]) -> Float[Tensor, "N S A"]:
        """Return U h_j, which does not depend on the query: computed once for a sentence."""
        return self.key(values)

    def forward(self, queries: Float[Tensor, "N Q I"], keys: Float[Tensor, "N S A"]) -> Float[Tensor, "N Q S"]:
        """Score every query against every key."""
        summed = self.query(queries)[:, :, None] + keys[:, None]  # (N, Q, S, A)
        return self.energy(summed.tanh()).squeeze(-1)  # (N, Q, S)


# ---- Luong, Pham, Manning (2015): multiplicative ----


class DotScore(nn.Module):
    """score = query . key, Luong et al. 2015, section 3.1, "dot"; both have the same size."""

    def keys(self, values: Float[Tensor, "N S D"]) -> Float[Tensor, "N S D"]:
        """Return the values themselves."""
        return values

    def forward(self, queries: Float[Tensor, "N Q D"], keys: Float[Tensor, "N S D"]) -> Float[Tensor, "N Q S"]:
        """Score every query against every key."""
        return queries @ keys.transpose(1, 2)


class GeneralScore(DotScore):
    """score = query . (W key), Luong et al. 2015, section 3.1, "general"."""

    def __init__(self, query_size: int, value_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(value_size, query_size, bias=False)  # W_a

    def keys(self, values: Float[Tensor, "N S D"]) -> Float[Tensor, "N S A"]:
        """Return W h_s, computed once for a sentence."""
        return self.key(values)


class ConcatScore(AdditiveScore):
    """score = v . tanh(W [query; key]), Luong et al. 2015, section 3.1, "concat".

    The same function as Bahdanau's: a matrix applied to two stacked vectors is one half of it applied to each.
    """


class LocationScore(nn.Module):
    """scores = W query, one row of W a source position, Luong et al. 2015, eq. 8; it never reads the source."""

    def __init__(self, query_size: int, max_source_length: int) -> None:
        super().__init__()
        self.positions = nn.Linear(query_size, max_source_length, bias=False)  # W_a

    def keys(self, values: Float[Tensor, "N S D"]) -> Float[Tensor, "N S D"]:
        """Return the values; only their number matters."""
        return values

    def forward(self, queries: Float[Tensor, "N Q I"], keys: Float[Tensor, "N S D"]) -> Float[Tensor, "N Q S"]:
        """Score every query against every position."""
        length = keys.shape[1]
        assert length <= self.positions.out_features, "a source longer than the table of positions"
        return self.positions(queries)[..., :length]


def outside_window(centers: Float[Tensor, "N Q"], half_width: int, length: int) -> Bool[Tensor, "N Q S"]:
    """Return the mask whose True marks positions outside [center - D, center + D], Luong et al. 2015, section 3.2."""
    positions = torch.arange(length, device=centers.device, dtype=centers.dtype)
    return (positions - centers[..., None]).abs() > half_width


def monotonic_centers(steps: Int[Tensor, "N Q"], src_lengths: Int[Tensor, "N"]) -> Float[Tensor, "N Q"]:
    """local-m: the window of step t is centred at min(t, S - 1), S the sentence's own length, so it is never empty."""
    return steps.minimum(src_lengths[:, None] - 1).float()


class PredictedCenters(nn.Module):
    """local-p: the window's centre is predicted, p = S sigmoid(v . tanh(W query)), Luong et al. 2015, eq. 9."""

    def __init__(self, query_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(query_size, query_size, bias=False)  # W_p
        self.position = nn.Linear(query_size, 1, bias=False)  # v_p

    def forward(self, queries: Float[Tensor, "N Q I"], src_lengths: Int[Tensor, "N"]) -> Float[Tensor, "N Q"]:
        """Return real-valued centres in (0, S), S the sentence's own length."""
        logits = self.position(self.hidden(queries).tanh()).squeeze(-1)  # (N, Q)
        # bfloat16 knows only every second integer above 256: too few to count words with.
        wide = torch.promote_types(logits.dtype, torch.float32)
        return logits.to(wide).sigmoid() * src_lengths[:, None]


def gaussian(centers: Float[Tensor, "N Q"], half_width: int, length: int) -> Float[Tensor, "N Q S"]:
    """local-p: the factor exp(-(s - p)^2 / (2 sigma^2)) on the weights, sigma = D/2, Luong et al. 2015, eq. 10."""
    positions = torch.arange(length, device=centers.device, dtype=centers.dtype)
    sigma = half_width / 2
    return (-((positions - centers[..., None]) ** 2) / (2 * sigma**2)).exp()


# ---- Vaswani et al. (2017): scaled dot products in parallel heads ----


def scaled_dot_scores(queries: Float[Tensor, "*B Q d"], keys: Float[Tensor, "*B S d"]) -> Float[Tensor, "*B Q S"]:
    """Q K^T / sqrt(d_k), Vaswani et al. 2017, eq. 1: the scale keeps the variance of a score at 1 for any d_k."""
    return queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])


def causal_mask(steps: int, past: int, device: torch.device) -> Bool[Tensor, "T PT"] | None:
    """Return the mask whose True marks the future of each of `steps` queries that follow `past` tokens.

    One query alone has no future to hide: None.
    """
    if steps == 1:
        return None
    return torch.ones(steps, past + steps, dtype=torch.bool, device=device).triu(past + 1)


class KeysValues(NamedTuple):
    """The projected keys and values of one attention layer: what a KV cache keeps."""

    keys: Tensor  # (N, H, S, d)
    values: Tensor  # (N, H, S, d)


class RelativePositions(nn.Module):
    """score += query . a[j - i] / sqrt(d_k), a learned vector for each distance, Shaw et al. 2018, eq. 4.

    Distances beyond `max_distance` share its vector. The vectors are shared between heads; the paper's second set,
    added to the values, is left out: its own ablation (table 3) found no loss without it.
    """

    def __init__(self, head_size: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.vectors = nn.Parameter(torch.empty(2 * max_distance + 1, head_size))
        nn.init.xavier_uniform_(self.vectors)

    def forward(self, queries: Float[Tensor, "R H T d"], length: int) -> Float[Tensor, "R H T S"]:
        """Score the last T of `length` positions against all of them."""
        positions = torch.arange(length, device=queries.device)
        distances = positions - positions[length - queries.shape[2] :, None]  # (T, S)
        index = distances.clamp(-self.max_distance, self.max_distance) + self.max_distance
        by_distance = scaled_dot_scores(queries, self.vectors.expand(*queries.shape[:2], -1, -1))  # (R, H, T, 2M+1)
        return by_distance.gather(-1, index.expand(*queries.shape[:2], -1, -1))


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each on its own projections of size d = D / H, Vaswani et al. 2017, section 3.2.2.

    Self- and cross-attention are the same module: only where the keys and values come from differs.
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int | None = None) -> None:
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)  # W^Q of all heads, stacked
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)  # W^O
        self.relative = RelativePositions(d_model // num_heads, max_distance) if max_distance else None

    def keys_values(self, x: Float[Tensor, "N S D"]) -> KeysValues:
        """Project what is attended to: computed once and kept."""
        return KeysValues(self._split_heads(self.key(x)), self._split_heads(self.value(x)))

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        source: KeysValues,
        hidden_mask: Bool[Tensor, "..."] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R H T S"] | None]:
        """Attend from each of R = N*K rows to the keys of its sentence.

        `hidden_mask` broadcasts to (N, H, K*T, S). Unless the weights are asked for, a fused kernel serves on GPUs and
        wherever no gradient is needed.
        """
        rows, steps, _ = x.shape
        sentences, _, length, _ = source.keys.shape
        queries = self._split_heads(by_sentence(self.query(x), sentences))  # (N, H, K*T, d)
        position_scores = None if self.relative is None else self.relative(queries, length)
        # On a CPU the fused kernel's backward pass is slow, in bfloat16 by far: these few products train faster.
        trains_on_cpu = queries.requires_grad and queries.device.type == "cpu"
        if need_weights or trains_on_cpu:
            scores = scaled_dot_scores(queries, source.keys)
            if position_scores is not None:
                scores = scores + position_scores
            context, shared = attend(scores, source.values, hidden_mask)  # (N, H, K*T, d), (N, H, K*T, S)
            by_row = shared.unflatten(2, (-1, steps)).transpose(1, 2).flatten(0, 1)  # (R, H, T, S)
            weights = by_row if need_weights else None
        else:
            visible = _visible(hidden_mask, position_scores)
            context = F.scaled_dot_product_attention(queries, *source, attn_mask=visible)
            weights = None
        merged = context.transpose(1, 2).reshape(rows, steps, -1)  # (R, T, D)
        return self.output(merged), weights

    def _split_heads(self, x: Float[Tensor, "N S D"]) -> Float[Tensor, "N H S d"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def _visible(hidden_mask: Tensor | None, position_scores: Tensor | None) -> Tensor | None:
    """Return what the fused kernel calls its mask: True where it may look, or numbers added to the scores."""
    if position_scores is None:
        return None if hidden_mask is None else ~hidden_mask
    return position_scores if hidden_mask is None else position_scores.masked_fill(hidden_mask, -math.inf)
