"""SVG drawings: escaped markup, scales, and documents that are complete."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential.evaluation.curves import Curve
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
    for drawn in (run_panels.learning(curves), run_panels.saved(curves)):
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


def flat(name: str, value: float, *, full: bool = True, n: int = 2) -> Series:
    return Series(name, np.array([10.0, 1000.0][:n]), np.full(n, value), full=full)


def drawn(*lines: Series) -> ElementTree.Element:
    return ElementTree.fromstring(inline_svg(Panel("title", lines, run_panels.RATE)))


def texts(root: ElementTree.Element, kind: str) -> dict[str, ElementTree.Element]:
    return {node.text or "": node for node in root.iter() if kind in node.get("class", "").split()}


def test_full_lines_have_their_names_at_their_ends_without_overlap() -> None:
    names = texts(drawn(*(flat(f"line {i}", 2.0 + i / 1000) for i in range(4)), flat("far", 9.0)), "name")
    heights = sorted(float(node.get("y", "")) for node in names.values())
    assert list(names) == ["line 0", "line 1", "line 2", "line 3", "far"]
    assert all(float(node.get("x", "")) > svg.RIGHT for node in names.values())
    assert min(np.diff(heights)) >= svg.LABEL_HEIGHT - 0.11
    assert heights[-1] <= svg.BOTTOM + 5
    assert float(names["far"].get("y", "")) == heights[0]


def test_a_long_name_is_cut_at_the_end_of_its_line_and_complete_in_its_title() -> None:
    long = "a name that is longer than the margin"
    (name,) = texts(drawn(flat(long, 1.0)), "name").values()
    title = name.find("title")
    assert name.text == "a name that is longer …"
    assert title is not None
    assert title.text == long


def test_grey_lines_have_no_name_and_do_not_widen_the_range() -> None:
    root = drawn(flat("a", 2.0), flat("b", 3.0), flat("far", 900.0, full=False))
    assert set(texts(root, "name")) == {"a", "b"}
    assert max(float(node.text or "") for node in root.iter("text") if node.get("text-anchor") == "end") == 3.0
    grey = [node for node in root.findall("svg/path")]  # in a viewport of its own, which clips it
    assert [node.get("class") for node in grey] == ["line rest"]


def test_the_vertical_range_is_that_of_the_values_not_from_zero() -> None:
    (_, low), (_, high) = points(inline_svg(panel(Series("x", np.array([1.0, 9.0]), np.array([2.31, 2.37])))), "x")
    assert low - high > 0.9 * (svg.BOTTOM - svg.TOP)


def test_a_single_point_is_a_dot() -> None:
    root = drawn(flat("one", 1.0, n=1), flat("two", 2.0))
    kinds = {
        path.findtext("title"): path.get("class", "") for path in root.iter("path") if path.find("title") is not None
    }
    assert "dot" in kinds["one"]
    assert "dot" not in kinds["two"]
    assert ".dot { stroke-width: 8; }" in svg_file("x", [panel(flat("one", 1.0, n=1))])


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_spread_places_keep_their_order_and_distance(places: list[float]) -> None:
    found = svg.spread(places, 15, 0, 100)
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert all(found[b] - found[a] >= 15 - 1e-9 for a, b in pairwise(order))
    assert max(found) <= 100
    assert min(found) >= 0


def test_names_are_escaped_in_an_inline_drawing() -> None:
    line = Series(EVIL, np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    root = ElementTree.fromstring(inline_svg(panel(line, EVIL)))
    assert not list(root.iter("script"))
    drawing_title, line_title, name_title = (title.text or "" for title in root.iter("title"))
    assert drawing_title.startswith(EVIL)
    assert line_title == name_title == EVIL


def test_a_file_is_one_document_that_loads_nothing_and_has_every_name(curves: dict[str, Curve]) -> None:
    grey = Panel("grey", [flat("a", 1.0), flat(EVIL, 2.0, full=False)], run_panels.RATE)
    found = [run_panels.learning({EVIL: curves["model"], **curves}), run_panels.saved(curves), grey]
    text = svg_file(EVIL, found)
    root = ElementTree.fromstring(text)
    kinds = {node.tag.rpartition("}")[2] for node in root.iter()}
    assert kinds == {"svg", "title", "style", "rect", "text", "g", "path"}
    written = {node.text for node in root.iter() if node.tag.endswith(("}text", "}title"))}
    assert {
        EVIL,
        f"Grey: {EVIL}.",
        *(p.title for p in found),
        *(line.name for p in found for line in p.series),
    } <= written
    assert "url(" not in text
    assert "href" not in text


def test_a_file_has_colours_for_programs_without_css_variables(curves: dict[str, Curve]) -> None:
    text = svg_file("heading", [run_panels.learning(curves)])
    assert ".s1 { stroke: #0072b2; stroke: var(--s1); }" in text
