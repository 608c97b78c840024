"""Write the scores of the finished trials of a ladder to conf/experiment/, where the ladder finds the best.

python scripts/collect_trials.py grammar

A trial that is in the table already and not in the folder stays, so that several machines can add to one table.
"""

import argparse
import sys
from pathlib import Path

from seq2seq.config import CONF
from seq2seq.errors import UserError
from seq2seq.training.config_file import read_settings
from seq2seq.trials import Trial, read_trials, trial_of, write_trials


def main() -> None:
    """Collect what has been finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", choices=("grammar", "multi30k"))
    parser.add_argument("--runs", type=Path, help="folder of the trials [default: runs/trials_LADDER]")
    parser.add_argument("--table", type=Path, help="[default: conf/experiment/trials_LADDER.csv]")
    arguments = parser.parse_args()
    runs = arguments.runs or Path("runs") / f"trials_{arguments.ladder}"
    table = arguments.table or CONF / "experiment" / f"trials_{arguments.ladder}.csv"
    try:
        found = collect(runs, table)
    except UserError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    except OSError as error:
        parser.exit(2, f"{parser.prog}: error: cannot write {table}: {error.strerror}\n")
    sys.stdout.write(f"{len(found)} trials in {table}\n")


def collect(runs: Path, table: Path) -> list[Trial]:
    """Add the finished trials in a folder to a table; return all that are in it now."""
    finished = sorted(runs.glob("*/bundle/metrics.json"))
    if not finished:
        raise UserError(f"there is no finished trial in {runs}")
    found = {trial[:5]: trial for trial in read_trials(table)}
    of_run: dict[tuple[object, ...], Path] = {}
    for metrics in finished:
        run = metrics.parents[1]
        trial = trial_of(read_settings(run / "config.yaml"), metrics)
        if (other := of_run.setdefault(trial[:5], run)) != run:
            raise UserError(f"{other} and {run} are the same trial: leave one out")
        found[trial[:5]] = trial
    trials = [found[key] for key in sorted(found)]
    write_trials(table, trials)
    return trials


if __name__ == "__main__":
    main()
