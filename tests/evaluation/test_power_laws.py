"""Power laws against planted ones: exponents within their standard errors, and lognormals that are recognised."""

import json
from functools import cache

import numpy as np
import pytest
from scipy.special import zeta

from prequential.evaluation.breakdown_text import fit_text
from prequential.evaluation.power_laws import (
    LOGNORMAL,
    MIN_ROWS,
    MIN_TAIL,
    POWER_LAW,
    UNDECIDED,
    distribution_fit,
    relation_fit,
)

SEEDS = range(40)


def fit_of(draws: np.ndarray) -> dict:
    values, counts = np.unique(draws, return_counts=True)
    return distribution_fit(values.astype(np.int64), counts.astype(np.int64))


def zipf(alpha: float, n: int, seed: int, xmin: int = 1) -> np.ndarray:
    """n draws from x**-alpha / zeta(alpha, xmin), by inversion up to 10**6."""
    return xmin + np.searchsorted(distribution_function(alpha, xmin), np.random.default_rng(seed).random(n))


@cache
def distribution_function(alpha: float, xmin: int) -> np.ndarray:
    return 1 - zeta(alpha, np.arange(xmin + 1, 10**6)) / zeta(alpha, xmin)


def lognormal(mu: float, sigma: float, n: int, seed: int) -> np.ndarray:
    draws = np.rint(np.random.default_rng(seed).lognormal(mu, sigma, n)).astype(np.int64)
    return draws[draws >= 1]


def relation(exponent: float, seed: int, curve: float = 0.0) -> dict:
    """12 rows of up to 2,000 gamma values of shape 1/2 each, with means 5 k**exponent."""
    rng, k, n = np.random.default_rng(seed), 2.0 ** np.arange(12), (2000 * 0.8 ** np.arange(12)).astype(int)
    means = 5 * k**exponent * np.exp(curve * np.log(k) ** 2)
    y = np.array([rng.gamma(0.5, mean / 0.5, size).mean() for mean, size in zip(means, n, strict=True)])
    return relation_fit(k, y, n.astype(np.float64))


@pytest.mark.parametrize("alpha", [1.8, 2.2, 3.0])
def test_a_planted_exponent_is_recovered_within_its_standard_error(alpha):
    fits = [fit_of(zipf(alpha, 4000, seed)) for seed in SEEDS]
    z = np.array([(fit["alpha"] - alpha) / fit["alpha_se"] for fit in fits])
    assert 0.45 <= (abs(z) <= 1).mean() <= 0.9  # 68 %, less what the choice of xmin costs
    assert (abs(z) <= 2).mean() >= 0.8
    assert abs(z.mean()) < 0.6
    by_rank = np.array([(fit["exponent"] + 1 / (alpha - 1)) / fit["exponent_se"] for fit in fits])
    assert (abs(by_rank) <= 2).mean() >= 0.8


def test_the_least_value_of_a_planted_tail_is_found():
    """Below 20 all values are equally likely, so the law holds from 20 on."""
    found, near = [], []
    for seed in range(10):
        body = np.random.default_rng(seed).integers(1, 20, 3000)
        fit = fit_of(np.concatenate([body, zipf(2.5, 3000, seed, xmin=20)]))
        found.append(fit["xmin"])
        near.append(abs(fit["alpha"] - 2.5) < 2 * fit["alpha_se"])
        assert fit["verdict"] != LOGNORMAL
    assert sum(near) >= 8
    assert 18 <= np.median(found) <= 30


def test_a_planted_power_law_is_seldom_called_a_lognormal():
    verdicts = [fit_of(zipf(2.2, 5000, seed))["verdict"] for seed in SEEDS]
    assert verdicts.count(LOGNORMAL) <= 2
    assert verdicts.count(POWER_LAW) + verdicts.count(UNDECIDED) >= 38


@pytest.mark.parametrize(("mu", "sigma"), [(0.3, 1.0), (1.0, 1.5), (0.3, 2.0)])
@pytest.mark.parametrize("n", [300, 3000])
def test_a_planted_lognormal_is_recognised(mu, sigma, n):
    verdicts = [fit_of(lognormal(mu, sigma, n, seed))["verdict"] for seed in range(10)]
    assert verdicts.count(LOGNORMAL) >= 9
    assert POWER_LAW not in verdicts


def test_too_few_words_have_no_exponent_and_the_text_says_so():
    few = zipf(2.2, MIN_TAIL - 1, seed=0)
    assert fit_of(few) is None
    assert fit_of(np.concatenate([few, zipf(2.2, 20, seed=1)])) is not None
    assert distribution_fit(np.array([], np.int64), np.array([], np.int64)) is None
    assert f"no power law: fewer than {MIN_TAIL} words" in fit_text(None, "times", "rank")


def test_equal_draws_have_no_exponent():
    assert fit_of(np.full(1000, 7)) is None
    assert fit_of(np.repeat([7, 8], 500)) is None


def test_the_law_of_known_data_is_that_of_the_powerlaw_package():
    """powerlaw 2.0.0, discrete=True: alpha 2.190161, D 0.0034404, normalised log-likelihood ratio to a lognormal 2.6563."""
    fit = fit_of(np.random.default_rng(0).zipf(2.2, 10_000))
    assert (fit["alpha"], fit["xmin"], fit["n_tail"]) == (pytest.approx(2.190161, abs=1e-5), 1, 10_000)
    assert (fit["ks"], fit["z"]) == (pytest.approx(0.0034404, abs=1e-6), pytest.approx(2.6563, abs=1e-3))
    json.dumps(fit, allow_nan=False)


@pytest.mark.parametrize("exponent", [-1.0, -0.3, 0.0])
def test_a_planted_relation_is_recovered_within_its_standard_error(exponent):
    fits = [relation(exponent, seed) for seed in range(100)]
    z = np.array([(fit["exponent"] - exponent) / fit["exponent_se"] for fit in fits])
    assert (abs(z) <= 2.23).mean() >= 0.88  # 95 % of Student's t with 10 degrees of freedom
    assert 0.5 <= (abs(z) <= 1).mean() <= 0.85
    assert np.mean([fit["bend_p"] < 0.05 for fit in fits]) <= 0.12


def test_a_bent_relation_is_not_a_power_law():
    fits = [relation(-0.3, seed, curve=-0.05) for seed in range(20)]
    assert np.mean([fit["bend_p"] < 0.05 for fit in fits]) >= 0.9
    assert np.mean([fit["bend"] for fit in fits]) == pytest.approx(-0.05, abs=0.01)


def test_an_exact_relation_is_fitted_and_its_worst_point_reported():
    x = 2.0 ** np.arange(10)
    exact = relation_fit(x, 5 * x**-0.5, np.ones(10))
    assert (exact["exponent"], exact["factor"], exact["close_share"]) == pytest.approx((-0.5, 5.0, 1.0))
    assert exact["exponent_se"] < 1e-9
    off = relation_fit(x, 5 * x**-0.5 * np.where(x == 512, 4, 1), np.ones(10))
    assert (off["worst_x"], off["close_share"] < 1, off["exponent_se"] > 0.01) == (512, True, True)
    light = relation_fit(x, 5 * x**-0.5 * np.where(x == 512, 4, 1), np.where(x == 512, 1e-9, 1.0))
    assert light["exponent"] == pytest.approx(-0.5, abs=1e-6)


def test_the_factor_and_exponent_of_a_relation_have_the_greatest_gamma_likelihood():
    rng, x = np.random.default_rng(1), np.arange(1.0, 9)
    y, w = rng.gamma(2.0, 3 * x**-0.7), rng.random(8)
    fit = relation_fit(x, y, w)

    def log_likelihood(factor: float, exponent: float) -> float:  # of one shape, less what does not depend on the means
        mean = factor * x**exponent
        return -(w * (np.log(mean) + y / mean)).sum()

    best = log_likelihood(fit["factor"], fit["exponent"])
    for step in (0.99, 1.01):
        assert log_likelihood(fit["factor"] * step, fit["exponent"]) < best
        assert log_likelihood(fit["factor"], fit["exponent"] * step) < best


@pytest.mark.parametrize("y", [[], [1, 2], [0, 1, 2, 3, 4], [1, 2, 3, 4]])
def test_too_few_rows_have_no_exponent_and_the_text_says_so(y):
    values = np.array(y, np.float64)
    assert relation_fit(np.arange(1.0, len(y) + 1), values, np.ones(len(y))) is None
    assert f"no power law: fewer than {MIN_ROWS} rows" in fit_text(None, "bits", "k")


def test_the_text_of_a_fit_says_its_error_its_tail_and_the_better_law():
    text = fit_text(fit_of(lognormal(1.0, 1.5, 20_000, 0)), "times", "rank")
    assert "exponent +- " in text and "alpha " in text and "a lognormal fits all words" in text
    assert "bend " in fit_text(relation(-0.3, 0), "bits", "k")
    # older records
    assert fit_text({"factor": 4.0, "exponent": -1.0}, "bits", "k") == "bits = 4 k^-1.000, by least squares"
