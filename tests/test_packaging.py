import subprocess
import sys
import zipfile
from pathlib import Path

from test_config import CONF, ROOT


def test_the_wheel_holds_the_package_and_conf_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    for file in CONF.rglob("*.yaml"):
        assert f"seq2seq/conf/{file.relative_to(CONF)}" in names
    assert {name.split("/")[0] for name in names} == {"seq2seq", "seq2seq-0.1.0.dist-info"}
