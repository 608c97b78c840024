"""The one exception for what a user can mend."""


class UserError(ValueError):
    """Something the user can mend: the message names the value, the rule and the way out, in one line.

    Caught only at the doors (`train.py` and `seq2seq`), which print it to stderr and exit with 2.
    """


class Interrupted(Exception):  # noqa: N818  it is an event, not a fault
    """Training stopped at SIGINT or SIGTERM after saving its state; the message says how to go on.

    Attributes:
        signal: the signal's number.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
