"""Fits: planted exponents between the nodes of a grid are found, within bounds."""

import math

import numpy as np
import pytest

from prequential.forecasting.scaling import (
    FORMS,
    HIGHEST_A,
    HIGHEST_B,
    LOWEST,
    Fit,
    Floats,
    Projection,
)

N = np.array([2e4, 3e4, 7e4, 1.2e5, 2.5e5])
D = 3e5 * 0.5 ** np.arange(3, -0.5, -0.5)
COEFFICIENTS = {"additive": (1.2, 0.5, 0.9), "crossed": (1.2, 0.4, 0.8, 0.3), "shared": (1.2, 0.5, 0.9)}


def planted(form: str, n: Floats, d: Floats, a: float = 0.431, b: float = 0.337) -> Floats:
    """The losses (R, P) of a law whose coefficients are for units of 1e5 weights and 1e5 bytes."""
    exponents = np.array([a]), np.array([b])
    terms = FORMS[form].terms(n[:, None] / 1e5, d[None] / 1e5, *exponents)
    total = np.asarray(sum(c * term for c, term in zip(COEFFICIENTS[form], terms, strict=True)), np.float64)
    return np.asarray(total ** FORMS[form].root(*exponents), np.float64)


def fit(losses: Floats, form: str = "additive") -> Fit:
    return Projection(FORMS[form], N, D, losses).fit()


def noisy(form: str, noise: float, seed: int = 3) -> Floats:
    random = np.random.default_rng(seed)
    return np.asarray(planted(form, N, D) * np.exp(random.normal(0, noise, (5, 7))), np.float64)


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize(
    ("a", "b"),
    [(0.431, 0.337), (0.0553, 0.913), (0.03, 0.02), (2.7, 0.99), (3.5, 0.5)],
    ids=["between nodes", "near the edges", "below 0.04", "above 0.96", "a above 2"],
)
def test_a_planted_law_of_any_exponents_is_found_and_extrapolates_to_ten_times_the_bytes(
    form: str, a: float, b: float
) -> None:
    found = fit(planted(form, N, D, a, b), form)
    assert np.abs(found.residuals).max() < 1e-5
    assert found.at(2.5e6, 3e6) == pytest.approx(
        planted(form, np.array([2.5e6]), np.array([3e6]), a, b)[0, 0], rel=1e-3
    )
    if min(a, b) > 0.05:  # smaller exponents can hardly be told from logarithms
        assert (found.a, found.b) == (pytest.approx(a, rel=1e-2), pytest.approx(b, rel=1e-2))


def test_an_exponent_stays_within_its_bounds_and_a_coefficient_above_0() -> None:
    found = fit(planted("additive", N, D, 6.0, 1.6))
    assert (found.a, found.b) == (pytest.approx(HIGHEST_A), pytest.approx(HIGHEST_B))
    rising = 2.0 + 0.05 * np.log(D)[None] + 0.0 * N[:, None]
    assert fit(rising).coefficients[2] == 0
    assert LOWEST < fit(planted("additive", N, D)).a < HIGHEST_A


@pytest.mark.parametrize("form", list(FORMS))
def test_no_other_parameters_nearby_fit_better(form: str) -> None:
    random, observed = np.random.default_rng(6), noisy("crossed", 0.01)
    found = fit(observed, form)
    least = float((np.expm1(-found.residuals) ** 2).sum())
    n, d = np.repeat(N, len(D)), np.tile(D, len(N))
    for _ in range(300):
        a, b = (np.array([x * math.exp(random.normal(0, 0.02))]) for x in (found.a, found.b))
        c = np.maximum(np.array(found.coefficients) * np.exp(random.normal(0, 0.02, len(found.coefficients))), 0)
        terms = FORMS[form].terms(n / found.n_unit, d / found.d_unit, a, b)
        total = sum(x * term for x, term in zip(c, terms, strict=True)) ** FORMS[form].root(a, b)
        assert least <= float(((total / observed.reshape(-1) - 1) ** 2).sum()) + 1e-12


def test_a_small_root_does_not_pass_for_a_good_fit() -> None:
    """Residuals that are multiplied by the root tend to 0 with it, so the smallest root seemed to fit best."""
    random = np.random.default_rng(0)
    wild = 2.0 * np.exp(random.normal(0, 0.2, (5, 7)))  # no law
    constant = float(np.sqrt(((wild * np.mean(1 / wild) / np.mean(1 / wild**2) / wild - 1) ** 2).mean()))
    for form in FORMS:
        assert float(np.sqrt((np.expm1(-fit(wild, form).residuals) ** 2).mean())) <= constant + 1e-9
