import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from small_runs import write_corpus
from test_config import ROOT


def test_a_terminal_shows_a_bar_with_loss_bleu_speed_and_time_left(tmp_path: Path) -> None:
    prefix = write_corpus(tmp_path / "text", pairs=60)
    arguments = ["data=files", f"data.train={prefix}", "experiment=smoke", "model.num_layers=1"]
    terminal, its_other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments],
        cwd=tmp_path,
        stderr=its_other_end,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(its_other_end)
    shown = b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    summary, _ = process.communicate(timeout=60)
    assert process.returncode == 0, shown.decode()
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode()
    assert re.search(r"epoch \d+/20 .*100%.* loss \d+\.\d+ BLEU \d+\.\d [\d ,]+ target tokens/s \d+ s left", text)
    assert "validation BLEU" in text
    assert b"tests, beam size" in summary
    assert b"\x1b" not in summary
