"""Failures of somebody else's code, as errors of this program."""

from contextlib import ContextDecorator
from typing import Any

from prequential.errors import ConfigError, PrequentialError


class named_failures(ContextDecorator):  # noqa: N801  # a function to its callers; a generator would take ten times as long
    """What somebody else's code in the body raises becomes a ConfigError of one line: WHAT: TYPE: TEXT. Ctrl-C passes."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, PrequentialError):
            return
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a library in Rust
            return
        text = " ".join(str(error).split())[:300]
        raise ConfigError(": ".join(filter(None, [self.what, type(error).__name__, text]))) from error
