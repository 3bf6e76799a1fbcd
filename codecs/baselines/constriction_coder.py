"""Range coder of the constriction library: the fast implementation, and the one border to it.

Facts about constriction 0.5.0 that this file closes off, each held by a test:
- `Categorical` without `perfect=False` prints a warning to standard output;
- it maps floats to integer frequencies by adding 1 to each and scaling the rest to the total, so integer frequencies
  arrive exactly when they are passed as float64 `frequency - 1`: the scale is then (2**24 - V) / (2**24 - V) = 1, and
  all partial sums are integers below 2**53;
- it takes symbols as int32 and rows as C-contiguous float64, and nothing else;
- Rust panics arrive as a BaseException that `except Exception` lets through.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import constriction
import numpy as np
from numpy.typing import NDArray

from prequential.codecs.baselines.frequencies import IntArray
from prequential.errors import CorruptArchiveError, PrequentialError


class Encoder:
    """Words for symbols; trusts its arguments (`RangeEncoder` checks them)."""

    def __init__(self) -> None:
        self._coder = constriction.stream.queue.RangeEncoder()
        self._family = constriction.stream.model.Categorical(perfect=False)

    def encode(self, symbols: IntArray, frequencies: IntArray) -> None:
        """Code symbols (n,) in order under the rows of frequencies (n, V); under 2 microseconds a symbol at V = 256."""
        with _border(PrequentialError, "range encoder"):
            self._coder.encode(symbols.astype(np.int32, order="C"), self._family, _float_rows(frequencies))

    def words(self) -> NDArray[np.uint32]:
        """The message so far, flushed; the encoder itself is left as it was."""
        with _border(PrequentialError, "range encoder"):
            words: NDArray[np.uint32] = self._coder.get_compressed()
            return words


class Decoder:
    """Symbols from words; trusts its frequencies (`RangeDecoder` checks them)."""

    def __init__(self, words: NDArray[np.uint32]) -> None:
        self._family = constriction.stream.model.Categorical(perfect=False)
        with _border(CorruptArchiveError, "range decoder"):
            self._coder = constriction.stream.queue.RangeDecoder(words)

    def decode(self, frequencies: IntArray) -> NDArray[np.int64]:
        """Symbols (n,) int64 under the rows of frequencies (n, V). Raises CorruptArchiveError if words name none."""
        with _border(CorruptArchiveError, "range decoder"):
            symbols: NDArray[np.int32] = self._coder.decode(self._family, _float_rows(frequencies))
            return symbols.astype(np.int64)

    def maybe_exhausted(self) -> bool:
        """False when words are certainly left over: unread, or read and too large to be a flush."""
        return bool(self._coder.maybe_exhausted())


def _float_rows(frequencies: IntArray) -> NDArray[np.float64]:
    return np.subtract(frequencies, 1, dtype=np.float64, order="C")


@contextmanager
def _border(error_class: type[PrequentialError], what: str) -> Iterator[None]:
    """Turn the library's exceptions and panics into `error_class`; interrupts pass."""
    try:
        yield
    except BaseException as error:
        # pyo3 does not export the class of a panic, and derives it from BaseException.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise error_class(f"{what}: {error}") from error
        raise
