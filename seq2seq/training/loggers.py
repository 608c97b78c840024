"""Where the numbers of training go: metrics.csv, and TensorBoard."""

import csv
import io
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger

from seq2seq.training.validation import Sample
from seq2seq.whole_file import whole_file

TRAIN = ("loss", "smoothed_loss", "learning_rate", "gradient_norm", "target_tokens_per_second")
VALIDATION = ("loss", "perplexity", "bleu", "chrf")
COLUMNS = (
    "step",
    "epoch",
    "seconds",
    "target_tokens",
    *(f"train/{name}" for name in TRAIN),
    *(f"validation/{name}" for name in VALIDATION),
)
FINAL = ("validation_bleu", "test_bleu", "test_chrf", "test_exact_match", "train_minutes")


class CsvLogger(Logger):
    """Appends a row to metrics.csv for each entry; a resumed run goes on in the same file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def forget_after(self, step: int) -> None:
        """Drop the rows of updates that a resumed run makes again."""
        if self._file.exists():
            text = self._file.read_bytes().decode("utf-8", errors="replace")
            whole = text[: text.rfind("\n") + 1]  # a full disk cuts the last row
            table = csv.DictReader(io.StringIO(whole, newline=""), COLUMNS)
            kept = [row for row in table if row["step"].isdigit() and int(row["step"]) <= step]
            with whole_file(self._file) as fresh, fresh.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(kept)

    @property
    def name(self) -> str:
        """Lightning asks for one."""
        return "csv"

    @property
    def version(self) -> str:
        """Lightning asks for one."""
        return ""

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml has them."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Append a row."""
        is_new = not self._file.exists()
        with self._file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            if is_new:
                writer.writeheader()
            writer.writerow({"step": step, **metrics})


class BoardLogger(TensorBoardLogger):
    """TensorBoard events in the run folder itself: curves, sample translations, settings and final scores."""

    def __init__(self, run_dir: Path, settings: dict[str, Any], resumed_at: int | None = None) -> None:
        # A viewer drops what was written for steps beyond the one that a run was resumed at.
        purge_step = None if resumed_at is None else resumed_at + 1
        super().__init__(save_dir=str(run_dir), name="", version="", default_hp_metric=False, purge_step=purge_step)
        self._settings = settings

    def log_settings(self) -> None:
        """Write the settings and empty final scores: the HParams tab shows runs that start with both."""
        self.log_hyperparams(self._settings, dict.fromkeys(FINAL, float("nan")))

    def log_final(self, scores: dict[str, float], step: int) -> None:
        """Fill the final scores in."""
        for name, value in scores.items():
            assert name in FINAL
            self.experiment.add_scalar(name, value, step)
        self.experiment.flush()

    def log_tests(self, tests: Mapping[str, Mapping[str, Any]], step: int) -> None:
        """Write the scores of each test set; accuracy by phenomenon and alignment error rates where they are known."""
        for name, scores in tests.items():
            numbers = {metric: scores[metric] for metric in ("bleu", "chrf", "ter", "exact_match")}
            alignment = scores.get("alignment", {})
            rates = {**alignment.get("aer", {}), **alignment.get("baselines", {})}
            numbers |= {f"alignment_error_rate/{of}": rate for of, rate in rates.items()}
            for kind, shares in scores.get("exact_match_by", {}).items():
                numbers |= {f"exact_match_by_{kind}/{value}": of["exact_match"] for value, of in shares.items()}
            for label, number in numbers.items():
                self.experiment.add_scalar(f"tests/{name}/{label}", number, step)
        self.experiment.flush()

    def log_samples(self, samples: list[Sample], step: int) -> None:
        """Write sample translations as text."""
        text = "\n\n".join(f"**source** {s.src}  \n**reference** {s.ref}  \n**translation** {s.hyp}" for s in samples)
        self.experiment.add_text("validation/samples", text, step)

    def save(self) -> None:
        """Flush; unlike the parent, leave no hparams.yaml beside config.yaml."""
        self.experiment.flush()
