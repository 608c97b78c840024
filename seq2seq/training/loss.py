"""The loss that training minimises: label-smoothed cross entropy.

Shapes: B batch, T target length, V vocabulary, R = B * T rows.
"""

from typing import Any

import torch
from torch import Tensor


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, padding_id: int, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the label-smoothed loss, which is minimised, and the plain one, which is reported: sums over real tokens.

    Args:
        logits: (B, T, V); computed with in float32 or better.
        targets: (B, T), `padding_id` where there is no token.
        padding_id: the id that is left out.
        smoothing: epsilon; the target distribution is (1 - epsilon) one-hot + epsilon uniform over V.
    """
    rows, words = logits.flatten(0, -2), targets.flatten()
    smoothed, plain = _SmoothedCrossEntropy.apply(rows, words, words != padding_id, smoothing)
    return smoothed, plain


_CHUNK = 2**18  # numbers that are worked on at a time: 1 MB, which a core's cache holds


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The same as log_softmax, gather and mean; on a CPU no second matrix of R * V is ever written, only the gradient.

    d loss / d logits = softmax - (1 - epsilon) one-hot - epsilon / V, 0 in rows of padding.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, words: Tensor, real: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        plain, uniform = [], []
        for rows, target in _chunks(logits, words):
            log_probs = rows.log_softmax(dim=-1, dtype=_wide(logits))
            plain.append(log_probs.gather(-1, target[:, None]).squeeze(-1))
            uniform.append(log_probs.sum(dim=-1))
        plain_loss = -(torch.cat(plain) * real).sum()
        uniform_loss = -(torch.cat(uniform) * real).sum() / logits.shape[-1]
        ctx.save_for_backward(logits, words, real)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(plain_loss)
        return (1 - smoothing) * plain_loss + smoothing * uniform_loss, plain_loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        logits, words, real = ctx.saved_tensors
        vocab_size = logits.shape[-1]
        factors = (real * gradients[0])[:, None]  # (R, 1)
        gradient = torch.empty_like(logits)
        places = zip(_chunks(logits, words), _chunks(gradient, factors), strict=True)
        for (rows, target), (place, factor) in places:
            change = rows.softmax(dim=-1, dtype=_wide(logits)).sub_(ctx.smoothing / vocab_size)
            change.scatter_add_(-1, target[:, None], change.new_full((len(rows), 1), ctx.smoothing - 1))
            torch.mul(change, factor, out=place)
        return gradient, None, None, None


def _chunks(logits: Tensor, words: Tensor) -> Any:
    rows = max(1, _CHUNK // logits.shape[-1]) if logits.device.type == "cpu" else len(logits)
    return zip(logits.split(rows), words.split(rows), strict=True)


def _wide(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)
