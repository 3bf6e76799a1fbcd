"""The panels of runs: which series they have, and the values of these."""

from typing import Any

import numpy as np
import pytest

from prequential.measure.evaluation.curves import Curve
from prequential.report import run_panels

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


def test_regret_is_the_models_bits_minus_the_others_at_the_others_positions(curves: Curves) -> None:
    line = next(line for line in run_panels.regret(curves).series if line.name == "gzip")
    assert line.x.tolist() == [1024, 4096, 80_000]
    assert line.y.tolist() == [3072 - 2048, 12_288 - 16_384, 240_000 - 400_000]


def test_regret_omits_the_curves_that_are_far_away_at_the_end(curves: Curves) -> None:
    assert [line.name for line in run_panels.regret(curves, n_closest=1).series] == ["gpt"]


def test_a_curve_has_one_style_in_all_panels(curves: Curves) -> None:
    makers = (run_panels.learning, run_panels.intervals, run_panels.windows, run_panels.regret)
    styles = {(line.name, line.style) for make in makers for line in make(curves).series}
    assert len(styles) == len(curves)


def test_the_tail_has_the_rows_with_a_k_and_the_fitted_law(table: dict[str, Any]) -> None:
    measured, fitted = run_panels.tail(table).series
    assert measured.x.tolist() == [1.0, 2.0]
    assert measured.y.tolist() == fitted.y.tolist() == [8.0, 4.0]


def test_a_table_without_occurrences_has_no_tail() -> None:
    novel = {"rows": [{"name": "novel", "n_bytes": 1, "bits": {"model": 1.0}}]}
    assert run_panels.tail(novel).series == []
