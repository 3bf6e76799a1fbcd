"""The errors of this package. Each message says what is wrong, where, and what to do. The command line prints it as one line."""

import os

from prequential.printable import printable

MAX_MESSAGE = 900


class PrequentialError(Exception):
    """The base class. Its message is one printable line for a user. A long one is shortened: it may quote a hostile file."""

    def __init__(self, message: object = "") -> None:
        text = printable(" ".join(str(message).split()))
        super().__init__(text if len(text) <= MAX_MESSAGE else f"{text[:600]} [...] {text[-200:]}")


class ConfigError(PrequentialError):
    """A configuration value or an argument is of the wrong kind, out of its range, or contradicts another one."""


def wrong_argument(name: str, value: object, give: str) -> ConfigError:
    """The error about an argument of a function: its name, what was given, and what to give."""
    is_short = value is None or isinstance(value, bool | int | float | str | os.PathLike)
    shown = repr(value) if is_short and len(repr(value)) <= 80 else f"an object of type {type(value).__name__}"
    return ConfigError(f"{name} is {shown}: give {give}")


def check_number(name: str, value: object, low: int, high: int) -> None:
    """Raises ConfigError unless the argument is an integer in [low, high]."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_argument(name, value, "a number")
    if not low <= value <= high:
        raise ConfigError(f"{name} = {value} lies outside [{low}, {high}]")


class CorpusError(PrequentialError):
    """A corpus cannot be opened or read: missing, unreadable, offline, or of the wrong kind."""


class InvalidDistributionError(PrequentialError):
    """Symbol frequencies are not integers >= 1 that sum to exactly 2**24, or a symbol lies outside them."""


class CorruptArchiveError(PrequentialError):
    """The bytes are not a valid archive: damaged, cut off, followed by other bytes, or with sizes that no writer declares."""


class UnsupportedVersionError(PrequentialError):
    """The archive is of a format version that this program does not read."""


class InexactMachineError(PrequentialError):
    """No arithmetic backend of this machine passes the exactness self-test."""


class OutputError(PrequentialError):
    """The output exists, is a terminal, or cannot be written."""


class CheckpointError(PrequentialError):
    """A checkpoint or a stored model is damaged, or does not belong to the run that should continue from it."""


class FaultError(PrequentialError):
    """An audit found a fault of the memory, the processor, a library or this program: data changed or were miscomputed."""


class CausalityError(PrequentialError):
    """A learner breaks the prequential law, so its code length is not a description length."""


class MissingDependencyError(PrequentialError):
    """A package or program that this request needs is not installed."""
