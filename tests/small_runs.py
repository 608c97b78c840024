"""A small made-up parallel text, and settings for runs of seconds on it."""

import csv
import multiprocessing
import random
from pathlib import Path
from typing import Any

import torch

from seq2seq.config import TrainConfig
from seq2seq.data.corpus import FilesConfig
from seq2seq.data.tokenizer import TokenizerConfig
from seq2seq.models.rnn import RNNConfig
from seq2seq.models.rnn_attention import BahdanauConfig, LuongConfig
from seq2seq.models.transformer import HybridConfig, TransformerConfig
from seq2seq.training.checkpoints import load
from seq2seq.training.optim import OptimConfig
from seq2seq.training.settings import Accelerator, LoggerConfig, TrainerConfig

# Its children are forked from a server that has all imported, so starting one takes no seconds.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["small_runs", "seq2seq.training.fit", "seq2seq.cli"])

WORDS = {
    "red": "rot",
    "blue": "blau",
    "green": "grün",
    "a fox": "ein Fuchs",
    "a crow": "eine Krähe",
    "a snail": "eine Schnecke",
    "sees": "sieht",
    "hears": "hört",
    "and": "und",
    "today": "heute",
    "quietly": "leise",
}


def write_corpus(folder: Path, pairs: int = 240, seed: int = 0) -> Path:
    """Write pairs of 2 to 9 words as corpus.en and corpus.de; return the prefix."""
    draw = random.Random(seed)
    sentences = [draw.choices(list(WORDS), k=draw.randint(2, 9)) for _ in range(pairs)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.en").write_text("".join(" ".join(s) + ".\n" for s in sentences), encoding="utf-8")
    german = (" ".join(WORDS[word] for word in s) + ".\n" for s in sentences)
    (folder / "corpus.de").write_text("".join(german), encoding="utf-8")
    return folder / "corpus"


def tiny_settings(folder: Path, run: str = "run", model: Any = None, **trainer: Any) -> TrainConfig:
    """Settings for a run of seconds in `folder`."""
    corpus = folder / "corpus"
    if not corpus.with_suffix(".en").exists():
        write_corpus(folder)
    return TrainConfig(
        data=FilesConfig(
            train=str(corpus), valid_size=12, test_size=12, cache_dir=str(folder / "cache"), max_tokens=60
        ),
        tokenizer=TokenizerConfig(vocab_size=330),
        model=model or TransformerConfig(d_model=16, d_ff=32, num_heads=2, num_layers=1, dropout=0.1),
        optim=OptimConfig(lr=5e-3, warmup=5, average_last=2),
        trainer=TrainerConfig(**{"batch_tokens": 400, "max_epochs": 2, "accelerator": Accelerator.cpu, **trainer}),
        logger=LoggerConfig(every=2, samples=1),
        run_dir=str(folder / run),
    )


TINY = {
    "rnn": RNNConfig(embedding_dim=8, hidden_size=8, readout_size=8),
    "bahdanau": BahdanauConfig(embedding_dim=8, hidden_size=8, attention_size=8, readout_size=8),
    "luong": LuongConfig(embedding_dim=8, hidden_size=8, num_layers=1),
    "transformer": TransformerConfig(d_model=16, d_ff=16, num_heads=2, num_layers=1),
    "hybrid": HybridConfig(
        embedding_dim=8, hidden_size=8, attention_size=8, readout_size=8, d_model=8, d_ff=8, num_heads=2, num_layers=1
    ),
}


def weights(run: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = load(run / "checkpoints" / "last.ckpt")["state_dict"]
    return state


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
