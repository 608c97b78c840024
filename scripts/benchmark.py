"""Measure speeds against other programs: `python scripts/benchmark.py COMMAND --help`.

Peers live in environments of their own, so each is named with its interpreter: `--peer marian=envs/marian/bin/python`.
"""

import sys

import typer
from benchmarks import attention, decode, train

from seq2seq.errors import UserError
from seq2seq.streams import complain

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def benchmark() -> None:
    """Measure speeds, in turns with other programs on the same machine."""


app.command("train")(train.main)
app.command("decode")(decode.main)
app.command("attention")(attention.main)

if __name__ == "__main__":
    try:
        app()
    except (UserError, OSError) as error:
        complain(f"error: {error}")
        sys.exit(2)
