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


class Loop:
    """A learner and its place in the sequence: which streams there are, and the last symbol of each."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._last: torch.Tensor | None = None  # (B,) int64

    def run(self, end: End, stripe: Stripe, symbols: np.ndarray) -> Iterator[int]:
        """Codes a stripe and learns from it; yields after each segment how many of its symbols are done.

        symbols: (B*S,) integers of the stripe, known or to be filled in.
        """
        learner, chunk = self.learner, stripe.chunk_columns
        columns = symbols.reshape(stripe.n_streams, stripe.n_columns)  # a view: (B, S)
        previous = self._next_streams(stripe.n_streams)[:, None]
        for start, n_columns in stripe.segments():
            target = torch.from_numpy(columns[:, start : start + n_columns].astype(np.int64))
            known = torch.cat((previous, target), 1)  # (B, T + 1): the inputs are known[:, :T]
            step = end.columns_at_once or n_columns
            learner.begin(n_columns)
            for first in range(0, n_columns, step):
                last = min(first + step, n_columns)
                learner.read(known[:, first:last], first)
                for t, u in _cut(first, last, chunk):
                    frequencies = learner.predict(known[:, t:u], t)  # predict: (B, u - t, V)
                    known[:, t + 1 : u + 1] = _code(end, known[:, t + 1 : u + 1], frequencies)  # code
                    if u % chunk == 0 or u == n_columns:
                        learned = t - t % chunk
                        learner.observe(known[:, learned + 1 : u + 1], learned)  # learn: the n-gram rows
            learner.update(known[:, 1:])  # learn: the GPT
            columns[:, start : start + n_columns] = known[:, 1:].numpy()
            previous = known[:, -1:].clone()
            yield stripe.n_streams * (start + n_columns)
        self._last = previous[:, 0]

    def _next_streams(self, n_streams: int) -> torch.Tensor:
        """Stream 0 goes on where the last one ended; the others take over a past each. Returns the symbols before: (B,)."""
        if self._last is None:
            self.learner.set_streams([0] * n_streams)
            return torch.zeros(n_streams, dtype=torch.int64)
        source = [(i - 1) % len(self._last) for i in range(n_streams)]
        self.learner.set_streams(source)
        return self._last[source]


def _cut(first: int, last: int, chunk: int) -> Iterator[tuple[int, int]]:
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
