"""How a sequence of n symbols is cut so that several streams are read at once, and yet the archive is a prefix of the corpus.

The sequence is cut into *stripes*, one after another. A stripe of B streams and S columns covers B*S consecutive symbols:
stream b holds symbols start + b*S .. start + (b+1)*S - 1, and column t is symbol t of every stream. Streams of a stripe are
coded in lockstep, so what is known of a stripe is always a set of columns, and what is known of the corpus a prefix of stripes.
Stripe after stripe, stream 0 continues where the last stream ended; the others start amid text they have not seen.

Early stripes have fewer streams and shorter segments, so that the first updates come soon: few symbols have been wasted on an
untrained model by then. What B streams leave over of the sequence (fewer than B symbols) is a last stripe of one stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prequential.model.config import StreamConfig


@dataclass(frozen=True)
class Stripe:
    """n_streams * n_columns consecutive symbols from `start`, learned in segments of segment_columns columns."""

    start: int
    n_streams: int
    n_columns: int
    segment_columns: int
    chunk_columns: int  # of a segment, between two steps of the n-gram rows

    @property
    def n_symbols(self) -> int:
        return self.n_streams * self.n_columns

    def segments(self) -> Iterator[tuple[int, int]]:
        """(first column, number of columns) of each segment; the last may be shorter."""
        for first in range(0, self.n_columns, self.segment_columns):
            yield first, min(self.segment_columns, self.n_columns - first)


def stripes(n_symbols: int, config: StreamConfig) -> Iterator[Stripe]:
    """Cuts n_symbols symbols; a function of its arguments only. The stripes are disjoint, in order, and cover everything."""
    start = 0
    while start < n_symbols:
        n_streams, segment, size = _shape_at(start, config)
        size = min(size, n_symbols - start)
        while n_streams > 1 and size < n_streams * segment:
            n_streams //= 2
        chunk = max(1, config.chunk_columns * segment // config.segment_columns)
        stripe = Stripe(start, n_streams, size // n_streams, segment, chunk)
        yield stripe
        start += stripe.n_symbols


def _shape_at(position: int, config: StreamConfig) -> tuple[int, int, int]:
    """(streams, columns of a segment, symbols) of the stripe that starts at `position`.

    A stripe doubles what came before it, between ramp_symbols and stripe_symbols; until then streams and segments grow with it.
    """
    size = min(config.stripe_symbols, max(config.ramp_symbols, position))
    updates = config.n_streams * config.segment_columns
    share = min(updates, max(config.ramp_symbols // 16, size // 64))  # symbols of one update
    n_streams, segment = config.n_streams, config.segment_columns
    while n_streams * segment > share and (n_streams > 1 or segment > 1):
        if segment > 16 or n_streams == 1:
            segment //= 2
        else:
            n_streams //= 2
    return n_streams, segment, size
