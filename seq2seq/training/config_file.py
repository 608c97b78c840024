"""The settings of a run as its config.yaml holds them."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from seq2seq.errors import UserError


def plain(value: Any) -> Any:
    """Return settings as dicts, lists, strings, numbers and booleans."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def read_settings(file: Path) -> dict[str, Any]:
    """Read a run's config.yaml, which may come from anywhere: plain values, as this program writes them."""
    try:
        text = file.read_text(encoding="utf-8")
        # What is written once can be meant a billion times.
        is_plain = not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader))
        settings = yaml.safe_load(text) if is_plain else None
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{file} is damaged: it is not YAML; take an unbroken copy") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("choices"), dict):
        raise UserError(f"{file} is damaged: it does not say which data and model; take an unbroken copy")
    if "${" in text:
        raise UserError(f"{file} was not written by this program: it holds a ${{...}} to be filled in; write the value")
    return settings
