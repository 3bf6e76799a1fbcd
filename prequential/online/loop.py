"""The loop: predict, code, learn. compress, decompress, test and evaluate are this with another end attached.

Every probability that is coded comes from weights and symbols strictly before it (C1, C3), is a full integer distribution
(C2), and every symbol is coded once, in one pass (C4). The ends differ in one thing: an end that knows the symbols reads a
segment in one go, an end that must decode them reads column by column. The learner gives both the same bits.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch

from prequential.model.learner import Learner
from prequential.online.stripes import Stripe


class End(Protocol):
    """What is attached to the loop: it codes symbols it knows, or finds out symbols it does not."""

    columns_at_once: int | None  # how many columns may be read before they are coded; None: the whole segment

    def code(self, symbols: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """Codes N symbols (N,) int64 under frequencies (N, V) int32 and returns them; a decoder ignores `symbols`."""
        ...


def run_stripe(learner: Learner, end: End, stripe: Stripe, symbols: np.ndarray, before: np.ndarray) -> Iterator[int]:
    """Codes a stripe and learns from it; yields the number of symbols done after each segment.

    symbols: (B, S) integers, known or to be filled in; before: (B,) the symbol before each stream's first.
    """
    previous = torch.from_numpy(before.astype(np.int64))[:, None]
    chunk = learner.config.streams.chunk_columns
    for start, n_columns in stripe.segments():
        target = torch.from_numpy(symbols[:, start : start + n_columns].astype(np.int64))  # (B, T)
        known = torch.cat((previous, target), 1)  # (B, T + 1): inputs are known[:, :T]
        step = end.columns_at_once or n_columns
        learner.begin(n_columns)
        for first in range(0, n_columns, step):
            learner.read(known[:, first : min(first + step, n_columns)], first)
            for t, u in _split(first, min(first + step, n_columns), chunk):
                frequencies = learner.predict(known[:, t:u], t)  # predict: (B, u - t, V)
                known[:, t + 1 : u + 1] = _code(end, known[:, t + 1 : u + 1], frequencies)  # code
                if u % chunk == 0 or u == n_columns:
                    learned = t - t % chunk
                    learner.observe(known[:, learned + 1 : u + 1], learned)  # learn: n-gram rows
        learner.update(known[:, 1:])  # learn: the GPT
        symbols[:, start : start + n_columns] = known[:, 1:].numpy()
        previous = known[:, -1:].clone()
        yield stripe.n_streams * (start + n_columns)


def _split(first: int, last: int, chunk: int) -> Iterator[tuple[int, int]]:
    """first..last cut at multiples of `chunk`."""
    while first < last:
        cut = min(last, first - first % chunk + chunk)
        yield first, cut
        first = cut


def _code(end: End, symbols: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    """Columns are coded from left to right, the streams of a column in order: the order in which a decoder can follow."""
    n_streams, n_columns, n_symbols = frequencies.shape
    ordered = frequencies.transpose(0, 1).reshape(-1, n_symbols).numpy()
    coded = end.code(symbols.t().reshape(-1).numpy(), ordered)
    return torch.from_numpy(np.ascontiguousarray(coded, dtype=np.int64)).view(n_columns, n_streams).t()
