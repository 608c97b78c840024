"""The RNN encoder-decoder, before attention: the whole source in one vector.

Two papers of 2014: Cho et al. (a GRU, the vector enters every step) and Sutskever et al. (stacked LSTMs, the vector
is the decoder's first state). What a recurrent network reads is also the encoder of the models with attention.

Shapes: B batch, N sentences, K beams, R = N*K rows, S source length, T target length, V vocabulary, L layers,
E embedding size, H hidden size, C context size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from seq2seq.models.checks import check_dropout, check_halves, check_sizes, check_std
from seq2seq.models.dropout import Dropout
from seq2seq.models.interface import Decoder, DecoderOutput, Encoder, EncoderOutput, Seq2Seq, padding_mask


class Variant(Enum):
    """Whose encoder-decoder."""

    cho = "cho"
    sutskever = "sutskever"


@dataclass
class RNNConfig:
    """The RNN encoder-decoder of 2014, small enough for two cores.

    Attributes:
        variant: cho (a GRU; the context enters every step) or sutskever (an LSTM; it is the first state only).
        embedding_dim: size of a word vector, in both languages.
        hidden_size: size of a recurrent state, in encoder and decoder.
        num_layers: recurrent layers of each; left open: 1 for cho, 2 for sutskever.
        readout_size: cho: maxout units before the output projection.
        bidirectional: the encoder reads both ways, each with half of hidden_size, so that its vectors keep their size.
        embedding_std: standard deviation of the numbers in word vectors at first.
        dropout: on word vectors, between layers and before the output projection.
    """

    variant: Variant = Variant.cho
    embedding_dim: int = 256
    hidden_size: int = 256
    num_layers: int | None = None
    readout_size: int = 128
    bidirectional: bool = False
    embedding_std: float = 1.0
    dropout: float = 0.2

    def __post_init__(self) -> None:
        if self.num_layers is None:
            self.num_layers = 1 if self.variant is Variant.cho else 2
        check_sizes(self, "embedding_dim", "hidden_size", "num_layers", "readout_size")
        if self.bidirectional:
            check_halves(self.hidden_size)
        check_std(self.embedding_std)
        check_dropout(self.dropout)

    @property
    def depth(self) -> int:
        """The number of layers, which is open no longer."""
        assert self.num_layers is not None
        return self.num_layers


class RNNEncoder(Encoder):
    """A stacked GRU or LSTM over the source.

    values: the top layer's state at each source position (both directions side by side).
    summary: the final states of all layers, each layer's directions side by side (LSTM: then the cells); with
    `backward_summary` the top layer's backward state at the first word alone, which has read the whole sentence.
    `hidden_size` is that of each direction.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        hidden_size: int,
        *,
        cell: type[nn.GRU] | type[nn.LSTM] = nn.GRU,
        num_layers: int = 1,
        bidirectional: bool = False,
        reverse_source: bool = False,
        backward_summary: bool = False,
        embedding_std: float,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reverse_source = reverse_source
        assert bidirectional or not backward_summary
        self.backward_summary = backward_summary
        self.values_size = hidden_size * (2 if bidirectional else 1)
        states = 2 if cell is nn.LSTM else 1
        self.summary_size = hidden_size if backward_summary else states * num_layers * self.values_size
        self.embedding = word_vectors(vocab_size, embedding_dim, embedding_std)
        self.dropout = Dropout(dropout)
        self.rnn = stacked_rnn(cell, embedding_dim, hidden_size, num_layers, dropout, bidirectional)

    def forward(
        self, src: Int[Tensor, "B S"], src_lengths: Int[Tensor, "B"], *, need_weights: bool = False
    ) -> EncoderOutput:
        """Encode; a recurrent encoder has no attention to show, so `need_weights` changes nothing."""
        if self.reverse_source:
            order = reversed_positions(src_lengths, src.shape[1])
            src = src.gather(1, order)
        packed = pack_padded_sequence(
            self.dropout(self.embedding(src)), src_lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, final = run_rnn(self.rnn, packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=src.shape[1])
        if self.reverse_source:  # handed on in source order, so that attention needs no mapping back
            values = values.gather(1, order[:, :, None].expand_as(values))
        states = rows_first(final)  # each (B, L * directions, H)
        summary = states[0][:, -1] if self.backward_summary else torch.cat(states, dim=1).flatten(1)
        return EncoderOutput(values, padding_mask(src_lengths, src.shape[1]), summary)


def word_vectors(vocab_size: int, size: int, std: float) -> nn.Embedding:
    """Return word vectors drawn from N(0, std^2)."""
    vectors = nn.Embedding(vocab_size, size)
    nn.init.normal_(vectors.weight, std=std)
    return vectors


def stacked_rnn(
    cell: type[nn.GRU] | type[nn.LSTM],
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool = False,
) -> nn.GRU | nn.LSTM:
    """Return torch's fused recurrent layers, batch first, with dropout between them.

    torch's GRU applies the reset gate after its matrix product, r * (U h), the papers before it, U (r * h). (The
    decoder of Cho et al. has it after as well, but on U h + C c.)
    """
    between = dropout if num_layers > 1 else 0.0
    layers = cell(input_size, hidden_size, num_layers, batch_first=True, dropout=between, bidirectional=bidirectional)
    if isinstance(layers, nn.LSTM):
        # A forget gate that starts open, Jozefowicz et al. 2015: at one half, gradients die within a few words.
        for name, bias in layers.named_parameters():
            if name.startswith("bias_ih"):
                nn.init.ones_(bias.data[hidden_size : 2 * hidden_size])  # torch's order of gates: i, f, g, o
    return layers


def run_rnn(
    layers: nn.GRU | nn.LSTM, inputs: Tensor | PackedSequence, state: Sequence[Tensor] | None = None
) -> tuple[Any, Any]:
    """Run recurrent layers from a state, (R, L, H) each part; the states keep the number format of the weights.

    On a GPU autocast stays off: cuDNN's recurrent layers would compute in float16, whatever format it was set to.
    """
    weight = next(layers.parameters())
    dtype, device = weight.dtype, weight.device.type
    before: Any = None
    if state is not None:
        parts = tuple(part.to(dtype).transpose(0, 1).contiguous() for part in state)  # (L, R, H) each
        before = parts[0] if isinstance(layers, nn.GRU) else parts
    with torch.autocast(device, enabled=device == "cpu" and torch.is_autocast_enabled("cpu")):
        return layers(inputs.to(dtype), before)


def rows_first(final: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Turn the state that torch returns, (L, R, H) each part, into ours, batch first."""
    return tuple(part.transpose(0, 1) for part in (final if isinstance(final, tuple) else (final,)))


def reversed_positions(lengths: Int[Tensor, "B"], width: int) -> Int[Tensor, "B S"]:
    """Return, for each position, the one it changes places with when the words are reversed.

    EOS stays last and padding stays where it is; reversing twice changes nothing.
    """
    positions = torch.arange(width, device=lengths.device).expand(len(lengths), -1)
    mirrored = lengths[:, None] - 2 - positions
    return torch.where(mirrored >= 0, mirrored, positions)


class MaxoutReadout(nn.Module):
    """Logits from state, previous word and context through a maxout layer, Goodfellow et al. 2013.

    t~ = U s + V E y + C c; each output is the larger of a pair of t~; Cho et al. 2014 and Bahdanau et al. 2015, A.2.2.
    """

    def __init__(self, input_size: int, readout_size: int, vocab_size: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(input_size, 2 * readout_size)  # U, V and C side by side
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(readout_size, vocab_size)

    def forward(
        self,
        states: Float[Tensor, "R T H"],
        embedded: Float[Tensor, "R T E"],
        contexts: Float[Tensor, "R T C"],
    ) -> Float[Tensor, "R T V"]:
        """Read out all steps at once."""
        pairs = self.hidden(torch.cat([states, embedded, contexts], dim=-1)).unflatten(-1, (-1, 2))
        return self.output(self.dropout(pairs.amax(dim=-1)))


class RNNMemory(NamedTuple):
    """All that the decoder ever learns about the source: one vector."""

    context: Tensor  # (N, C)


class GRUState(NamedTuple):
    """A stacked GRU's state."""

    hidden: Tensor  # (R, L, H)


class ChoDecoder(Decoder[RNNMemory, GRUState]):
    """The decoder of Cho et al. 2014: the context enters the first state, every update and every readout."""

    def __init__(self, config: RNNConfig, vocab_size: int, summary_size: int) -> None:
        super().__init__()
        size, layers = config.hidden_size, config.depth
        self.num_layers = layers
        self.embedding = word_vectors(vocab_size, config.embedding_dim, config.embedding_std)
        self.context = nn.Linear(summary_size, size)  # V
        self.start = nn.Linear(size, layers * size)  # V'
        self.dropout = Dropout(config.dropout)
        self.rnn = stacked_rnn(nn.GRU, config.embedding_dim + size, size, layers, config.dropout)
        self.readout = MaxoutReadout(2 * size + config.embedding_dim, config.readout_size, vocab_size, config.dropout)

    def memory(self, encoded: EncoderOutput) -> RNNMemory:
        """c = tanh(V h_T)."""
        return RNNMemory(self.context(encoded.summary).tanh())

    def init_state(self, memory: RNNMemory, beams: int = 1) -> GRUState:
        """s_0 = tanh(V' c)."""
        start = self.start(memory.context).tanh().unflatten(-1, (self.num_layers, -1))
        return GRUState(start.repeat_interleave(beams, dim=0))

    def forward(
        self, tgt: Int[Tensor, "R T"], memory: RNNMemory, state: GRUState, *, need_weights: bool = False
    ) -> DecoderOutput[GRUState]:
        """Run the fused GRU over all tokens at once; there is no attention to show."""
        rows, steps = tgt.shape
        embedded = self.dropout(self.embedding(tgt))
        contexts = memory.context.repeat_interleave(rows // len(memory.context), dim=0)
        contexts = contexts[:, None].expand(-1, steps, -1)  # (R, T, C)
        states, hidden = run_rnn(self.rnn, torch.cat([embedded, contexts], dim=-1), (state.hidden,))
        return DecoderOutput(self.readout(states, embedded, contexts), GRUState(*rows_first(hidden)))


class LSTMState(NamedTuple):
    """A stacked LSTM's state."""

    hidden: Tensor  # (R, L, H)
    cell: Tensor  # (R, L, H)


class SutskeverDecoder(Decoder[RNNMemory, LSTMState]):
    """The decoder of Sutskever et al. 2014: it starts from the encoder's final states, layer by layer."""

    def __init__(self, config: RNNConfig, vocab_size: int, summary_size: int) -> None:
        super().__init__()
        size, layers = config.hidden_size, config.depth
        assert summary_size == 2 * layers * size
        self.num_layers = layers
        self.embedding = word_vectors(vocab_size, config.embedding_dim, config.embedding_std)
        self.dropout = Dropout(config.dropout)
        self.rnn = stacked_rnn(nn.LSTM, config.embedding_dim, size, layers, config.dropout)
        self.output = nn.Linear(size, vocab_size)

    def memory(self, encoded: EncoderOutput) -> RNNMemory:
        """Keep the encoder's final states as they are."""
        return RNNMemory(encoded.summary)

    def init_state(self, memory: RNNMemory, beams: int = 1) -> LSTMState:
        """Cut the one vector into the states of the layers."""
        return lstm_start(memory.context.repeat_interleave(beams, dim=0), self.num_layers)

    def forward(
        self, tgt: Int[Tensor, "R T"], memory: RNNMemory, state: LSTMState, *, need_weights: bool = False
    ) -> DecoderOutput[LSTMState]:
        """Run the fused LSTM over all tokens at once; there is no attention to show."""
        states, final = run_rnn(self.rnn, self.dropout(self.embedding(tgt)), state)
        logits = self.output(self.dropout(states))
        return DecoderOutput(logits, LSTMState(*rows_first(final)))


def lstm_start(summary: Float[Tensor, "R C"], num_layers: int) -> LSTMState:
    """Return the stacked LSTM's state that `RNNEncoder` summarised, layer by layer."""
    hidden, cell = summary.unflatten(-1, (2, num_layers, -1)).unbind(dim=1)
    return LSTMState(hidden, cell)


def build_rnn(config: RNNConfig, vocab_size: int) -> Seq2Seq[RNNMemory, GRUState] | Seq2Seq[RNNMemory, LSTMState]:
    """Build the RNN encoder-decoder of Cho et al. 2014 or Sutskever et al. 2014."""
    lstm = config.variant is Variant.sutskever
    encoder = RNNEncoder(
        vocab_size,
        config.embedding_dim,
        config.hidden_size // 2 if config.bidirectional else config.hidden_size,
        cell=nn.LSTM if lstm else nn.GRU,
        num_layers=config.depth,
        bidirectional=config.bidirectional,
        reverse_source=lstm,
        embedding_std=config.embedding_std,
        dropout=config.dropout,
    )
    if lstm:
        return Seq2Seq(encoder, SutskeverDecoder(config, vocab_size, encoder.summary_size))
    return Seq2Seq(encoder, ChoDecoder(config, vocab_size, encoder.summary_size))
