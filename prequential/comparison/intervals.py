"""What all intervals share: which level of confidence exists, and the labels of what is compared."""

from string import ascii_uppercase

from prequential.errors import ConfigError


def check_confidence(confidence: float) -> None:
    """Raises ConfigError for a level that no interval has."""
    if not 0 < confidence < 1:
        raise ConfigError(f"the confidence {confidence} is outside (0, 1): 0.95 is usual")


def letters(i: int) -> str:
    """The i-th label of A ... Z, A2 ... Z2, A3 ..."""
    repeat, letter = divmod(i, len(ascii_uppercase))
    return ascii_uppercase[letter] + (str(repeat + 1) if repeat else "")
