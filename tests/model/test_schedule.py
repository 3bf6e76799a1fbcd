"""Blocks and segments cover every symbol once, in order. A segment crosses no block and stays within its limits."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from prequential.model.config import ScheduleConfig
from prequential.model.schedule import GROWTH, blocks, segments


@st.composite
def schedules(draw):
    size = st.integers(1, 300) | st.integers(1, 8192)
    return ScheduleConfig(
        first_segment_symbols=draw(size), segment_symbols=draw(size), row_symbols=512, n_rows=16, history_bits=14,
        block_symbols=draw(st.integers(1, 40_000)),
    )  # fmt: skip


def assert_partition(parts, start, stop):
    """The parts follow each other from start to stop, and none is empty."""
    assert [start, *(part.stop for part in parts)] == [*(part.start for part in parts), stop]
    assert all(part.start < part.stop for part in parts)


LENGTHS = st.integers(0, 3) | st.integers(0, 100_000)


@given(LENGTHS, schedules())
def test_blocks_cover_the_original_once_and_in_order_and_all_but_the_last_are_full(n_symbols, config):
    parts = list(blocks(n_symbols, config))
    assert_partition(parts, 0, n_symbols)
    assert all(part.stop - part.start == config.block_symbols for part in parts[:-1])
    assert all(part.stop - part.start <= config.block_symbols for part in parts[-1:])


@given(LENGTHS, schedules())
def test_segments_cover_each_block_once_and_in_order(n_symbols, config):
    for block in blocks(min(n_symbols, 20 * config.block_symbols), config):
        assert_partition(list(segments(block, config)), block.start, block.stop)


@given(LENGTHS, schedules())
def test_a_segment_has_its_full_size_unless_its_block_ends(n_symbols, config):
    for block in blocks(min(n_symbols, 20 * config.block_symbols), config):
        parts = list(segments(block, config))
        for part in parts:
            size = part.stop - part.start
            assert size <= config.segment_symbols
            assert size <= max(config.first_segment_symbols, part.start / GROWTH)
            full = min(config.segment_symbols, max(config.first_segment_symbols, part.start // GROWTH))
            assert size == full or part is parts[-1]


@given(LENGTHS, LENGTHS, schedules())
def test_the_schedule_of_a_beginning_is_the_beginning_of_the_schedule(n, more, config):
    """A decoder that stops early and an encoder of a longer text cut the same segments: only the last may be shorter."""

    def cut(n_symbols):
        return list(chain.from_iterable(segments(block, config) for block in blocks(n_symbols, config)))

    n, more = min(n, 2000), min(more, 2000)
    short, long = cut(n), cut(n + more)
    assert short[:-1] == long[: len(short) - 1] if short else True
