"""SVG drawings: escaped markup, scales, and documents that are complete."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential.measure.evaluation.curves import Curve
from prequential.report import run_panels, svg
from prequential.report.markup import Html, element, join
from prequential.report.svg import Panel, Series, inline_svg, svg_file

EVIL = "</title><script>alert(1)</script>"


def panel(line: Series, title: str = "title") -> Panel:
    return Panel(title, [line], run_panels.RATE)


@given(st.text())
def test_text_in_markup_is_read_back_as_text(text: str) -> None:
    made = element("p", text, title=text)
    cleaned = "".join(letter for letter in text if letter.isprintable())
    parsed = ElementTree.fromstring(element("p", cleaned, title=cleaned))
    assert "<" not in made.removeprefix("<p").removesuffix("</p>")
    assert (parsed.text or "", parsed.get("title")) == (cleaned, cleaned)


def test_markup_is_not_escaped_again() -> None:
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"
    assert join("<", Html("<b></b>")) == "&lt;<b></b>"


def points(drawing: str, name: str) -> list[tuple[float, float]]:
    """The points of the line `name` in a drawing, in pixels."""
    for path in ElementTree.fromstring(drawing).iter("path"):
        title = path.find("title")
        if title is not None and title.text == name:
            numbers = list(map(float, path.get("d", "").removeprefix("M").split(" ")))
            return list(zip(numbers[::2], numbers[1::2], strict=True))
    raise AssertionError(f"no line {name}")


def test_equal_ratios_have_equal_widths_and_more_bits_are_higher() -> None:
    line = Series("model", np.array([1000.0, 2000.0, 4000.0]), np.array([1.0, 2.0, 3.0]))
    (x0, y0), (x1, y1), (x2, y2) = points(inline_svg(panel(line)), "model")
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert (x0, x2) == (svg.LEFT, svg.RIGHT)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert y0 > y1


def test_lines_stay_inside_the_plotting_area(curves: dict[str, Curve]) -> None:
    for drawn in (run_panels.learning(curves), run_panels.regret(curves)):
        drawing = inline_svg(drawn)
        for line in drawn.series:
            for x, y in points(drawing, line.name):
                assert svg.LEFT <= x <= svg.RIGHT
                assert svg.TOP <= y <= svg.BOTTOM


@pytest.mark.parametrize("value", [0.0, 2.5, -1.0])
def test_a_line_of_one_point_or_of_one_value_can_be_drawn(value: float) -> None:
    for x in ([7.0], [7.0, 70.0]):
        line = Series("flat", np.array(x), np.full(len(x), value))
        assert "nan" not in inline_svg(panel(line))


def test_names_are_escaped_in_an_inline_drawing() -> None:
    line = Series(EVIL, np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    root = ElementTree.fromstring(inline_svg(panel(line, EVIL)))
    assert not list(root.iter("script"))
    drawing_title, line_title = (title.text or "" for title in root.iter("title"))
    assert drawing_title.startswith(EVIL)
    assert line_title == EVIL


def test_a_file_is_one_document_that_loads_nothing_and_has_every_name(curves: dict[str, Curve]) -> None:
    drawn = [run_panels.learning({EVIL: curves["model"], **curves}), run_panels.regret(curves)]
    text = svg_file(EVIL, drawn)
    root = ElementTree.fromstring(text)
    kinds = {node.tag.rpartition("}")[2] for node in root.iter()}
    assert kinds == {"svg", "title", "style", "rect", "text", "g", "path"}
    written = {node.text for node in root.iter() if node.tag.endswith("}text")}
    assert {EVIL, *(p.title for p in drawn), *(line.name for p in drawn for line in p.series)} <= written
    assert "url(" not in text
    assert "href" not in text


def test_a_file_has_colours_for_programs_without_css_variables(curves: dict[str, Curve]) -> None:
    text = svg_file("heading", [run_panels.learning(curves)])
    assert ".s1 { stroke: #0072b2; stroke: var(--s1); }" in text
