"""The bundle: a folder with what translating needs, and nothing else.

    model.json           format version, architecture, its sizes, preprocessing, search; checksums of the next two
    weights.safetensors  float32, a tied parameter once
    tokenizer.model      SentencePiece
    metrics.json         the scores of the run that made it

A bundle may come from anywhere, so loading trusts nothing in it: nothing is unpickled, nothing is instantiated by name,
and the weights are compared with the model by name, type and shape before memory is taken for either.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.search import SearchConfig
from seq2seq.models import ARCHITECTURES, Architecture, architecture_name, build_model
from seq2seq.models.interface import Seq2Seq

FORMAT = 1
MODEL, WEIGHTS, TOKENIZER, METRICS = "model.json", "weights.safetensors", "tokenizer.model", "metrics.json"
_LARGEST_SIZE = 2**24  # of anything in a model: beyond any real one, and products of two still fit in an integer
_LATER = {"embedding_std"}  # options that came later, which older bundles lack: they do not matter to a trained model

Settings = TypeVar("Settings")


@dataclass
class Preprocessing:
    """What happens to a line before it is translated."""

    lowercase: bool
    max_source_tokens: int  # EOS not counted; the rest of a longer line is not read
    src_lang: str
    tgt_lang: str

    def __post_init__(self) -> None:
        if self.max_source_tokens < 1:
            raise UserError(f"max_source_tokens={self.max_source_tokens} must be at least 1")


@dataclass
class Bundle:
    """A trained model and all that it takes to translate with it."""

    model: Seq2Seq[Any, Any]  # in eval mode
    config: Any  # the architecture's dataclass
    tokenizer: Tokenizer
    preprocessing: Preprocessing
    search: SearchConfig
    metrics: dict[str, Any]

    @property
    def architecture(self) -> str:
        """The model's name in the table of architectures."""
        return architecture_name(self.config)


# ---- Saving ----


def save_bundle(folder: str | Path, bundle: Bundle) -> None:
    """Write a bundle, whole or not at all; an old one makes way.

    Raises:
        UserError: the disk is full, or does not let us.
    """
    assert bundle.preprocessing.lowercase == bundle.tokenizer.lowercase
    description = {
        "format": FORMAT,
        "architecture": bundle.architecture,
        "tokenizer": bundle.tokenizer.fingerprint,
        "config": _to_plain(bundle.config),
        "preprocessing": _to_plain(bundle.preprocessing),
        "search": _to_plain(bundle.search),
    }
    weights = {
        name: tensor.detach().to("cpu", torch.float32).contiguous()
        for name, tensor in _own_tensors(bundle.model).items()
    }
    try:
        with replaced_folder(Path(folder)) as fresh:
            save_file(weights, fresh / WEIGHTS)
            write_json(fresh / MODEL, {**description, "weights": _sha256(fresh / WEIGHTS)})
            (fresh / WEIGHTS).chmod((fresh / MODEL).stat().st_mode)  # safetensors lets nobody else read it
            (fresh / TOKENIZER).write_bytes(bundle.tokenizer.model)
            write_json(fresh / METRICS, bundle.metrics)
    except (OSError, SafetensorError) as error:  # safetensors turns an error of the disk into one of its own
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot write {folder} ({reason}); what was there before is intact") from error


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder to write into; it takes the name, and the place of an older one, when all went well."""
    folder = folder.resolve()  # of a link, what it names is replaced
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists() and (left := _left_over(folder)) is not None:
        left.rename(folder)
    for age in ("new", "old"):
        for left in folder.parent.glob(f".{folder.name}.[0-9]*.{age}"):  # by a process that was killed
            shutil.rmtree(left)
    fresh, stale = (folder.with_name(f".{folder.name}.{os.getpid()}.{age}") for age in ("new", "old"))
    try:
        fresh.mkdir()
        yield fresh
        if folder.exists():
            folder.rename(stale)  # a folder cannot be renamed over another
        try:
            fresh.rename(folder)
        except OSError:
            if stale.exists():
                stale.rename(folder)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(stale, ignore_errors=True)


def _left_over(folder: Path) -> Path | None:
    """Return the bundle that a process had moved away when it was killed, before the new one took its place."""
    return next(folder.parent.glob(f".{folder.name}.[0-9]*.old"), None)


def _own_tensors(model: Seq2Seq[Any, Any]) -> dict[str, Tensor]:
    """Return the model's tensors, a tied parameter under its first name only."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            tensors[name] = tensor
            seen.add(id(tensor))
    return tensors


def _to_plain(config: Any) -> dict[str, Any]:
    return {
        name: value.value if isinstance(value, Enum) else value for name, value in dataclasses.asdict(config).items()
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write readable JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


# ---- Loading ----


def load_bundle(path: str | Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Bundle:
    """Load the bundle of a run folder, or a bundle folder itself.

    Raises:
        UserError: it is neither, it is incomplete, damaged or newer than this program, its parts do not belong
            together, or there is no such device.
    """
    target = find_device(device)
    folder = _bundle_folder(Path(path))
    description = read_json(folder / MODEL)
    architecture = _check_description(folder / MODEL, description)

    def settings(kind: type[Settings], section: str) -> Settings:
        return from_plain(kind, description[section], f"{folder / MODEL}: {section}")

    config = settings(architecture.config, "config")
    preprocessing = settings(Preprocessing, "preprocessing")
    tokenizer = _read_tokenizer(folder, description, preprocessing.lowercase)
    model = _read_model(folder / WEIGHTS, config, tokenizer.vocab_size, description["weights"])
    return Bundle(
        model=model.to(target, dtype).eval(),
        config=config,
        tokenizer=tokenizer,
        preprocessing=preprocessing,
        search=settings(SearchConfig, "search"),
        metrics=read_json(folder / METRICS),
    )


def find_device(name: str) -> torch.device:
    """Return the device of this name; a UserError if there is none."""
    found = ["cpu"]
    if torch.cuda.is_available():
        found += ["cuda", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        found.append("mps")
    if name not in found:
        raise UserError(f"device={name} is not there; this machine has {', '.join(found)}")
    return torch.device(name)


def _bundle_folder(path: Path) -> Path:
    if not path.exists():
        raise UserError(f"{path} does not exist; give a run folder or a bundle")
    if (path / MODEL).is_file():
        return path
    if (path / "bundle" / MODEL).is_file():
        return path / "bundle"
    if (left := _left_over(path / "bundle")) is not None:
        return left
    if (path / "config.yaml").is_file():
        raise UserError(
            f"{path} has no bundle yet: it comes at the end of training; go on with: seq2seq train resume={path}"
        )
    raise UserError(f"{path} is neither a run folder nor a bundle: it has no {MODEL} and no bundle/{MODEL}")


def read_bytes(path: Path) -> bytes:
    """Return a file of a bundle; a UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UserError:
    reason = error.strerror or "it is not there"
    way_out = "copy the whole bundle again"
    if isinstance(error, FileNotFoundError):
        way_out += "; if it is a packed run, it has no weights: train it"
    return UserError(f"{path} cannot be read: {reason}; {way_out}")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a bundle; a UserError if there is none."""
    stored = read_bytes(path)
    try:
        content = json.loads(stored)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is not JSON; copy the bundle again") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not part of a bundle: it holds no JSON object")
    return content


def _check_description(path: Path, description: dict[str, Any]) -> Architecture:
    version = description.get("format")
    if type(version) is not int or version < 1:
        raise UserError(f"{path} was not written by this program: it names no format version")
    if version > FORMAT:
        raise UserError(f"{path} has format {version}, this program reads up to {FORMAT}; install a newer seq2seq")
    if missing := {"architecture", "tokenizer", "weights", "config", "preprocessing", "search"} - description.keys():
        raise UserError(f"{path} is damaged: it lacks {', '.join(sorted(missing))}")
    name = description["architecture"]
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise UserError(f"{path} has the architecture {name!r}, not one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def _read_tokenizer(folder: Path, description: dict[str, Any], lowercase: bool) -> Tokenizer:
    path = folder / TOKENIZER
    model = read_bytes(path)
    try:
        tokenizer = Tokenizer(model, lowercase)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if tokenizer.fingerprint != description["tokenizer"]:
        raise UserError(
            f"{path} ({tokenizer.fingerprint[:12]}) is not the tokenizer that the model was trained with "
            f"({str(description['tokenizer'])[:12]}); put that one back"
        )
    return tokenizer


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_model(path: Path, config: Any, vocab_size: int, checksum: Any) -> Seq2Seq[Any, Any]:
    try:
        with safe_open(path, framework="pt") as weights:
            _check_weights(path, weights, config, vocab_size)
            if (found := _sha256(path)) != checksum:
                raise UserError(
                    f"{path} (SHA-256 {found[:12]}) is not the file that {MODEL} was written with "
                    f"({str(checksum)[:12]}): it is damaged, or of another run; copy the whole bundle again"
                )
            with _Unfilled():
                model = build_model(config, vocab_size).float()
            for name, tensor in _own_tensors(model).items():
                tensor.data.copy_(weights.get_tensor(name))
    except OSError as error:
        raise _unreadable(path, error) from error
    except SafetensorError as error:
        raise UserError(f"{path} is damaged or cut short ({error}); copy the bundle again") from error
    return model


class _Unfilled(TorchFunctionMode):
    """Builds modules without drawing their first weights.

    They are overwritten in any case; the caller's random numbers stay as they were; and on the meta device, drawing
    would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init" or func.__name__ in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _check_weights(path: Path, weights: Any, config: Any, vocab_size: int) -> None:
    """Compare the header of the file, whose sizes are those of the file itself, with a model without memory."""
    headers = {name: weights.get_slice(name) for name in weights.keys()}  # noqa: SIM118, it is no mapping
    stored = {name: (header.get_dtype(), tuple(header.get_shape())) for name, header in headers.items()}
    for field in dataclasses.fields(config):
        size = getattr(config, field.name)
        # Each layer has tensors of its own, so a count of layers beyond them is no model of this file.
        largest = len(stored) if field.name.endswith("layers") else _LARGEST_SIZE
        if type(size) is int and size > largest:
            raise UserError(f"{path} does not fit {MODEL}: {field.name}={size} is more than it can hold")
    with torch.device("meta"), _Unfilled():
        model = build_model(config, vocab_size)
    expected = {name: ("F32", tuple(tensor.shape)) for name, tensor in _own_tensors(model).items()}
    for name in sorted(expected.keys() | stored.keys()):
        if stored.get(name) != expected.get(name):
            raise UserError(
                f"{path} does not fit {MODEL}: {name} is {_shown(stored.get(name))}, the model's is "
                f"{_shown(expected.get(name))}; both must come from one run"
            )


def _shown(header: tuple[str, tuple[int, ...]] | None) -> str:
    return "absent" if header is None else f"{header[0]} {'x'.join(map(str, header[1]))}"


def from_plain(kind: type[Settings], content: object, where: str) -> Settings:
    """Make a dataclass of plain values, each field of its own type; what a bundle may lack is left at its default."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if not isinstance(content, dict) or not set(names) - _LATER <= content.keys() <= set(names):
        held = ", ".join(content) if isinstance(content, dict) else repr(content)
        raise UserError(f"{where} must hold {', '.join(names)}; it holds {held}")
    types = typing.get_type_hints(kind)
    try:
        return kind(**{name: _typed(types[name], value, name) for name, value in content.items()})
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _typed(kind: Any, value: object, name: str) -> Any:
    choices = typing.get_args(kind) if isinstance(kind, UnionType) else (kind,)
    for choice in choices:
        if type(value) is choice:
            return value
        if choice is float and type(value) is int:
            return float(value)
        if issubclass(choice, Enum):
            for member in choice:
                if member.value == value:
                    return member
    allowed = " or ".join(
        "|".join(str(member.value) for member in choice) if issubclass(choice, Enum) else choice.__name__
        for choice in choices
    )
    raise UserError(f"{name}={value!r} must be {allowed}")
