"""Range coder of the static baselines: from symbols and their integer frequencies to bytes, and back, by constriction.

A row of frequencies is a probability distribution over the V symbols 0..V-1: V integers, each at least 1, that sum to exactly
TOTAL = 2**24. A damaged payload may decode to other symbols. Archives are written by bit_coder.py, because the learner decides
bit by bit inside a compiled loop. Four properties of constriction 0.5.0 matter, and a test checks each of them:
- `Categorical` without `perfect=False` prints a warning to standard output.
- It turns floats into integer frequencies: it adds 1 to each and scales the rest to the total. So integer frequencies arrive
  exactly if they are passed as float64 `frequency - 1`: the scale is then (2**24 - V) / (2**24 - V) = 1, and all partial sums
  are integers below 2**53.
- It accepts symbols only as int32 and rows only as C-contiguous float64.
- A Rust panic is raised as a BaseException, which `except Exception` does not catch.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorruptArchiveError, InvalidDistributionError, PrequentialError

TOTAL_BITS = 24
TOTAL = 1 << TOTAL_BITS
WORD_BYTES = 4
BATCH_SYMBOLS = 4096  # to code in one call: limits memory to about 10 MB

Ints = NDArray[np.int64]


class RangeEncoder:
    """Codes symbols in the given order; `finish` returns the payload."""

    def __init__(self) -> None:
        import constriction

        self._coder = constriction.stream.queue.RangeEncoder()
        self._family = constriction.stream.model.Categorical(perfect=False)

    def code(self, symbols: Ints, frequencies: Ints) -> Ints:
        """Codes symbols (n,) in 0..V-1 in order under the rows of frequencies (n, V), and returns them.

        n may be 0; V may change between calls. Raises InvalidDistributionError; then no symbol of this call is coded.
        """
        check_frequencies(frequencies)
        n, V = frequencies.shape
        if symbols.shape != (n,) or not ((symbols >= 0) & (symbols < V)).all():
            raise InvalidDistributionError(f"symbols are not {n} numbers in 0..{V - 1}")
        if n:
            with _library_errors(PrequentialError, "range encoder"):
                self._coder.encode(symbols.astype(np.int32, order="C"), self._family, _float_rows(frequencies))
        return symbols

    def finish(self) -> bytes:
        """The payload: little-endian 32-bit words, about 16 bits more than the ideal code length. Empty without symbols."""
        with _library_errors(PrequentialError, "range encoder"):
            return bytes(self._coder.get_compressed().astype("<u4").tobytes())


class RangeDecoder:
    """Decodes the symbols of a payload of `RangeEncoder.finish`, given the same frequencies in the same order."""

    def __init__(self, payload: bytes) -> None:
        import constriction

        if len(payload) % WORD_BYTES:
            raise CorruptArchiveError(f"coded payload of {len(payload)} bytes is not a whole number of 32-bit words")
        self._family = constriction.stream.model.Categorical(perfect=False)
        with _library_errors(CorruptArchiveError, "range decoder"):
            self._coder = constriction.stream.queue.RangeDecoder(np.frombuffer(payload, "<u4").astype(np.uint32))
        self._n_words = len(payload) // WORD_BYTES
        self._n_symbols = 0

    def code(self, symbols: Ints, frequencies: Ints) -> Ints:
        """The next n symbols of the payload, (n,) int64; of `symbols`, only the number counts. Raises CorruptArchiveError."""
        check_frequencies(frequencies)
        if len(symbols) == 0:
            return np.empty(0, np.int64)
        self._n_symbols += len(symbols)
        with _library_errors(CorruptArchiveError, "range decoder"):
            return np.asarray(self._coder.decode(self._family, _float_rows(frequencies)), np.int64)

    def finish(self) -> None:
        """Raises CorruptArchiveError if the payload is certainly longer or shorter than that of the decoded symbols."""
        if (self._n_symbols == 0) != (self._n_words == 0) or not self._coder.maybe_exhausted():
            raise CorruptArchiveError(
                f"coded payload of {self._n_words} words does not end with its {self._n_symbols} symbols"
            )


Coder = RangeEncoder | RangeDecoder  # so that the steps of a model are written once for both directions


def check_frequencies(frequencies: Ints) -> None:
    """Raises InvalidDistributionError, which names the first wrong row, unless frequencies (n, V) can be represented exactly."""
    if frequencies.ndim != 2 or not 2 <= frequencies.shape[1] < TOTAL:
        raise InvalidDistributionError(f"frequencies have shape {frequencies.shape}; give (n, V) with V >= 2")
    # Each is bounded before the sum: without it the sum of a row could wrap around to TOTAL.
    in_range = ((frequencies >= 1) & (frequencies <= TOTAL)).all(axis=1)
    wrong = np.nonzero(~in_range | (frequencies.sum(axis=1, dtype=np.int64) != TOTAL))[0]
    if len(wrong):
        raise InvalidDistributionError(f"row {wrong[0]} of the frequencies is not {TOTAL} in parts of at least 1")


def frequencies_from(probabilities: Ints) -> Ints:
    """Frequencies that a coder accepts, near the given integer probabilities: (n, V) int64 from (n, V) int64.

    probabilities: in units of 1 / TOTAL, each >= 0, each row sums to at most TOTAL. The difference to TOTAL is added to the most
    probable symbol of a row, where it changes the code length least.
    """
    n, V = probabilities.shape
    frequencies = (probabilities * (TOTAL - V) >> TOTAL_BITS) + 1
    rest = TOTAL - frequencies.sum(axis=1)
    frequencies[np.arange(n), frequencies.argmax(axis=1)] += rest
    return frequencies


def code_under(coder: Coder, symbols: Ints, row: Ints) -> Ints:
    """Codes all symbols (n,) under the same frequencies (V,), and returns them."""
    coded = np.empty(len(symbols), np.int64)
    for start in range(0, len(symbols), BATCH_SYMBOLS):
        batch = symbols[start : start + BATCH_SYMBOLS]
        coded[start : start + len(batch)] = coder.code(batch, np.broadcast_to(row, (len(batch), len(row))))
    return coded


def _float_rows(frequencies: Ints) -> NDArray[np.float64]:
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
