"""What tables read in the files of a run, and of what kind it must be: files may come from anywhere."""

import math
import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple


class Maybe(NamedTuple):
    """May be left out, or null."""

    kind: Any


class Each(NamedTuple):
    """An object with any names."""

    kind: Any


_SCORES = ("bleu", "chrf", "ter", "exact_match", "length_ratio", "cut", "looping")
_TEST = {
    **dict.fromkeys(_SCORES, Maybe(float)),
    "test_set_sha256": Maybe(str),
    "alignment": Maybe({"aer": Maybe(Each(Maybe(float)))}),
}

# A kind is a type, Maybe, Each, a list of one kind, or an object of names and kinds, beside which others may stand.
METRICS_KIND = {
    "label": Maybe(str),
    "seed": int,
    "parameters": int,
    "parameters_non_embedding": Maybe(int),
    "updates": int,
    "train_seconds": float,
    "target_tokens_seen": int,
    "flops_per_target_token": Maybe({"forward": float, "backward": float}),
    "peak_memory_bytes": Maybe(int),
    "validation": {"loss": Maybe(float)},
    "machine": Maybe({"cpu": str, "threads": int, "gpus": [str], "system": str}),
    "tests": Each(_TEST),
}
SETTINGS_KIND = {"tokenizer": {"lowercase": bool}}
SPEED_KIND = {"sentences_per_second": float, "milliseconds_per_sentence": float}


def fault(value: Any, kind: Any, name: str = "") -> str | None:
    """Return which part is missing, or not of its kind, and what is there; None if all is well. Numbers are finite."""
    if isinstance(kind, Maybe):
        return None if value is None else fault(value, kind.kind, name)
    wrong = f"{name} is {reprlib.repr(value)}"
    if isinstance(kind, list):
        if not isinstance(value, list):
            return wrong
        parts = [(f"{name}[{number}]", item, kind[0]) for number, item in enumerate(value)]
    elif isinstance(kind, dict | Each):
        if not isinstance(value, Mapping):
            return wrong
        kinds = kind if isinstance(kind, dict) else dict.fromkeys(value, kind.kind)
        parts = [(f"{name}.{part}".lstrip("."), value.get(part), inner) for part, inner in kinds.items()]
    elif kind is float:
        return None if type(value) in (int, float) and math.isfinite(value) else wrong
    else:
        return None if type(value) is kind else wrong
    return next((found for part, inside, inner in parts if (found := fault(inside, inner, part))), None)
