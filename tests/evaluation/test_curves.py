"""Curves: after a crossing one curve stays below the other, and a table is read as it was written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential.errors import CorpusError
from prequential.evaluation.curves import Curve, crossing_byte, curve_table, parse_curves, prefixes


def curve(*points):
    n_bytes, bits = zip(*points, strict=True)
    return Curve(n_bytes=np.array(n_bytes), bits=np.array(bits, float))


@given(st.integers(1, 10**10))
def test_prefixes_are_log_spaced_and_end_with_the_complete_corpus(n_bytes):
    at = prefixes(n_bytes)
    assert at[-1] == n_bytes and (np.diff(at) > 0).all()
    assert len(at) == 1 or at[0] == 1024
    assert (at[1:] / at[:-1] < 1.5).all()


def test_a_curve_is_straight_between_its_positions_and_its_windows_are_rates():
    line = curve((100, 300), (200, 400))
    assert line.at(np.array([0, 50, 100, 150, 200])).tolist() == [0, 150, 300, 350, 400]
    rates = line.windows(4)
    assert rates.n_bytes.tolist() == [50, 100, 150, 200] and rates.bits.tolist() == [3, 3, 1, 1]


@pytest.mark.parametrize(
    "points", [((900, 1800), (1000, 1850)), ((1000, 1850),), ((450, 1200), (950, 1825), (1000, 1850))]
)
def test_a_split_is_the_rate_of_the_last_tenth_for_all_bytes_and_the_rest(points):
    rate, above = curve(*points).split()
    assert rate * 1000 + above == pytest.approx(1850)
    assert rate == pytest.approx(1.85 if len(points) == 1 else (1850 - curve(*points).at(900)) / 100)


def test_a_rate_that_rises_to_the_end_leaves_bits_below_it():
    """The split is descriptive: it does not say that a learner unlearned."""
    assert curve((900, 900), (1000, 1200)).split() == (pytest.approx(3.0), pytest.approx(-1800.0))


def test_the_crossing_is_the_last_time_that_the_model_falls_below_from_the_first_known_byte_or_never():
    other = curve((100, 100), (200, 200), (300, 300), (400, 400))
    model = curve((100, 90), (200, 220), (300, 290), (400, 350))
    assert crossing_byte(model, other) == 267  # 20 above at 200, 10 below at 300
    assert crossing_byte(other, model) is None
    below, above = curve((100, 50), (200, 100)), curve((100, 60), (200, 120))
    assert crossing_byte(below, above) == 100
    assert crossing_byte(above, below) is None
    assert crossing_byte(below, below) is None  # an equal length is not shorter


def test_a_table_is_read_as_it_was_written():
    curves = {"model": curve((1024, 1.25), (2000, 7.0)), "gzip": curve((2000, 8.0))}
    found = parse_curves(curve_table(curves), "c.parquet")
    assert list(found) == ["model", "gzip"]
    for name, expected in curves.items():
        assert found[name].n_bytes.tolist() == expected.n_bytes.tolist()
        assert found[name].bits.tolist() == expected.bits.tolist()


def test_a_file_that_is_not_a_table_of_curves_is_refused():
    with pytest.raises(CorpusError, match="'c' is not a table of curves"):
        parse_curves(b"PAR1 and then nothing", "c")
