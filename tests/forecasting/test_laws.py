"""Laws of size and length: the integral of the loss is the total, and where it is not, the parts say where."""

from dataclasses import replace

import numpy as np
import pytest

from prequential import ConfigError, Curve
from prequential.forecasting.forecast import total_both_ways
from prequential.forecasting.scaling import FORMS, Fit, Projection

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


@pytest.mark.parametrize("form", ["additive", "crossed"])
@pytest.mark.parametrize("b", [0.1, 0.5, 0.8])
def test_the_mean_of_a_power_law_is_the_integral_of_its_losses(form: str, b: float) -> None:
    coefficients = (1.2, 0.4, 0.8, 0.3)[: 4 if form == "crossed" else 3]
    law = replace(LOSSES, form=form, b=b, coefficients=coefficients, d_unit=1e5)
    edges = np.concatenate([[0.0], np.geomspace(1e-9, 3e5, 200_001)])
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    falling = 0.8 + (0.3 * 5**-0.4 if form == "crossed" else 0.0)
    mean = 1.2 + 0.4 * 5**-0.4 + falling * float(((middles / 1e5) ** -b * widths).sum()) / 3e5
    implied = law.mean_to(5e5, 3e5)
    assert implied == pytest.approx(mean, rel=1e-3 if b < 0.8 else 3e-3)  # the sum misses a part near byte 0
    assert implied is not None and implied > law.at(5e5, 3e5)


@pytest.mark.parametrize(("form", "b"), [("shared", 0.5), ("additive", 1.0), ("crossed", 1.7)])
def test_a_law_without_the_identity_or_with_an_infinite_integral_has_no_implied_mean(form: str, b: float) -> None:
    assert replace(LOSSES, form=form, b=b).mean_to(5e5, 3e5) is None


@pytest.mark.parametrize(("n_sizes", "n_prefixes"), [(2, 7), (5, 2)])
def test_two_sizes_or_two_prefixes_are_too_few_for_a_law(n_sizes: int, n_prefixes: int) -> None:
    n, d = np.arange(1.0, n_sizes + 1), np.arange(1.0, n_prefixes + 1)
    with pytest.raises(ConfigError, match="needs 3 sizes and 3 prefixes"):
        Projection(FORMS["additive"], n, d, np.ones((n_sizes, n_prefixes)))


def test_two_laws_of_one_curve_agree_and_one_that_falls_too_fast_disagrees() -> None:
    found = total_both_ways(MEANS, LOSSES, PREFIXES, 3e5, 1_000_000)
    assert abs(found["disagreement_percent"]) < 0.1  # blocks have the loss of their middle
    assert found["total_bits"] == pytest.approx(MEANS.at(3e5, 1e6) * 1e6)
    assert found["total_bits_from_losses"] == pytest.approx(found["total_bits"], rel=1e-3)
    assert found["holds"]
    falling_too_fast = total_both_ways(MEANS, replace(LOSSES, coefficients=(0.5, 0.5, 1.5)), PREFIXES, 3e5, 1_000_000)
    assert not falling_too_fast["holds"] and falling_too_fast["disagreement_percent"] < -5


def test_laws_of_ratios_are_integrated_over_the_proxys_bits() -> None:
    """A text whose second half is twice as hard: the ratio is constant, so both ways must agree exactly."""
    ends = np.array([1000, 100_000, 1_000_000])
    proxy = Curve(n_bytes=ends, bits=np.array([2000.0, 200_000.0, 200_000 + 4.0 * 900_000]))
    ratio = replace(LOSSES, coefficients=(0.9, 0.0, 0.0))
    found = total_both_ways(ratio, ratio, PREFIXES, 3e5, 1_000_000, proxy)
    assert found["total_bits"] == pytest.approx(0.9 * proxy.bits[-1])
    assert abs(found["disagreement_percent"]) < 1e-9
