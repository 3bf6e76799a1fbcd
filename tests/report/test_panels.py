"""Panels: the series of runs and their values, names that do not overlap, and ticks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prequential.evaluation.curves import Curve
from prequential.report import run_panels
from prequential.report.panels import Role, linear_ticks, log_ticks, spread
from prequential.report.run_panels import Look

Curves = dict[str, Curve]


def test_a_learning_curve_is_bits_over_bytes_with_its_first_and_last_point(curves: Curves) -> None:
    line = run_panels.learning(curves).series[0]
    assert (line.x[0], line.x[-1]) == (16, 80_000)
    assert len(line.x) <= run_panels.N_POINTS
    assert (line.y == 3.0).all()


def test_curves_that_cannot_be_told_apart_are_one_line_with_both_names(curves: Curves) -> None:
    model = curves["model"]
    factors = {"mixer": 1.009, "far": 1.1}
    near = {name: Curve(n_bytes=model.n_bytes, bits=factor * model.bits) for name, factor in factors.items()}
    look = Look({"model": "-5", "mixer": "mixer alone"})
    names = [line.name for line in run_panels.learning(curves | near, look).series]
    assert names == ["-5 and mixer alone", "gpt", "gzip", "far"]
    assert "mixer alone" in [line.name for line in run_panels.saved(curves | near, look).series]  # there it can


def test_interval_rates_sum_to_the_total_bits(curves: Curves) -> None:
    line = run_panels.intervals(curves).series[2]
    widths = np.diff(np.concatenate(([0], line.x)))
    assert (widths * line.y).sum() == pytest.approx(400_000.0, rel=1e-12)


def test_saved_bits_are_the_others_bits_minus_the_models_at_the_others_positions(curves: Curves) -> None:
    panel = run_panels.saved(curves)
    line = next(line for line in panel.series if line.name == "gzip")
    assert line.x.tolist() == [1024, 4096, 80_000]
    assert line.y.tolist() == [2048 - 3072, 16_384 - 12_288, 400_000 - 240_000]
    assert panel.references == (0.0,)


def test_the_model_its_parts_and_the_best_others_are_full_and_the_rest_grey(curves: Curves) -> None:
    others = {f"c{i}": Curve(n_bytes=np.array([80_000]), bits=np.array([3.3e5 + 6e3 * i])) for i in range(5, 0, -1)}
    drawn = run_panels.learning(others | curves)
    assert {line.name for line in drawn.full} == {"model", "gpt", "c1", "c2", "c3"}
    assert drawn.note == "Grey: c5, c4, gzip."
    assert [line.name for line in drawn.series if line.role == Role.OWN] == ["model"]


def test_a_curve_has_one_style_and_role_in_all_panels_and_a_look_gives_names_and_styles(curves: Curves) -> None:
    makers = (run_panels.learning, run_panels.intervals, run_panels.saved)
    styles = {(line.name, line.style, line.role) for make in makers for line in make(curves).series}
    assert len(styles) == len(curves)
    look = Look({"gpt": "GPT alone"}, {"gpt": 6, "model": 3})
    found = {line.name: line.style for line in run_panels.learning(curves, look).series}
    assert found == {"model": 3, "GPT alone": 6, "gzip": 2}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_spread_places_keep_their_order_and_distance(places: list[float]) -> None:
    found = spread(places, 15, 0, 100)
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert all(found[b] - found[a] >= 15 - 1e-9 for a, b in pairwise(order))
    assert max(found) <= 100
    assert min(found) >= 0


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
