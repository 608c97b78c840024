"""Write the scores of the finished trials of a ladder to conf/experiment/, where the ladder finds the best.

python scripts/collect_trials.py grammar

A trial that is in the table already and not in the folder stays, so that several machines can add to one table.
"""

import argparse
import sys
from pathlib import Path

import yaml

from seq2seq.config import CONF
from seq2seq.trials import read_trials, trial_of, write_trials


def main() -> None:
    """Collect what has been finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", choices=("grammar", "multi30k"))
    parser.add_argument("--runs", type=Path, help="folder of the trials [default: runs/trials_LADDER]")
    parser.add_argument("--table", type=Path, help="[default: conf/experiment/trials_LADDER.csv]")
    arguments = parser.parse_args()
    runs = arguments.runs or Path("runs") / f"trials_{arguments.ladder}"
    table = arguments.table or CONF / "experiment" / f"trials_{arguments.ladder}.csv"
    found = {trial[:5]: trial for trial in read_trials(table)}
    for metrics in sorted(runs.glob("*/bundle/metrics.json")):
        settings = yaml.safe_load((metrics.parents[1] / "config.yaml").read_text(encoding="utf-8"))
        trial = trial_of(settings, metrics)
        found[trial[:5]] = trial
    write_trials(table, (found[key] for key in sorted(found)))
    sys.stdout.write(f"{len(found)} trials in {table}\n")


if __name__ == "__main__":
    main()
