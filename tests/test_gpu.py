"""What can only be seen on a GPU. Run with: pytest -m gpu."""

from pathlib import Path

import pytest
import torch
from small_runs import TINY, tiny_settings

from seq2seq.inference.bundle import load_bundle
from seq2seq.inference.translator import Translator
from seq2seq.training.fit import fit
from seq2seq.training.settings import Accelerator, Precision

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here"),
]


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("name", list(TINY))
def test_every_architecture_trains_on_a_gpu_and_its_bundle_translates_on_both(
    tmp_path: Path, name: str, precision: Precision
) -> None:
    fit(tiny_settings(tmp_path, model=TINY[name], max_steps=3, accelerator=Accelerator.gpu, precision=precision))
    for device in ("cpu", "cuda"):
        translator = Translator.from_bundle(load_bundle(tmp_path / "run", device))
        assert len(list(translator.translate(["a fox sees a crow.", ""]))) == 2
