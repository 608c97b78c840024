import json
import logging
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import lightning as L
import pytest
import torch
from small_runs import TINY, rows, tiny_settings, weights
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.data import DataLoader

from seq2seq.config import TrainConfig
from seq2seq.data.grammar.files import GrammarConfig
from seq2seq.data.multi30k import Multi30kConfig
from seq2seq.data.prepare import prepare
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.translator import Translator
from seq2seq.models import ARCHITECTURES, build_model
from seq2seq.models.rnn_attention import LuongConfig, Score
from seq2seq.models.transformer import Positions, TransformerConfig
from seq2seq.training.checkpoints import load
from seq2seq.training.finish import count_non_embedding, count_parameters, own_scores
from seq2seq.training.fit import check_lengths, fit
from seq2seq.training.hardware import Hardware
from seq2seq.training.module import TranslationModule
from seq2seq.training.optim import OptimConfig, OptimizerName, Schedule, learning_rate_factor
from seq2seq.training.settings import Accelerator, LoggerConfig, Precision, TrainerConfig


def test_a_run_folder_holds_all_that_the_documentation_promises(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, _ = finished
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "train.log", "metrics.csv", "checkpoints", "bundle", "tests"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert {path.name for path in (run / "tests" / "test").iterdir()} == {"src.txt", "ref.txt", "hyp.txt"}
    assert "validation BLEU" in (run / "train.log").read_text(encoding="utf-8")


def test_the_summary_names_the_scores_the_run_and_the_next_command(finished: tuple[TrainConfig, Path, str]) -> None:
    _, run, summary = finished
    assert re.search(r"^test +12 ", summary, re.MULTILINE)
    assert f"next: seq2seq translate {run}" in summary


def test_metrics_json_has_the_documented_fields(finished: tuple[TrainConfig, Path, str]) -> None:
    config, run, _ = finished
    metrics = json.loads((run / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["format"] == 1
    assert metrics["test"] == metrics["tests"]["test"]
    assert metrics["test"]["sentences"] == len((run / "tests" / "test" / "ref.txt").read_text("utf-8").splitlines())
    assert 0 < metrics["parameters_non_embedding"] < metrics["parameters"]
    assert metrics["label"] == "transformer"
    assert metrics["corpus"] == prepare(config.data, config.tokenizer).manifest["fingerprint"]
    assert metrics["updates"] > 0
    assert metrics["target_tokens_seen"] > 0
    assert {"bleu", "chrf", "ter", "exact_match", "length_ratio", "cut", "signatures"} <= metrics["test"].keys()
    assert metrics["precision"] in ("float32", "bf16_mixed")
    assert {"machine", "versions", "seed", "train_seconds", "target_tokens_per_second"} <= metrics.keys()


def test_no_challenge_set_takes_the_place_of_a_test_set_like_the_training_text() -> None:
    sizes = GrammarConfig(test_size=0).sizes()
    challenges = {name: {"bleu": 1.0} for name in sizes if name not in ("train", "valid")}
    assert len(challenges) == 11
    assert own_scores(challenges) is None
    assert own_scores({**challenges, "test": {"bleu": 2.0}}) == {"bleu": 2.0}
    assert own_scores({"test_2016_flickr": {"bleu": 3.0}, "test_2017_flickr": {"bleu": 4.0}}) == {"bleu": 3.0}


def test_every_pair_is_seen_once_an_epoch(finished: tuple[TrainConfig, Path, str]) -> None:
    config, run, _ = finished
    corpus = prepare(config.data, config.tokenizer)
    metrics = json.loads((run / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["target_tokens_seen"] == 2 * corpus.train.tgt_lengths.sum()


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
        ("devices", 0, "at least 1"),
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


def test_parameters_without_embeddings_leave_out_all_that_grows_with_the_vocabulary() -> None:
    for name, config in TINY.items():
        assert type(config) is ARCHITECTURES[name].config
        small, large = (build_model(config, size) for size in (401, 977))
        assert count_parameters(small, without=401) == count_parameters(large, without=977)
        assert count_non_embedding(config, small) == count_parameters(large, without=977)
        assert count_parameters(small) < count_parameters(large)


def test_a_layer_as_wide_as_the_vocabulary_is_no_embedding() -> None:
    config = TransformerConfig(d_model=32, d_ff=401, num_heads=2, num_layers=1)
    wide, other = build_model(config, 401), build_model(config, 977)
    assert count_parameters(wide, without=401) < count_non_embedding(config, wide)
    assert count_non_embedding(config, wide) == count_parameters(other, without=977)


def test_a_run_goes_on_in_the_number_format_that_it_was_begun_in(caplog: pytest.LogCaptureFixture) -> None:
    here = Hardware("cpu", Precision.float32, 1)
    assert here.going_on(None) == here
    assert here.going_on({"callbacks": {"Course": {}}}) == here
    assert here.going_on({"callbacks": {"Course": {"precision": "float32"}}}) == here
    begun = {"callbacks": {"Course": {"precision": "bf16_mixed"}}}
    assert here.going_on(begun) == here._replace(precision=Precision.bf16_mixed)
    assert caplog.messages == [
        "this run was begun in bf16_mixed: it goes on so, though precision=auto means float32 here"
    ]


def test_logging_is_left_as_it_was(finished: tuple[TrainConfig, Path, str]) -> None:
    assert logging.getLogger("seq2seq").handlers == []


def test_a_warm_up_too_long_for_the_run_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tiny_settings(tmp_path, max_steps=3)
    config.optim = OptimConfig(warmup=1000)
    fit(config)
    message = "optim.warmup=1000 is much for the 3 updates of this run: lower it, or raise trainer.max_steps=3"
    assert message in caplog.text
