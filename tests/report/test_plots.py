"""Pictures of matplotlib: they show the series of the panels."""

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest

from prequential import plots
from prequential.errors import ConfigError
from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import Run
from prequential.report import run_panels
from prequential.report.run_panels import Panel, Series


@pytest.fixture
def pyplot() -> Iterator[Any]:
    """pyplot without a window; its figures are closed at the end."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def names_in(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_axes_show_the_lines_with_their_names(curves: dict[str, Curve], pyplot: Any) -> None:
    axes = plots.learning_curves(curves | {"a $name$": curves["gzip"]})
    assert names_in(axes) == ["model", "gpt", "gzip", "a $name$"]
    assert not any(text.get_parse_math() for text in axes.get_legend().get_texts())
    assert axes.get_lines()[0].get_ydata().tolist() == run_panels.learning(curves).series[0].y.tolist()
    assert axes.get_xscale() == "log"
    assert plots.regret(curves).get_xlabel() == "bytes of the original"


def test_a_picture_is_drawn_in_the_axes_that_are_given_or_in_a_new_figure_of_pyplot(
    runs: list[Run], pyplot: Any
) -> None:
    ax = pyplot.figure(layout="constrained").subplots()
    assert plots.learning_curves(runs[0], ax=ax) is ax and len(pyplot.get_fignums()) == 1
    names = names_in(ax)
    assert "prequential 2 contexts" in names and any("ppmd" in name for name in names)
    several = plots.learning_curves(runs)
    assert several is not ax and len(pyplot.get_fignums()) == 2
    assert names_in(several) == ["2 contexts", "3 contexts, seed 7"]
    with pytest.raises(ConfigError, match="ax is an object of type Figure: give the Axes"):
        plots.regret(runs[0], ax=ax.figure)
    with pytest.raises(ConfigError, match="no table is called 'words2'"):
        plots.costs(runs[0], "words2")


def test_points_have_markers_and_what_is_not_drawn_is_named(pyplot: Any) -> None:
    x = np.array([1.0, 10.0])
    lines = [Series("a", x, np.array([2.0, 3.0])), Series("dot", x[:1], x[:1] + 1.5, 1)]
    axes = pyplot.figure().subplots()
    plots.draw(axes, Panel("t", lines, omitted=["far"]))
    assert (names_in(axes), axes.texts[0].get_text()) == (["a", "dot"], "Not drawn: far.")
    assert [line.get_marker() for line in axes.get_lines()] == ["None", "o"]
