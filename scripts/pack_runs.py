"""Pack what tables are made of, the finished runs of a sweep without their weights, into one small archive.

python scripts/pack_runs.py runs/ladder_grammar docs/ladder/grammar.tar.xz

Unpacked (mkdir -p runs/published/grammar; tar -xf docs/ladder/grammar.tar.xz -C runs/published/grammar), the runs can
be compared. Unpacked where their sweep writes, runs/ladder_grammar, they count as finished: it trains those that are
not among them.
"""

import argparse
import sys
import tarfile
from pathlib import Path

from seq2seq.whole_file import whole_file

FILES = ("*.yaml", "*.csv", "*.log", "speed.json", "bundle/*.json", "tests/*/*")


def main() -> None:
    """Pack them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="folder that holds the runs")
    parser.add_argument("archive", type=Path, help="its name ends in .tar.xz")
    arguments = parser.parse_args()
    runs = [metrics.parents[1] for metrics in sorted(arguments.sweep.glob("*/bundle/metrics.json"))]
    if not runs:
        parser.error(f"there is no finished run in {arguments.sweep}")
    if not arguments.archive.name.endswith(".tar.xz"):
        parser.error(f"{arguments.archive} does not end in .tar.xz")
    if links := [path for run in runs for path in run.rglob("*") if path.is_symlink()]:
        parser.error(f"{links[0]} is a link: what it leads to may not be meant for others; take it out")
    try:
        pack(runs, arguments.archive)
    except OSError as error:
        parser.error(f"cannot write {arguments.archive}: {error.strerror}")
    sys.stdout.write(f"{len(runs)} runs in {arguments.archive}, {arguments.archive.stat().st_size:,} bytes\n")


def pack(runs: list[Path], archive: Path) -> None:
    """Write the archive, whole or not at all: the same bytes for the same runs.

    What is alike in all runs, such as a test set, stands side by side: there it takes next to no room.
    """
    found = sorted((path.relative_to(run), run) for run in runs for pattern in FILES for path in run.glob(pattern))
    with whole_file(archive) as fresh, tarfile.open(fresh, "w:xz", preset=9) as tar:
        for path, run in found:
            tar.add(run / path, Path(run.name) / path, filter=_without_traces)


def _without_traces(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who packed it and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


if __name__ == "__main__":
    main()
