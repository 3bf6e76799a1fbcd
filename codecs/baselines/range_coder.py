"""Range coder: symbols and their frequencies to bytes, and back.

The baselines are coded with it; archives are coded bit by bit with the same steps (oder.py, docs/FORMAT.md).
Two implementations produce the same words: constriction, and plain Python where that is not installed.
What is common to both is here, once: the checks that neither makes, and the byte order. The coder cannot tell damaged
data from data, and decodes it to other symbols; the archive's checksums stand before it.
"""

from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.frequencies import IntArray, check_frequencies, check_symbols
from prequential.errors import ConfigError, CorruptArchiveError, MissingDependencyError

WORD_BYTES = 4
BACKENDS = ("constriction", "reference")


class _EncoderBackend(Protocol):
    def encode(self, symbols: IntArray, frequencies: IntArray) -> None: ...
    def words(self) -> NDArray[np.uint32]: ...


class _DecoderBackend(Protocol):
    def decode(self, frequencies: IntArray) -> NDArray[np.int64]: ...
    def maybe_exhausted(self) -> bool: ...


class RangeEncoder:
    """Codes symbols in the order given; `finish` returns the payload.

    backend: one of BACKENDS, or None for the fastest one installed; the payload does not depend on it.
    Raises ConfigError for another name, MissingDependencyError for one that is not installed.
    """

    def __init__(self, backend: str | None = None) -> None:
        self._backend: _EncoderBackend = _implementation(backend).Encoder()

    def encode(self, symbols: IntArray, frequencies: IntArray) -> None:
        """Append symbols: (n,) integers in 0..V-1, coded under the rows of frequencies: (n, V) int32 or int64.

        Each frequency is >= 1 and each row sums to exactly 2**24. n may be 0; V may change between calls.
        Raises InvalidDistributionError, and then nothing of this call has been coded.
        """
        check_frequencies(frequencies)
        check_symbols(symbols, frequencies)
        if len(symbols):
            self._backend.encode(symbols, frequencies)

    def finish(self) -> bytes:
        """The payload: little-endian 32-bit words, about 16 bits over `ideal_code_bits`; empty for no symbols."""
        return self._backend.words().astype("<u4").tobytes()


class RangeDecoder:
    """Gives back the symbols of a payload, given the same frequencies in the same order.

    payload: what `RangeEncoder.finish` returned. backend: as for `RangeEncoder`, and independent of it.
    Raises CorruptArchiveError if the payload is not whole words.
    """

    def __init__(self, payload: bytes, backend: str | None = None) -> None:
        if len(payload) % WORD_BYTES:
            raise CorruptArchiveError(f"coded payload of {len(payload)} bytes is not a whole number of 32-bit words")
        words = np.frombuffer(payload, dtype="<u4").astype(np.uint32)
        self._backend: _DecoderBackend = _implementation(backend).Decoder(words)
        self._n_words = len(payload) // WORD_BYTES
        self._n_symbols = 0

    def decode(self, frequencies: IntArray) -> NDArray[np.int64]:
        """The next n symbols, (n,) int64, under the rows of frequencies: (n, V), as in `RangeEncoder.encode`.

        Returns symbols of some kind even for damaged payloads, each in 0..V-1. Raises InvalidDistributionError, and
        CorruptArchiveError where the payload names no symbol at all.
        """
        check_frequencies(frequencies)
        if len(frequencies) == 0:
            return np.empty(0, dtype=np.int64)
        self._n_symbols += len(frequencies)
        return self._backend.decode(frequencies)

    def finish(self) -> None:
        """Raise CorruptArchiveError if the payload certainly holds more, or certainly held less, than was decoded.

        Sound, not complete: it never refuses what an encoder wrote, but a payload cut short looks like one that ends in
        zeros, and passes unless nothing is left of it.
        """
        if (self._n_symbols == 0) != (self._n_words == 0) or not self._backend.maybe_exhausted():
            raise CorruptArchiveError(
                f"coded payload of {self._n_words} words does not end with its {self._n_symbols} symbols"
            )


def _implementation(backend: str | None) -> ModuleType:
    """The module that implements `backend`, with classes Encoder and Decoder; None asks for the fastest installed."""
    if backend not in (None, *BACKENDS):
        raise ConfigError(f"range coder backend {backend!r} is unknown; choose from {', '.join(BACKENDS)}")
    if backend != "reference":
        try:
            from prequential.codecs.baselines import constriction_coder

            return constriction_coder
        except ImportError as error:
            if backend is not None:
                raise MissingDependencyError(f"range coder backend {backend!r} is not installed") from error
    from prequential.codecs.baselines import reference_coder

    return reference_coder
