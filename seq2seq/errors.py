"""How a program ends early: the user can mend something, or wants it to stop."""


class UserError(ValueError):
    """Something the user can mend: the message names the value, the rule and the way out, in one line.

    Caught only at the doors (`train.py` and `seq2seq`), which print it to stderr and exit with 2.
    """


class Interrupted(Exception):  # noqa: N818  it is an event, not a fault
    """SIGINT or SIGTERM came; the message says what has been saved.

    Attributes:
        signal: the signal's number.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
