"""The settings of a training run, and the only place where Hydra meets them.

`main` is what `train.py` and `seq2seq train` call: it composes the settings from `conf/` and the command line,
turns them into plain dataclasses, and hands those to `fit`. Nothing behind it knows of Hydra or OmegaConf.
"""

import difflib
import math
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.data.corpus import FilesConfig
from seq2seq.data.grammar.files import GrammarConfig
from seq2seq.data.multi30k import Multi30kConfig
from seq2seq.data.tokenizer import TokenizerConfig
from seq2seq.errors import Interrupted, UserError
from seq2seq.inference.search import SearchConfig
from seq2seq.models import ARCHITECTURES
from seq2seq.signals import leave, raise_interrupted, stop_at_once
from seq2seq.streams import complain, put, speak_utf8, unwritable
from seq2seq.sweep import Sweep
from seq2seq.training.config_file import plain, read_settings
from seq2seq.training.optim import OptimConfig
from seq2seq.training.settings import LoggerConfig, TrainerConfig
from seq2seq.trials import tuned

CORPORA: dict[str, type[Any]] = {"grammar": GrammarConfig, "multi30k": Multi30kConfig, "files": FilesConfig}
MODELS: dict[str, type[Any]] = {name: entry.config for name, entry in ARCHITECTURES.items()}

_OPTIONAL = ("rung", "trial", "experiment")  # groups of which a run needs no choice

# A checkout has conf/ beside the package, an installed wheel inside it.
_PACKAGE = Path(__file__).parent
CONF = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"


@dataclass
class TrainConfig:
    """All settings of a run; each group's dataclass says what its options mean.

    Attributes:
        label: what tables call this run, in config.yaml and metrics.json; left empty: the model's name. The run itself
            does not depend on it.
        compared_with: the label of the run from which this one differs in one factor, for tables.
        length_penalties: choose search.length_penalty among these by BLEU on the validation set, before any test set is
            translated; left empty: nothing is chosen.
        score_tests: translate and score the test sets at the end.
        seed: of the weights' first values, of the order of batches and of dropout.
        run_dir: the run's folder; left open: runs/<time>-<model>-<data>.
        resume: a run folder to go on with.
        go_on: where run_dir holds this very run, go on with it, or leave it if it is finished. In a sweep each run is
            then a process of its own.
    """

    data: Any = MISSING
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: Any = MISSING
    optim: OptimConfig = field(default_factory=OptimConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    label: str = ""
    compared_with: str = ""
    length_penalties: list[float] = field(default_factory=list)
    score_tests: bool = True
    seed: int = 1
    run_dir: str | None = None
    resume: str | None = None
    go_on: bool = False

    def __post_init__(self) -> None:
        if not self.label.isprintable() or "|" in self.label:
            raise UserError(f"label={self.label!r} must be one line that fits into a table: no line breaks, no |")
        for penalty in self.length_penalties:
            SearchConfig(length_penalty=penalty)
        if self.go_on and self.run_dir is None:
            raise UserError("go_on=true needs run_dir=: the folder in which to look for the run")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed={self.seed} must be at least 0 and below 2**32")

    @property
    def data_name(self) -> str:
        """The name of the data group's choice."""
        return _name_of(CORPORA, self.data)

    @property
    def model_name(self) -> str:
        """The name of the model group's choice."""
        return _name_of(MODELS, self.model)

    @property
    def label_or_name(self) -> str:
        """What tables call this run."""
        return self.label or self.model_name

    def plain(self) -> dict[str, Any]:
        """Return the settings as dicts, lists, strings, numbers and booleans, as config.yaml holds them."""
        return {"choices": {"data": self.data_name, "model": self.model_name}, **plain(asdict(self))}


def _name_of(table: Mapping[str, type[Any]], config: object) -> str:
    return next(name for name, kind in table.items() if kind is type(config))


def from_plain(settings: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return the settings that `TrainConfig.plain` made a dict of, with `overrides` by dotted name on top.

    Raises:
        UserError: unknown names or values that do not fit.
    """
    settings = dict(settings)
    try:
        choices = settings.pop("choices")
        schema = OmegaConf.structured(TrainConfig)
        schema.data = OmegaConf.structured(CORPORA[choices["data"]])
        schema.model = OmegaConf.structured(MODELS[choices["model"]])
        merged = OmegaConf.merge(schema, settings)
        for name, value in (overrides or {}).items():
            OmegaConf.update(merged, name, value)
        config = OmegaConf.to_object(merged)
    except (OmegaConfBaseException, KeyError, TypeError) as error:
        raise UserError(f"the settings of the run do not fit this version: {_one_line(error)}") from error
    assert isinstance(config, TrainConfig)
    return config


# ---- The door ----


def register(sweep_dir: Path) -> None:
    """Tell Hydra the dataclasses behind `conf/` and the folder of a sweep; a YAML file says only what it changes."""
    store = ConfigStore.instance()
    store.store(name="schema", node=TrainConfig)
    for group, table in (("data", CORPORA), ("model", MODELS)):
        for name, kind in table.items():
            store.store(group=f"schema/{group}", name=name, node=kind)
    store.store(group="hydra/help", name="seq2seq", node={"app_name": "seq2seq", "header": "", "template": _help()})
    OmegaConf.register_new_resolver("sweep_dir", lambda: str(sweep_dir), replace=True)
    OmegaConf.register_new_resolver("tuned", partial(tuned, CONF), replace=True)


def main() -> None:
    """Compose the settings from the command line, train by them, print the summary, and exit.

    In a sweep, a run that fails by a UserError does not stop those after it; an interruption does.
    Exit codes: 0; 2 for what a user can mend; 130 or 143 after SIGINT or SIGTERM; 1 for the unexpected.
    """
    stop_at_once()
    try:
        speak_utf8()
        _check_conf()
        _check_choices(sys.argv[1:])
    except UserError as error:
        sys.exit(_report(error, 2))
    started = f"{datetime.now():%Y%m%d-%H%M%S}"
    sweep_dir = Path("runs") / f"{started}-sweep"
    register(sweep_dir)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us as they are
    exit_code, is_composed = 0, False
    sweep, folders = Sweep(), dict[Path, set[int | None]]()  # folders of runs: their training pairs

    @hydra.main(config_path=str(CONF), config_name="train", version_base="1.3")
    def job(composed: Any) -> None:
        nonlocal exit_code, is_composed
        is_composed = True
        if exit_code > 2:  # an interrupted sweep: Hydra goes on with its next job all the same
            return
        config = None
        try:
            config = _settings(composed)
            is_named = config.run_dir is not None
            if config.run_dir is None:
                config.run_dir = str(_new_run_dir(config, started, sweep_dir))
            is_sweep = HydraConfig.get().mode is RunMode.MULTIRUN
            if is_sweep:
                if config.score_tests:
                    folders.setdefault(Path(config.run_dir).parent, set()).add(config.data.train_size)
                complain(f"run {HydraConfig.get().job.num + 1} of {_runs_of_the_sweep()}: {config.run_dir}")
            # An experiment may ask for a sweep by itself: a run of it is none.
            arguments = [*HydraConfig.get().overrides.task, "hydra.mode=RUN"] if is_sweep else None
            if config.go_on and config.resume is None and sweep.settle(config, _stored, arguments):
                return
            from seq2seq.training.fit import fit  # here, since it takes seconds, and a wrong option should not

            raise_interrupted()
            if summary := fit(config, may_rename=not is_named):
                put(summary + "\n")
        except UserError as error:
            exit_code = _report(error, 2)
        except OmegaConfBaseException as error:  # of a value to be filled in
            exit_code = _report(UserError(_explained(error)), 2)
        except Interrupted as interruption:
            exit_code = _report(interruption, 128 + interruption.signal, _way_on(config))
        finally:
            stop_at_once()

    try:
        job()
        put(f"{sweep.summary()}\n" if len(sweep) else "")
        exit_code = exit_code or sweep.exit_code
    except UserError as error:
        exit_code = _report(error, 2)
    except (HydraException, OmegaConfBaseException) as error:  # some of Hydra's are OSErrors too
        exit_code = _report(UserError(_explained(error)), 2)
    except OSError as error:
        if is_composed:
            raise
        exit_code = _report(unwritable(error), 2)  # Hydra's help
    except Interrupted as interruption:
        exit_code = _report(interruption, 128 + interruption.signal)
    if sweep_dir.is_dir() and [item.name for item in sweep_dir.iterdir()] == ["multirun.yaml"]:
        (sweep_dir / "multirun.yaml").unlink()  # no run got as far as its own folder
        sweep_dir.rmdir()
    for folder in sorted(folders) if exit_code == 0 else ():
        table = "compare" if len(folders[folder]) == 1 else "challenge data-size"
        complain(f"the runs are in {folder}; next: seq2seq {table} {shlex.quote(str(folder))}")
    if exit_code > 2:
        leave(exit_code)
    sys.exit(exit_code)


def _check_conf() -> None:
    """Raise UserError if the YAML files have been left behind, as by a copy of the package alone."""
    if not (CONF / "train.yaml").is_file():
        raise UserError(
            f"{CONF} is missing, or has no train.yaml: it holds the settings to choose from; take the conf folder "
            "along from the checkout, or install the program anew (pip install)"
        )


def _check_choices(arguments: list[str]) -> None:
    """Raise UserError for a group without a choice, for which Hydra has an error of its own kind."""
    for argument in arguments:
        group, _, choice = argument.partition("=")
        if choice.lower() == "null" and group not in _OPTIONAL and (CONF / group).is_dir():
            names = ", ".join(sorted(file.stem for file in (CONF / group).glob("*.yaml")))
            raise UserError(f"{argument}: a run needs one of {names}")


def _report(error: UserError | Interrupted, exit_code: int, way_on: str = "") -> int:
    if str(error):  # else another process says it
        complain(f"{'error: ' if isinstance(error, UserError) else ''}{error}{way_on}")
    return exit_code


def _way_on(config: TrainConfig | None) -> str:
    """Return how to go on with an interrupted run, if it has a checkpoint to go on from."""
    if config is None or not (Path(config.run_dir or "") / "checkpoints" / "last.ckpt").is_file():
        return ""
    return "; the same command goes on" if config.go_on else f"; go on with: {resume_command(config)}"


def resume_command(config: TrainConfig) -> str:
    """Return the command that goes on with a run, quoted for the shell and for Hydra."""
    run = str(config.run_dir)
    plain = re.fullmatch(r"[\w./+-]+", run, re.ASCII) is not None
    escaped = run.replace("\\", "\\\\").replace("'", "\\'")
    program = "python train.py" if Path(sys.argv[0]).name == "train.py" else "seq2seq train"
    return f"{program} " + (f"resume={run}" if plain else shlex.quote(f"resume='{escaped}'"))


def _settings(composed: Any) -> TrainConfig:
    for group in ("data", "model"):
        if not is_dataclass(OmegaConf.get_type(composed, group)):
            raise UserError(f"{group}={composed[group]} is not one of the choices that --help lists")
    for override in OverridesParser.create().parse_overrides(list(HydraConfig.get().overrides.task)):
        if override.is_add():
            raise UserError(f"there is no option {override.key_or_group} to add; --help lists them")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, TrainConfig)
    return config if config.resume is None else _resumed(config.resume)


def _runs_of_the_sweep() -> int:
    """Return how many runs there are in the sweep that the current job is of."""
    asked = [f"{name}={choices}" for name, choices in (HydraConfig.get().sweeper.params or {}).items()]
    asked += [argument for argument in sys.argv[1:] if "=" in argument and not argument.startswith("-")]
    overrides = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(asked)
    by_name = {override.get_key_element(): override for override in overrides}  # the last one counts
    return math.prod(len([*one.sweep_string_iterator()]) for one in by_name.values() if one.is_sweep_override())


def _stored(run: Path) -> TrainConfig | None:
    """Return the settings that a run's folder holds, if it does."""
    file = run / "config.yaml"
    return from_plain(read_settings(file)) if file.is_file() else None


def _new_run_dir(config: TrainConfig, started: str, sweep_dir: Path) -> Path:
    name = f"{config.model_name}-{config.data_name}"
    if HydraConfig.get().mode is RunMode.MULTIRUN:
        return sweep_dir / f"{HydraConfig.get().job.num}-{name}-s{config.seed}"
    return Path("runs") / f"{started}-{name}"


# What may change in a resumed run: how long, where, and what is written; not what decides the batches and the model.
_MAY_CHANGE_ON_RESUME = (
    *("trainer." + name for name in ("max_epochs", "max_steps", "max_minutes", "patience", "validate_every")),
    *("trainer." + name for name in ("checkpoint_minutes", "accelerator", "devices", "num_workers")),
    *("logger.tensorboard", "logger.every", "logger.samples"),
    *("search." + entry.name for entry in fields(SearchConfig)),
)


def _resumed(run: str) -> TrainConfig:
    """Return a run's own settings, changed by what stands on the command line beside `resume`."""
    file = Path(run) / "config.yaml"
    if not file.is_file():
        raise UserError(
            f"resume={run}: there is no {file}; name a run folder, such as runs/20260101-120000-rnn-multi30k"
        )
    overrides = {}
    for override in OverridesParser.create().parse_overrides(list(HydraConfig.get().overrides.task)):
        name = override.key_or_group
        if name == "resume":
            continue
        if name not in _MAY_CHANGE_ON_RESUME:
            raise UserError(
                f"{override.input_line} cannot change in a resumed run; these can: {', '.join(_MAY_CHANGE_ON_RESUME)}"
            )
        overrides[name] = override.value()
    config = from_plain(read_settings(file), overrides)
    config.run_dir = config.resume = run
    return config


def _explained(error: Exception) -> str:
    """Return what is wrong and the way out, in one line, for an error of Hydra or OmegaConf."""
    message = _one_line(error).removeprefix("UserError raised while resolving interpolation: ")
    if isinstance(error, OverrideParseException):
        quoted = "quote a value that holds anything but a-z, 0-9 and ._/-, as in 'NAME=\"VALUE\"'"
        return f"{error.override}: {message}; {quoted}"
    if unknown := re.match(r"Could not override '(.+?)'", message):
        names = _option_names()
        if unknown[1] in names:
            group = unknown[1].partition(".")[0]
            return f"{unknown[1]} is an option of another choice of {group}= than the one that was made"
        near = difflib.get_close_matches(unknown[1], names, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "--help lists them"
        return f"there is no option {unknown[1]}; {hint}"
    if several := re.match(r"Ambiguous value for argument '(.+?)'", message):
        return f"{several[1]}: several choices need -m; a value that holds a comma needs quotes, as in 'NAME=\"A,B\"'"
    return message.partition(" Config search path:")[0]


def _option_names() -> list[str]:
    kinds = get_type_hints(TrainConfig)
    groups = {name: [kind] for name, kind in kinds.items() if is_dataclass(kind)}
    groups |= {"data": list(CORPORA.values()), "model": list(MODELS.values())}
    inner = [f"{group}.{entry.name}" for group, kinds in groups.items() for kind in kinds for entry in fields(kind)]
    return [*kinds, *dict.fromkeys(inner)]


def _one_line(error: BaseException) -> str:
    """Return the message of Hydra or OmegaConf, with its cause, in one line."""
    messages = [str(error)]
    if error.__cause__ is not None and str(error.__cause__) not in messages[0]:
        messages.append(str(error.__cause__))
    lines = [line.strip() for message in messages for line in message.splitlines()]
    noise = ("full_key:", "object_type=", "reference_type=", "See https")
    return " ".join(line for line in lines if line and not line.startswith(noise))


def _help() -> str:
    groups = "\n".join(
        f"  {folder.name}={'|'.join(sorted(file.stem for file in folder.glob('*.yaml')))}"
        for folder in sorted(CONF.iterdir())
        if folder.is_dir()
    )
    return f"""Train a translation model, score it, and write it to a run folder.

  python train.py model=transformer data=multi30k       one run
  python train.py -m model=rnn,bahdanau,luong           several, one after the other
  python train.py resume=runs/X [trainer.max_epochs=30]  go on with a run

Groups and their choices (GROUP=CHOICE):
{groups}

Any option can be changed as NAME=VALUE; these are the settings as they stand:

$CONFIG
"""
