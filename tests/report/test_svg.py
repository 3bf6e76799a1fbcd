"""SVG drawings: escaped markup, scales, and the names of lines."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential.evaluation.curves import Curve
from prequential.report import run_panels, svg
from prequential.report.markup import element
from prequential.report.panels import Panel, Role, Series
from prequential.report.svg import inline_svg


@given(st.text())
def test_text_in_markup_is_read_back_as_text(text: str) -> None:
    made = element("p", text, title=text)
    cleaned = "".join(letter for letter in text if letter.isprintable())
    parsed = ElementTree.fromstring(element("p", cleaned, title=cleaned))
    assert "<" not in made.removeprefix("<p").removesuffix("</p>")
    assert (parsed.text or "", parsed.get("title")) == (cleaned, cleaned)
    assert element("p", element("b", "<")) == "<p><b>&lt;</b></p>"  # markup is not escaped again


def flat(name: str, value: float, *, role: Role = Role.NAMED, n: int = 2) -> Series:
    return Series(name, np.array([10.0, 1000.0][:n]), np.full(n, value), role=role)


def drawn(*lines: Series) -> ElementTree.Element:
    return ElementTree.fromstring(inline_svg(Panel("title", lines)))


def points(root: ElementTree.Element, name: str) -> list[tuple[float, float]]:
    """The points of the line `name` in a drawing, in pixels."""
    path = next(path for path in root.iter("path") if path.findtext("title") == name)
    numbers = list(map(float, path.get("d", "").removeprefix("M").split(" ")))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def names(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {node.text or "": node for node in root.iter() if "name" in node.get("class", "").split()}


def test_equal_ratios_have_equal_widths_and_more_bits_are_higher() -> None:
    line = Series("model", np.array([1000.0, 2000.0, 4000.0]), np.array([1.0, 2.0, 3.0]))
    (x0, y0), (x1, y1), (x2, y2) = points(drawn(line), "model")
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert (x0, x2) == (svg.LEFT, svg.RIGHT)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert y0 > y1


def test_lines_stay_inside_the_plotting_area_and_fill_it(curves: dict[str, Curve]) -> None:
    for panel in (run_panels.learning(curves), run_panels.saved(curves)):
        root = ElementTree.fromstring(inline_svg(panel))
        found = np.array([point for line in panel.series for point in points(root, line.name)])
        assert (found.min(0) >= [svg.LEFT, svg.TOP]).all()
        assert (found.max(0) <= [svg.RIGHT, svg.BOTTOM]).all()
    (_, low), (_, high) = points(drawn(Series("x", np.array([1.0, 9.0]), np.array([2.31, 2.37]))), "x")
    assert low - high > 0.9 * (svg.BOTTOM - svg.TOP)  # the range is that of the values, not from zero


@pytest.mark.parametrize("value", [0.0, 2.5, -1.0])
def test_a_line_of_one_point_is_a_dot_and_one_of_one_value_can_be_drawn(value: float) -> None:
    for n in (1, 2):
        root = drawn(flat("flat", value, n=n))
        assert "nan" not in ElementTree.tostring(root, "unicode")
        kinds = [path.get("class", "").split() for path in root.iter("path") if path.find("title") is not None]
        assert ("dot" in kinds[0]) == (n == 1)


def test_full_lines_have_their_names_at_their_ends_without_overlap() -> None:
    found = names(drawn(*(flat(f"line {i}", 2.0 + i / 1000) for i in range(4)), flat("far", 9.0)))
    heights = sorted(float(node.get("y", "")) for node in found.values())
    assert list(found) == ["line 0", "line 1", "line 2", "line 3", "far"]
    assert all(float(node.get("x", "")) > svg.RIGHT for node in found.values())
    assert min(np.diff(heights)) >= svg.LABEL_HEIGHT - 0.11
    assert heights[-1] <= svg.BOTTOM + 5
    assert float(found["far"].get("y", "")) == heights[0]


def test_a_long_name_is_cut_at_the_end_of_its_line_and_complete_in_its_title() -> None:
    long = "a name that is longer than the margin"
    (name,) = names(drawn(flat(long, 1.0))).values()
    assert (name.text, name.findtext("title")) == ("a name that is longer …", long)


def test_grey_lines_have_no_name_and_do_not_widen_the_range() -> None:
    grey = flat("far", 900.0, role=Role.GREY)
    root = drawn(flat("a", 2.0), flat("b", 3.0), grey)
    assert set(names(root)) == {"a", "b"}
    assert max(float(node.text or "") for node in root.iter("text") if node.get("text-anchor") == "end") == 3.0
    assert [node.get("class") for node in root.findall("svg/path")] == ["line rest"]  # in a viewport, which clips it
