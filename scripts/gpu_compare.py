"""Train the four architectures for the same number of minutes each, and put them side by side.

    python scripts/gpu_compare.py --minutes 10                          on Multi30k, on the GPU
    python scripts/gpu_compare.py --minutes 2 --trainer cpu data=grammar

Further settings go to every run as they go to train.py. The runs lie in `--output`, one folder a model. Printed at the
end: target tokens per second of training, test BLEU, and after how many minutes of training validation BLEU (greedy)
first reached each `--bleu`.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("rnn", "bahdanau", "luong", "transformer")
# A run ends by the clock alone, and cannot know its last update: no schedule that falls to 0 with it.
SETTINGS = (
    "data=multi30k",
    "optim=inverse_sqrt",
    "optim.warmup=400",
    "trainer.max_epochs=10000",
    "trainer.max_steps=null",
)


def main(
    settings: Annotated[list[str] | None, typer.Argument(help="Further settings of train.py.")] = None,
    minutes: Annotated[float, typer.Option(help="Of training for each model, validation not counted.")] = 10.0,
    trainer: Annotated[str, typer.Option(help="gpu, cpu or auto.")] = "gpu",
    bleu: Annotated[list[float] | None, typer.Option(help="Times to these. [default: 20, 25, 30, 35]")] = None,
    output: Annotated[Path, typer.Option(help="A new folder for the runs.")] = Path("runs/compare"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the numbers to this file too.")] = None,
) -> None:
    """Train and score rnn, bahdanau, luong and transformer in the same time."""
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"--output {output} is a file; give a new folder")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise typer.BadParameter(f"--json {json_file}: there is no folder {json_file.parent}")
    targets = bleu or [20.0, 25.0, 30.0, 35.0]
    found = {}
    for model in MODELS:
        run = output / model
        chosen = [*SETTINGS, *(settings or []), f"trainer={trainer}", f"trainer.max_minutes={minutes}"]
        command = [sys.executable, str(ROOT / "train.py"), f"model={model}", f"run_dir={run}", *chosen]
        if code := subprocess.run(command, check=False).returncode:
            raise typer.Exit(code)  # train.py has said why
        found[model] = summary(run, targets)
    Console(width=120).print(table(found, targets))
    if json_file is not None:
        json_file.write_text(json.dumps({"minutes": minutes, "models": found}, indent=2) + "\n", encoding="utf-8")


def summary(run: Path, targets: list[float]) -> dict[str, Any]:
    """Return what a run came to."""
    metrics = json.loads((run / "bundle" / "metrics.json").read_text(encoding="utf-8"))
    with (run / "metrics.csv").open(encoding="utf-8") as stream:
        curve = [
            (float(row["seconds"]) / 60, float(row["validation/bleu"]))
            for row in csv.DictReader(stream)
            if row["validation/bleu"]
        ]
    return {
        "target_tokens_per_second": metrics["target_tokens_per_second"],
        "updates": metrics["updates"],
        "train_minutes": metrics["train_seconds"] / 60,
        "validation_bleu": metrics["validation"]["bleu"],
        "test_bleu": None if metrics["test"] is None else metrics["test"]["bleu"],
        "minutes_to_bleu": {str(b): next((at for at, reached in curve if reached >= b), None) for b in targets},
        "curve": curve,
        "machine": metrics["machine"],
        "versions": metrics["versions"],
    }


def table(found: dict[str, dict[str, Any]], targets: list[float]) -> Table:
    """Return the numbers side by side."""
    shown = Table(box=None)
    shown.add_column("model")
    for name in ("tokens/s", "updates", "test BLEU", *(f"min. to {bleu:g}" for bleu in targets)):
        shown.add_column(name, justify="right")
    for model, numbers in found.items():
        times = (numbers["minutes_to_bleu"][str(bleu)] for bleu in targets)
        shown.add_row(
            model,
            f"{numbers['target_tokens_per_second']:,.0f}",
            str(numbers["updates"]),
            "-" if numbers["test_bleu"] is None else f"{numbers['test_bleu']:.2f}",
            *("-" if minutes is None else f"{minutes:.1f}" for minutes in times),
        )
    return shown


if __name__ == "__main__":
    typer.run(main)
