"""Rules that the sizes of every model obey."""

from seq2seq.errors import UserError


def check_sizes(config: object, *names: str) -> None:
    """Raise UserError unless each named field is at least 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise UserError(f"model.{name}={getattr(config, name)} must be at least 1")


def check_halves(hidden_size: int) -> None:
    """Raise UserError unless two directions can share the size of a state."""
    if hidden_size % 2:
        raise UserError(f"model.hidden_size={hidden_size} must be even for model.bidirectional=true: half a direction")


def check_std(embedding_std: float) -> None:
    """Raise UserError unless it is the standard deviation of word vectors that differ, and are numbers."""
    if not 0 < embedding_std <= 100:
        raise UserError(f"model.embedding_std={embedding_std} must be more than 0, and at most 100")


def check_dropout(dropout: float) -> None:
    """Raise UserError unless 0 <= dropout < 1."""
    if not 0 <= dropout < 1:
        raise UserError(f"model.dropout={dropout} must be at least 0 and below 1")
