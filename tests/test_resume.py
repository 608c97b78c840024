import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import TINY, rows, tiny_settings, weights, write_corpus

from seq2seq.config import TrainConfig
from seq2seq.data.prepare import prepare
from seq2seq.errors import UserError
from seq2seq.models import build_model
from seq2seq.training.checkpoints import Checkpoints, load, save
from seq2seq.training.datamodule import BatchStream
from seq2seq.training.finish import choose_weights
from seq2seq.training.fit import fit
from seq2seq.training.optim import OptimConfig, Schedule
from seq2seq.training.settings import LoggerConfig
from seq2seq.training.validation import Validation


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


@pytest.mark.parametrize(
    ("accumulated", "validate_every", "stops"),
    [(4, None, [2, 5]), (1, 2, [4, 5]), (1, None, [4, 7])],
    ids=["twice, with accumulation", "after a validation within an epoch", "at the end of an epoch"],
)
def test_where_and_how_often_a_run_stopped_does_not_show_in_its_weights(
    tmp_path: Path, accumulated: int, validate_every: int | None, stops: list[int]
) -> None:
    options = {"max_epochs": 99, "accumulate_grad_batches": accumulated, "validate_every": validate_every}
    whole = tiny_settings(tmp_path, "whole", max_steps=9, **options)
    if stops[-1] == 7:  # the epochs have 7 batches
        corpus = prepare(whole.data, whole.tokenizer)
        stream = BatchStream(corpus.train, batch_tokens=whole.trainer.batch_tokens, seed=whole.seed, epochs=1)
        assert stream.batches_of(0) == 7
    fit(whole)
    piece = replace(whole, run_dir=str(tmp_path / "pieces"))
    for stop in (*stops, 9):
        fit(replace(piece, trainer=replace(whole.trainer, max_steps=stop)))
        piece.resume = piece.run_dir
    expected, resumed = weights(tmp_path / "whole"), weights(tmp_path / "pieces")
    assert all(torch.equal(expected[key], resumed[key]) for key in expected)


def test_a_finished_run_whose_last_update_was_not_full_goes_on_with_the_next_epoch(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_epochs=1, accumulate_grad_batches=4)
    fit(config)
    further = replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_epochs=2))
    fit(further)
    tokens = int(prepare(config.data, config.tokenizer).train.tgt_lengths.sum())
    seen = [int(row["target_tokens"]) for row in rows(tmp_path / "run") if row["validation/bleu"]]
    assert seen == [tokens, 2 * tokens]


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
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert "cannot write" in result.stdout, result.stderr
    assert "what was there before is intact" in result.stdout
    assert torch.equal(load(path)["weights"], torch.zeros(10))
    assert [item.name for item in tmp_path.iterdir()] == ["x.ckpt"]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
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
    try:
        deadline = time.monotonic() + 180
        while not (tmp_path / "run" / "metrics.csv").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert "interrupted; the state is in run/checkpoints/last.ckpt; go on with: seq2seq train resume=run" in errors
    stopped_at = load(tmp_path / "run" / "checkpoints" / "last.ckpt")["global_step"]
    assert stopped_at > 0
    assert not (tmp_path / "run" / "bundle").exists()
    assert not (tmp_path / "run" / "tests").exists()
    way_on = errors.rpartition("go on with: seq2seq train ")[2].strip()
    command = [*process.args[:3], way_on, f"trainer.max_steps={stopped_at + 1}"]  # type: ignore[index, misc, list-item]
    resumed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert f"({stopped_at + 1} updates" in resumed.stdout, resumed.stderr


def test_a_run_whose_corpus_has_changed_is_not_resumed(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=1)
    fit(config)
    write_corpus(tmp_path, seed=1)
    with pytest.raises(UserError, match=r"the corpus has changed since this run began .* start a new run"):
        fit(replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_steps=2)))


def test_a_run_that_stopped_before_its_first_validation_is_finished_by_resuming(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=1)
    fit(config)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    state = load(last)
    state["callbacks"]["Course"]["best_bleu"] = None  # as an interruption before the first validation leaves it
    save(state, last)
    (last.parent / "best.ckpt").unlink()
    assert "next: seq2seq translate" in fit(replace(config, resume=config.run_dir))


def test_a_run_without_a_validation_and_without_a_batch_left_is_refused(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_epochs=2, validate_every=100_000)
    fit(config)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    state = load(last)
    state["callbacks"]["Course"]["best_bleu"] = None
    save(state, last)
    fewer = replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_epochs=1))
    with pytest.raises(UserError, match=r"before its first validation, after more than trainer.max_epochs=1: raise it"):
        fit(fewer)


def test_another_kind_of_file_is_no_checkpoint(tmp_path: Path) -> None:
    config = tiny_settings(tmp_path, max_steps=1)
    fit(config)
    save({"weights": torch.zeros(1)}, tmp_path / "run" / "checkpoints" / "last.ckpt")
    with pytest.raises(UserError, match=r"last\.ckpt is not a checkpoint of this program"):
        fit(replace(config, resume=config.run_dir))


def test_accumulating_more_batches_than_training_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trainer\.accumulate_grad_batches=1000 is more than the \d+ batches"):
        fit(tiny_settings(tmp_path, accumulate_grad_batches=1000))
    assert not (tmp_path / "run").exists()
