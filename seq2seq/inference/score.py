"""What a translation is worth to a model: its log-probability, and the score that search ranks by.

Shapes: N sentences, S source length, T target length, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.models.interface import Seq2Seq, padding_mask


class Score(NamedTuple):
    """The value of one target sentence."""

    log_prob: float  # log p(y, EOS | x)
    score: float  # log_prob by length


def length_normalised(log_prob: float, length: int, length_penalty: float) -> float:
    """Return log_prob / max(1, |y|)^alpha, |y| without EOS: at alpha = 1 a mean, at 0 the log_prob itself."""
    return float(log_prob / max(1, length) ** length_penalty)


def log_softmax(logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
    """Normalise in at least float32: half precision cannot add up a vocabulary."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def log_softmax_(logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
    """Do the same in the memory of the logits where they can be kept there: on a CPU, in float32 or float64."""
    if logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64):
        return torch.log_softmax(logits, dim=-1, out=logits)
    return log_softmax(logits)


@torch.inference_mode()
def score(
    model: Seq2Seq[Any, Any],
    src: Int[Tensor, "N S"],
    src_lengths: Int[Tensor, "N"],
    targets: Sequence[Sequence[int]],
    *,
    length_penalty: float = 1.0,
    cut: Sequence[bool] | None = None,
) -> list[Score]:
    """Score one target a source, teacher-forced.

    Args:
        model: in eval mode.
        src: right-padded sources that end in EOS.
        src_lengths: their lengths, EOS included.
        targets: token ids without BOS and EOS.
        length_penalty: alpha of `length_normalised`.
        cut: True for a target that search cut short; it never said EOS, so its log_prob holds none.
    """
    was_cut = cut if cut is not None else [False] * len(targets)
    assert len(targets) == len(src) == len(was_cut)
    outputs = [[*ids] if short else [*ids, EOS] for ids, short in zip(targets, was_cut, strict=True)]
    lengths = torch.tensor([len(ids) for ids in outputs], device=src.device)
    tgt_out = padded(outputs, src.device)  # (N, T)
    tgt_in = torch.cat([torch.full_like(tgt_out[:, :1], BOS), tgt_out[:, :-1]], dim=1)
    log_probs = log_softmax(model(src, src_lengths, tgt_in).logits)  # (N, T, V)
    log_probs = log_probs.gather(2, tgt_out[:, :, None])[:, :, 0]  # (N, T)
    sums = log_probs.masked_fill(padding_mask(lengths, tgt_out.shape[1]), 0.0).sum(dim=1).tolist()
    return [
        Score(log_prob, length_normalised(log_prob, len(ids), length_penalty))
        for log_prob, ids in zip(sums, targets, strict=True)
    ]


def padded(sequences: Sequence[Sequence[int]], device: torch.device) -> Int[Tensor, "N T"]:
    """Right-pad with PAD; at least one column wide."""
    width = max(len(ids) for ids in [*sequences, [PAD]])
    rows = [[*ids, *[PAD] * (width - len(ids))] for ids in sequences]
    return torch.tensor(rows, dtype=torch.long, device=device)
