"""Measure speeds against other programs: `python scripts/benchmark.py COMMAND --help`.

Peers live in environments of their own, so each is named with its interpreter: `--peer marian=envs/marian/bin/python`.
"""

import typer
from benchmarks import attention, decode, train

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def benchmark() -> None:
    """Measure speeds, in turns with other programs on the same machine."""


app.command("train")(train.main)
app.command("decode")(decode.main)
app.command("attention")(attention.main)

if __name__ == "__main__":
    app()
