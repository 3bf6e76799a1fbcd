"""How a stream of n symbols is cut into the blocks of the archive, and a block into segments. The GPT steps once a segment."""

from collections.abc import Iterator

from prequential.model.config import ScheduleConfig

GROWTH = 64  # a segment has at most 1/64 of the symbols before it, or the size of the first segment if that is more


def blocks(n_symbols: int, config: ScheduleConfig) -> Iterator[slice]:
    """The blocks of n_symbols symbols: block_symbols each, the last one perhaps fewer."""
    for start in range(0, n_symbols, config.block_symbols):
        yield slice(start, min(start + config.block_symbols, n_symbols))


def segments(block: slice, config: ScheduleConfig) -> Iterator[slice]:
    """The segments of a block. They grow with the symbols before them, so that a GPT that has learned little is used briefly."""
    start = block.start
    while start < block.stop:
        size = min(config.segment_symbols, max(config.first_segment_symbols, start // GROWTH))
        yield slice(start, min(start + size, block.stop))
        start += size
