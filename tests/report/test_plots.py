"""Plots: which lines a run has, how they are drawn as SVG, and that matplotlib draws the same."""

import builtins
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prequential.errors import MissingDependencyError
from prequential.measure.evaluation.curves import Curve
from prequential.report import plots
from prequential.report import svg as svg_module
from prequential.report.svg import Html, Series, element, join, linear_ticks, log_ticks, svg

AT = np.arange(1, 5001) * 16
MODEL = Curve(n_bytes=AT, bits=3.0 * AT)
OTHER = Curve(n_bytes=np.array([1024, 4096, 80_000]), bits=np.array([2048.0, 16_384.0, 400_000.0]))
CURVES = {"model": MODEL, "gpt": Curve(n_bytes=AT, bits=4.0 * AT), "gzip": OTHER}
TABLE = {
    "rows": [
        {"name": "1", "n_bytes": 10, "bits": {"model": 80.0}, "mean_k": 1.0},
        {"name": "2", "n_bytes": 10, "bits": {"model": 40.0}, "mean_k": 2.0},
        {"name": "all others", "n_bytes": 5, "bits": {"model": 1.0}},
    ],
    "fits": {"model": {"exponent": -1.0, "factor": 8.0}},
}


def test_a_learning_curve_is_bits_over_bytes_with_its_first_and_last_point() -> None:
    line = plots.learning(CURVES)[0]
    assert (line.x[0], line.x[-1]) == (16, 80_000)
    assert len(line.x) <= plots.N_POINTS
    assert (line.y == 3.0).all()


def test_stretches_are_rates_between_positions_that_add_up_to_the_whole() -> None:
    line = plots.stretches(CURVES)[2]
    widths = np.diff(np.concatenate(([0], line.x)))
    assert (widths * line.y).sum() == pytest.approx(400_000.0, rel=1e-12)


def test_windows_are_of_the_model_and_its_parts_alone() -> None:
    assert [line.name for line in plots.windows(CURVES)] == ["model", "gpt"]


def test_regret_is_the_models_bits_less_the_others_at_the_others_positions() -> None:
    line = next(line for line in plots.regrets(CURVES) if line.name == "gzip")
    assert line.x.tolist() == [1024, 4096, 80_000]
    assert line.y.tolist() == [3072 - 2048, 12_288 - 16_384, 240_000 - 400_000]


def test_regret_leaves_out_those_that_are_far_away_in_the_end() -> None:
    assert [line.name for line in plots.regrets(CURVES, n_closest=1)] == ["gpt"]


def test_a_line_has_one_style_on_all_plots() -> None:
    drawn = [plots.learning(CURVES), plots.stretches(CURVES), plots.windows(CURVES), plots.regrets(CURVES)]
    styles = {(line.name, line.style) for lines in drawn for line in lines}
    assert len(styles) == len(CURVES)


def test_the_tail_has_the_rows_with_a_k_and_the_fitted_law() -> None:
    measured, fitted = plots.tail(TABLE)
    assert measured.x.tolist() == [1.0, 2.0]
    assert measured.y.tolist() == fitted.y.tolist() == [8.0, 4.0]


def test_a_table_without_occurrences_has_no_tail() -> None:
    assert plots.tail({"rows": [{"name": "novel", "n_bytes": 1, "bits": {"model": 1.0}}]}) == []


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


@given(st.text())
def test_text_in_markup_comes_back_as_text(text: str) -> None:
    made = element("p", text, title=text)
    cleaned = "".join(letter for letter in text if letter.isprintable())
    parsed = ElementTree.fromstring(element("p", cleaned, title=cleaned))
    assert "<" not in made.removeprefix("<p").removesuffix("</p>")
    assert (parsed.text or "", parsed.get("title")) == (cleaned, cleaned)


def test_markup_is_not_escaped_again() -> None:
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"
    assert join("<", Html("<b></b>")) == "&lt;<b></b>"


def points(drawing: str, name: str) -> list[tuple[float, float]]:
    """Places of the line called `name` in a drawing."""
    for path in ElementTree.fromstring(drawing).iter("path"):
        title = path.find("title")
        if title is not None and title.text == name:
            return [tuple(map(float, point.split(" "))) for point in _points(path.get("d", ""))]  # type: ignore[misc]
    raise AssertionError(f"no line {name}")


def _points(d: str) -> list[str]:
    numbers = d.removeprefix("M").split(" ")
    return [" ".join(numbers[i : i + 2]) for i in range(0, len(numbers), 2)]


def test_svg_puts_a_doubling_at_one_width_and_more_bits_further_up() -> None:
    line = Series("model", np.array([1000.0, 2000.0, 4000.0]), np.array([1.0, 2.0, 3.0]))
    (x0, y0), (x1, y1), (x2, y2) = points(svg([line], plots.LEARNING, "t"), "model")
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert (x0, x2) == (svg_module.LEFT, svg_module.RIGHT)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert y0 > y1


def test_svg_stays_inside_its_box() -> None:
    for lines, axes in ((plots.learning(CURVES), plots.LEARNING), (plots.regrets(CURVES), plots.REGRET)):
        drawing = svg(lines, axes, "t")
        for line in lines:
            for x, y in points(drawing, line.name):
                assert svg_module.LEFT <= x <= svg_module.RIGHT
                assert svg_module.TOP <= y <= svg_module.BOTTOM


@pytest.mark.parametrize("value", [0.0, 2.5, -1.0])
def test_a_line_of_one_point_or_of_one_value_can_be_drawn(value: float) -> None:
    for x in ([7.0], [7.0, 70.0]):
        line = Series("flat", np.array(x), np.full(len(x), value))
        assert "nan" not in svg([line], plots.LEARNING, "t")


def test_names_cannot_leave_the_drawing() -> None:
    name = "</title><script>alert(1)</script>"
    line = Series(name, np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    root = ElementTree.fromstring(svg([line], plots.LEARNING, name))
    assert not list(root.iter("script"))
    assert [title.text for title in root.iter("title")] == [name, name]


def test_figures_show_the_lines_with_their_names() -> None:
    pytest.importorskip("matplotlib")
    axes = plots.learning_curves(CURVES, "a $title$").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(CURVES)
    assert axes.get_lines()[0].get_ydata().tolist() == plots.learning(CURVES)[0].y.tolist()
    assert axes.get_xscale() == "log"
    assert plots.regret(CURVES).axes[0].get_xlabel() == "bytes of the original"
    assert plots.long_tail(TABLE).axes[0].get_yscale() == "log"


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return imported(name, *args, **more)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"pip install 'prequential\[plots\]'"):
        plots.learning_curves(CURVES)
