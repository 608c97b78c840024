"""Beam search.

Each step takes the best 2K of the K*V continuations of a sentence. An EOS among the first K finishes a hypothesis, and
the best others refill the beam to K, so that the search is as wide at its last step as at its first. A sentence ends
when K hypotheses have finished or at its own length limit; then it leaves the batch. Beam size 1 is greedy search.

A translation has at least one token. A model that is not sure how to begin often finds an empty one most probable, and
a line of text would be lost without a trace (Stahlberg and Byrne 2019, "On NMT Search Errors and Model Errors: Cat Got
Your Tongue?"). The probabilities of all others stay as the model gives them.

Shapes: N sentences still searched, K beams, R = N*K rows, S source length, T target length so far, V vocabulary.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK
from seq2seq.errors import UserError
from seq2seq.inference.score import length_normalised, log_softmax_
from seq2seq.models.interface import Seq2Seq, select_rows


@dataclass
class SearchConfig:
    """How to look for a translation."""

    beam_size: int = 5
    length_penalty: float = 1.0  # alpha of score = log_prob / |y|^alpha; larger favours longer translations
    max_length_ratio: float = 2.0  # a translation has at most ratio * source length + extra tokens
    max_length_extra: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.beam_size <= 1000:
            raise UserError(f"search.beam_size={self.beam_size} must be at least 1, and at most 1000")
        if not 0 <= self.length_penalty <= 10:
            raise UserError(
                f"search.length_penalty={self.length_penalty} must be a number of at least 0, and at most 10"
            )
        if not 0 <= self.max_length_ratio <= 100:
            raise UserError(
                f"search.max_length_ratio={self.max_length_ratio} must be a number of at least 0, and at most 100"
            )
        if not 1 <= self.max_length_extra <= 10_000:
            raise UserError(f"search.max_length_extra={self.max_length_extra} must be at least 1, and at most 10000")

    def length_limit(self, src_length: int) -> int:
        """Return the most tokens that a translation may have; both lengths count EOS."""
        return math.ceil(self.max_length_ratio * src_length) + self.max_length_extra

    def check_n_best(self, n_best: int) -> None:
        """Raise UserError unless the beam can hold so many translations."""
        if not 1 <= n_best <= self.beam_size:
            raise UserError(f"n_best={n_best} must be between 1 and the beam size, {self.beam_size}; use a larger beam")


class Hypothesis(NamedTuple):
    """A translation as search found it."""

    ids: list[int]  # without BOS and EOS
    log_prob: float  # log p(y, EOS | x); of a cut one, log p(y | x)
    score: float  # log_prob by length; see `length_normalised`
    cut: bool  # True if the length limit came before EOS


class _Continuations(NamedTuple):
    """The best continuations of each sentence's beams, best first."""

    log_probs: Tensor  # (N, 2K)
    parents: Tensor  # (N, 2K) the beam each one continues
    tokens: Tensor  # (N, 2K)


@torch.inference_mode()
def beam_search(
    model: Seq2Seq[Any, Any],
    src: Int[Tensor, "N S"],
    src_lengths: Int[Tensor, "N"],
    config: SearchConfig,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """Return up to `n_best` translations of each source, best score first.

    What a sentence gets does not depend on its neighbours in the batch, nor the first translation on `n_best`.

    Args:
        model: in eval mode.
        src: right-padded sources that end in EOS.
        src_lengths: their lengths, EOS included.
        config: the beam and its limits.
        n_best: at most the beam size.

    Raises:
        UserError: `n_best` does not fit the beam, or the model's numbers are not numbers.
    """
    config.check_n_best(n_best)
    size = config.beam_size
    limits = [config.length_limit(length) for length in src_lengths.tolist()]
    if model.max_target_length is not None:
        limits = [min(limit, model.max_target_length) for limit in limits]
    found: list[list[Hypothesis]] = [[] for _ in limits]

    # A step each: the row, one step earlier, of the beam that each of its beams continues, and the token added.
    history: list[tuple[list[int], list[int]]] = []

    def hypothesis(row: int, log_prob: float, last: list[int], *, cut: bool) -> Hypothesis:
        """Read a translation backwards: first what its last step adds to the beam in this row."""
        backwards = list(last)
        for parents, added in reversed(history):
            backwards.append(added[row])
            row = parents[row]
        ids = backwards[::-1]
        return Hypothesis(ids, log_prob, length_normalised(log_prob, len(ids), config.length_penalty), cut)

    memory = model.encode(src, src_lengths)
    state = model.init_state(memory)
    sentences = list(range(len(limits)))  # which sentence a memory row belongs to
    tokens, log_probs = [BOS] * len(limits), [0.0] * len(limits)  # R beams: all of a sentence would begin alike, so one

    for step in range(1, max(limits) + 1):
        beams = len(tokens) // len(sentences)  # of a sentence
        output = model.decode(torch.tensor(tokens, device=src.device)[:, None], memory, state)
        dtype = torch.promote_types(output.logits.dtype, torch.float32)
        so_far = torch.tensor(log_probs, dtype=dtype, device=src.device).view(-1, beams)
        best = _best_continuations(so_far, output.logits[:, -1], 2 * size, may_end=step > 1)

        staying: list[int] = []  # memory rows of the sentences that go on
        rows: list[int] = []  # state rows of the beams that go on
        tokens, log_probs = [], []
        for row, (sums, parents, added) in enumerate(zip(*(part.tolist() for part in best), strict=True)):
            sentence, first = sentences[row], row * beams
            if sums[0] != sums[0]:  # NaN counts as the largest
                raise UserError(
                    f"the model gave NaN at search step {step}: its numbers overflow in {output.logits.dtype}, "
                    "or its training diverged; use float32, or train with a lower learning rate"
                )
            opened = [rank for rank, token in enumerate(added) if token != EOS]
            if len(opened) < len(added):
                for rank in range(min(size, len(added))):
                    if added[rank] == EOS and sums[rank] > -math.inf:
                        found[sentence].append(hypothesis(first + parents[rank], sums[rank], [], cut=False))
            if step == limits[sentence] and not found[sentence]:
                found[sentence] = [
                    hypothesis(first + parents[rank], sums[rank], [added[rank]], cut=True)
                    for rank in opened[:size]
                    if sums[rank] > -math.inf
                ]
            elif step < limits[sentence] and len(found[sentence]) < size:
                # Of 2K candidates no more than one a beam is EOS: so many others there are in every row.
                opened = opened[: min(size, len(added) - beams)]
                staying.append(row)
                rows += [first + parents[rank] for rank in opened]
                tokens += [added[rank] for rank in opened]
                log_probs += [sums[rank] for rank in opened]
        if not staying:
            break

        if len(staying) < len(sentences):
            sentences = [sentences[row] for row in staying]
            memory = select_rows(memory, torch.tensor(staying, device=src.device))
        history.append((rows, tokens))
        state = select_rows(output.state, torch.tensor(rows, device=src.device))

    return [sorted(hypotheses, key=lambda h: h.score, reverse=True)[:n_best] for hypotheses in found]


def _best_continuations(
    log_probs: Float[Tensor, "N K"], logits: Float[Tensor, "R V"], count: int, *, may_end: bool
) -> _Continuations:
    """Return the best `count` of the K*V continuations, or all if they are fewer; none by PAD or BOS, no words both.

    The logits are written over. Unless it `may_end`, none by EOS either; but where a model gives all else the
    probability 0, there is no other.

    Sorting K*V numbers would take longer than computing them. So the tokens of a beam are laid out in C columns: the
    best `count` lie in the `count` columns with the largest maxima, and only these are sorted.
    """
    vocab_size = logits.shape[1]
    columns = _columns(vocab_size)
    continued = log_softmax_(logits)  # (R, V)
    continued[:, PAD] = continued[:, BOS] = -math.inf
    if not may_end:
        ends = continued[:, EOS].clone()
        continued[:, EOS] = -math.inf
        continued[:, EOS] = ends.masked_fill(continued.amax(dim=1) > -math.inf, -math.inf)
    if vocab_size % columns:
        continued = F.pad(continued, (0, -vocab_size % columns), value=-math.inf)
    width = continued.shape[1]  # V, and what was padded
    continued = continued.view(*log_probs.shape, -1, columns)  # (N, K, V/C, C), token v in column v % C
    maxima = (continued.amax(dim=2) + log_probs[:, :, None]).flatten(1)  # (N, K*C)
    chosen = maxima.topk(min(count, maxima.shape[1]), dim=1).indices  # (N, count)
    parents = chosen // columns
    down = torch.arange(0, width, columns, device=chosen.device)
    inside = (parents * width + chosen % columns)[:, :, None] + down  # (N, count, V/C) places among all K*V
    sums = continued.flatten(1).gather(1, inside.flatten(1)).view_as(inside) + log_probs.gather(1, parents)[:, :, None]
    best, order = sums.flatten(1).topk(min(count, log_probs.shape[1] * vocab_size), dim=1)
    places = inside.flatten(1).gather(1, order)
    tokens = places % width
    if width > vocab_size:  # where fewer than `count` are possible, what was padded stands for the impossible others
        tokens.masked_fill_(tokens >= vocab_size, UNK)
    return _Continuations(best, places // width, tokens)


@cache
def _columns(vocab_size: int) -> int:
    """Return a multiple of 32 that leaves few numbers to sort; one that divides the vocabulary, if any.

    Torch takes the maxima of 32 columns at once, of fewer one by one. What is sorted are K*C maxima, then the V/C
    tokens of 2K columns: fewest with C = sqrt(2V).
    """
    wanted = max(32, round(math.sqrt(2 * vocab_size) / 32) * 32)
    divisors = [columns for columns in range(32, 4 * wanted, 32) if vocab_size % columns == 0]
    return min(divisors, key=lambda columns: columns + 2 * vocab_size / columns, default=wanted)
