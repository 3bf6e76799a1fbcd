"""Panels: the lines of runs, their values and colours, and names that do not overlap."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential_codecs.baselines import BASELINES

from prequential.evaluation.curves import Curve
from prequential.report import run_panels
from prequential.report.run_panels import COLOURS, LIGHT, LINE_COLOURS, MAX_FULL, STYLE_SHEET, spread

Curves = dict[str, Curve]


def test_a_learning_curve_is_bits_over_bytes_with_its_first_and_last_point(curves: Curves) -> None:
    line = run_panels.learning(curves).series[0]
    assert (line.x[0], line.x[-1]) == (16, 80_000)
    assert len(line.x) <= run_panels.N_POINTS
    assert (line.y == 3.0).all()


def test_saved_bits_are_the_others_bits_minus_the_models_at_the_others_positions(curves: Curves) -> None:
    panel = run_panels.saved(curves)
    line = next(line for line in panel.series if line.name == "gzip")
    assert line.x.tolist() == [1024, 4096, 80_000]
    assert line.y.tolist() == [2048 - 3072, 16_384 - 12_288, 400_000 - 240_000]
    assert panel.references == (0.0,)


def test_the_end_of_several_curves_takes_half_of_the_height_or_more() -> None:
    n_bytes = np.arange(1, 1001) * 100
    lines = {
        name: Curve(n_bytes=n_bytes, bits=(rate + 5000 / n_bytes) * n_bytes) for name, rate in (("a", 2), ("b", 2.1))
    }
    rates, differences = run_panels.learning(lines), run_panels.saved(lines)
    values = np.concatenate([line.y for line in rates.series])
    late = np.concatenate([line.y[line.x >= 25_000] for line in rates.series])
    assert 0.5 <= np.ptp(late) / np.ptp(values) < 0.7
    assert rates.x_range == differences.x_range == (rates.series[0].x[0], 100_000)
    assert run_panels.learning({"a": lines["a"]}).series[0].x[0] == 100  # one alone is whole


def test_results_against_time_have_the_colours_of_their_curves(curves: Curves) -> None:
    panel = run_panels.against_time(curves, {"model": (12.0, 2.0), "log": (None, 3.0), "gzip": (0.1, 3.5)})
    dots = [(line.name, line.x.tolist(), line.y.tolist(), line.colour) for line in panel.series]
    assert dots == [("model", [12.0], [2.0], COLOURS["model"]), ("gzip", [0.1], [3.5], COLOURS["gzip"])]


def test_the_model_its_parts_and_the_best_others_are_drawn_and_the_rest_is_named(curves: Curves) -> None:
    others = {f"c{i}": Curve(n_bytes=np.array([80_000]), bits=np.array([3.3e5 + 6e3 * i])) for i in range(5, 0, -1)}
    drawn = run_panels.learning(others | curves)
    assert {line.name for line in drawn.series} == {"model", "gpt", "c1", "c2", "c3"}
    assert (drawn.omitted, drawn.note) == (["c4", "c5", "gzip"], "Not drawn: c4, c5, gzip.")
    assert [line.name for line in drawn.series if line.is_own] == ["model"]


def test_a_curve_has_one_colour_in_all_panels_and_others_have_the_free_ones(curves: Curves) -> None:
    makers = (run_panels.learning, run_panels.saved)
    lines = {(line.name, line.colour) for make in makers for line in make(curves).series}
    assert lines == {(name, COLOURS[name]) for name in curves}
    shown = run_panels.learning({"mine": curves["gzip"], "gpt": curves["gpt"], "yours": curves["gzip"]}).series
    assert [line.colour for line in shown if line.name != "gpt"] == [len(COLOURS), len(COLOURS) + 1]
    assert set(BASELINES) <= set(COLOURS) and len(LINE_COLOURS) - len(COLOURS) >= MAX_FULL


def contrast(*colours: str) -> float:
    """The ratio of the luminances of two colours, as WCAG 2 defines it."""
    light = []
    for colour in colours:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(light) / min(light)


DARK = dict(re.findall(r"--(\w+): (#\w+);", STYLE_SHEET.partition("@media")[2]))


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_text_and_names_of_lines_have_a_contrast_of_4_5(palette: dict[str, str]) -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    texts = {palette[name] for name in ("ink", "soft", "link", *(f"s{i}" for i in range(len(LINE_COLOURS))))}
    assert len(texts) == 3 + len(LINE_COLOURS)
    assert not [colour for colour in texts if contrast(colour, palette["paper"]) < 4.5]
    backgrounds = [palette[f"h{i}"] for i in range(6)]
    assert min(contrast(palette["ink"], background) for background in backgrounds) >= 4.5
    assert contrast(palette["soft"], palette["tint"]) >= 4.5


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_spread_places_keep_their_order_and_distance(places: list[float]) -> None:
    found = spread(places, 15, 0, 100)
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert all(found[b] - found[a] >= 15 - 1e-9 for a, b in pairwise(order))
    assert max(found) <= 100
    assert min(found) >= 0
