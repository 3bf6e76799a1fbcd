"""Ticks: they enclose the values of a linear axis, lie within those of a logarithmic one, and are ordered."""

from hypothesis import example, given
from hypothesis import strategies as st

from prequential.report.ticks import linear_ticks, log_ticks


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
@example(134217728.0, 6e-8)
@example(0.0, 5e-324)
@example(0.0, 0.0)
def test_linear_ticks_enclose_the_values(low: float, span: float) -> None:
    ticks = linear_ticks(low, low + span)
    slack = 1e-9 * (abs(low) + span)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + span - slack
    assert 2 <= len(ticks) <= 12
    assert ticks == sorted(set(ticks))


@given(st.floats(1e-3, 1e12), st.floats(1, 1e6))
def test_log_ticks_lie_within_the_values(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert ticks == sorted(set(ticks))
    assert 0.99 * low <= ticks[0]
    assert ticks[-1] <= 1.01 * low * ratio
