"""The panels of runs: which series they have, and the values of these."""

from typing import Any

import numpy as np
import pytest

from prequential.evaluation.curves import Curve
from prequential.report import run_panels
from prequential.report.names import Look
from prequential.report.svg import N_COLOURS

Curves = dict[str, Curve]


def test_a_learning_curve_is_bits_over_bytes_with_its_first_and_last_point(curves: Curves) -> None:
    line = run_panels.learning(curves).series[0]
    assert (line.x[0], line.x[-1]) == (16, 80_000)
    assert len(line.x) <= run_panels.N_POINTS
    assert (line.y == 3.0).all()


def test_interval_rates_sum_to_the_total_bits(curves: Curves) -> None:
    line = run_panels.intervals(curves).series[2]
    widths = np.diff(np.concatenate(([0], line.x)))
    assert (widths * line.y).sum() == pytest.approx(400_000.0, rel=1e-12)


def test_windows_show_only_the_model_and_its_parts(curves: Curves) -> None:
    assert [line.name for line in run_panels.windows(curves).series] == ["model", "gpt"]


def test_saved_bits_are_the_others_bits_minus_the_models_at_the_others_positions(curves: Curves) -> None:
    line = next(line for line in run_panels.saved(curves).series if line.name == "gzip")
    assert line.x.tolist() == [1024, 4096, 80_000]
    assert line.y.tolist() == [2048 - 3072, 16_384 - 12_288, 400_000 - 240_000]


def test_the_model_its_parts_and_the_best_others_are_full_and_the_rest_grey(curves: Curves) -> None:
    others = {f"c{i}": Curve(n_bytes=np.array([80_000]), bits=np.array([300_000.0 + i])) for i in range(5, 0, -1)}
    drawn = run_panels.learning(others | curves)
    assert {line.name for line in drawn.full} == {"model", "gpt", "c1", "c2", "c3"}
    assert drawn.note == "Grey: c5, c4, gzip."
    assert [line.name for line in drawn.series if line.own] == ["model"]


def test_a_curve_has_one_style_and_is_full_in_all_panels_or_in_none(curves: Curves) -> None:
    makers = (run_panels.learning, run_panels.intervals, run_panels.windows, run_panels.saved)
    styles = {(line.name, line.style, line.full) for make in makers for line in make(curves).series}
    assert len(styles) == len(curves)


def test_a_look_gives_names_and_styles(curves: Curves) -> None:
    look = Look({"gpt": "GPT alone"}, {"gpt": 6, "model": 3})
    found = {line.name: line.style for line in run_panels.learning(curves, look).series}
    assert found == {"model": 3, "GPT alone": 6, "gzip": 2}


def test_the_tail_has_the_rows_with_a_k_and_the_fitted_law(table: dict[str, Any]) -> None:
    measured, fitted = run_panels.tail(table).series
    assert measured.x.tolist() == [1.0, 2.0]
    assert measured.y.tolist() == fitted.y.tolist() == [8.0, 4.0]
    assert (measured.name, fitted.name) == ("model", "fit 8 k^-1.000")
    assert fitted.style == measured.style + N_COLOURS  # the same colour with other dashes


def test_a_table_without_occurrences_has_no_tail() -> None:
    novel = {"rows": [{"name": "novel", "n_bytes": 1, "bits": {"model": 1.0}}]}
    assert run_panels.tail(novel).series == []
