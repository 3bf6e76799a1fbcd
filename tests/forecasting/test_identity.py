"""The identity: the integral of the loss is the total, and where it is not, the parts say where."""

from dataclasses import replace

import numpy as np
import pytest

from prequential import Curve
from prequential.forecasting.identity import identity
from prequential.forecasting.scaling import Fit

PREFIXES = [12_500, 17_678, 25_000, 35_355, 50_000, 70_711, 100_000]
LOSSES = Fit(
    form="additive",
    a=0.4,
    b=0.3,
    coefficients=(1.1, 0.5, 0.9),
    n_unit=1e5,
    d_unit=5e4,
    rms=0.0,
    residuals=np.zeros((1, 1)),
)
MEANS = replace(LOSSES, coefficients=(1.1, 0.5, 0.9 / 0.7))  # exactly the mean of LOSSES


def test_two_laws_of_one_curve_agree() -> None:
    found = identity(MEANS, LOSSES, PREFIXES, 3e5, 1_000_000)
    assert abs(found["disagreement_percent"]) < 0.1  # blocks have the loss of their middle
    assert found["total_bits"] == pytest.approx(MEANS.at(3e5, 1e6) * 1e6)
    assert found["total_bits_from_losses"] == pytest.approx(found["total_bits"], rel=1e-3)
    assert found["holds"]


def test_a_law_of_the_loss_that_falls_too_fast_fails_beyond_the_ladder() -> None:
    steep = replace(LOSSES, coefficients=(0.5, 0.5, 1.5))
    found = identity(MEANS, steep, PREFIXES, 3e5, 1_000_000)
    parts = found["parts_percent"]
    assert not found["holds"]
    assert found["disagreement_percent"] == pytest.approx(sum(parts.values()))
    assert parts["beyond"] < 3 * min(parts["ladder"], parts["start"], 0) and parts["beyond"] < -5


def test_a_beginning_that_costs_more_than_the_power_law_is_a_part_of_its_own() -> None:
    transient = replace(MEANS, b=1.0, coefficients=(1.1 + 0.3, 0.5, 0.9))
    other = identity(transient, LOSSES, PREFIXES, 3e5, 1_000_000)
    total = float(np.diff([0, transient.at(3e5, 8839) * 8839])[0])
    mean = LOSSES.mean_to(3e5, 8839)
    assert mean is not None
    assert other["parts_percent"]["start"] == pytest.approx(100 * (mean * 8839 - total) / other["total_bits"], rel=1e-6)


def test_laws_of_ratios_are_integrated_over_the_proxys_bits() -> None:
    """A text whose second half is twice as hard: the ratio is constant, so both ways must agree exactly."""
    ends = np.array([1000, 100_000, 1_000_000])
    proxy = Curve(n_bytes=ends, bits=np.array([2000.0, 200_000.0, 200_000 + 4.0 * 900_000]))
    ratio = replace(LOSSES, coefficients=(0.9, 0.0, 0.0))
    found = identity(ratio, ratio, PREFIXES, 3e5, 1_000_000, proxy)
    assert found["total_bits"] == pytest.approx(0.9 * proxy.bits[-1])
    assert abs(found["disagreement_percent"]) < 1e-9
    assert found["parts_percent"]["start"] is None
