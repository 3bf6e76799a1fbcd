"""Blocks and segments cover every symbol once, in order. A segment crosses no block and stays within its limits."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from prequential.model.config import GROWTH, ScheduleConfig, blocks, segments


@st.composite
def schedules(draw):
    size = st.integers(1, 300) | st.integers(1, 8192)
    return ScheduleConfig(
        first_segment_symbols=draw(size), segment_symbols=draw(size), row_symbols=512, n_rows=16, history_bits=14,
        block_symbols=draw(st.integers(1, 40_000)),
    )  # fmt: skip


def assert_partition(parts, start, stop, sizes):
    """The parts follow each other from start to stop, with these sizes; the last may be smaller, and none is empty."""
    assert [start, *(part.stop for part in parts)] == [*(part.start for part in parts), stop]
    lengths = [part.stop - part.start for part in parts]
    assert lengths[:-1] == sizes[:-1] and all(0 < n <= size for n, size in zip(lengths, sizes, strict=True))


LENGTHS = st.integers(0, 3) | st.integers(0, 100_000)


@given(LENGTHS, schedules())
def test_blocks_cover_the_original_and_segments_cover_blocks_and_all_but_the_last_are_full(n_symbols, config):
    parts = list(blocks(n_symbols, config))
    assert_partition(parts, 0, n_symbols, [config.block_symbols] * len(parts))
    for block in parts[:20]:
        cut = list(segments(block, config))
        sizes = [min(config.segment_symbols, max(config.first_segment_symbols, s.start // GROWTH)) for s in cut]
        assert_partition(cut, block.start, block.stop, sizes)


@given(LENGTHS, LENGTHS, schedules())
def test_the_schedule_of_a_beginning_is_the_beginning_of_the_schedule(n, more, config):
    """A decoder that stops early and an encoder of a longer text cut the same segments: only the last may be shorter."""

    def cut(n_symbols):
        return list(chain.from_iterable(segments(block, config) for block in blocks(n_symbols, config)))

    n, more = min(n, 2000), min(more, 2000)
    short, long = cut(n), cut(n + more)
    assert short[:-1] == long[: len(short) - 1] if short else True
