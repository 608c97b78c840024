import csv
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from corpus_text import tiny_settings
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.data import DataLoader

from seq2seq.config import TrainConfig
from seq2seq.data.multi30k import Multi30kConfig
from seq2seq.data.prepare import prepare
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.translator import Translator
from seq2seq.models import ARCHITECTURES, build_model
from seq2seq.models.rnn import RNNConfig
from seq2seq.models.rnn_attention import BahdanauConfig, LuongConfig, Score
from seq2seq.models.transformer import HybridConfig, Positions, TransformerConfig
from seq2seq.training.checkpoints import Checkpoints, load, save
from seq2seq.training.fit import check_lengths, choose_weights, count_parameters, fit
from seq2seq.training.module import TranslationModule
from seq2seq.training.optim import OptimConfig, OptimizerName, Schedule, learning_rate_factor
from seq2seq.training.settings import Accelerator, LoggerConfig, Precision, TrainerConfig
from seq2seq.training.validation import Validation

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainConfig, Path, str]:
    """A finished run of two epochs: its settings, its folder and the summary."""
    folder = tmp_path_factory.mktemp("finished")
    config = tiny_settings(folder)
    summary = fit(config)
    return config, folder / "run", summary


def test_a_run_folder_holds_all_that_the_documentation_promises(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "train.log", "metrics.csv", "checkpoints", "bundle", "tests"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert {path.name for path in (run / "tests" / "test").iterdir()} == {"src.txt", "ref.txt", "hyp.txt"}
    assert "validation BLEU" in (run / "train.log").read_text(encoding="utf-8")


def test_the_summary_names_the_scores_the_run_and_the_next_command(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, summary = finished
    assert "test: BLEU" in summary
    assert f"next: seq2seq translate {run}" in summary


def test_metrics_json_has_the_documented_fields(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished
    metrics = json.loads((run / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["format"] == 1
    assert metrics["test"] == metrics["tests"]["test"]
    assert metrics["test"]["sentences"] == len((run / "tests" / "test" / "ref.txt").read_text("utf-8").splitlines())
    assert 0 < metrics["parameters_non_embedding"] < metrics["parameters"]
    assert metrics["updates"] > 0
    assert metrics["target_tokens_seen"] > 0
    assert {"bleu", "chrf", "ter", "exact_match", "length_ratio", "cut", "signatures"} <= metrics["test"].keys()
    assert {"machine", "versions", "seed", "train_seconds", "target_tokens_per_second"} <= metrics.keys()


def test_every_pair_is_seen_once_an_epoch(finished: tuple[TrainConfig, Path, str]) -> None:
    config, run, _ = finished
    corpus = prepare(config.data, config.tokenizer)
    metrics = json.loads((run / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["target_tokens_seen"] == 2 * corpus.train.tgt_lengths.sum()


def test_checkpoints_are_best_last_and_snapshots_under_flat_names(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished
    paths = sorted(path.relative_to(run / "checkpoints") for path in (run / "checkpoints").rglob("*"))
    assert all(len(path.parts) == 1 and "=" not in path.name for path in paths)
    snapshots = [path for path in paths if path.name.startswith("snapshot")]
    assert len(snapshots) == 2
    assert [path.name for path in paths if path not in snapshots] == ["best.ckpt", "last.ckpt"]


def test_a_checkpoint_holds_plain_types_only(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished

    def kinds(value: Any) -> set[type]:
        if isinstance(value, dict):
            return {dict}.union(*(kinds(item) for pair in value.items() for item in pair)) if value else {dict}
        if isinstance(value, list | tuple):
            return {type(value)}.union(*map(kinds, value)) if value else {type(value)}
        return {type(value)}

    found = kinds(torch.load(run / "checkpoints" / "best.ckpt", weights_only=True))
    assert found <= {dict, list, tuple, str, int, float, bool, type(None), torch.Tensor}


def test_tensorboard_has_the_curves_the_samples_and_the_final_scores(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished
    events = EventAccumulator(str(run)).Reload()
    tags = events.Tags()
    assert {
        "train/loss",
        "train/learning_rate",
        "train/gradient_norm",
        "train/target_tokens_per_second",
        "validation/loss",
        "validation/perplexity",
        "validation/bleu",
        "validation/chrf",
        "test_bleu",
        "validation_bleu",
    } <= set(tags["scalars"])
    assert any("samples" in tag for tag in tags["tensors"])
    finals = [event.value for event in events.Scalars("test_bleu")]
    assert math.isnan(finals[0])
    assert not math.isnan(finals[-1])
    assert not list(run.glob("hparams.yaml"))


def test_the_hparams_tab_gets_the_settings(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished
    written = EventAccumulator(str(run)).Reload().summary_metadata
    content = written["_hparams_/session_start_info"].plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["model.d_model"].number_value == 16
    assert settings["choices.model"].string_value == "transformer"


def test_snapshots_are_averaged_number_by_number(tmp_path: Path) -> None:
    for step, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        save({"w": torch.tensor([value, -value])}, tmp_path / f"snapshot-{step:08}.pt")
    torch.testing.assert_close(Checkpoints(tmp_path).average(), {"w": torch.tensor([3.0, -3.0])})


class LikesTheBest:
    """A course whose validator gives the best weights BLEU 30, and all others what the test says."""

    def __init__(self, checkpoints: Checkpoints, others: float) -> None:
        self.checkpoints = checkpoints
        self.best = checkpoints.best_weights()
        self.others = others

    def validator(self, model: torch.nn.Module) -> Validation:
        is_best = all(torch.equal(tensor, self.best[name]) for name, tensor in model.state_dict().items())
        return Validation(1.0, math.e, 30.0 if is_best else self.others, 50.0, [])


@pytest.mark.parametrize(("bleu_of_average", "expected"), [(30.0, "average"), (29.9, "best")])
def test_the_average_ships_where_its_bleu_is_no_lower_than_the_bests(
    finished: tuple[TrainConfig, Path, str], bleu_of_average: float, expected: str
) -> None:
    config, run, _ = finished
    checkpoints = Checkpoints(run / "checkpoints")
    weights_of = {"best": checkpoints.best_weights(), "average": checkpoints.average()}
    model = build_model(config.model, prepare(config.data, config.tokenizer).tokenizer.vocab_size)
    chosen = choose_weights(config, model, LikesTheBest(checkpoints, bleu_of_average))  # type: ignore[arg-type]
    assert chosen["weights"].startswith(expected)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, weights_of[expected][name])


@pytest.mark.parametrize("accumulated", [1, 4])
def test_the_learning_rate_of_update_k_is_the_formula_whatever_is_accumulated(tmp_path: Path, accumulated: int) -> None:
    config = tiny_settings(tmp_path, max_steps=8, max_epochs=99, accumulate_grad_batches=accumulated)
    config.logger = LoggerConfig(every=1, tensorboard=False)
    config.optim = OptimConfig(lr=1e-3, warmup=4)
    fit(config)
    factor = learning_rate_factor(config.optim, 8)
    logged = {
        int(row["step"]): float(row["train/learning_rate"]) for row in rows(tmp_path / "run") if row["train/loss"]
    }
    assert logged == {k: pytest.approx(1e-3 * factor(k - 1)) for k in range(1, 9)}


@pytest.mark.parametrize("accumulated", [1, 3])
def test_every_epoch_ends_in_a_validation_whatever_is_accumulated(tmp_path: Path, accumulated: int) -> None:
    fit(tiny_settings(tmp_path, max_epochs=4, accumulate_grad_batches=accumulated))
    assert len([row for row in rows(tmp_path / "run") if row["validation/bleu"]]) == 4


def test_worker_processes_change_nothing(tmp_path: Path) -> None:
    for run, workers in (("alone", 0), ("helped", 2)):
        fit(tiny_settings(tmp_path, run, max_steps=4, num_workers=workers))
    alone, helped = weights(tmp_path / "alone"), weights(tmp_path / "helped")
    assert all(torch.equal(alone[key], helped[key]) for key in alone)


def test_a_plateau_lowers_the_rate_when_bleu_stalls(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=5, validate_every=1)
    config.logger = LoggerConfig(every=1, tensorboard=False)
    # With so small a rate nothing improves: BLEU stays at what the untrained model has.
    config.optim = OptimConfig(lr=1e-12, warmup=0, schedule=Schedule.plateau, plateau_patience=0, plateau_factor=0.5)
    fit(config)
    rates = [float(row["train/learning_rate"]) for row in rows(tmp_path / "run") if row["train/loss"]]
    assert rates == pytest.approx([1e-12, 1e-12, 0.5e-12, 0.25e-12, 0.125e-12])


def test_training_stops_early_when_bleu_no_longer_rises(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=50, validate_every=1, patience=3)
    config.optim = OptimConfig(lr=1e-12, warmup=0)
    fit(config)
    assert load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"] == 4


def test_training_stops_after_the_minutes_it_was_given(tmp_path: Path) -> None:
    fit(tiny_settings(tmp_path, max_epochs=10_000, max_minutes=0.01))
    metrics = json.loads((tmp_path / "run" / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    assert 0.6 <= metrics["train_seconds"] < 10


@pytest.mark.parametrize(("name", "accumulated"), [*((name, 1) for name in TINY), ("transformer", 3)])
def test_a_resumed_run_ends_with_the_weights_of_one_that_was_never_stopped(
    tmp_path: Path, name: str, accumulated: int
) -> None:
    whole = tiny_settings(
        tmp_path, "whole", TINY[name], max_steps=7, max_epochs=99, accumulate_grad_batches=accumulated
    )
    fit(whole)
    first = replace(whole, run_dir=str(tmp_path / "pieces"), trainer=replace(whole.trainer, max_steps=3))
    fit(first)
    second = replace(first, resume=first.run_dir, trainer=replace(first.trainer, max_steps=7))
    fit(second)
    expected, resumed = weights(tmp_path / "whole"), weights(tmp_path / "pieces")
    assert all(torch.equal(expected[key], resumed[key]) for key in expected)
    steps = [int(row["step"]) for row in rows(tmp_path / "pieces") if row["train/loss"]]
    assert steps == sorted(steps)
    assert steps[-1] == 7


def test_a_plateau_survives_a_stop(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=3, validate_every=1)
    config.optim = OptimConfig(lr=1e-12, warmup=0, schedule=Schedule.plateau, plateau_patience=0, plateau_factor=0.5)
    config.logger = LoggerConfig(every=1, tensorboard=False)
    fit(config)
    fit(replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_steps=5)))
    rates = [float(row["train/learning_rate"]) for row in rows(tmp_path / "run") if row["train/loss"]]
    assert rates == pytest.approx([1e-12, 1e-12, 0.5e-12, 0.25e-12, 0.125e-12])


def test_what_was_logged_after_the_checkpoint_is_logged_once(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=2, validate_every=2)
    fit(config)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    shutil.copy(last, tmp_path / "kept.ckpt")
    further = replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_steps=4))
    fit(further)
    shutil.copy(tmp_path / "kept.ckpt", last)  # as if the run had been killed after update 4, before it was saved
    fit(further)
    assert [int(row["step"]) for row in rows(tmp_path / "run") if row["train/loss"]] == [2, 4]


def test_a_run_that_lost_patience_stays_stopped(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=50, validate_every=1, patience=1)
    config.optim = OptimConfig(lr=1e-12, warmup=0)
    fit(config)
    before = load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"]
    fit(replace(config, resume=config.run_dir))
    assert load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"] == before


def test_cosine_ends_with_training(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_epochs=2)
    config.logger = LoggerConfig(every=1, tensorboard=False)
    config.optim = OptimConfig(lr=1e-3, warmup=2, schedule=Schedule.cosine)
    fit(config)
    rates = [float(row["train/learning_rate"]) for row in rows(tmp_path / "run") if row["train/loss"]]
    assert max(rates) == 1e-3
    assert rates[-1] < 0.02e-3


@pytest.mark.parametrize("name", list(TINY))
def test_bfloat16_training_gives_a_float32_bundle_that_translates(tmp_path: Path, name: str) -> None:
    fit(tiny_settings(tmp_path, model=TINY[name], max_steps=2, precision=Precision.bf16_mixed))
    bundle = load_bundle(tmp_path / "run")
    assert {tensor.dtype for tensor in bundle.model.state_dict().values()} == {torch.float32}
    assert len(list(Translator.from_bundle(bundle).translate(["a fox sees a crow."]))) == 1


def test_resuming_a_finished_run_trains_no_further_and_scores_it_again(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=3)
    fit(config)
    before = weights(tmp_path / "run")
    summary = fit(replace(config, resume=config.run_dir))
    after = weights(tmp_path / "run")
    assert "3 updates" in summary
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=1)
    fit(config)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"last\.ckpt is damaged or not a checkpoint"):
        fit(replace(config, resume=config.run_dir))
    last.unlink()
    with pytest.raises(UserError, match=r"there is no checkpoint .*last\.ckpt"):
        fit(replace(config, resume=config.run_dir))


def test_a_full_disk_leaves_the_former_checkpoint_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    save({"weights": torch.zeros(10)}, path)
    program = (
        "import resource, signal, sys, torch; from pathlib import Path\n"
        "from seq2seq.errors import UserError; from seq2seq.training.checkpoints import save\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try: save({'weights': torch.zeros(1_000_000)}, Path(sys.argv[1]))\n"
        "except UserError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "cannot write" in result.stdout, result.stderr
    assert "what was there before is intact" in result.stdout
    assert torch.equal(load(path)["weights"], torch.zeros(10))
    assert [item.name for item in tmp_path.iterdir()] == ["x.ckpt"]


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    first, second = (tiny_settings(tmp_path, max_steps=1) for _ in range(2))
    fit(first, may_rename=True)
    assert f"run: {tmp_path / 'run-2'}" in fit(second, may_rename=True)


def test_a_run_dir_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"run_dir=.*file is a file: choose another name"):
        fit(tiny_settings(tmp_path, "file"))
    with pytest.raises(UserError, match=r"cannot make run_dir=.*: Not a directory"):
        fit(tiny_settings(tmp_path, "file/run"))


def test_a_run_folder_in_use_is_not_written_to(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"run_dir=.* is not empty: choose another folder, or go on with resume="):
        fit(config)


def test_a_model_with_less_room_than_the_training_pairs_is_refused(tmp_path: Path) -> None:
    short = TransformerConfig(
        d_model=16, d_ff=16, num_heads=2, num_layers=1, positions=Positions.learned, max_positions=9
    )
    with pytest.raises(UserError, match=r"data\.max_tokens=60 is more than this model's 8 source tokens"):
        fit(tiny_settings(tmp_path, model=short))
    assert not (tmp_path / "run").exists()


def test_default_models_have_room_for_the_default_training_pairs(tmp_path: Path) -> None:
    for model in (
        *(entry.config() for entry in ARCHITECTURES.values()),
        TransformerConfig(positions=Positions.learned),
        LuongConfig(score=Score.location),
    ):
        check_lengths(build_model(model, 300), replace(tiny_settings(tmp_path), data=Multi30kConfig(), model=model))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trainer\.accelerator=gpu, but there is no CUDA GPU here"):
        fit(tiny_settings(tmp_path, accelerator=Accelerator.gpu))


def test_half_precision_on_a_cpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trainer\.precision=fp16_mixed needs a CUDA GPU"):
        fit(tiny_settings(tmp_path, precision=Precision.fp16_mixed))


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("max_epochs", 0, "at least 1"),
        ("max_steps", 0, "at least 1"),
        ("batch_tokens", 0, "at least 1"),
        ("accumulate_grad_batches", 0, "at least 1"),
        ("validate_every", 0, "at least 1"),
        ("patience", 0, "at least 1"),
        ("max_minutes", 0.0, "above 0"),
        ("checkpoint_minutes", -1.0, "above 0"),
        ("num_workers", -1, "at least 0"),
    ],
)
def test_an_impossible_trainer_option_is_named(option: str, value: float, rule: str) -> None:
    with pytest.raises(UserError, match=rf"trainer\.{option}={value} must be {rule}"):
        TrainerConfig(**{option: value})


def test_impossible_logger_options_are_named() -> None:
    with pytest.raises(UserError, match=r"logger\.every=0 must be at least 1"):
        LoggerConfig(every=0)
    with pytest.raises(UserError, match=r"logger\.samples=-1 must be at least 0"):
        LoggerConfig(samples=-1)


def test_the_gradient_is_the_same_however_the_tokens_are_divided(tmp_path: Path) -> None:
    """Twelve pairs as one batch, and as four batches of different size: the same gradient in float64."""
    settings = tiny_settings(tmp_path)
    corpus = prepare(settings.data, settings.tokenizer)
    config = TransformerConfig(d_model=16, d_ff=16, num_heads=2, num_layers=1, dropout=0.0)
    optim = OptimConfig(name=OptimizerName.sgd, lr=1e-3, warmup=0, clip_norm=0.0)
    gradients = []
    for batches in ([range(12)], [range(1), range(1, 3), range(3, 7), range(7, 12)]):
        torch.manual_seed(1)
        model = build_model(config, corpus.tokenizer.vocab_size)
        trainer = L.Trainer(
            accelerator="cpu",
            precision="64-true",
            max_steps=1,
            accumulate_grad_batches=len(batches),
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        loader = DataLoader([corpus.train.batch(list(batch)) for batch in batches], batch_size=None)  # type: ignore
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's advice on workers and devices
            trainer.fit(TranslationModule(model, optim, seed=1, batch_tokens=100, total_steps=1), loader)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].dtype == torch.float64
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_its_state_says_how_to_go_on_and_scores_nothing(tmp_path: Path, number: int) -> None:
    prefix = tiny_settings(tmp_path).data.train
    arguments = [
        "data=files",
        f"data.train={prefix}",
        "data.valid_size=12",
        "data.test_size=12",
        "trainer.max_epochs=100000",
        "logger.every=1",
        "model.num_layers=1",
        "tokenizer.vocab_size=330",
        "run_dir=run",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "from seq2seq.config import main; main()", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "metrics.csv").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "interrupted; the state is in run/checkpoints/last.ckpt; go on with: python train.py resume=run" in errors
    stopped_at = load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"]
    assert stopped_at > 0
    assert not (tmp_path / "run" / "bundle").exists()
    assert not (tmp_path / "run" / "tests").exists()
    way_on = errors.rpartition("go on with: python train.py ")[2].strip()
    command = [*process.args[:3], way_on, f"trainer.max_steps={stopped_at + 1}"]  # type: ignore[index, misc, list-item]
    resumed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert f"({stopped_at + 1} updates" in resumed.stdout, resumed.stderr


def test_parameters_without_embeddings_leave_out_all_that_grows_with_the_vocabulary() -> None:
    for name, config in TINY.items():
        assert type(config) is ARCHITECTURES[name].config
        small, large = (build_model(config, size) for size in (401, 977))
        assert count_parameters(small, without=401) == count_parameters(large, without=977)
        assert count_parameters(small) < count_parameters(large)


def test_logging_is_left_as_it_was(finished: tuple[TrainConfig, Path, str]) -> None:
    assert logging.getLogger("seq2seq").handlers == []
