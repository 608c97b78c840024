"""Every architecture with every option, tiny and in float64: what the laws of the models are tested on."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.models import BahdanauConfig, HybridConfig, LuongConfig, RNNConfig, Seq2Seq, TransformerConfig, build_model
from seq2seq.models.rnn import Variant
from seq2seq.models.rnn_attention import Cell, ReadoutState, Score, Window
from seq2seq.models.transformer import Norm, Positions

VOCAB_SIZE = 12
LONGEST = 7  # source and target of the random batches; windows and distances are set to less than it


def _configs() -> dict[str, Any]:
    configs: dict[str, Any] = {}
    for variant, layers in product(Variant, (1, 2)):
        configs[f"rnn-{variant.name}-{layers}"] = RNNConfig(
            variant, embedding_dim=3, hidden_size=4, num_layers=layers, readout_size=5
        )
        configs[f"rnn-{variant.name}-{layers}-bidirectional"] = replace(
            configs[f"rnn-{variant.name}-{layers}"], bidirectional=True
        )
    for readout in ReadoutState:
        configs[f"bahdanau-{readout.name}"] = BahdanauConfig(
            embedding_dim=3, hidden_size=4, attention_size=5, readout_size=6, readout_state=readout
        )
    configs["bahdanau-narrow_encoder"] = replace(configs["bahdanau-current"], encoder_size=2)
    for score, window, feeding, reverse in product(Score, Window, (True, False), (True, False)):
        if score is Score.location and window is not Window["global"]:
            continue
        if reverse and score is not Score.general:  # reversal knows nothing of scores: one of them is enough
            continue
        options = ["feeding"] * feeding + ["reversed"] * reverse
        configs["-".join(["luong", score.name, window.name, *options])] = LuongConfig(
            embedding_dim=3,
            hidden_size=4,
            num_layers=2 if feeding else 1,
            score=score,
            window=window,
            half_width=1,
            max_source_length=2 * LONGEST,
            input_feeding=feeding,
            reverse_source=reverse,
        )
    for cell, score, feeding, reverse in product(Cell, (Score.dot, Score.concat), (True, False), (True, False)):
        options = [cell.name] + ["feeding"] * feeding + ["reversed"] * reverse
        configs["-".join(["luong", score.name, "bidirectional", *options])] = LuongConfig(
            embedding_dim=3,
            hidden_size=4,
            num_layers=1 if feeding else 2,
            cell=cell,
            score=score,
            input_feeding=feeding,
            reverse_source=reverse,
            bidirectional=True,
        )
    configs["luong-general-gru-feeding"] = LuongConfig(
        embedding_dim=3, hidden_size=4, num_layers=2, cell=Cell.gru, reverse_source=False
    )
    sizes: dict[str, Any] = {"d_model": 8, "d_ff": 6, "num_heads": 2, "num_layers": 2}
    limits: dict[str, Any] = {"max_positions": 2 * LONGEST, "max_distance": 2}
    for positions, norm in product(Positions, Norm):
        options = {**sizes, **limits, "positions": positions, "norm": norm}
        for tied in (True, False) if norm is Norm.pre else (False,):
            name = f"transformer-{positions.name}-{norm.name}" + ("-tied" if tied else "")
            configs[name] = TransformerConfig(**options, tie_embeddings=tied)
        configs[f"hybrid-{positions.name}-{norm.name}"] = HybridConfig(
            **options, embedding_dim=3, hidden_size=4, attention_size=5, readout_size=6
        )
    return configs


CONFIGS = _configs()


@cache
def tiny_model(name: str) -> Seq2Seq[Any, Any]:
    """Random weights, large enough that a wrong index or a missing mask shows in the logits."""
    model = build_model(CONFIGS[name], VOCAB_SIZE).double().eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7, generator=generator)
    return model


class Sentences(NamedTuple):
    src: Tensor  # (N, S)
    src_lengths: Tensor  # (N,)
    tgt: Tensor  # (N*K, T)
    beams: int  # K


def random_sources(src_lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sources of the given lengths, EOS included, right-padded."""
    words = random_words(len(src_lengths), max(src_lengths), seed)
    lengths = torch.tensor(src_lengths)
    places = torch.arange(words.shape[1])
    words = words.where(places < lengths[:, None] - 1, EOS)
    return words.where(places < lengths[:, None], PAD), lengths


def random_words(rows: int, length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(EOS + 1, VOCAB_SIZE, (rows, length), generator=generator)


@st.composite
def sentences(draw: st.DrawFn, most_beams: int = 1) -> Sentences:
    """A batch of sources of several lengths, and as many targets as there are beams."""
    src, src_lengths = random_sources(draw(st.lists(st.integers(1, LONGEST), min_size=1, max_size=3)))
    beams = draw(st.integers(1, most_beams))
    tgt = random_words(len(src) * beams, draw(st.integers(1, LONGEST)), seed=draw(st.integers(1, 1000)))
    return Sentences(src, src_lengths, tgt, beams)


def leaves(tree: Any) -> list[Tensor]:
    """The tensors of a Memory or a State, in order."""
    return [tree] if isinstance(tree, Tensor) else [leaf for branch in tree for leaf in leaves(branch)]


def assert_close(actual: Any, expected: Any) -> None:
    """Equal up to the rounding of float64, tensor by tensor."""
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
