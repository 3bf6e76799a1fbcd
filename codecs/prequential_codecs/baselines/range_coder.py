"""Range coder of the static baselines: from symbols and their frequencies to bytes, and back.

It does not write archives: prequential_codecs/bit_coder.py does. The two differ because their users differ. A static baseline knows a full
row of frequencies for each symbol. The constriction library codes whole symbols under such rows, fast and well tested. The
learner decides bit by bit inside a compiled loop, and a call into another library for each bit is not possible there. So
bit_coder.py takes the same steps in a compiled function.

Two implementations produce the same words: constriction, and plain Python if constriction is not installed. This module adds
the checks and the byte order that both need. The coder does not detect damaged payloads: it decodes them to other symbols.
"""

from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prequential_codecs.baselines.frequencies import IntArray, check_frequencies, check_symbols
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
    """Codes symbols in the given order; `finish` returns the payload.

    backend: one of BACKENDS, or None for the fastest installed one. The payload does not depend on it.
    Raises ConfigError for another name, MissingDependencyError for a backend that is not installed.
    """

    def __init__(self, backend: str | None = None) -> None:
        self._backend: _EncoderBackend = _implementation(backend).Encoder()

    def encode(self, symbols: IntArray, frequencies: IntArray) -> None:
        """Appends symbols: (n,) integers in 0..V-1, coded under the rows of frequencies: (n, V) int32 or int64.

        Each frequency is >= 1 and each row sums to exactly 2**24. n may be 0; V may change between calls.
        Raises InvalidDistributionError; then no symbol of this call is coded.
        """
        check_frequencies(frequencies)
        check_symbols(symbols, frequencies)
        if len(symbols):
            self._backend.encode(symbols, frequencies)

    def finish(self) -> bytes:
        """The payload: little-endian 32-bit words, about 16 bits more than `ideal_code_bits`. Empty if there are no symbols."""
        return self._backend.words().astype("<u4").tobytes()


class RangeDecoder:
    """Decodes the symbols of a payload, given the same frequencies in the same order.

    payload: from `RangeEncoder.finish`. backend: as for `RangeEncoder`; the encoder may have used the other one.
    Raises CorruptArchiveError if the payload is not a whole number of words.
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

        A damaged payload may decode to wrong symbols in 0..V-1. Raises InvalidDistributionError, and CorruptArchiveError if the
        payload points outside the range of all symbols.
        """
        check_frequencies(frequencies)
        if len(frequencies) == 0:
            return np.empty(0, dtype=np.int64)
        self._n_symbols += len(frequencies)
        return self._backend.decode(frequencies)

    def finish(self) -> None:
        """Raises CorruptArchiveError if the payload is certainly longer or shorter than that of the decoded symbols.

        It never refuses a payload that an encoder wrote. But a truncated payload looks like one that ends in zeros, so it passes
        unless it is empty.
        """
        if (self._n_symbols == 0) != (self._n_words == 0) or not self._backend.maybe_exhausted():
            raise CorruptArchiveError(
                f"coded payload of {self._n_words} words does not end with its {self._n_symbols} symbols"
            )


def _implementation(backend: str | None) -> ModuleType:
    """The module that implements `backend`, with classes Encoder and Decoder. None: the fastest installed one."""
    if backend not in (None, *BACKENDS):
        raise ConfigError(f"range coder backend {backend!r} is unknown; choose from {', '.join(BACKENDS)}")
    if backend != "reference":
        try:
            from prequential_codecs.baselines import constriction_coder

            return constriction_coder
        except ImportError as error:
            if backend is not None:
                raise MissingDependencyError(
                    f"range coder backend {backend!r} is not installed: pip install {backend}"
                ) from error
    from prequential_codecs.baselines import reference_coder

    return reference_coder
