"""A baseline compressor: two functions and a label."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Compressor:
    """A compressor of complete files, with fixed settings.

    label: its name and settings for tables.
    compress: from the original to the stored bytes, which contain everything that the decoder needs.
    decompress: the inverse of `compress`, for its output only. Other bytes may raise any exception.
    requires: the module that must be installed, or None.
    """

    label: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]
    requires: str | None = None

    @property
    def installed(self) -> bool:
        """Whether `requires` is installed. Imports nothing."""
        return self.requires is None or importlib.util.find_spec(self.requires) is not None
