"""Matplotlib figures: they show the series of the panels, and equal figures give equal PNG files."""

import os
import subprocess
import sys

import numpy as np
import pytest

from prequential.evaluation.curves import Curve
from prequential.report import figures, plots, run_panels
from prequential.report.panels import Panel, Role, Series


def test_figures_show_the_lines_with_their_names(curves: dict[str, Curve]) -> None:
    pytest.importorskip("matplotlib")
    axes = plots.learning_curves(curves, "a $title$").axes[0]
    assert axes.get_title() == "a $title$"
    assert [text.get_text() for text in axes.texts] == list(curves)  # at the ends of the lines
    heights = sorted(text.get_position()[1] for text in axes.texts)
    assert min(np.diff(heights)) >= 0.05 - 1e-9
    assert axes.get_legend() is None
    assert axes.get_lines()[0].get_ydata().tolist() == run_panels.learning(curves).series[0].y.tolist()
    assert axes.get_xscale() == "log"
    assert plots.regret(curves).axes[0].get_xlabel() == "bytes of the original"


def test_grey_lines_do_not_widen_the_range_and_points_have_markers() -> None:
    pytest.importorskip("matplotlib")
    x = np.array([1.0, 10.0])
    far = Series("far", x, np.array([2.0, 900.0]), role=Role.GREY)
    lines = [Series("a", x, np.array([2.0, 3.0])), far, Series("dot", x[:1], x[:1] + 1.5, 1)]
    axes = figures.figure("", [Panel("t", lines)]).axes[0]
    assert axes.get_ylim()[1] < 4
    assert [text.get_text() for text in axes.texts] == ["a", "dot", "Grey: far."]
    lines = [line for line in axes.get_lines() if line.get_clip_on()]  # the others join names to lines
    assert [line.get_marker() for line in lines] == ["None", "o", "None"]


def test_equal_figures_give_equal_png_files(curves: dict[str, Curve]) -> None:
    pytest.importorskip("matplotlib")
    first, second = (figures.png(figures.figure("heading", [run_panels.learning(curves)])) for _ in range(2))
    assert first.startswith(b"\x89PNG")
    assert first == second


@pytest.mark.parametrize(("backend", "kept"), [("garbage", False), ("svg", True)])
@pytest.mark.first_quick
def test_figures_do_not_depend_on_the_backend_that_the_environment_names(backend: str, kept: bool) -> None:
    pytest.importorskip("matplotlib")
    program = """
import os
from prequential.report.figures import new_figure, png
assert png(new_figure(1.0, 1.0))[1:4] == b"PNG"
import matplotlib
print(os.environ["MPLBACKEND"], matplotlib.rcParams["backend"] == os.environ["MPLBACKEND"])
"""
    env = {**os.environ, "MPLBACKEND": backend}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{backend} {kept}\n"
