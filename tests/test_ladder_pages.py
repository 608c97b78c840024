"""What the pages say of the ladder is what the published tables hold, and these hold what the published runs made."""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from test_config import ROOT
from test_ladder import RUNGS

from seq2seq.comparison.compare_text import comparison_text


def published(name: str) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads((ROOT / "docs" / "ladder" / f"{name}.json").read_text("utf-8"))["rows"]
    assert list(rows) == RUNGS
    return rows


def table_below(heading: str) -> dict[str, list[str]]:
    page = (ROOT / "docs" / "ladder.md").read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in page.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in rows}


def shown(found: dict[str, Any] | None, scale: float = 1, digits: int = 1) -> str:
    return "" if found is None else f"{scale * found['mean']:.{digits}f}"


def shown_step(row: dict[str, Any]) -> str:
    if row["difference"] is None:
        return ""
    bleu = row["difference"]["bleu"]
    return f"{bleu['value']:+.1f} [{bleu['low']:+.1f}, {bleu['high']:+.1f}] to {row['difference']['to'][0]}"


def test_the_page_says_of_one_pass_what_the_table_holds() -> None:
    for label, row in published("grammar").items():
        factor, *cells = table_below("After one pass over the built-in language")[label]
        assert factor
        assert cells == [
            f"{row['bleu']['mean']:.1f} ± {row['bleu']['spread']:.1f}",
            shown_step(row),
            shown(row["exact_match"], 100, 0),
            shown(row["aer"]["step_t"], digits=3).removeprefix("0"),
            shown(row["tests"]["length_21_40_coordination"]["bleu"]),
            shown(row["train_minutes"]),
            shown(row["flops_per_target_token"], 1e-6),
        ]


def test_the_page_says_of_eight_passes_what_the_table_holds() -> None:
    before = published("grammar")
    for label, row in published("grammar_long").items():
        assert table_below("Near convergence")[label] == [
            shown(before[label]["bleu"]),
            shown(row["bleu"]),
            shown_step(row),
            shown(row["exact_match"], 100, 0),
            shown(row["aer"]["step_t"], digits=3).removeprefix("0"),
            shown(row["tests"]["length_21_40_coordination"]["bleu"]),
            shown(row["tests"]["pronouns"]["exact_match"], 100, 0),
            shown(row["convergence"]["rise_in_last_quarter"]),
        ]


def test_the_page_says_of_less_text_what_the_published_runs_made(tmp_path: Path) -> None:
    with tarfile.open(ROOT / "docs/ladder/data_size.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    runs = [json.loads(file.read_text("utf-8")) for file in tmp_path.glob("*/bundle/metrics.json")]
    bleu = {(run["training_pairs"], run["label"]): run["test"]["bleu"] for run in runs}
    labels = ("0-rnn", "2-bahdanau", "7-transformer")
    for label in labels:
        row = published("grammar")[label]
        bleu[100_000, label] = row["bleu"]["values"][row["seeds"].index(1)]
    page = (ROOT / "docs" / "ladder.md").read_text("utf-8").split("## Less text\n")[1].split("\n## ")[0]
    for pairs in (1_000, 3_000, 10_000, 30_000, 100_000):
        assert f"| {pairs:,} | " + " | ".join(f"{bleu[pairs, label]:.1f}" for label in labels) + " |" in page


def test_the_page_says_of_the_controls_what_the_published_runs_made(tmp_path: Path) -> None:
    with tarfile.open(ROOT / "docs/ladder/controls.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    runs = {
        file.parents[1].name: json.loads(file.read_text("utf-8")) for file in tmp_path.glob("*/bundle/metrics.json")
    }
    page = (ROOT / "docs" / "ladder.md").read_text("utf-8").split("## Controls\n")[1].split("\n## ")[0]
    bleu = [runs[f"3-concat-no-feeding-s{seed}"]["test"]["bleu"] for seed in (1, 2, 3)]
    assert f"| rung 3 without feeding | {fmean(bleu):.1f} ± {stdev(bleu):.1f} |" in page
    for label in ("2-bahdanau", "3-luong-concat", "5-no-feeding"):
        row = published("grammar")[label]
        bleu = [value for seed, value in zip(row["seeds"], row["bleu"]["values"], strict=True) if seed <= 3]
        assert re.search(rf"\| `{label}`.* \| {fmean(bleu):.1f} ± {stdev(bleu):.1f} \|", page), label
    for label in ("4-luong-dot", "5-no-feeding", "7-transformer"):
        validated = [runs[f"{label}-warmup{warmup}"]["validation"]["bleu"] for warmup in (400, 800)]
        assert re.search(rf"\| `{label}` \| [\d.]+ \| {validated[0]:.1f} \| {validated[1]:.1f} \|", page), label


def test_the_page_says_of_multi30k_what_the_table_holds() -> None:
    for label, row in published("multi30k").items():
        assert table_below("Multi30k")[label] == [
            shown(row["bleu"]),
            shown(row["chrf"]),
            shown_step(row),
            shown(row["tests"]["test_2017_flickr"]["bleu"]),
            shown(row["train_minutes"]),
        ]


def test_the_readme_says_what_the_tables_hold() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    rows = {"one pass": "grammar", "eight passes": "grammar_long", "Multi30k": "multi30k"}
    for name, file in rows.items():
        assert (
            f"| {name} | " + " | ".join(shown(row["bleu"], digits=0) for row in published(file).values()) + " |" in page
        )


@pytest.mark.parametrize("name", ["grammar", "grammar_long", "multi30k"])
def test_the_published_json_holds_what_the_published_tables_show(name: str) -> None:
    found = json.loads((ROOT / "docs" / "ladder" / f"{name}.json").read_text("utf-8"))
    assert comparison_text(found) == (ROOT / "docs" / "ladder" / f"{name}.md").read_text("utf-8")


def remade(name: str, *options: str) -> str:
    with tarfile.open(ROOT / f"docs/ladder/{name}.tar.xz") as archive:
        archive.extractall(f"runs/published/{name}", filter="data")
    rungs = str(ROOT / "docs/ladder/rungs.json")
    command = [sys.executable, "-m", "seq2seq", "compare", f"runs/published/{name}", "--rungs", rungs, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_published_table_of_eight_passes_is_made_from_the_published_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert remade("grammar_long") == (ROOT / "docs/ladder/grammar_long.md").read_text("utf-8")


@pytest.mark.slow
def test_the_published_table_of_one_pass_is_made_from_the_published_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert remade("grammar", "--baselines") == (ROOT / "docs/ladder/grammar.md").read_text("utf-8")
