"""Export to CTranslate2, an engine for translating in production: https://opennmt.net/CTranslate2.

    model.bin, config.json, shared_vocabulary.json   what the engine loads
    tokenizer.model                                  SentencePiece
    translate.json                                   format version, preprocessing, search, limit of positions

The weights are the run's own; only their places differ. The engine knows sinusoidal and learned positions as a table,
so the table is as long as the longest source and the longest translation that the run allows.
"""

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.errors import UserError
from seq2seq.inference.bundle import TOKENIZER, Bundle, replaced_folder, write_json
from seq2seq.models.attention import MultiHeadAttention
from seq2seq.models.transformer import (
    DecoderLayer,
    Embedding,
    EncoderLayer,
    Norm,
    Positions,
    Residual,
    TransformerConfig,
    sinusoidal_positions,
)

FORMAT = 1
DESCRIPTION = "translate.json"


def import_ctranslate2() -> Any:
    """Return the package, which is an extra; a UserError if it is not installed."""
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            "ctranslate2 is not installed; in the project's folder: pip install -e '.[ctranslate2]'"
        ) from error
    return ctranslate2


def export_ctranslate2(bundle: Bundle, folder: Path, quantization: str | None = None) -> None:
    """Write a folder that `CTranslate2Translator` and CTranslate2 itself can load, whole or not at all.

    Args:
        quantization: the engine's name for smaller weights, such as int8; None leaves them in float32.

    Raises:
        UserError: the engine has no such architecture or positions, or is not installed, or the folder is in use or
            cannot be written.
    """
    config = bundle.config
    if not isinstance(config, TransformerConfig):
        raise UserError(f"CTranslate2 has no {bundle.architecture}; of our models it runs only the transformer")
    if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UserError(f"{folder} is the folder you are in, or holds it, and would be replaced; give --output another")
    if folder.exists() and not (folder / DESCRIPTION).is_file():
        raise UserError(f"{folder} exists and is no exported folder; give --output a new one")
    if config.positions not in (Positions.sinusoidal, Positions.learned):
        raise UserError(
            f"CTranslate2 cannot run model.positions={config.positions.value}; train with sinusoidal or learned"
        )
    spec = _specification(bundle, config)
    spec.validate()
    spec.optimize(quantization=quantization)
    description = {
        "format": FORMAT,
        "preprocessing": dataclasses.asdict(bundle.preprocessing),
        "search": dataclasses.asdict(bundle.search),
        "max_positions": config.max_positions if config.positions is Positions.learned else None,
    }
    try:
        with replaced_folder(folder) as fresh:
            spec.save(str(fresh))
            (fresh / TOKENIZER).write_bytes(bundle.tokenizer.model)
            write_json(fresh / DESCRIPTION, description)
    except OSError as error:
        raise UserError(f"cannot write {folder} ({error.strerror}); what was there before is intact") from error


def _specification(bundle: Bundle, config: TransformerConfig) -> Any:
    """Return the engine's model with our weights."""
    specs = import_ctranslate2().specs
    spec = specs.TransformerSpec.from_config(
        config.num_layers, config.num_heads, pre_norm=config.norm is Norm.pre, no_final_norm=config.norm is Norm.post
    )
    encoder: Any = bundle.model.encoder
    decoder: Any = bundle.model.decoder
    longest_source = bundle.preprocessing.max_source_tokens + 1
    longest = max(longest_source, bundle.search.length_limit(longest_source))
    _embedding(spec.encoder.embeddings[0], spec.encoder.position_encodings, encoder.embedding, longest)
    _embedding(spec.decoder.embeddings, spec.decoder.position_encodings, decoder.embedding, longest)
    for target, layer in zip(spec.encoder.layer, encoder.layers, strict=True):
        _encoder_layer(target, layer)
    for target, layer in zip(spec.decoder.layer, decoder.layers, strict=True):
        _decoder_layer(target, layer)
    if config.norm is Norm.pre:
        _norm(spec.encoder.layer_norm, encoder.norm)
        _norm(spec.decoder.layer_norm, decoder.norm)
    spec.decoder.projection.weight = _array(decoder.output.weight)
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    vocabulary = bundle.tokenizer.vocabulary()
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    return spec


def _embedding(target: Any, places: Any, embedding: Embedding, longest: int) -> None:
    target.weight = _array(embedding.tokens.weight)
    if embedding.places is not None:
        places.encodings = _array(embedding.places.weight)
    else:
        size = embedding.tokens.embedding_dim
        places.encodings = _array(sinusoidal_positions(0, longest, size, torch.device("cpu")))


def _encoder_layer(target: Any, layer: EncoderLayer) -> None:
    _self_attention(target.self_attention, layer.attention, layer.attention_residual)
    _feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual)


def _decoder_layer(target: Any, layer: DecoderLayer) -> None:
    _self_attention(target.self_attention, layer.attention, layer.attention_residual)
    _norm(target.attention.layer_norm, layer.cross_residual.norm)
    _linear(target.attention.linear[0], layer.cross.query)
    _linear(target.attention.linear[1], layer.cross.key, layer.cross.value)
    _linear(target.attention.linear[2], layer.cross.output)
    _feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual)


def _self_attention(target: Any, attention: MultiHeadAttention, residual: Residual) -> None:
    _norm(target.layer_norm, residual.norm)
    _linear(target.linear[0], attention.query, attention.key, attention.value)
    _linear(target.linear[1], attention.output)


def _feed_forward(target: Any, layers: nn.Sequential, residual: Residual) -> None:
    _norm(target.layer_norm, residual.norm)
    _linear(target.linear_0, layers[0])
    _linear(target.linear_1, layers[2])


def _linear(target: Any, *layers: Any) -> None:
    """One matrix of the engine holds the rows of one or more of ours."""
    target.weight = _array(torch.cat([layer.weight for layer in layers]))
    target.bias = _array(torch.cat([layer.bias for layer in layers]))


def _norm(target: Any, layer: Any) -> None:
    target.gamma = _array(layer.weight)
    target.beta = _array(layer.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()
