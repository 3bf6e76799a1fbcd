"""Laws of size and length: planted laws are found, the identity holds, and too few runs are refused."""

import numpy as np
import pytest

from prequential import ConfigError
from prequential.measure.study.scaling import (
    FIRST_GRID,
    FORMS,
    SECOND_GRID,
    Floats,
    Observations,
    Projection,
    fit,
    line_in_logs,
)

N = np.array([2e4, 3e4, 7e4, 1.2e5, 2.5e5])
D = 3e5 * 0.5 ** np.arange(3, -0.5, -0.5)
A, B = FIRST_GRID[9], SECOND_GRID[6]  # exponents on the grid, so that the fit can find a planted law exactly


def planted(form: str, n: Floats, d: Floats) -> Floats:
    """The losses (R, P) of a law whose coefficients are for units of 1e5 weights and 1e5 bytes."""
    coefficients = {"additive": (1.2, 0.5, 0.9), "crossed": (1.2, 0.4, 0.8, 0.3)}[form]
    a, b = np.array([A]), np.array([B])
    terms = FORMS[form].terms(n[:, None] / 1e5, d[None] / 1e5, a, b)
    return np.asarray(sum(c * term for c, term in zip(coefficients, terms, strict=True)), np.float64)


@pytest.mark.parametrize("form", ["additive", "crossed"])
def test_a_planted_law_is_found_and_extrapolates_to_larger_runs(form: str) -> None:
    found = fit(Observations(n_weights=N, n_bytes=D, losses=planted(form, N, D)), form)
    assert (found.a, found.b) == (A, B)
    assert found.rms < 1e-7
    assert found.at(2e6, 4e6) == pytest.approx(float(planted(form, np.array([2e6]), np.array([4e6]))[0, 0]), rel=1e-5)


def test_coefficients_are_not_negative_even_if_those_of_least_squares_are() -> None:
    rising = 2.0 + 0.1 * np.log(N)[:, None] + 0.0 * D[None]  # larger learners have a higher loss
    found = fit(Observations(n_weights=N, n_bytes=D, losses=rising))
    assert all(c >= 0 for c in found.coefficients)
    assert found.coefficients[1] == 0


@pytest.mark.parametrize("form", list(FORMS))
def test_no_other_non_negative_coefficients_nearby_fit_better(form: str) -> None:
    random = np.random.default_rng(3)
    observed = Observations(
        n_weights=N, n_bytes=D, losses=planted("crossed", N, D) * np.exp(random.normal(0, 0.01, (5, 7)))
    )
    projection = Projection(FORMS[form], observed)
    point, coefficients = projection.solve(np.zeros((observed.losses.size, 1)))
    i, best = int(point[0]), coefficients[0]

    def error(c: Floats) -> float:
        return float(((projection._design[i] @ c - projection._root[i]) ** 2).sum())

    for _ in range(100):
        other = np.maximum(best + random.normal(0, 0.01, len(best)), 0)
        assert error(best) <= error(other) + 1e-12


def test_the_mean_of_a_power_law_follows_the_identity() -> None:
    found = fit(Observations(n_weights=N, n_bytes=D, losses=planted("crossed", N, D)), "crossed")
    ends = (np.arange(1_000_000) + 0.5) * 0.3
    mean = np.mean(
        [found.coefficients[0] + found.coefficients[1] * (5e5 / found.n_unit) ** -found.a]
        + (found.coefficients[2] + found.coefficients[3] * (5e5 / found.n_unit) ** -found.a)
        * (ends / found.d_unit) ** -found.b
    )
    implied = found.mean_to(5e5, 3e5)
    assert implied is not None
    assert implied == pytest.approx(float(mean), rel=1e-3)
    assert implied > found.at(5e5, 3e5)


def test_forms_without_the_identity_have_no_implied_mean() -> None:
    found = fit(Observations(n_weights=N, n_bytes=D, losses=planted("additive", N, D)), "shared")
    assert found.mean_to(5e5, 3e5) is None


def test_the_spread_of_a_bootstrap_grows_with_the_residuals_and_with_the_distance() -> None:
    random = np.random.default_rng(0)
    places = np.array([[5e5, 6e5], [5e6, 6e6]])
    spreads = []
    for noise in (0.001, 0.01):
        losses = planted("additive", N, D) * np.exp(random.normal(0, noise, (5, 7)))
        projection = Projection(FORMS["additive"], Observations(n_weights=N, n_bytes=D, losses=losses))
        spreads.append(np.log(projection.bootstrap(projection.fit(), places, 100)).std(1))
    assert np.all(spreads[1] > 3 * spreads[0])
    assert spreads[1][1] > spreads[1][0] > 0
    again = projection.bootstrap(projection.fit(), places, 100)
    assert np.array_equal(np.log(again).std(1), spreads[1])


@pytest.mark.parametrize(("n_sizes", "n_prefixes"), [(2, 7), (5, 2)])
def test_two_sizes_or_two_prefixes_are_too_few_for_a_law(n_sizes: int, n_prefixes: int) -> None:
    n, d = N[:n_sizes], D[:n_prefixes]
    with pytest.raises(ConfigError, match="needs 3 sizes and 3 prefixes"):
        Observations(n_weights=n, n_bytes=d, losses=planted("additive", n, d))


def test_a_line_in_logs_goes_through_its_points_and_extrapolates() -> None:
    assert line_in_logs([(1.0, 8.0), (10.0, 4.0)], 10.0) == 4.0
    assert line_in_logs([(1.0, 8.0), (10.0, 4.0)], 100.0) == pytest.approx(2.0)
