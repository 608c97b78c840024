"""A seq2seq model small enough to search by brute force, and still one whose every token matters."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2seq.models.interface import Decoder, DecoderOutput, Encoder, EncoderOutput, Seq2Seq, padding_mask


class ToyMemory(NamedTuple):
    context: Tensor  # (N, D)


class ToyState(NamedTuple):
    hidden: Tensor  # (R, D)


class ToyEncoder(Encoder):
    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__()
        self.values_size = self.summary_size = size
        self.table = nn.Embedding(vocab_size, size)

    def forward(self, src: Tensor, src_lengths: Tensor, *, need_weights: bool = False) -> EncoderOutput:
        padding = padding_mask(src_lengths, src.shape[1])
        places = torch.arange(1, src.shape[1] + 1, device=src.device, dtype=self.table.weight.dtype)
        values = (self.table(src) * places.sqrt()[:, None]).masked_fill(padding[:, :, None], 0.0)
        return EncoderOutput(values, padding, values.sum(dim=1).tanh())


class ToyDecoder(Decoder[ToyMemory, ToyState]):
    """h_t = tanh(A h_{t-1} + E y_t + c), logits = W h_t."""

    def __init__(self, vocab_size: int, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, size)
        self.recurrence = nn.Linear(size, size)
        self.output = nn.Linear(size, vocab_size)

    def memory(self, encoded: EncoderOutput) -> ToyMemory:
        return ToyMemory(encoded.summary)

    def init_state(self, memory: ToyMemory, beams: int = 1) -> ToyState:
        return ToyState(torch.zeros_like(memory.context).repeat_interleave(beams, dim=0))

    def forward(
        self, tgt: Tensor, memory: ToyMemory, state: ToyState, *, need_weights: bool = False
    ) -> DecoderOutput[ToyState]:
        context = memory.context.repeat_interleave(len(tgt) // len(memory.context), dim=0)
        hidden, states = state.hidden, []
        for embedded in self.table(tgt).unbind(dim=1):
            hidden = (self.recurrence(hidden) + embedded + context).tanh()
            states.append(hidden)
        return DecoderOutput(self.output(torch.stack(states, dim=1)), ToyState(hidden))


def toy_model(seed: int, vocab_size: int = 6, size: int = 5) -> Seq2Seq[ToyMemory, ToyState]:
    """Random weights of float64, large enough for sharp and varied distributions."""
    model = Seq2Seq(ToyEncoder(vocab_size, size), ToyDecoder(vocab_size, size)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1.5, generator=generator)
    return model


class BigramDecoder(ToyDecoder):
    """p(next | last) read from a table, whatever the source: its searches can be followed by hand."""

    def __init__(self, probabilities: dict[int, dict[int, float]], vocab_size: int) -> None:
        super().__init__(vocab_size, 1)
        table = torch.ones(vocab_size, vocab_size, dtype=torch.float64)
        for last, row in probabilities.items():
            table[last] = 0.0
            table[last, list(row)] = torch.tensor(list(row.values()), dtype=torch.float64)
        self.register_buffer("logits", table.log())

    def forward(
        self, tgt: Tensor, memory: ToyMemory, state: ToyState, *, need_weights: bool = False
    ) -> DecoderOutput[ToyState]:
        return DecoderOutput(self.logits[tgt], state)


def bigram_model(probabilities: dict[int, dict[int, float]], vocab_size: int) -> Seq2Seq[ToyMemory, ToyState]:
    return Seq2Seq(ToyEncoder(vocab_size, 1), BigramDecoder(probabilities, vocab_size)).double().eval()


def sources(*lengths: int, vocab_size: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random sources of the given lengths, EOS included, right-padded."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in zip(src, lengths, strict=True):
        row[: length - 1] = torch.randint(4, vocab_size, (length - 1,), generator=generator)
        row[length - 1] = 3
    return src, torch.tensor(lengths)
