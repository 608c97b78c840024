"""How a program ends early: the user can mend something, or wants it to stop."""


class UserError(ValueError):
    """Something the user can mend: the message names the value, the rule and the way out, in one line.

    Caught only at the doors (`train.py` and `seq2seq`), which print it to stderr and exit with 2.
    """


class Interrupted(BaseException):
    """SIGINT or SIGTERM came; the message says what has been saved.

    No Exception, as KeyboardInterrupt is none: it may come anywhere, also where a library passes over its own faults.

    Attributes:
        signal: the signal's number.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
