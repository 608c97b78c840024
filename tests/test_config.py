import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from small_runs import tiny_settings, write_corpus

from seq2seq import config as config_module
from seq2seq.config import CONF, CORPORA, MODELS, TrainConfig, from_plain, main, register, resume_command
from seq2seq.errors import UserError
from seq2seq.models import build_model
from seq2seq.models.rnn_attention import LuongConfig
from seq2seq.training.optim import Schedule, build_optimizer, learning_rate_factor

ROOT = CONF.parent
CHOICES = [f"{path.parent.name}={path.stem}" for path in sorted(CONF.glob("*/*.yaml"))]


def composed(*overrides: str) -> TrainConfig:
    register(Path("runs/sweep"))
    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        config = OmegaConf.to_object(compose(config_name="train", overrides=list(overrides)))
    assert isinstance(config, TrainConfig)
    return config


@pytest.mark.parametrize("choice", CHOICES)
def test_every_yaml_composes_and_its_model_builds(choice: str) -> None:
    more = {"data=files": ["data.train=text.tsv"]}
    if choice.startswith(("experiment=ladder", "experiment=trials")):
        more[choice] = ["rung=0-rnn", "trial=a"]
    config = composed(choice, *more.get(choice, []))
    # The papers' models are large: a small vocabulary is enough to see that they build.
    optimizer = build_optimizer(build_model(config.model, 300).parameters(), config.optim)
    assert optimizer.param_groups[0]["lr"] == config.optim.lr
    assert learning_rate_factor(config.optim, 1000)(0) > 0


def test_all_models_have_the_same_optimizer_until_the_user_chooses() -> None:
    assert all(composed(f"model={model}").optim == composed("optim=cosine").optim for model in MODELS)
    assert composed("model=luong", "optim=plateau").optim.schedule is Schedule.plateau


@pytest.mark.parametrize("choice", ["plateau", "sgd", "adadelta", "inverse_sqrt"])
def test_data_takes_nothing_back_of_the_optimizer_that_was_chosen(choice: str) -> None:
    chosen, elsewhere = (composed(f"optim={choice}", f"data={data}").optim for data in ("grammar", "multi30k"))
    assert replace(chosen, label_smoothing=0.0) == replace(elsewhere, label_smoothing=0.0)


def test_an_option_on_the_command_line_wins() -> None:
    assert composed("experiment=paper_transformer", "model.d_ff=64").model.d_ff == 64


def test_the_tables_and_the_yaml_files_name_the_same_choices() -> None:
    assert {path.stem for path in (CONF / "model").glob("*.yaml")} == MODELS.keys()
    assert {path.stem for path in (CONF / "data").glob("*.yaml")} == {*CORPORA, "grammar_tiny"}


def test_settings_survive_the_way_through_a_file(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, model=LuongConfig(half_width=3))
    assert from_plain(yaml.safe_load(yaml.safe_dump(config.plain()))) == config


def test_settings_of_a_file_can_be_changed_by_name(tmp_path: Path) -> None:
    changed = from_plain(tiny_settings(tmp_path).plain(), {"trainer.max_epochs": 7})
    assert changed.trainer.max_epochs == 7


def test_settings_that_this_version_does_not_know_are_refused(tmp_path: Path) -> None:
    settings = {**tiny_settings(tmp_path).plain(), "colour": "blue"}
    with pytest.raises(UserError, match=r"the settings of the run do not fit this version: .*colour"):
        from_plain(settings)


def test_an_impossible_seed_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="seed=-1 must be at least 0"):
        TrainConfig(seed=-1)


@pytest.mark.parametrize("label", ["two\nlines", "a | b"])
def test_a_label_that_would_break_a_table_is_refused(label: str) -> None:
    with pytest.raises(UserError, match="must be one line that fits into a table"):
        TrainConfig(label=label)


def test_a_run_without_a_label_is_called_by_its_model() -> None:
    assert composed("model=luong").label_or_name == "luong"
    assert composed("model=luong", "label=dot score").label_or_name == "dot score"


def train(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "train.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def train_in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Call `main` where a user's mistake ends it; return what it wrote to stderr."""
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.fixture(autouse=True)
def _signal_handlers_are_given_back() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=tranformer"], "Could not find 'model/tranformer' Available options in 'model': bahdanau hybrid luong"),
        (["model=rnn,transformer"], "model=rnn,transformer: several choices need -m"),
        (["optm.lr=1"], "there is no option optm.lr; did you mean optim.lr"),
        (["model.windw=global", "model=luong"], "there is no option model.windw; did you mean model.window"),
        (["data.train=train"], "data.train is an option of another choice of data= than the one that was made"),
        (["+colour=blue"], "there is no option colour to add"),
        (["optim.lr=fast"], "Value 'fast' of type 'str' could not be converted to Float"),
        (["model=rnn", "model.variant=chou"], "Invalid value 'chou', expected one of [cho, sutskever]"),
        (["optim.lr=-1"], "optim.lr=-1.0 must be above 0"),
        (["resume=logs/epoch=3-step=900.ckpt"], "quote a value that holds anything but"),
        (["resume=nowhere"], "resume=nowhere: there is no nowhere/config.yaml; name a run folder"),
        (["-m", "model=rnn,tranformer"], "Could not find 'model/tranformer'"),
        (["data=files"], "data.train is not set"),
    ],
)
def test_a_wrong_option_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    errors = train_in_process(monkeypatch, capsys, *arguments)
    assert message in errors
    assert errors.startswith("seq2seq: error: ")
    assert errors.count("\n") == 1
    assert [path for path in tmp_path.rglob("*") if path.name != "runs"] == []


def test_a_missing_conf_folder_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config_module, "CONF", tmp_path / "conf")
    assert train_in_process(monkeypatch, capsys) == (
        f"seq2seq: error: {tmp_path / 'conf'} is missing, or has no train.yaml: it holds the settings to choose from; "
        "take the conf folder along from the checkout, or install the program anew (pip install)\n"
    )


def test_help_lists_the_groups_with_their_choices_and_the_options(tmp_path: Path) -> None:
    result = train(tmp_path, "--help")
    assert result.returncode == 0
    assert "model=bahdanau|hybrid|luong|rnn|transformer" in result.stdout
    assert "schema" not in result.stdout
    assert "length_penalty: 1.0" in result.stdout


def test_a_sweep_makes_one_run_folder_a_job_and_resume_takes_the_runs_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prefix = write_corpus(tmp_path / "text", pairs=80)
    data = ["data=files", f"data.train={prefix}", "data.valid_size=5", "data.test_size=5", "experiment=smoke"]
    swept = train(tmp_path, "-m", "model=rnn,transformer", *data)
    assert swept.returncode == 0, swept.stderr
    runs = sorted(path.parent for path in tmp_path.glob("runs/*-sweep/*/config.yaml"))
    assert [run.name for run in runs] == ["0-rnn-files-s1", "1-transformer-files-s1"]
    assert all((run / "bundle" / "metrics.json").is_file() for run in runs)
    said = [line.removeprefix("seq2seq: ") for line in swept.stderr.splitlines() if line.startswith("seq2seq: ")]
    folder = runs[0].parent.relative_to(tmp_path)
    assert said == [
        *(f"run {n} of 2: {folder / run.name}" for n, run in enumerate(runs, start=1)),
        f"the runs are in {folder}; next: seq2seq compare {folder}",
    ]

    run = str(runs[0].relative_to(tmp_path))
    for option in ("model=transformer", "trainer.batch_tokens=99", "optim.lr=1", "seed=2"):
        assert f"{option} cannot change in a resumed run" in train_in_process(
            monkeypatch, capsys, f"resume={run}", option
        )
    resumed = train(tmp_path, f"resume={run}", "trainer.max_steps=10")
    assert resumed.returncode == 0, resumed.stderr
    assert "rnn on files (en-de)" in resumed.stdout
    assert "10 updates" in resumed.stdout
    assert from_plain(yaml.safe_load((runs[0] / "config.yaml").read_text("utf-8"))).trainer.max_steps == 10


@pytest.mark.parametrize("name", ["plain", "a b=c,d", "größe", "it's"])
def test_the_command_to_go_on_can_be_pasted_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = tiny_settings(tmp_path)
    config.run_dir = name
    for program, command in (("/somewhere/train.py", "python train.py"), ("seq2seq train", "seq2seq train")):
        monkeypatch.setattr(sys, "argv", [program])
        words = shlex.split(resume_command(config))
        assert words[:2] == command.split()
    override = OverridesParser.create().parse_overrides(words[2:])[0]
    assert (override.key_or_group, override.value()) == ("resume", name)


@pytest.mark.parametrize("content", ["garbage: [", "- a", "", "seed: 1"])
def test_a_damaged_settings_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "config.yaml").write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "config.yaml is damaged" in train_in_process(monkeypatch, capsys, "resume=.")
