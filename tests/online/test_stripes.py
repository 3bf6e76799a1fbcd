"""Cutting a sequence: everything is covered once, in order, and early updates come soon."""

from hypothesis import given, settings
from hypothesis import strategies as st

from prequential.model.config import StreamConfig
from prequential.online.coding import blocks
from prequential.online.stripes import stripes

configs = st.builds(
    StreamConfig,
    n_streams=st.integers(1, 40),
    segment_columns=st.integers(1, 70),
    chunk_columns=st.integers(1, 20),
    stripe_symbols=st.integers(256, 4096),
    ramp_symbols=st.integers(1, 600),
    block_symbols=st.integers(1, 9000),
)


@settings(deadline=None)
@given(n_symbols=st.integers(0, 20000), config=configs)
def test_stripes_cover_every_symbol_once_in_order(n_symbols, config):
    start = 0
    for stripe in stripes(n_symbols, config):
        assert stripe.start == start
        assert stripe.n_columns >= 1
        start += stripe.n_symbols
    assert start == n_symbols


@settings(deadline=None)
@given(n_symbols=st.integers(1, 20000), config=configs)
def test_segments_cover_every_column_once_in_order(n_symbols, config):
    for stripe in stripes(n_symbols, config):
        column = 0
        for first, n_columns in stripe.segments():
            assert first == column
            assert 1 <= n_columns <= stripe.segment_columns <= max(config.segment_columns, 1)
            column += n_columns
        assert column == stripe.n_columns


@settings(deadline=None)
@given(n_symbols=st.integers(1, 20000), more=st.integers(0, 20000), config=configs)
def test_the_cut_of_a_prefix_differs_only_in_its_last_stripes(n_symbols, more, config):
    """Until less than a stripe is left, the cut does not know the length."""
    longer = list(stripes(n_symbols + more, config))
    for stripe, other in zip(stripes(n_symbols, config), longer, strict=False):
        if stripe != other:
            assert stripe.start + config.stripe_symbols + config.ramp_symbols > n_symbols
            break


@settings(deadline=None)
@given(n_symbols=st.integers(0, 20000), config=configs)
def test_blocks_are_the_stripes_grouped_and_bounded(n_symbols, config):
    groups = list(blocks(n_symbols, config))
    assert [s for group in groups for s in group] == list(stripes(n_symbols, config))
    for i, group in enumerate(groups):
        size = sum(s.n_symbols for s in group)
        assert size - group[-1].n_symbols < config.block_symbols
        assert size >= config.block_symbols or i == len(groups) - 1


def test_the_default_first_update_comes_within_256_symbols_and_updates_grow_to_their_full_size():
    config = StreamConfig()
    cut = list(stripes(1_000_000, config))
    assert cut[0].n_streams * cut[0].segment_columns <= 256
    full = [s for s in cut if (s.n_streams, s.segment_columns) == (config.n_streams, config.segment_columns)]
    assert sum(s.n_symbols for s in full) > 900_000
