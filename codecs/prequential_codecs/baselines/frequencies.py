"""Integer frequencies: the input of the range coder of the static baselines, and their code length in bits.

A row of frequencies is a probability distribution over the V symbols 0..V-1. It consists of V integers, each at least 1, that
sum to exactly TOTAL = 2**24; symbol s has probability row[s] / TOTAL. Frequencies are integers because a decoder on another
machine must see the same distribution to the last bit. They are at least 1 so that every symbol can be coded.
"""

import numpy as np
from numpy.typing import NDArray

from prequential.errors import InvalidDistributionError

TOTAL_BITS = 24
TOTAL = 1 << TOTAL_BITS
MAX_ALPHABET = 1 << 20  # symbols; a row sums to at most 2**44 before it is refused, so int64 cannot wrap

IntArray = NDArray[np.int32] | NDArray[np.int64]


def check_frequencies(frequencies: IntArray) -> None:
    """Refuses rows that a coder cannot represent exactly.

    frequencies: (n, V) int32 or int64, 2 <= V <= MAX_ALPHABET, each >= 1, each row sums to exactly TOTAL.
    Makes three passes over the array. Raises InvalidDistributionError; the message names the first wrong row.
    """
    if not isinstance(frequencies, np.ndarray) or frequencies.dtype not in (np.int32, np.int64):
        raise InvalidDistributionError(f"frequencies are {_kind(frequencies)}; give a numpy array of int32 or int64")
    if frequencies.ndim != 2 or not 2 <= frequencies.shape[1] <= MAX_ALPHABET:
        raise InvalidDistributionError(
            f"frequencies have shape {frequencies.shape}; give (n, V) with 2 <= V <= {MAX_ALPHABET}"
        )
    if frequencies.size == 0:
        return
    # The upper bound is checked before the sum: without it the sum of an int64 row could wrap around to TOTAL.
    if frequencies.min() < 1 or frequencies.max() > TOTAL:
        row = int(np.nonzero(((frequencies < 1) | (frequencies > TOTAL)).any(axis=1))[0][0])
        raise InvalidDistributionError(f"row {row} holds a frequency outside 1..{TOTAL}")
    row_sums = frequencies.sum(axis=1, dtype=np.int64)
    if (row_sums != TOTAL).any():
        row = int(np.nonzero(row_sums != TOTAL)[0][0])
        raise InvalidDistributionError(f"row {row} sums to {row_sums[row]}, not to {TOTAL}")


def check_symbols(symbols: IntArray, frequencies: IntArray) -> None:
    """Refuses symbols that `frequencies`, (n, V), cannot code: not (n,) integers, or outside 0..V-1.

    Raises InvalidDistributionError; the message names the first wrong symbol.
    """
    if not isinstance(symbols, np.ndarray) or symbols.dtype.kind not in "iu":
        raise InvalidDistributionError(f"symbols are {_kind(symbols)}; give a numpy array of integers")
    n, V = frequencies.shape
    if symbols.shape != (n,):
        raise InvalidDistributionError(f"symbols have shape {symbols.shape} for frequencies of shape {(n, V)}")
    if n and (symbols.min() < 0 or symbols.max() >= V):
        position = int(np.nonzero((symbols < 0) | (symbols >= V))[0][0])
        raise InvalidDistributionError(f"symbol {symbols[position]} at position {position} is outside 0..{V - 1}")


def ideal_code_bits(symbols: IntArray, frequencies: IntArray) -> float:
    """Code length of `symbols` under `frequencies`, in bits: the sum of -log2(frequency / TOTAL).

    symbols: (n,) integers in 0..V-1. frequencies: (n, V), as `check_frequencies` requires. Summed in float64.
    A range coder's payload is longer by less than 33 bits for its flush and less than 2**-7 bits per symbol for rounding.
    Raises InvalidDistributionError.
    """
    check_frequencies(frequencies)
    check_symbols(symbols, frequencies)
    coded = np.take_along_axis(frequencies, symbols.astype(np.int64)[:, None], axis=1)[:, 0]
    return float((TOTAL_BITS - np.log2(coded.astype(np.float64))).sum())


def frequencies_from(probabilities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Frequencies that a coder accepts, near the given integer probabilities: (n, V) int64 from (n, V) int64.

    probabilities: in units of 1 / TOTAL, each >= 0, each row sums to at most TOTAL. The difference to TOTAL is added to the most
    probable symbol of a row, where it changes the code length least.
    """
    n, V = probabilities.shape
    frequencies = (probabilities * (TOTAL - V) >> TOTAL_BITS) + 1
    rest = TOTAL - frequencies.sum(axis=1)
    frequencies[np.arange(n), frequencies.argmax(axis=1)] += rest
    return frequencies


def _kind(value: object) -> str:
    return f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
