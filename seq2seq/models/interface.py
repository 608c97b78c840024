"""The contract between the models and everything that uses them.

A model is an encoder and a decoder. Training, search, scoring and alignment see two trees of tensors:
**Memory**, computed once for a source sentence, and **State**, which changes with every target token. Both are
NamedTuples, batch first, and only the decoder that made them looks inside. `Seq2Seq.decode` consumes one or more
target tokens from any state, so teacher forcing and a search step are the same code.

Shapes: B batch, N sentences, K beams, R = N*K rows (row r reads sentence r // K), S source length,
T target length, P tokens already consumed, V vocabulary, L layers, H heads, D size of an encoder vector.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

M = TypeVar("M")  # Memory
St = TypeVar("St")  # State
Tree = TypeVar("Tree")


class EncoderOutput(NamedTuple):
    """What any decoder may build on."""

    values: Tensor  # (B, S, D), in source order
    padding_mask: Tensor  # (B, S), True = padding
    summary: Tensor  # (B, summary_size) one vector a sentence: final states, or the mean under self-attention
    attention: Tensor | None = None  # (B, L, H, S, S) encoder self-attention, if asked for


@dataclass(frozen=True)
class DecoderOutput(Generic[St]):
    """What a decoder returns for T target tokens."""

    logits: Float[Tensor, "R T V"]  # in memory that nothing else reads: search writes probabilities over them
    state: St
    cross: Float[Tensor, "R L H T S"] | None = None  # attention over the source, if asked for and if there is any
    self_attention: Float[Tensor, "R L H T PT"] | None = None  # attention over the target, likewise; PT = P + T


class Encoder(nn.Module, ABC):
    """Reads a source sentence.

    Attributes:
        values_size: D, the size of one vector of `EncoderOutput.values`.
        summary_size: the size of `EncoderOutput.summary`.
        max_source_length: the longest source in tokens, EOS included, that it can read; None = no limit.
    """

    values_size: int
    summary_size: int
    max_source_length: int | None = None

    @abstractmethod
    def forward(
        self, src: Int[Tensor, "B S"], src_lengths: Int[Tensor, "B"], *, need_weights: bool = False
    ) -> EncoderOutput:
        """Encode right-padded sources that end in EOS. `src_lengths` counts EOS; every length is at least 1."""

    def for_search(self) -> "Encoder":
        """Return an encoder that reads the same, faster, without gradients; itself where there is none."""
        return self


class Decoder(nn.Module, ABC, Generic[M, St]):
    """Writes a target sentence, one or more tokens a call.

    Attributes:
        max_source_length: the longest source, EOS included, that its attention can address; None = no limit.
        max_target_length: the longest target in tokens, BOS included, that it can consume; None = no limit.
    """

    max_source_length: int | None = None
    max_target_length: int | None = None

    @abstractmethod
    def memory(self, encoded: EncoderOutput) -> M:
        """Compute once what every step of a sentence needs: N rows."""

    @abstractmethod
    def init_state(self, memory: M, beams: int = 1) -> St:
        """Return the state before the first target token: N * beams rows."""

    @abstractmethod
    def forward(
        self, tgt: Int[Tensor, "R T"], memory: M, state: St, *, need_weights: bool = False
    ) -> DecoderOutput[St]:
        """Consume T >= 1 target tokens (BOS first in a sentence) and predict the token after each."""

    def for_search(self) -> "Decoder[Any, Any]":
        """Return a decoder that predicts the same, faster, from one token at a time and without gradients.

        Itself where there is none.
        """
        return self


class Seq2Seq(nn.Module, Generic[M, St]):
    """An encoder and a decoder: the only model that training, search and scoring know."""

    def __init__(self, encoder: Encoder, decoder: Decoder[M, St]) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    @property
    def max_source_length(self) -> int | None:
        """The longest source, EOS included, that the whole model can read; None = no limit."""
        limits = [part.max_source_length for part in (self.encoder, self.decoder)]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def max_target_length(self) -> int | None:
        """The longest target, BOS included, that the model can consume; None = no limit."""
        return self.decoder.max_target_length

    def encode(self, src: Int[Tensor, "N S"], src_lengths: Int[Tensor, "N"]) -> M:
        """Return the memory of right-padded sources that end in EOS."""
        return self.decoder.memory(self.encoder(src, src_lengths))

    def init_state(self, memory: M, beams: int = 1) -> St:
        """Return the state before the first target token, for `beams` rows a sentence."""
        return self.decoder.init_state(memory, beams)

    def decode(self, tgt: Int[Tensor, "R T"], memory: M, state: St, *, need_weights: bool = False) -> DecoderOutput[St]:
        """Consume T >= 1 target tokens from `state`; see `Decoder.forward`."""
        return self.decoder(tgt, memory, state, need_weights=need_weights)

    def for_search(self) -> "Seq2Seq[Any, Any]":
        """Return a model that predicts the same, faster, from one token at a time, without gradients.

        For as long as this one is not trained.
        """
        return Seq2Seq(self.encoder.for_search(), self.decoder.for_search())

    def forward(
        self,
        src: Int[Tensor, "N S"],
        src_lengths: Int[Tensor, "N"],
        tgt_in: Int[Tensor, "N T"],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput[St]:
        """Teacher forcing: the logits after each token of `tgt_in` = BOS + y, right-padded."""
        memory = self.encode(src, src_lengths)
        return self.decode(tgt_in, memory, self.init_state(memory), need_weights=need_weights)


def select_rows(tree: Tree, rows: Int[Tensor, "R"]) -> Tree:
    """Select rows of every tensor in a Memory or a State: expands, reorders and prunes.

    A State with a `select_rows` of its own is asked for it: it may leave the copying to the next step.
    """
    return _select_rows(tree, rows)


def _select_rows(tree: Any, rows: Int[Tensor, "R"]) -> Any:
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    if hasattr(tree, "select_rows"):
        return tree.select_rows(rows)
    branches = [_select_rows(branch, rows) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def padding_mask(lengths: Int[Tensor, "B"], width: int) -> Bool[Tensor, "B width"]:
    """Return the mask whose True marks the positions at and after each length."""
    return torch.arange(width, device=lengths.device) >= lengths[:, None]


def by_sentence(rows: Float[Tensor, "R T D"], sentences: int) -> Float[Tensor, "N KT D"]:
    """Bring the queries of the K beams of a sentence together, so that they share its keys unrepeated."""
    return rows.reshape(sentences, -1, rows.shape[-1])


def by_row(queries: Float[Tensor, "N KT D"], rows: int) -> Float[Tensor, "R T D"]:
    """Undo `by_sentence`."""
    return queries.reshape(rows, -1, queries.shape[-1])
