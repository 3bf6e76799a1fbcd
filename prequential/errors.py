"""One error family. Each message says what is wrong, where, and what to do; the command line prints it as one line."""

MAX_MESSAGE = 900


class PrequentialError(Exception):
    """Anything this package refuses to do; the message is a single line fit for a user, also where it quotes a stranger."""

    def __init__(self, message: object = "") -> None:
        text = str(message)
        super().__init__(text if len(text) <= MAX_MESSAGE else f"{text[:600]} [...] {text[-200:]}")


class ConfigError(PrequentialError):
    """A configuration value is out of its range or contradicts another."""


class CorpusError(PrequentialError):
    """A corpus cannot be opened or read: missing, unreadable, offline, or of the wrong kind."""


class InvalidDistributionError(PrequentialError):
    """Symbol frequencies are not integers >= 1 that sum to exactly 2**24, or a symbol lies outside them."""


class CorruptArchiveError(PrequentialError):
    """Bytes that claim to be an archive are not: damaged, truncated, trailing, or with an absurd declaration."""


class UnsupportedVersionError(PrequentialError):
    """A well-formed archive of a format version that this program does not read."""


class InexactMachineError(PrequentialError):
    """No arithmetic backend of this machine passes the exactness self-test."""


class OutputError(PrequentialError):
    """The output exists, is a terminal, or cannot be written."""


class CheckpointError(PrequentialError):
    """A checkpoint or a stored model is damaged, or does not belong to the run that was to go on from it."""


class FaultError(PrequentialError):
    """An audit found that memory, processor, a library or this program changed or miscomputed something during a run."""


class LawError(PrequentialError):
    """A learner breaks the prequential law: what it coded is no description length."""


class MissingDependencyError(PrequentialError):
    """An optional package is needed for this request and is not installed."""


class WorkerLostError(PrequentialError):
    """Another worker of a run has ended or does not answer."""
