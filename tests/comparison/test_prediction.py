"""Trend and long memory: intervals have their coverage, and formulas agree with closed forms."""

from itertools import product

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.stats import multivariate_normal
from series import autoregressive, long_memory

from prequential.comparison.prediction import (
    HURST,
    N_TRANSFORMS,
    Variance,
    _weights,
    mean_variance,
    noise_covariances,
    text_cells,
)
from prequential.evaluation.curves import Curve


def trend(n: int, kind: int) -> np.ndarray:
    """The difference of two learning curves (n,), three times as large as noise of variance 1."""
    t = (np.arange(20 * n) + 0.5) / (20 * n)
    both = [(t + 0.01) ** -0.4 - 0.8 * (t + 0.03) ** -0.5, -((t + 0.01) ** -0.4), 3 * (t + 0.002) ** -0.3 - t**-0.2]
    cells = both[kind].reshape(n, 20).mean(1)
    return 3 * (cells - cells.mean()) / cells.std()


def widths(series: np.ndarray, confidence: float) -> np.ndarray:
    """Half the width of the interval of each of the series (k, n)."""
    return np.array([mean_variance(one).half_width(confidence) for one in series])


def coverage(texts: np.ndarray, drift: np.ndarray, confidence: float) -> float:
    """The share of texts whose interval has the mean of the drift."""
    return float((np.abs(texts.mean(1)) <= widths(texts + drift, confidence)).mean())


def oracle(n: int, hurst: float) -> float:
    """Half the width of the 95 % interval of the expectation, if H, the variance and the trend were known."""
    return float(1.96 * np.sqrt(toeplitz(noise_covariances(n, hurst)).mean()))


@pytest.mark.thorough
@pytest.mark.parametrize("hurst", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_with_a_trend_and_long_memory_intervals_hold_and_are_at_most_four_times_too_wide(hurst) -> None:
    """Before the trend was projected out, they were 19, 12, 8, 5 and 3 times too wide."""
    n, n_texts = 96, 1000 if hurst == 0.9 else 300
    texts = long_memory(n_texts, n, hurst, seed=1)
    assert coverage(texts, trend(n, 0), 0.95) >= 0.93
    for kind in range(3):
        assert np.median(widths(texts[:100] + trend(n, kind), 0.95)) <= 4 * oracle(n, hurst)


@pytest.mark.thorough
@pytest.mark.parametrize(("coefficient", "n"), list(product([0.0, 0.5, 0.8], [64, 127])))
def test_with_short_memory_intervals_hold(coefficient, n) -> None:
    texts = autoregressive(200, n, coefficient, seed=3)
    assert coverage(texts, trend(n, 1) * texts.std(), 0.9) >= 0.9


def test_a_trend_of_two_learning_curves_a_constant_and_signs_change_nothing() -> None:
    cells = long_memory(1, 100, 0.7, seed=15)[0]
    without = mean_variance(cells).half_width(0.95)
    for kind in range(3):
        assert mean_variance(cells + 5 + trend(100, kind)).half_width(0.95) == pytest.approx(without, rel=0.05)
    assert mean_variance(-cells).half_width(0.95) == without
    assert mean_variance(np.zeros(64)).half_width(0.9) == 0.0


def test_means_of_neighbours_are_noise_with_the_same_exponent() -> None:
    for hurst in HURST:
        fine, coarse = noise_covariances(41, hurst), noise_covariances(20, hurst)
        of_pairs = [(2 * fine[2 * k] + fine[abs(2 * k - 1)] + fine[2 * k + 1]) / 4 for k in range(20)]
        assert np.array(of_pairs) == pytest.approx(2 ** (2 * hurst - 2) * coarse, abs=1e-12)


def test_weights_are_the_likelihood_integrated_over_the_scale() -> None:
    """By numerical integration of the normal density of the transforms over the logarithm of the scale."""
    cells, transform = long_memory(1, 80, 0.7, seed=14)[0], _weights(80)
    likelihoods = []
    for hurst in HURST:
        covariance = transform.T @ toeplitz(noise_covariances(80, hurst)) @ transform
        scales = np.exp(np.linspace(-3, 3, 81))
        densities = [multivariate_normal.logpdf(cells @ transform, cov=scale**2 * covariance) for scale in scales]
        likelihoods.append(np.exp(densities).sum())
    assert mean_variance(cells).weights == pytest.approx(np.array(likelihoods) / np.sum(likelihoods), rel=1e-6)


def test_cells_are_multiples_of_the_longest_step_and_their_mean_is_the_difference_of_the_text() -> None:
    for n, expected in ((63, None), (64, 64), (127, 127), (128, 64), (200, 66), (4096, 64)):
        a, b = (Curve(n_bytes=10 * np.arange(1, n + 1), bits=k * np.arange(1, n + 1) ** 1.5) for k in (3.0, 5.0))
        found = text_cells([(1.0, [b, b]), (-1.0, [a])])
        assert (None if found is None else len(found)) == expected
        if found is not None:
            edge = len(found) * (n // 64)  # the last steps may be left out
            assert found.mean() == pytest.approx(2 * edge**1.5 * n / edge)


def test_with_a_known_exponent_the_width_is_that_of_students_t() -> None:
    """Table values for 28 degrees of freedom."""
    known = Variance(weights=np.eye(6)[0], values=np.full(6, 4.0))
    for confidence, t in ((0.95, 2.048407), (0.9, 1.701131)):
        assert known.half_width(confidence) == pytest.approx(t * 2, rel=1e-6)
        assert known.p_value(t * 2) == pytest.approx(1 - confidence, rel=1e-5)
    assert N_TRANSFORMS == 28
