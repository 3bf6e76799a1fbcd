"""Failures of somebody else's code, as errors of this program."""

from collections.abc import Iterator
from contextlib import contextmanager

from prequential.errors import ConfigError, PrequentialError


@contextmanager
def named_failures(what: str) -> Iterator[None]:
    """What somebody else's code in the body raises becomes a ConfigError of one line: WHAT: TYPE: TEXT. Ctrl-C passes."""
    try:
        yield
    except PrequentialError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a library in Rust
            raise
        text = " ".join(str(error).split())[:300]
        raise ConfigError(": ".join(filter(None, [what, type(error).__name__, text]))) from error
