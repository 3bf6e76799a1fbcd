"""Long memory: the confidence and the prediction interval have their coverage, and formulas agree with closed forms."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.stats import multivariate_normal
from series import autoregressive, long_memory

from prequential.comparison.intervals import Bootstrap, block_length, cell_deviations
from prequential.comparison.prediction import (
    HURST,
    Variance,
    coarse_cells,
    half_width,
    mean_variance,
    noise_covariances,
    seeds_variance,
)


def widths(series: np.ndarray, confidence: float, n_texts: int) -> np.ndarray:
    """Half the width of the interval of each of the series (n, m)."""
    return np.array([half_width(mean_variance(coarse_cells(one)), confidence, n_texts=n_texts) for one in series])


def coverages(texts: np.ndarray, others: np.ndarray, confidence: float) -> tuple[float, float]:
    """Shares of texts (n, m) whose confidence interval has 0, and whose prediction interval has the mean of the other text."""
    means, other_means = texts.mean(1), others.mean(1)
    expected = np.abs(means) <= widths(texts, confidence, 1)
    another = np.abs(other_means - means) <= widths(texts, confidence, 2)
    return float(expected.mean()), float(another.mean())


def bootstrap_widths(series: np.ndarray, confidence: float) -> np.ndarray:
    """As `widths` for the expectation, by the bootstrap, which assumes short memory."""
    how, nothing = Bootstrap(confidence=confidence, n_resamples=199), (np.zeros((1, series.shape[1])), (0,))
    found = [np.sort(cell_deviations(nothing, (one[None], (0,)), block_length(one), how)) for one in series]
    return np.array([(one[-how.n_outside] - one[how.n_outside - 1]) / 2 for one in found])


@pytest.mark.thorough
@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize(
    ("draw", "dependence"),
    [(autoregressive, 0.0), (autoregressive, 0.5), (autoregressive, 0.8), (long_memory, 0.7), (long_memory, 0.8)],
)
def test_both_intervals_hold_at_least_what_they_say(draw, dependence, confidence) -> None:
    n = 500
    found = coverages(draw(n, 200, dependence, seed=1), draw(n, 200, dependence, seed=2), confidence)
    assert min(found) >= confidence - 3 * np.sqrt(confidence * (1 - confidence) / n)


def test_the_price_of_an_unknown_memory_is_less_than_three_widths_of_independent_cells() -> None:
    m = 200
    exact = 1.96 * np.sqrt(2 / m)  # of a prediction, if independence and the variance were known
    assert 1.5 <= np.median(widths(autoregressive(300, m, 0.0, seed=3), 0.95, 2)) / exact <= 3


def test_with_long_memory_the_bootstrap_covers_neither_the_expectation_nor_another_text() -> None:
    texts, others = (long_memory(300, 200, 0.8, seed=seed) for seed in (4, 5))
    bootstrap = bootstrap_widths(texts, 0.95)
    assert np.mean(np.abs(texts.mean(1)) <= bootstrap) < 0.7
    assert np.mean(np.abs(texts.mean(1) - others.mean(1)) <= np.sqrt(2) * bootstrap) < 0.7


@pytest.mark.thorough
def test_intervals_with_seeds_hold_at_least_what_they_say() -> None:
    """Three seeds each add a constant to the text; another text has three other seeds."""
    n, n_seeds, confidence = 500, 3, 0.9
    random = np.random.default_rng(8)
    texts, others = (autoregressive(n, 128, 0.5, seed=seed) for seed in (9, 10))
    hits = np.zeros(2)
    for text, other in zip(texts, others, strict=True):
        a, b, next_a, next_b = random.normal(0, 0.6, (4, n_seeds))
        bits = [a, b + text.mean()]
        variance, freedom = seeds_variance([(range(n_seeds), bits[0]), (range(5, 5 + n_seeds), bits[1])])
        difference = bits[1].mean() - bits[0].mean()
        next_difference = other.mean() + next_b.mean() - next_a.mean()
        found = mean_variance(coarse_cells(text))
        for i, truth in enumerate((0.0, next_difference)):
            half = half_width(found, confidence, n_texts=1 + i, seeds_variance=variance, seeds_freedom=freedom)
            hits[i] += abs(difference - truth) <= half
    assert hits.min() >= n * confidence - 3 * np.sqrt(n * confidence * (1 - confidence))
    without = widths(texts, confidence, 1)
    assert np.mean(without) < 2 * 0.6 * np.sqrt(2 / n_seeds)  # seeds are a large part here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "dependence", "documented"),
    [
        (autoregressive, 0.0, (1.00, 1.00, 1.00)),
        (autoregressive, 0.5, (1.00, 1.00, 1.00)),
        (autoregressive, 0.8, (1.00, 1.00, 1.00)),
        (long_memory, 0.7, (0.99, 0.99, 0.99)),
        (long_memory, 0.8, (0.95, 0.96, 0.96)),
        (long_memory, 0.9, (0.81, 0.82, 0.81)),
    ],
)
def test_intervals_have_the_documented_coverage(draw, dependence, documented) -> None:
    n = 1000
    for m, share in zip((64, 256, 1000), documented, strict=True):
        found = coverages(draw(n, m, dependence, seed=11), draw(n, m, dependence, seed=12), 0.95)
        assert np.abs(np.array(found) - share).max() <= 3 * np.sqrt(share * (1 - share) / n) + 0.01  # as rounded


def test_means_of_neighbours_are_noise_with_the_same_exponent() -> None:
    for hurst in HURST:
        fine, coarse = noise_covariances(41, hurst), noise_covariances(20, hurst)
        of_pairs = [(2 * fine[2 * k] + fine[abs(2 * k - 1)] + fine[2 * k + 1]) / 4 for k in range(20)]
        assert np.array(of_pairs) == pytest.approx(2 ** (2 * hurst - 2) * coarse, abs=1e-12)


def test_weights_are_the_likelihood_integrated_over_the_scale() -> None:
    """By numerical integration of the normal density of the transforms over the logarithm of the scale."""
    cells = long_memory(1, 80, 0.7, seed=14)[0]
    places = (np.arange(80) + 0.5) / 80
    waves = np.sqrt(2) / 80 * np.cos(np.pi * np.outer(places, np.arange(2, 14)))
    likelihoods = []
    for hurst in HURST:
        covariance = waves.T @ toeplitz(noise_covariances(80, hurst)) @ waves
        scales = np.exp(np.linspace(-4, 4, 801))
        densities = [multivariate_normal.pdf(cells @ waves, cov=scale**2 * covariance) for scale in scales]
        likelihoods.append(np.sum(densities))
    assert mean_variance(cells).weights == pytest.approx(np.array(likelihoods) / np.sum(likelihoods), rel=1e-6)


def test_a_trend_of_one_half_wave_a_constant_and_signs_change_nothing() -> None:
    cells = long_memory(1, 100, 0.7, seed=15)[0]
    trend = 5 - 30 * np.cos(np.pi * (np.arange(100) + 0.5) / 100)
    without, with_trend, mirrored = (
        half_width(mean_variance(c), 0.95, n_texts=2) for c in (cells, cells + trend, -cells)
    )
    assert with_trend == pytest.approx(without, rel=1e-9)
    assert mirrored == without
    assert half_width(mean_variance(np.zeros(64)), 0.9, n_texts=2) == 0.0


def test_coarse_cells_are_means_of_neighbours() -> None:
    for n, expected in ((64, 64), (127, 127), (128, 64), (200, 66), (4096, 64)):
        coarse = coarse_cells(np.arange(n, dtype=float))
        assert len(coarse) == expected
        assert coarse[0] == pytest.approx((n // 64 - 1) / 2)


def test_with_a_known_exponent_the_width_is_that_of_students_t() -> None:
    """Table values for 12 degrees of freedom."""
    known = Variance(weights=np.array([1.0, 0, 0, 0, 0]), variances=np.full(5, 4.0))
    for n_texts, confidence, t in ((1, 0.95, 2.178813), (2, 0.95, 2.178813), (1, 0.9, 1.782288)):
        assert half_width(known, confidence, n_texts=n_texts) == pytest.approx(t * 2 * np.sqrt(n_texts), rel=1e-6)


def test_the_variances_of_seeds_are_paired_or_added() -> None:
    variance, freedom = seeds_variance([((0, 1), (10.0, 12.0)), ((0, 1), (3.0, 9.0))])  # paired: -7 and -3
    assert (variance, freedom) == (4.0, 1.0)
    half = half_width(mean_variance(np.zeros(64)), 0.95, n_texts=1, seeds_variance=variance, seeds_freedom=freedom)
    assert half == pytest.approx(12.7062 * 2, rel=1e-5)  # of seeds alone: Student's t over seeds
    variance, freedom = seeds_variance([((0, 1), (10.0, 12.0)), ((2, 3, 4), (3.0, 9.0, 6.0))])
    assert variance == pytest.approx(1 + 3)  # 2 / 2 and 9 / 3
    assert freedom == pytest.approx(16 / (1 / 1 + 9 / 2))  # Welch and Satterthwaite
    assert seeds_variance([((0,), (1.0,)), ((0,), (2.0,))]) == (0.0, 1.0)
