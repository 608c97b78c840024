"""The table of architectures: a new one costs a file, a YAML and a line here."""

from collections.abc import Callable
from typing import Any, NamedTuple

from seq2seq.models.interface import Seq2Seq
from seq2seq.models.rnn import RNNConfig, build_rnn
from seq2seq.models.rnn_attention import BahdanauConfig, LuongConfig, build_bahdanau, build_luong
from seq2seq.models.transformer import HybridConfig, TransformerConfig, build_hybrid, build_transformer


class Architecture(NamedTuple):
    """A dataclass with the sizes, and what builds a model from it and the vocabulary size."""

    config: type[Any]
    build: Callable[[Any, int], Seq2Seq[Any, Any]]


ARCHITECTURES = {
    "rnn": Architecture(RNNConfig, build_rnn),
    "bahdanau": Architecture(BahdanauConfig, build_bahdanau),
    "luong": Architecture(LuongConfig, build_luong),
    "transformer": Architecture(TransformerConfig, build_transformer),
    "hybrid": Architecture(HybridConfig, build_hybrid),
}


def architecture_name(config: object) -> str:
    """Return the name under which the table holds this configuration's class."""
    return next(name for name, entry in ARCHITECTURES.items() if entry.config is type(config))


def build_model(config: object, vocab_size: int) -> Seq2Seq[Any, Any]:
    """Build the model of a configuration, its weights drawn from torch's global generator."""
    return ARCHITECTURES[architecture_name(config)].build(config, vocab_size)
