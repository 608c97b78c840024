"""Recurrent decoders with attention: Bahdanau's attends, then updates; Luong's updates, then attends.

Shapes: N sentences, K beams, R = N*K rows, S source length, T target length, V vocabulary, L layers,
E embedding size, H hidden size, D size of an encoder vector, A size of a key.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2seq.errors import UserError
from seq2seq.models.attention import (
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    LocationScore,
    PredictedCenters,
    attend,
    gaussian,
    monotonic_centers,
    outside_window,
)
from seq2seq.models.checks import check_dropout, check_halves, check_sizes, check_std
from seq2seq.models.dropout import Dropout
from seq2seq.models.interface import Decoder, DecoderOutput, EncoderOutput, Seq2Seq, by_row, by_sentence
from seq2seq.models.rnn import MaxoutReadout, RNNEncoder, rows_first, run_rnn, stacked_rnn, word_vectors


class AttentionMemory(NamedTuple):
    """What a recurrent decoder with attention keeps of the source."""

    values: Tensor  # (N, S, D)
    keys: Tensor  # (N, S, A) the part of the scores that no query changes
    padding_mask: Tensor  # (N, S), True = padding
    summary: Tensor  # (N, summary_size) where the first state comes from


# ---- Bahdanau, Cho, Bengio (2015): attend, then update ----


class ReadoutState(Enum):
    """Which decoder state the readout sees."""

    previous = "previous"  # s_{i-1}, appendix A.2.2
    current = "current"  # s_i, section 3.1, eq. 4


@dataclass
class BahdanauDecoderConfig:
    """The decoder of Bahdanau et al. 2015.

    Attributes:
        embedding_dim: size of a word vector (m).
        hidden_size: size of the decoder's state (n).
        attention_size: size in which query and key are added (n').
        readout_size: maxout units before the output projection (l).
        readout_state: which decoder state the output layer reads: previous, s_{i-1} (appendix A.2.2), or current, s_i
            (eq. 4).
        embedding_std: standard deviation of the numbers in word vectors at first: small, as in the paper (appendix B.1
            has 0.01), since from 1 this model learns slower (docs/performance_log.md, docs/ladder.md).
        dropout: on word vectors and before the output projection.
    """

    embedding_dim: int = 192
    hidden_size: int = 192
    attention_size: int = 192
    readout_size: int = 128
    readout_state: ReadoutState = ReadoutState.previous
    embedding_std: float = 0.1
    dropout: float = 0.2

    def __post_init__(self) -> None:
        check_sizes(self, "embedding_dim", "hidden_size", "attention_size", "readout_size")
        check_std(self.embedding_std)
        check_dropout(self.dropout)


@dataclass
class BahdanauConfig(BahdanauDecoderConfig):
    """The whole model of Bahdanau et al. 2015; encoder and decoder share their sizes.

    Attributes:
        encoder_size: size of the encoder's state in each direction; left open: hidden_size, as in the paper.
    """

    encoder_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_size is None:
            self.encoder_size = self.hidden_size
        check_sizes(self, "encoder_size")


class BahdanauState(NamedTuple):
    """The GRU's state."""

    hidden: Tensor  # (R, H)


class BahdanauDecoder(Decoder[AttentionMemory, BahdanauState]):
    """For each word: attend with the previous state, update the state, read out, Bahdanau et al. 2015, appendix A."""

    def __init__(self, config: BahdanauDecoderConfig, vocab_size: int, values_size: int, summary_size: int) -> None:
        super().__init__()
        size, embedding_dim = config.hidden_size, config.embedding_dim
        self.readout_state = config.readout_state
        self.embedding = word_vectors(vocab_size, embedding_dim, config.embedding_std)
        self.dropout = Dropout(config.dropout)
        self.start = nn.Linear(summary_size, size)  # W_s
        self.score = AdditiveScore(size, values_size, config.attention_size)
        self.cell = nn.GRUCell(embedding_dim + values_size, size)
        self.readout = MaxoutReadout(
            size + embedding_dim + values_size, config.readout_size, vocab_size, config.dropout
        )

    def memory(self, encoded: EncoderOutput) -> AttentionMemory:
        """Project the keys once."""
        keys = self.score.keys(encoded.values)
        return AttentionMemory(encoded.values, keys, encoded.padding_mask, encoded.summary)

    def init_state(self, memory: AttentionMemory, beams: int = 1) -> BahdanauState:
        """s_0 = tanh(W_s h_1), h_1 the backward state at the first word."""
        return BahdanauState(self.start(memory.summary).tanh().repeat_interleave(beams, dim=0))

    def forward(
        self,
        tgt: Int[Tensor, "R T"],
        memory: AttentionMemory,
        state: BahdanauState,
        *,
        need_weights: bool = False,
    ) -> DecoderOutput[BahdanauState]:
        """Step through the tokens; the readout runs once over all of them."""
        embedded = self.dropout(self.embedding(tgt))  # (R, T, E)
        states, contexts, all_weights = [state.hidden], [], []
        for word in embedded.unbind(dim=1):
            context, weights = self._attend(states[-1], memory)
            states.append(self.cell(torch.cat([word, context], dim=-1), states[-1]))
            contexts.append(context)
            all_weights.append(weights)
        read = states[:-1] if self.readout_state is ReadoutState.previous else states[1:]
        logits = self.readout(torch.stack(read, dim=1), embedded, torch.stack(contexts, dim=1))
        cross = torch.stack(all_weights, dim=1)[:, None, None] if need_weights else None  # (R, 1, 1, T, S)
        return DecoderOutput(logits, BahdanauState(states[-1]), cross)

    def _attend(
        self, hidden: Float[Tensor, "R H"], memory: AttentionMemory
    ) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R S"]]:
        queries = by_sentence(hidden[:, None], len(memory.values))  # (N, K, H)
        scores = self.score(queries, memory.keys)
        context, weights = attend(scores, memory.values, memory.padding_mask[:, None])
        return context.flatten(0, 1), weights.flatten(0, 1)


def build_bahdanau(config: BahdanauConfig, vocab_size: int) -> Seq2Seq[AttentionMemory, BahdanauState]:
    """Build the model of Bahdanau et al. 2015: a bidirectional GRU encoder under additive attention."""
    assert config.encoder_size is not None
    encoder = RNNEncoder(
        vocab_size,
        config.embedding_dim,
        config.encoder_size,
        bidirectional=True,
        backward_summary=True,
        embedding_std=config.embedding_std,
        dropout=config.dropout,
    )
    return Seq2Seq(encoder, BahdanauDecoder(config, vocab_size, encoder.values_size, encoder.summary_size))


# ---- Luong, Pham, Manning (2015): update, then attend ----


class Score(Enum):
    """How a key is scored against the decoder's state, Luong et al. 2015, section 3.1."""

    dot = "dot"
    general = "general"
    concat = "concat"
    location = "location"


class Cell(Enum):
    """The recurrent cell of encoder and decoder."""

    gru = "gru"
    lstm = "lstm"

    @property
    def layers(self) -> type[nn.GRU] | type[nn.LSTM]:
        """Torch's layers of this cell."""
        return nn.GRU if self is Cell.gru else nn.LSTM


# `global` is a Python keyword, hence the functional form.
Window = Enum("Window", {"global": "global", "local_m": "local_m", "local_p": "local_p"})
Window.__doc__ = "Which source positions a step may see, Luong et al. 2015, sections 3.1 and 3.2."


@dataclass
class LuongConfig:
    """The model of Luong et al. 2015, small enough for two cores.

    Attributes:
        embedding_dim: size of a word vector, in both languages.
        hidden_size: size of a recurrent state, in encoder and decoder.
        num_layers: recurrent layers of each.
        cell: lstm, as in the paper, or gru.
        score: dot, general, concat or location.
        window: global, local_m or local_p: which source positions a step may see.
        half_width: D: a local window reaches so far to both sides of its centre.
        max_source_length: score=location has one row of weights for each of so many source positions.
        input_feeding: the attentional vector enters the next step; without it training has no step loop.
        reverse_source: the encoder reads the words last to first, as in Sutskever et al. 2014.
        bidirectional: the encoder reads both ways, each with half of hidden_size: side by side its vectors have the
            decoder's size, as score=dot needs them, and its final states are the decoder's first as they are.
        embedding_std: standard deviation of the numbers in word vectors at first.
        dropout: on word vectors, between layers and before the output projection.
    """

    embedding_dim: int = 256
    hidden_size: int = 256
    num_layers: int = 2
    cell: Cell = Cell.lstm
    score: Score = Score.general
    window: Window = Window["global"]
    half_width: int = 10
    max_source_length: int = 512
    input_feeding: bool = True
    reverse_source: bool = True
    bidirectional: bool = False
    embedding_std: float = 1.0
    dropout: float = 0.2

    def __post_init__(self) -> None:
        check_sizes(self, "embedding_dim", "hidden_size", "num_layers", "half_width", "max_source_length")
        check_std(self.embedding_std)
        check_dropout(self.dropout)
        if self.bidirectional:
            check_halves(self.hidden_size)
        if self.score is Score.location and self.window is not Window["global"]:
            raise UserError(
                f"model.score=location knows only model.window=global (Luong et al. 2015, section 3.1), "
                f"not {self.window.name}; choose the score dot, general or concat for a local window"
            )


class LuongState(NamedTuple):
    """The recurrent states, the last attentional vector (fed into the next step) and the number of words so far."""

    recurrent: tuple[Tensor, ...]  # (R, L, H): hidden; LSTM: and cell
    attentional: Tensor  # (R, H)
    position: Tensor  # (R,)


class LuongDecoder(Decoder[AttentionMemory, LuongState]):
    """For each word: update the state, attend with its new state, mix both, Luong et al. 2015, section 3."""

    def __init__(self, config: LuongConfig, vocab_size: int, values_size: int, summary_size: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.parts = 2 if config.cell is Cell.lstm else 1  # of a recurrent state
        assert summary_size == self.parts * config.num_layers * size
        self.num_layers = config.num_layers
        self.window = config.window
        self.half_width = config.half_width
        self.input_feeding = config.input_feeding
        self.max_source_length = config.max_source_length if config.score is Score.location else None
        self.embedding = word_vectors(vocab_size, config.embedding_dim, config.embedding_std)
        self.dropout = Dropout(config.dropout)
        fed = size if config.input_feeding else 0
        self.rnn = stacked_rnn(config.cell.layers, config.embedding_dim + fed, size, config.num_layers, config.dropout)
        self.score = _build_score(config, values_size)
        self.centers = PredictedCenters(size) if config.window is Window["local_p"] else None
        self.attentional = nn.Linear(values_size + size, size, bias=False)  # W_c
        self.output = nn.Linear(size, vocab_size)  # W_s

    def memory(self, encoded: EncoderOutput) -> AttentionMemory:
        """Project the keys once."""
        keys = self.score.keys(encoded.values)
        return AttentionMemory(encoded.values, keys, encoded.padding_mask, encoded.summary)

    def init_state(self, memory: AttentionMemory, beams: int = 1) -> LuongState:
        """Start from the encoder's last states, layer by layer, and an attentional vector of zeros."""
        start = memory.summary.unflatten(-1, (self.parts, self.num_layers, -1)).repeat_interleave(beams, dim=0)
        recurrent = start.unbind(dim=1)  # (R, L, H) each
        position = torch.zeros(len(start), dtype=torch.long, device=start.device)
        return LuongState(recurrent, torch.zeros_like(recurrent[0][:, 0]), position)

    def forward(
        self,
        tgt: Int[Tensor, "R T"],
        memory: AttentionMemory,
        state: LuongState,
        *,
        need_weights: bool = False,
    ) -> DecoderOutput[LuongState]:
        """With input feeding step through the tokens, without it take all at once."""
        embedded = self.dropout(self.embedding(tgt))  # (R, T, E)
        outputs, all_weights = [], []
        for chunk in embedded.split(1, dim=1) if self.input_feeding else [embedded]:
            vectors, weights, state = self._step(chunk, memory, state)
            outputs.append(vectors)
            all_weights.append(weights)
        logits = self.output(self.dropout(torch.cat(outputs, dim=1)))
        cross = torch.cat(all_weights, dim=1)[:, None, None] if need_weights else None  # (R, 1, 1, T, S)
        return DecoderOutput(logits, state, cross)

    def _step(
        self, embedded: Float[Tensor, "R T E"], memory: AttentionMemory, state: LuongState
    ) -> tuple[Float[Tensor, "R T H"], Float[Tensor, "R T S"], LuongState]:
        """Return attentional vectors h~ = tanh(W_c [c; h]) (eq. 5), weights and state; T = 1 under input feeding."""
        if self.input_feeding:
            embedded = torch.cat([embedded, state.attentional[:, None]], dim=-1)
        hidden, after = run_rnn(self.rnn, embedded, state.recurrent)  # (R, T, H)
        steps = torch.arange(hidden.shape[1], device=hidden.device)
        contexts, weights = self._attend(hidden, state.position[:, None] + steps, memory)
        vectors = self.attentional(torch.cat([contexts, hidden], dim=-1)).tanh()
        return vectors, weights, LuongState(rows_first(after), vectors[:, -1], state.position + hidden.shape[1])

    def _attend(
        self, hidden: Float[Tensor, "R T H"], positions: Int[Tensor, "R T"], memory: AttentionMemory
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R T S"]]:
        sentences, length, _ = memory.values.shape
        queries = by_sentence(hidden, sentences)  # (N, K*T, H)
        scores = self.score(queries, memory.keys)
        hidden_mask = memory.padding_mask[:, None]
        src_lengths = (~memory.padding_mask).sum(dim=1)
        factor = None
        if self.window is Window["local_m"]:
            centers = monotonic_centers(positions.reshape(sentences, -1), src_lengths)
            hidden_mask = hidden_mask | outside_window(centers, self.half_width, length)
        if self.centers is not None:
            centers = self.centers(queries, src_lengths)
            hidden_mask = hidden_mask | outside_window(centers, self.half_width, length)
            factor = gaussian(centers, self.half_width, length).to(scores.dtype)
        contexts, weights = attend(scores, memory.values, hidden_mask, factor)
        return by_row(contexts, len(hidden)), by_row(weights, len(hidden))


def _build_score(config: LuongConfig, values_size: int) -> DotScore | AdditiveScore | LocationScore:
    size = config.hidden_size
    if config.score is Score.dot:
        return DotScore()
    if config.score is Score.general:
        return GeneralScore(size, values_size)
    if config.score is Score.concat:
        return ConcatScore(size, values_size, size)
    return LocationScore(size, config.max_source_length)


def build_luong(config: LuongConfig, vocab_size: int) -> Seq2Seq[AttentionMemory, LuongState]:
    """Build the model of Luong et al. 2015: stacked recurrent layers, multiplicative attention."""
    encoder = RNNEncoder(
        vocab_size,
        config.embedding_dim,
        config.hidden_size // 2 if config.bidirectional else config.hidden_size,
        cell=config.cell.layers,
        num_layers=config.num_layers,
        bidirectional=config.bidirectional,
        reverse_source=config.reverse_source,
        embedding_std=config.embedding_std,
        dropout=config.dropout,
    )
    return Seq2Seq(encoder, LuongDecoder(config, vocab_size, encoder.values_size, encoder.summary_size))
