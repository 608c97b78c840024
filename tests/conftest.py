import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Tiny models gain nothing from threads that wait for each other; the processes that tests start inherit this.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)
install_import_hook(["seq2seq.models", "seq2seq.inference"], "beartype.beartype")

from seq2seq.data.batch import collate  # noqa: E402
from seq2seq.data.tokenizer import EOS, PAD, Tokenizer, TokenizerConfig, train_tokenizer  # noqa: E402
from seq2seq.inference.bundle import Bundle, Preprocessing, load_bundle, save_bundle  # noqa: E402
from seq2seq.inference.search import SearchConfig  # noqa: E402
from seq2seq.models import build_model  # noqa: E402
from seq2seq.models.transformer import TransformerConfig  # noqa: E402

PAIRS = [
    ("Two green otters juggle pears.", "Zwei grüne Otter jonglieren Birnen."),
    ("A tall robot waters the moss.", "Ein großer Roboter gießt das Moos."),
    ("The moon is made of bread.", "Der Mond ist aus Brot."),
    ("Nobody painted the third violin.", "Niemand hat die dritte Geige bemalt."),
    ("Our submarine smells of cinnamon.", "Unser U-Boot riecht nach Zimt."),
    ("A tall otter paints the moon.", "Ein großer Otter malt den Mond."),
]
SOURCES, TARGETS = (list(side) for side in zip(*PAIRS, strict=True))


def text(lines: Iterable[str]) -> str:
    """Return what a file of these lines holds."""
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Tokenizer:
    lines = [sentence for pair in PAIRS for sentence in pair]
    letters = ["abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ äöüÄÖÜß .,:;!?<>/-'\" 0123456789"]
    return train_tokenizer(lines + letters, TokenizerConfig(vocab_size=380, character_coverage=1.0))


def learned_by_heart(config: TransformerConfig, tokenizer: Tokenizer) -> Bundle:
    """A Transformer that knows PAIRS."""
    torch.manual_seed(1)
    model = build_model(config, tokenizer.vocab_size)
    src, tgt = ([[*tokenizer.encode(text), EOS] for text in side] for side in zip(*PAIRS, strict=True))
    batch = collate(src, tgt, range(len(PAIRS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(80):
        logits = model(batch.src, batch.src_lengths, batch.tgt_in).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    preprocessing = Preprocessing(lowercase=False, max_source_tokens=64, src_lang="en", tgt_lang="de")
    return Bundle(model.eval(), config, tokenizer, preprocessing, SearchConfig(), {"validation": {"bleu": 100.0}})


@pytest.fixture(scope="session")
def tiny_bundle_folder(tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer that knows PAIRS by heart. Not to be written to."""
    config = TransformerConfig(d_model=32, d_ff=64, num_heads=2, num_layers=1, dropout=0.0)
    folder = tmp_path_factory.mktemp("run") / "bundle"
    save_bundle(folder, learned_by_heart(config, tiny_tokenizer))
    return folder


@pytest.fixture
def run(tiny_bundle_folder: Path) -> str:
    """Return a run's folder, as a command is told of it."""
    return str(tiny_bundle_folder.parent)


@pytest.fixture
def tiny_bundle(tiny_bundle_folder: Path) -> Bundle:
    return load_bundle(tiny_bundle_folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, str]:
    """A finished run of two epochs: its settings, its folder and the summary. Not to be written to."""
    from small_runs import tiny_settings

    from seq2seq.training.fit import fit

    folder = tmp_path_factory.mktemp("finished")
    config = tiny_settings(folder)
    return config, folder / "run", fit(config)
