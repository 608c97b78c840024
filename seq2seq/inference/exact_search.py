"""The most probable translation of all: depth-first search with branch and bound.

Stahlberg and Byrne 2019, "On NMT Search Errors and Model Errors: Cat Got Your Tongue?", algorithm 1. Each further token
can only lower log p(y | x), so a prefix whose log_prob is not above that of the best translation known so far has no
continuation that is. The search begins with the bound of a known translation and looks at the best continuations
first. Where it comes to its end, no translation within the length limit is more probable than what it returns. It may
take very long, so it gives up after so many nodes; a node is one prefix that the model has read.

Shapes: R prefixes of one length, V vocabulary.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.errors import UserError
from seq2seq.inference.score import log_softmax
from seq2seq.inference.search import SearchConfig
from seq2seq.models.interface import Seq2Seq, select_rows

_WIDTH = 8  # prefixes that are read at a time: the best continuations of one prefix


class Found(NamedTuple):
    """What the search came to."""

    ids: list[int] | None  # without BOS and EOS; None if nothing is more probable than the bound
    log_prob: float  # log p(y, EOS | x); if there are no ids, the bound
    nodes: int  # prefixes read
    is_proved: bool  # True if the search came to its end: nothing is more probable


class _Siblings(NamedTuple):
    """Continuations of one prefix that are still to be read, best first."""

    prefix: list[int]  # without BOS
    tokens: list[int]
    log_probs: list[float]  # of prefix and token
    state: Any  # after the prefix: one row


@torch.inference_mode()
def exact_search(
    model: Seq2Seq[Any, Any],
    src: Int[Tensor, "1 S"],
    config: SearchConfig,
    *,
    bound: float,
    max_nodes: int,
) -> Found:
    """Return the most probable translation of a source, if it is more probable than the bound.

    Args:
        model: in eval mode.
        src: a source that ends in EOS, without padding.
        config: its length limit; length_penalty plays no part.
        bound: log_prob of a known translation, -inf if none is known.
        max_nodes: where to give up.

    Raises:
        UserError: the model's numbers are not numbers.
    """
    limit = config.length_limit(src.shape[1])
    if model.max_target_length is not None:
        limit = min(limit, model.max_target_length)
    memory = model.encode(src, torch.tensor([src.shape[1]], device=src.device))
    best: list[int] | None = None
    nodes = 0
    stack = [_Siblings([], [BOS], [0.0], model.init_state(memory))]
    while stack:
        siblings = stack.pop()
        width = sum(log_prob > bound for log_prob in siblings.log_probs[:_WIDTH])
        if width == 0:  # best first, so none of the others either
            continue
        if nodes >= max_nodes:
            return Found(best, bound, nodes, is_proved=False)
        width = min(width, max_nodes - nodes)
        if len(siblings.tokens) > width:
            stack.append(siblings._replace(tokens=siblings.tokens[width:], log_probs=siblings.log_probs[width:]))
        nodes += width
        tokens = torch.tensor(siblings.tokens[:width], device=src.device)[:, None]  # (R, 1)
        state = select_rows(siblings.state, torch.zeros(width, dtype=torch.long, device=src.device))
        output = model.decode(tokens, memory, state)
        before = torch.tensor(siblings.log_probs[:width], dtype=torch.float64)
        log_probs = (
            log_softmax(output.logits[:, -1]).cpu().double() + before[:, None]
        )  # (R, V); not all GPUs have float64
        if log_probs.isnan().any():
            raise UserError(
                f"the model gave NaN in exact search: its numbers overflow in {output.logits.dtype}, or its training "
                "diverged; use float32, or train with a lower learning rate"
            )
        prefixes = [siblings.prefix + ([] if token == BOS else [token]) for token in siblings.tokens[:width]]
        for prefix, log_prob in zip(prefixes, log_probs[:, EOS].tolist(), strict=True):
            if log_prob > bound:
                best, bound = prefix, log_prob
        if len(prefixes[0]) + 1 >= limit:  # no room for another token and EOS
            continue
        log_probs[:, [PAD, BOS, EOS]] = -math.inf
        for row in reversed(range(width)):  # the best ends on top of the stack
            found, order = log_probs[row].sort(descending=True)
            count = int((found > bound).sum())
            if count:
                after = select_rows(output.state, torch.tensor([row], device=src.device))
                stack.append(_Siblings(prefixes[row], order[:count].tolist(), found[:count].tolist(), after))
    return Found(best, bound, nodes, is_proved=True)
