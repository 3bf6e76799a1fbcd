"""The trace: costs are read as they were written, and all groupings add up to the same total."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential_codecs.bit_coder import UNIT_BITS, ideal_bits, symbol_bits

from prequential.evaluation.curves import GPT, MODEL
from prequential.evaluation.trace import Trace

COSTS = st.lists(st.integers(0, 2**29), min_size=1, max_size=200)


def filled(units, pieces=1):
    trace = Trace([MODEL, GPT], len(units))
    for part in np.array_split(np.array(units) * UNIT_BITS, pieces):
        trace.append(GPT, part)
    return trace


@given(COSTS, st.integers(1, 5))
def test_costs_are_read_as_they_were_written(units, pieces):
    trace = filled(units, pieces)
    assert trace.bits(GPT).tolist() == [u * UNIT_BITS for u in units]
    assert trace.bits(GPT, slice(1, 3)).tolist() == [u * UNIT_BITS for u in units[1:3]]
    assert not trace.bits(MODEL).any()


@given(COSTS, st.data())
def test_sums_over_any_stretches_add_up_to_the_total(units, data):
    trace = filled(units)
    ends = np.array(sorted(data.draw(st.sets(st.integers(1, len(units)))) | {len(units)}))
    assert trace.sums(GPT, ends).tolist() == [sum(units[:end]) * UNIT_BITS for end in ends]
    assert trace.total_bits(GPT) == sum(units) * UNIT_BITS == float(np.sum(trace.bits(GPT)[::-1]))


@given(st.lists(st.integers(1, 2**16 - 1), min_size=8, max_size=8))
def test_an_ideal_code_length_is_an_integer_number_of_units_near_the_logarithm(frequencies):
    cost = float(ideal_bits(np.array([frequencies], np.uint16))[0])
    assert (cost / UNIT_BITS).is_integer()
    assert cost == pytest.approx(-np.log2(np.array(frequencies) / 2**16).sum(), abs=8 * UNIT_BITS / 2)


@given(st.lists(st.integers(1, 2**24 - 1), min_size=2, max_size=9), st.data())
def test_the_cost_of_a_symbol_is_the_logarithm_of_its_frequency(row, data):
    symbol = data.draw(st.integers(0, len(row) - 1))
    (cost,) = symbol_bits(np.array([row], np.int32), np.array([symbol]))
    assert cost == pytest.approx(24 - np.log2(row[symbol]), abs=UNIT_BITS / 2) and (cost / UNIT_BITS).is_integer()
