"""What every baseline compressor is: two functions and a name to print."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Compressor:
    """A whole-file compressor with its settings.

    label: settings included, as a table prints it.
    compress: original to stored bytes, which hold all that the decoder needs.
    decompress: inverse of compress, for its output only; foreign bytes may raise anything.
    requires: module that must be installed, or None.
    """

    label: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]
    requires: str | None = None

    @property
    def installed(self) -> bool:
        """Whether `requires` can be found; imports nothing."""
        return self.requires is None or importlib.util.find_spec(self.requires) is not None
