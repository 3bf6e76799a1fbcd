"""The one rule that turns a learner's log-probabilities into integer frequencies, and what is refused.

With p = exp(log p - log of the row's sum) in float64 and V symbols, the frequency of symbol v is 1 + floor(p_v (2**24 - V)). What
is missing to 2**24 goes to the most probable symbol, the first one of equals. So every symbol can be coded, a row loses at most
V / 2**24 of its probability, and a row that sums to more than one gains nothing. Ids of a tokenizer have 2**32 instead of 2**24:
there may be many of them.
"""

from typing import Any

import numpy as np

from prequential.errors import InvalidDistributionError
from prequential.exact.host import to_array

TOTAL = 1 << 24
WIDE_TOTAL_BITS = 32  # of alphabets that are not bytes, whose symbols are not written
MAX_SYMBOLS = 1 << 18
MAX_LOG_SUM = 0.01  # nats; reduced precision gives about half of that


def checked_rows(found: Any, n: int, n_symbols: int, first: int, row: int | None = None) -> np.ndarray:
    """Log-probabilities as (n, V) float64, or (1, V) of one row. first: the position of the first row, for messages.

    Raises InvalidDistributionError for another shape or type, for values that are no numbers, and for a row whose probabilities
    do not sum to one.
    """
    try:
        rows = to_array(found.detach().double() if hasattr(found, "detach") else found)
    except (AttributeError, TypeError, RuntimeError) as error:
        raise InvalidDistributionError(
            f"predict returned {type(found).__name__}; give log-probabilities as a numpy array or a torch tensor"
        ) from error
    if rows.shape != (n, n_symbols):
        raise InvalidDistributionError(f"predict returned shape {rows.shape} for {n} symbols; give ({n}, {n_symbols})")
    if rows.dtype.kind != "f":
        raise InvalidDistributionError(f"predict returned {rows.dtype}; give floating-point log-probabilities")
    if row is not None:
        rows, first = rows[row : row + 1], first + row
    rows = rows.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        log_sums = np.logaddexp.reduce(rows, axis=1)
    wrong = ~(np.abs(log_sums) <= MAX_LOG_SUM) | np.isnan(rows).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        what = "hold NaN" if np.isnan(rows[t]).any() else f"sum to {np.exp(min(log_sums[t], 700.0)):.6g}, not to 1"
        raise InvalidDistributionError(f"the probabilities for symbol {first + t} {what}")
    return np.asarray(rows - log_sums[:, None])


def integer_frequencies(rows: np.ndarray, total: int = TOTAL) -> np.ndarray:
    """(n, V) int64 from normalised log-probabilities (n, V) float64: each at least 1, the sum of each row `total`."""
    n_symbols = rows.shape[1]
    frequencies = 1 + np.floor(np.exp(rows) * (total - n_symbols)).astype(np.int64)
    missing = total - frequencies.sum(axis=1)
    best = frequencies.argmax(axis=1)
    frequencies[np.arange(len(rows)), best] += missing
    return frequencies
