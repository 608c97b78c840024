"""What a configuration promises: its limits, its defaults, and one line for each value that cannot be."""

from functools import partial
from typing import Any

import pytest
import torch
from architectures import CONFIGS, VOCAB_SIZE, random_sources, random_words
from torch import nn

from seq2seq.errors import UserError
from seq2seq.models import (
    ARCHITECTURES,
    BahdanauConfig,
    HybridConfig,
    LuongConfig,
    RNNConfig,
    TransformerConfig,
    architecture_name,
    build_model,
)
from seq2seq.models.rnn import Variant, stacked_rnn
from seq2seq.models.rnn_attention import Score, Window
from seq2seq.models.transformer import Positions

FEW: dict[str, Any] = {"d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1, "max_positions": 6}
LIMITED = [  # configuration, longest source, longest target
    (RNNConfig(), None, None),
    (BahdanauConfig(), None, None),
    (LuongConfig(max_source_length=6), None, None),
    (LuongConfig(max_source_length=6, score=Score.location), 6, None),
    (TransformerConfig(**FEW), None, None),
    (TransformerConfig(**FEW, positions=Positions.relative), None, None),
    (TransformerConfig(**FEW, positions=Positions.none), None, None),
    (TransformerConfig(**FEW, positions=Positions.learned), 6, 6),
    (HybridConfig(**FEW), None, None),
    (HybridConfig(**FEW, positions=Positions.learned), 6, None),
]


@pytest.mark.parametrize(("config", "longest_source", "longest_target"), LIMITED)
def test_a_model_says_how_long_a_sentence_it_can_take(config, longest_source, longest_target):
    model = build_model(config, VOCAB_SIZE)
    assert model.max_source_length == longest_source
    assert model.max_target_length == longest_target


@pytest.mark.parametrize(("config", "longest_source", "longest_target"), LIMITED)
def test_sentences_as_long_as_the_limit_fit_and_longer_ones_do_not(config, longest_source, longest_target):
    model = build_model(config, VOCAB_SIZE)
    source, target = longest_source or 7, longest_target or 7
    model(*random_sources([source]), random_words(1, target))
    if longest_source:
        with pytest.raises(AssertionError, match="longer than the table"):
            model(*random_sources([source + 1]), random_words(1, 1))
    if longest_target:
        memory = model.encode(*random_sources([source]))
        state = model.decode(random_words(1, target), memory, model.init_state(memory)).state
        with pytest.raises(AssertionError, match="longer than the table"):
            model.decode(random_words(1, 1), memory, state)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (RNNConfig, {"hidden_size": 0}, "model.hidden_size=0 must be at least 1"),
        (RNNConfig, {"num_layers": 0}, "model.num_layers=0 must be at least 1"),
        (RNNConfig, {"embedding_dim": -1}, "model.embedding_dim=-1 must be at least 1"),
        (RNNConfig, {"readout_size": 0}, "model.readout_size=0 must be at least 1"),
        (RNNConfig, {"dropout": 1.0}, "model.dropout=1.0 must be at least 0 and below 1"),
        (RNNConfig, {"dropout": float("nan")}, "model.dropout=nan must be at least 0 and below 1"),
        (BahdanauConfig, {"attention_size": 0}, "model.attention_size=0 must be at least 1"),
        (
            RNNConfig,
            {"hidden_size": 7, "bidirectional": True},
            "model.hidden_size=7 must be even for model.bidirectional=true: half a direction",
        ),
        (BahdanauConfig, {"encoder_size": 0}, "model.encoder_size=0 must be at least 1"),
        (RNNConfig, {"embedding_std": 0.0}, "model.embedding_std=0.0 must be more than 0, and at most 100"),
        (LuongConfig, {"embedding_std": float("inf")}, "model.embedding_std=inf must be more than 0, and at most 100"),
        (HybridConfig, {"embedding_std": float("nan")}, "model.embedding_std=nan must be more than 0, and at most 100"),
        (BahdanauConfig, {"dropout": -0.1}, "model.dropout=-0.1 must be at least 0 and below 1"),
        (LuongConfig, {"half_width": 0}, "model.half_width=0 must be at least 1"),
        (LuongConfig, {"max_source_length": 0}, "model.max_source_length=0 must be at least 1"),
        (
            LuongConfig,
            {"hidden_size": 5, "bidirectional": True},
            "model.hidden_size=5 must be even for model.bidirectional=true: half a direction",
        ),
        (LuongConfig, {"dropout": 2.0}, "model.dropout=2.0 must be at least 0 and below 1"),
        (
            LuongConfig,
            {"score": Score.location, "window": Window["local_p"]},
            "model.score=location knows only model.window=global (Luong et al. 2015, section 3.1), not local_p; "
            "choose the score dot, general or concat for a local window",
        ),
        (TransformerConfig, {"num_layers": 0}, "model.num_layers=0 must be at least 1"),
        (TransformerConfig, {"max_distance": 0}, "model.max_distance=0 must be at least 1"),
        (TransformerConfig, {"dropout": 1.5}, "model.dropout=1.5 must be at least 0 and below 1"),
        (
            TransformerConfig,
            {"d_model": 10, "num_heads": 4},
            "model.d_model=10 must be a multiple of model.num_heads=4",
        ),
        (
            TransformerConfig,
            {"d_model": 9, "num_heads": 3},
            "model.d_model=9 must be even for model.positions=sinusoidal",
        ),
        (HybridConfig, {"num_heads": 0}, "model.num_heads=0 must be at least 1"),
        (HybridConfig, {"attention_size": 0}, "model.attention_size=0 must be at least 1"),
        (HybridConfig, {"d_model": 10, "num_heads": 4}, "model.d_model=10 must be a multiple of model.num_heads=4"),
    ],
)
def test_an_impossible_value_is_refused_in_one_line(config, options, message):
    with pytest.raises(UserError) as error:
        config(**options)
    assert str(error.value) == message


def test_an_odd_d_model_is_fine_where_no_sinusoid_needs_pairs():
    config = TransformerConfig(d_model=9, num_heads=3, positions=Positions.relative)
    assert build_model(config, VOCAB_SIZE)(*random_sources([3]), random_words(1, 2)).logits.isfinite().all()


def test_the_number_of_recurrent_layers_left_open_is_the_papers_own():
    assert RNNConfig(Variant.cho).num_layers == 1
    assert RNNConfig(Variant.sutskever).num_layers == 2
    assert RNNConfig(Variant.sutskever, num_layers=4).num_layers == 4


def test_the_encoder_of_bahdanau_is_as_wide_as_the_decoder_until_the_user_says_otherwise():
    assert BahdanauConfig(hidden_size=12).encoder_size == 12
    assert BahdanauConfig(hidden_size=12, encoder_size=6).encoder_size == 6


def test_every_architecture_is_found_by_its_configuration():
    assert list(ARCHITECTURES) == ["rnn", "bahdanau", "luong", "transformer", "hybrid"]
    for name, config in CONFIGS.items():
        assert name.split("-")[0] == architecture_name(config)
    for name, architecture in ARCHITECTURES.items():
        assert architecture_name(architecture.config()) == name


def test_tied_embeddings_are_one_matrix_and_untied_ones_three():
    tied = build_model(TransformerConfig(**FEW, tie_embeddings=True), VOCAB_SIZE)
    free = build_model(TransformerConfig(**FEW, tie_embeddings=False), VOCAB_SIZE)
    matrix = VOCAB_SIZE * FEW["d_model"]
    assert sum(p.numel() for p in free.parameters()) - sum(p.numel() for p in tied.parameters()) == 2 * matrix
    assert tied.decoder.output.weight is tied.encoder.embedding.tokens.weight is tied.decoder.embedding.tokens.weight


def test_the_forget_gate_of_an_lstm_starts_open_and_a_gru_is_as_torch_made_it() -> None:
    torch.manual_seed(1)
    lstm = stacked_rnn(nn.LSTM, 3, 4, 2, 0.0)
    for layer in range(2):
        bias = getattr(lstm, f"bias_ih_l{layer}")
        assert torch.equal(bias[4:8], torch.ones(4))  # torch's order of gates: i, f, g, o
        assert bias[:4].abs().max() <= 0.5
        assert bias[8:].abs().max() <= 0.5
    assert all(parameter.abs().max() <= 0.5 for parameter in stacked_rnn(nn.GRU, 3, 4, 2, 0.0).parameters())


@pytest.mark.parametrize("std", [0.02, 3.0])
@pytest.mark.parametrize("config", [RNNConfig, partial(RNNConfig, Variant.sutskever), BahdanauConfig, LuongConfig])
def test_word_vectors_of_both_languages_start_as_wide_as_asked(config, std):
    model = build_model(config(embedding_std=std), 500)
    for half in (model.encoder, model.decoder):
        assert half.embedding.weight.std().item() == pytest.approx(std, rel=0.02)
