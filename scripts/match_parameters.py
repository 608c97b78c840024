"""Solve for the width of each rung of the ladder, so that all have as many parameters as the Transformer's rung.

python scripts/match_parameters.py

Embeddings and the output projection are not counted, as in metrics.json (parameters_non_embedding). What is solved for
is the size of the recurrent state: the rungs without one have the sizes of the Transformer's.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from seq2seq.config import CONF, register
from seq2seq.models import build_model
from seq2seq.training.finish import count_parameters

REFERENCE = "7-transformer"
RUNGS = sorted(path.stem for path in (CONF / "rung").glob("*.yaml"))
VOCAB_SIZE = 2003  # like no other size, so that what has a row a vocabulary entry is known by it


def main() -> None:
    """Print each rung's parameters as configured, and the width that fits best."""
    wanted = parameters(rung_model(REFERENCE))
    sys.stdout.write("rung              parameters  of the reference   width  best width\n")
    for rung in RUNGS:
        config = rung_model(rung)
        count = parameters(config)
        widths = (
            "" if not hasattr(config, "hidden_size") else f"{config.hidden_size:>8}{best_width(config, wanted):>12}"
        )
        sys.stdout.write(f"{rung:<16}{count:>12,}{100 * count / wanted:>16.1f} %{widths}\n")


def rung_model(rung: str) -> Any:
    """Return the model's settings of a rung."""
    register(Path("runs"))
    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        return OmegaConf.to_object(compose(config_name="train", overrides=[f"rung={rung}"]).model)


def parameters(config: Any) -> int:
    """Count without the vocabulary, and without making the numbers."""
    with torch.device("meta"):
        return count_parameters(build_model(config, VOCAB_SIZE), without=VOCAB_SIZE)


def with_width(config: Any, width: int) -> Any:
    """Change the size of the recurrent state; an encoder of a size of its own keeps half of it in each direction."""
    if hasattr(config, "encoder_size"):
        return replace(config, hidden_size=width, encoder_size=width // 2)
    return replace(config, hidden_size=width)


def best_width(config: Any, wanted: int) -> int:
    """Return the even width whose number of parameters is nearest: more width is more parameters, so by halving."""
    low, high = 2, 2048
    while high - low > 2:
        middle = (low + high) // 4 * 2
        low, high = (middle, high) if parameters(with_width(config, middle)) <= wanted else (low, middle)
    return min((low, high), key=lambda width: abs(parameters(with_width(config, width)) - wanted))


if __name__ == "__main__":
    main()
