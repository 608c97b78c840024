"""stdin, stdout and stderr, whatever the locale, and whatever the caller has closed or filled."""

import logging
import os
import sys
from contextlib import suppress

from seq2seq.errors import UserError


def speak_utf8() -> None:
    """Write UTF-8 with LF line ends to stdout and stderr.

    A closed stream's number would go to the next file that is opened, which then gets what libraries write to that
    stream: so /dev/null takes it. What is meant for a closed stderr is lost; nothing else is.

    Raises:
        UserError: stdout is closed, and results have nowhere to go.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  as long as the process lives
    if sys.stdout is None:
        raise UserError("stdout is closed: send it to a file, or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not where a test or a notebook has put something in its place
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


class _Lines(logging.Formatter):
    """Log lines as `complain` writes them; warnings are called so."""

    def format(self, record: logging.LogRecord) -> str:
        kind = "warning: " if record.levelno >= logging.WARNING else ""
        return f"seq2seq: {kind}{record.getMessage()}"


def log_to_stderr() -> None:
    """Show on stderr what this package is at, and the warnings of all."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("seq2seq").setLevel(logging.INFO)


def put(text: str) -> None:
    """Write to stdout, and see it through.

    Raises:
        UserError: it cannot be written.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise unwritable(error) from error


def unwritable(error: OSError) -> UserError:
    """Return what to raise for an error of stdout; the rest in its buffer goes, lest Python try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return UserError(f"cannot write to stdout: {error.strerror}")


def complain(text: str) -> None:
    """Write a line to stderr, if it takes any."""
    with suppress(OSError):
        sys.stderr.write(f"seq2seq: {text}\n")
        sys.stderr.flush()
