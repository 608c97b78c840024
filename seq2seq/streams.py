"""stdout and stderr, whatever the locale."""

import sys


def speak_utf8() -> None:
    """Write UTF-8 with LF line ends to stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not where a test or a notebook has put something in its place
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
