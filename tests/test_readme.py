import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_config import ROOT, composed

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
TRAINING = [line for line in COMMANDS if line.startswith("python train.py") and "resume=" not in line]


def run(command: list[str], folder: Path, text: str = "") -> str:
    result = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("line", TRAINING)
def test_every_training_command_composes(line: str) -> None:
    overrides = [word for word in shlex.split(line)[2:] if word != "-m"]
    choices = [override.replace("rnn,bahdanau,luong,transformer", "luong") for override in overrides]
    if any(override.startswith(("experiment=ladder", "experiment=trials")) for override in overrides):
        choices += ["rung=0-rnn", "trial=a"]
    assert composed(*choices).trainer.max_epochs == 20


def test_the_first_commands_train_and_translate(tmp_path: Path) -> None:
    train, translate = TRAINING[0], next(line for line in COMMANDS if "seq2seq translate" in line)
    words = shlex.split(train.replace("python train.py", f"{sys.executable} {ROOT / 'train.py'}"))
    summary = run([*words, "experiment=smoke"], tmp_path)
    assert re.search(r"^pronouns +2 ", summary, re.MULTILINE)
    folder = re.search(r"^run: (.+)$", summary, re.MULTILINE)
    assert folder is not None
    sentence, command = translate.removeprefix("echo ").split(" | ")
    words = shlex.split(command.replace("runs/RUN", folder[1]))
    program = [sys.executable, "-c", "from seq2seq.cli import main; main()"]
    assert run([*program, *words[1:]], tmp_path, sentence).count("\n") == 1


def test_every_command_that_is_named_exists() -> None:
    program = [sys.executable, "-c", "from seq2seq.cli import main; main()", "--help"]
    listed = run(program, ROOT)
    for command in set(re.findall(r"`seq2seq (\w+)", README)):
        assert re.search(rf"^\s+{command}\b", listed, re.MULTILINE), command


def test_every_link_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_test_that_holds_a_promise_exists() -> None:
    page = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    holders = [line.split("|")[-2] for line in page.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert all("`" in holder for holder in holders)
    for file, words in re.findall(
        r"`([^` ]+)[^`]*`(?:: ([^;`(]*\w))?", "; ".join(holder.replace(" (slow)", "") for holder in holders)
    ):
        path = ROOT / ("." if "/" in file else "tests") / file
        assert path.exists(), file
        names = re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        for part in filter(None, words.split(", ")):
            assert any(part.replace(" ", "_") in name for name in names), f"{file}: {part}"
