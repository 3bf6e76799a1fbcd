"""Bytes as symbols: the alphabet of 256 that needs no table, so that nothing about it is paid for in the archive."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError


@dataclass(frozen=True)
class ByteAlphabet:
    """V = 256; a symbol is the value of its byte. All instances are equal.

    n_symbols: V.
    table_bits: what the archive spends on the alphabet's table; bytes have none.
    """

    n_symbols: ClassVar[int] = 256
    table_bits: ClassVar[int] = 0

    def encode(self, data: bytes | bytearray | memoryview | NDArray[np.uint8]) -> NDArray[np.uint8]:
        """(n,) uint8 symbols of n bytes: a view, nothing is copied, and read-only where `data` is."""
        return np.frombuffer(data, dtype=np.uint8)

    def decode(self, symbols: NDArray[np.integer[Any]]) -> bytes:
        """The n bytes of (n,) symbols, any integer dtype. Raises ConfigError where one lies outside 0..255."""
        if symbols.dtype != np.uint8 and symbols.size and not (symbols.min() >= 0 and symbols.max() < self.n_symbols):
            raise ConfigError(f"symbols {symbols.min()}..{symbols.max()} are not all bytes, 0..{self.n_symbols - 1}")
        return symbols.astype(np.uint8, copy=False).tobytes()

    def to_config(self) -> dict[str, str]:
        """JSON values that `from_config` turns back into this alphabet."""
        return {"kind": "bytes"}

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """The alphabet that `to_config` described. Raises ConfigError for a description of anything else."""
        if dict(config) != {"kind": "bytes"}:
            raise ConfigError(f"not a byte alphabet: {dict(config)!r}; expected {{'kind': 'bytes'}}")
        return cls()
