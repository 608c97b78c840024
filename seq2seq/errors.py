"""The one exception for what a user can mend."""


class UserError(ValueError):
    """Something the user can mend: the message names the value, the rule and the way out, in one line.

    Caught only at the doors (`train.py` and `seq2seq`), which print it to stderr and exit with 2.
    """
