"""SVG drawings: escaped markup, scales, and the names of lines."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prequential.evaluation.curves import Curve
from prequential.report import run_panels, svg
from prequential.report.markup import element
from prequential.report.run_panels import Panel, Series
from prequential.report.svg import drawing, linear_ticks, log_ticks, short_number


@given(st.text())
def test_text_in_markup_is_read_back_as_text(text: str) -> None:
    made = element("p", text, title=text)
    cleaned = "".join(letter for letter in text if letter.isprintable())
    parsed = ElementTree.fromstring(element("p", cleaned, title=cleaned))
    assert "<" not in made.removeprefix("<p").removesuffix("</p>")
    assert (parsed.text or "", parsed.get("title")) == (cleaned, cleaned)
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"  # markup is not escaped again


def flat(name: str, value: float, n: int = 2) -> Series:
    return Series(name, np.array([10.0, 1000.0][:n]), np.full(n, value))


def drawn(*lines: Series) -> ElementTree.Element:
    return ElementTree.fromstring(drawing(Panel("title", lines)))


def points(root: ElementTree.Element, colour: int = 0) -> list[tuple[float, float]]:
    """The points of the line of this colour in a drawing: svg.WIDTH from left to right, pixels from the top."""
    path = next(path for path in root.iter("path") if {"line", f"s{colour}"} <= set(path.get("class", "").split()))
    numbers = list(map(float, path.get("d", "").removeprefix("M").split(" ")))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_equal_ratios_have_equal_widths_and_more_bits_are_higher() -> None:
    line = Series("model", np.array([1000.0, 2000.0, 4000.0]), np.array([1.0, 2.0, 3.0]))
    (x0, y0), (x1, y1), (x2, y2) = points(drawn(line))
    assert (x0, x1, x2) == (0, pytest.approx(svg.WIDTH / 2, abs=0.06), svg.WIDTH)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11) and y0 > y1


def test_lines_stay_inside_the_plotting_area_and_fill_it(curves: dict[str, Curve]) -> None:
    for panel in (run_panels.learning(curves), run_panels.saved(curves)):
        root = ElementTree.fromstring(drawing(panel))
        found = np.array([point for line in panel.series for point in points(root, line.colour)])
        assert (found.min(0) >= 0).all()
        assert (found.max(0) <= [svg.WIDTH, svg.BOTTOM]).all()
    (_, low), (_, high) = points(drawn(Series("x", np.array([1.0, 9.0]), np.array([2.31, 2.37]))))
    assert low - high > 0.9 * svg.BOTTOM  # the range is that of the values, not from zero


@pytest.mark.parametrize("value", [0.0, 2.5, -1.0])
def test_a_line_of_one_point_is_a_dot_and_one_of_one_value_can_be_drawn(value: float) -> None:
    for n in (1, 2):
        root = drawn(flat("flat", value, n=n))
        assert "nan" not in ElementTree.tostring(root, "unicode")
        kinds = [path.get("class", "").split() for path in root.iter("path")]
        assert ("dot" in kinds[0]) == (n == 1)


def test_an_axis_of_dates_has_whole_days() -> None:
    line = Series("x", np.array([20_000.0, 20_400.0]), np.array([1.0, 2.0]))
    root = ElementTree.fromstring(drawing(Panel("title", [line], dates=True)))
    ticks = [span.text for span in root.iter("span") if (span.get("class") or "").startswith("x")]
    assert ticks == ["2024-10-04", "2025-04-22", "2025-11-08"]


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
@example(134217728.0, 6e-8)
@example(0.0, 5e-324)
@example(0.0, 0.0)
def test_linear_ticks_enclose_the_values(low: float, span: float) -> None:
    ticks = linear_ticks(low, low + span)
    slack = 1e-9 * (abs(low) + span)
    assert ticks[0] <= low + slack and ticks[-1] >= low + span - slack
    assert 2 <= len(ticks) <= 12 and ticks == sorted(set(ticks))


@given(st.floats(1e-3, 1e12), st.floats(1, 1e6))
def test_log_ticks_lie_within_the_values(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert ticks == sorted(set(ticks))
    assert 0.99 * low <= ticks[0]
    assert ticks[-1] <= 1.01 * low * ratio


def test_numbers_at_ticks_are_short_and_never_scientific() -> None:
    values = (0.0, 0.00001, 0.25, 999.0, 1500.0, 11_970.0, 2e6, 3e9, 1e14)
    expected = ["0", "0.00001", "0.25", "999", "1.5 k", "11.97 k", "2 M", "3 G", "100000 G"]
    assert [short_number(value) for value in values] == expected
