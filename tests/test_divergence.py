import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_runs import rows, tiny_settings
from torch import Tensor, nn

from seq2seq.config import TrainConfig
from seq2seq.data.tokenizer import EOS
from seq2seq.errors import UserError
from seq2seq.training.checkpoints import load, save
from seq2seq.training.divergence import DivergenceCheck
from seq2seq.training.fit import fit
from seq2seq.training.processes import ALONE
from seq2seq.training.settings import LoggerConfig


def poisoned(folder: Path, devices: int, **logs: int) -> tuple[TrainConfig, bytes]:
    """A run after two updates, whose checkpoint then gets a weight that makes every loss infinite or no number."""
    config = tiny_settings(folder, max_steps=2, validate_every=2, devices=devices)
    fit(config)
    last = folder / "run" / "checkpoints" / "last.ckpt"
    state = load(last)
    name = next(name for name in state["state_dict"] if "encoder" in name and "embedding" in name)
    state["state_dict"][name][EOS, 0] = float("inf")  # every sentence ends in it
    save(state, last)
    config.logger = LoggerConfig(samples=0, **logs)
    return replace(config, resume=config.run_dir, trainer=replace(config.trainer, max_steps=8)), last.read_bytes()


@pytest.mark.parametrize("every", [1, 1000])
def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_the_checkpoint(tmp_path: Path, every: int) -> None:
    config, before = poisoned(tmp_path, 1, every=every)
    message = (
        r"training has diverged: the loss is not finite at step 3 \(learning rate 0\.003, training pairs \d+(, \d+)+ "
        r"and \d+ more\); nothing of it was saved; start again with a lower optim\.lr or a longer optim\.warmup"
    )
    with pytest.raises(UserError, match=message):
        fit(config)
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").read_bytes() == before
    assert all(int(row["step"]) <= 2 for row in rows(tmp_path / "run"))


def test_several_processes_that_diverge_say_so_once(tmp_path: Path) -> None:
    config, before = poisoned(tmp_path, 2, every=1)
    command = [sys.executable, "-c", "from seq2seq.config import main; main()"]
    command += [f"resume={config.resume}", "trainer.max_steps=8"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 2
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    assert len(errors) == 1, result.stderr
    assert "the loss is not finite at step 3" in errors[0]
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").read_bytes() == before


def check(losses: list[float], norms: list[float], weight: float, *, skips_gradients: bool = False) -> None:
    divergence = DivergenceCheck(ALONE, skips_gradients=skips_gradients)
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=1):
        divergence.add_batch(torch.tensor(1.0), torch.tensor([100 * step]))
        divergence.add_batch(torch.tensor(loss), torch.tensor([100 * step + 1, 100 * step + 2]))
        divergence.end_update(step, 1.0 / step, torch.tensor(norm))
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, weight)
    divergence(model)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("losses", "norms", "weight", "found"),
    [
        (
            [1.0, NAN, NAN],
            [1.0, NAN, NAN],
            NAN,
            r"the loss is .* step 2 \(learning rate 0\.5, training pairs 201, 202\)",
        ),
        ([1.0, INF], [1.0, 1.0], 1.0, r"the loss is .* step 2"),
        ([1.0, 1.0], [INF, 1.0], 1.0, r"the norm of the gradient is .* step 1 .*, training pairs 100, 101, 102\)"),
        ([1.0, 1.0], [1.0, 1.0], INF, r"the weight after it is .* step 2"),
    ],
)
def test_what_is_not_finite_is_named_with_step_rate_and_pairs(
    losses: list[float], norms: list[float], weight: float, found: str
) -> None:
    with pytest.raises(UserError, match=found):
        check(losses, norms, weight)


def test_finite_numbers_pass_and_so_does_a_gradient_that_fp16_leaves_out() -> None:
    check([1.0, 1e30], [1.0, 1e30], 1.0)
    check([1.0, 1.0], [INF, 1.0], 1.0, skips_gradients=True)
    with pytest.raises(UserError, match="the loss"):
        check([INF, 1.0], [1.0, 1.0], 1.0, skips_gradients=True)


def test_no_more_than_a_hundred_updates_go_unchecked() -> None:
    divergence = DivergenceCheck(ALONE, skips_gradients=False)
    one: Tensor = torch.tensor(1.0)
    for step in range(100):
        assert not divergence.is_due
        divergence.end_update(step, 1.0, one)
    assert divergence.is_due
    divergence(nn.Linear(1, 1))
    assert not divergence.is_due
