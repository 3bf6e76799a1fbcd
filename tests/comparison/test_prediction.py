"""Trend and long memory: both intervals have their coverage, and formulas agree with closed forms."""

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
    seeds_variance,
    text_cells,
)
from prequential.evaluation.curves import Curve


def trend(n: int, kind: int) -> np.ndarray:
    """The difference of two learning curves (n,), three times as large as noise of variance 1."""
    t = (np.arange(20 * n) + 0.5) / (20 * n)
    both = [(t + 0.01) ** -0.4 - 0.8 * (t + 0.03) ** -0.5, -((t + 0.01) ** -0.4), 3 * (t + 0.002) ** -0.3 - t**-0.2]
    cells = both[kind].reshape(n, 20).mean(1)
    return 3 * (cells - cells.mean()) / cells.std()


def widths(series: np.ndarray, confidence: float, n_texts: int) -> np.ndarray:
    """Half the width of the interval of each of the series (k, n)."""
    return np.array([mean_variance(one).half_width(confidence, n_texts=n_texts) for one in series])


def coverages(texts: np.ndarray, others: np.ndarray, drift: np.ndarray, confidence: float) -> tuple[float, float]:
    """Shares of texts whose confidence interval has the mean of the drift, and whose prediction interval has another mean."""
    means, other_means = texts.mean(1), others.mean(1)
    expected = np.abs(means) <= widths(texts + drift, confidence, 1)
    another = np.abs(other_means - means) <= widths(texts + drift, confidence, 2)
    return float(expected.mean()), float(another.mean())


def oracle(n: int, hurst: float) -> float:
    """Half the width of the 95 % interval of the expectation, if H, the variance and the trend were known."""
    return float(1.96 * np.sqrt(toeplitz(noise_covariances(n, hurst)).mean()))


@pytest.mark.thorough
@pytest.mark.parametrize("hurst", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_with_a_trend_and_long_memory_intervals_hold_and_are_at_most_four_times_too_wide(hurst) -> None:
    """Before the trend was projected out, they were 19, 12, 8, 5 and 3 times too wide."""
    n, n_texts = 96, 1000 if hurst == 0.9 else 300
    texts, others = (long_memory(n_texts, n, hurst, seed=seed) for seed in (1, 2))
    assert min(coverages(texts, others, trend(n, 0), 0.95)) >= 0.93
    for kind in range(3):
        assert np.median(widths(texts[:100] + trend(n, kind), 0.95, 1)) <= 4 * oracle(n, hurst)


@pytest.mark.thorough
@pytest.mark.parametrize(("coefficient", "n"), list(product([0.0, 0.5, 0.8], [64, 127])))
def test_with_short_memory_both_intervals_hold(coefficient, n) -> None:
    texts, others = (autoregressive(200, n, coefficient, seed=seed) for seed in (3, 4))
    assert min(coverages(texts, others, trend(n, 1) * texts.std(), 0.9)) >= 0.9


def test_a_trend_of_two_learning_curves_a_constant_and_signs_change_nothing() -> None:
    cells = long_memory(1, 100, 0.7, seed=15)[0]
    without = mean_variance(cells).half_width(0.95, n_texts=2)
    for kind in range(3):
        assert mean_variance(cells + 5 + trend(100, kind)).half_width(0.95, n_texts=2) == pytest.approx(
            without, rel=0.05
        )
    assert mean_variance(-cells).half_width(0.95, n_texts=2) == without
    assert mean_variance(np.zeros(64)).half_width(0.9, n_texts=2) == 0.0


@pytest.mark.thorough
def test_intervals_with_seeds_hold_at_least_what_they_say() -> None:
    """Three seeds each add a constant to the text; another text has three other seeds."""
    n, n_seeds, confidence = 400, 3, 0.9
    random = np.random.default_rng(8)
    texts, others = (autoregressive(n, 127, 0.5, seed=seed) for seed in (9, 10))
    hits = np.zeros(2)
    for text, other in zip(texts, others, strict=True):
        a, b, next_a, next_b = random.normal(0, 0.6, (4, n_seeds))
        bits = [a, b + text.mean()]
        found = mean_variance(text, seeds_variance([(range(n_seeds), bits[0]), (range(5, 5 + n_seeds), bits[1])]))
        difference = bits[1].mean() - bits[0].mean()
        next_difference = other.mean() + next_b.mean() - next_a.mean()
        for i, truth in enumerate((0.0, next_difference)):
            hits[i] += abs(difference - truth) <= found.half_width(confidence, n_texts=1 + i)
    assert hits.min() >= n * confidence - 3 * np.sqrt(n * confidence * (1 - confidence))


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
        assert (found and len(found.bits)) == expected
        if found:
            assert found.cell_bytes == 10 * (n // 64)
            edge = len(found.bits) * (n // 64)  # the last steps may be left out
            assert found.bits.mean() == pytest.approx(2 * edge**1.5 * n / edge)


def test_with_a_known_exponent_the_width_is_that_of_students_t() -> None:
    """Table values for 28 degrees of freedom."""
    known = Variance(weights=np.eye(6)[0], text=np.full(6, 4.0))
    for n_texts, confidence, t in ((1, 0.95, 2.048407), (2, 0.95, 2.048407), (1, 0.9, 1.701131)):
        assert known.half_width(confidence, n_texts=n_texts) == pytest.approx(t * 2 * np.sqrt(n_texts), rel=1e-6)
    assert N_TRANSFORMS == 28


def test_the_variances_of_seeds_are_paired_or_added() -> None:
    variance, freedom = seeds_variance([((0, 1), (10.0, 12.0)), ((0, 1), (3.0, 9.0))])  # paired: -7 and -3
    assert (variance, freedom) == (4.0, 1.0)
    half = mean_variance(np.zeros(64), (variance, freedom)).half_width(0.95, n_texts=1)
    assert half == pytest.approx(12.7062 * 2, rel=1e-5)  # of seeds alone: Student's t over seeds
    variance, freedom = seeds_variance([((0, 1), (10.0, 12.0)), ((2, 3, 4), (3.0, 9.0, 6.0))])
    assert variance == pytest.approx(1 + 3)  # 2 / 2 and 9 / 3
    assert freedom == pytest.approx(16 / (1 / 1 + 9 / 2))  # Welch and Satterthwaite
    assert seeds_variance([((0,), (1.0,)), ((0,), (2.0,))]) == (0.0, 1.0)
    one, many = seeds_variance([((0,), (1.0,)), ((1, 2), (2.0, 4.0))])
    assert (one, many) == (1.0, 1.0)
