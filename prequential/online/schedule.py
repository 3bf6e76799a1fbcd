"""How a sequence of n symbols is cut into blocks of the archive, and a block into segments between two steps of the GPT."""

from collections.abc import Iterator

from prequential.model.config import ScheduleConfig

GROWTH = 64  # a segment is at most 1/64 of what came before it, or the first segment's size


def blocks(n_symbols: int, config: ScheduleConfig) -> Iterator[slice]:
    """n_symbols symbols in blocks of block_symbols, the last perhaps shorter."""
    for start in range(0, n_symbols, config.block_symbols):
        yield slice(start, min(start + config.block_symbols, n_symbols))


def segments(block: slice, config: ScheduleConfig) -> Iterator[slice]:
    """The segments of a block. They grow with what is known, so that an untrained GPT is not long used."""
    start = block.start
    while start < block.stop:
        size = min(config.segment_symbols, max(config.first_segment_symbols, start // GROWTH))
        yield slice(start, min(start + size, block.stop))
        start += size
