"""Range coder of the constriction library: the fast implementation for the static baselines, and the only use of that library.

This file handles four properties of constriction 0.5.0. A test checks each of them:
- `Categorical` without `perfect=False` prints a warning to standard output.
- It turns floats into integer frequencies: it adds 1 to each and scales the rest to the total. So integer frequencies arrive
  exactly if they are passed as float64 `frequency - 1`: the scale is then (2**24 - V) / (2**24 - V) = 1, and all partial sums
  are integers below 2**53.
- It accepts symbols only as int32 and rows only as C-contiguous float64.
- A Rust panic is raised as a BaseException, which `except Exception` does not catch.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import constriction
import numpy as np
from numpy.typing import NDArray

from prequential_codecs.baselines.frequencies import IntArray
from prequential.errors import CorruptArchiveError, PrequentialError


class Encoder:
    """From symbols to words. Does not check its arguments; `RangeEncoder` does."""

    def __init__(self) -> None:
        self._coder = constriction.stream.queue.RangeEncoder()
        self._family = constriction.stream.model.Categorical(perfect=False)

    def encode(self, symbols: IntArray, frequencies: IntArray) -> None:
        """Codes symbols (n,) in order under the rows of frequencies (n, V). Under 2 microseconds per symbol at V = 256."""
        with _library_errors(PrequentialError, "range encoder"):
            self._coder.encode(symbols.astype(np.int32, order="C"), self._family, _float_rows(frequencies))

    def words(self) -> NDArray[np.uint32]:
        """The words of the message so far, including a flush. The encoder's state does not change."""
        with _library_errors(PrequentialError, "range encoder"):
            words: NDArray[np.uint32] = self._coder.get_compressed()
            return words


class Decoder:
    """From words to symbols. Does not check its frequencies; `RangeDecoder` does."""

    def __init__(self, words: NDArray[np.uint32]) -> None:
        self._family = constriction.stream.model.Categorical(perfect=False)
        with _library_errors(CorruptArchiveError, "range decoder"):
            self._coder = constriction.stream.queue.RangeDecoder(words)

    def decode(self, frequencies: IntArray) -> NDArray[np.int64]:
        """Symbols (n,) int64 under the rows of frequencies (n, V). Raises CorruptArchiveError if the words code no symbol."""
        with _library_errors(CorruptArchiveError, "range decoder"):
            symbols: NDArray[np.int32] = self._coder.decode(self._family, _float_rows(frequencies))
            return symbols.astype(np.int64)

    def maybe_exhausted(self) -> bool:
        """False if words certainly remain: unread ones, or a last word that is too large for a flush."""
        return bool(self._coder.maybe_exhausted())


def _float_rows(frequencies: IntArray) -> NDArray[np.float64]:
    return np.subtract(frequencies, 1, dtype=np.float64, order="C")


@contextmanager
def _library_errors(error_class: type[PrequentialError], what: str) -> Iterator[None]:
    """Turns the library's exceptions and panics into `error_class`. Interrupts pass through."""
    try:
        yield
    except BaseException as error:
        # pyo3 does not export the class of a panic, which derives from BaseException.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise error_class(f"{what}: {error}") from error
        raise
