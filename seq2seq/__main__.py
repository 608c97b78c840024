"""The `seq2seq` command, and `python -m seq2seq`."""

from seq2seq.allocator import keep_freed_memory
from seq2seq.signals import stop_at_once


def main() -> None:
    """Be ready for signals before anything else is imported, then run the command line."""
    stop_at_once()
    keep_freed_memory()
    from seq2seq import cli

    cli.main()


if __name__ == "__main__":
    main()
