"""Series of known dependence, whose mean is 0, for measurements of coverage."""

import numpy as np

from prequential.comparison.prediction import noise_covariances


def autoregressive(n_series: int, n: int, coefficient: float, seed: int) -> np.ndarray:
    """AR(1) series (n_series, n) with mean 0 and standard normal shocks, in the stationary state."""
    shocks = np.random.default_rng(seed).standard_normal((n, n_series))
    series = np.empty_like(shocks)
    series[0] = shocks[0] / np.sqrt(1 - coefficient**2)
    for t in range(1, n):
        series[t] = coefficient * series[t - 1] + shocks[t]
    return series.T


def long_memory(n_series: int, n: int, hurst: float, seed: int) -> np.ndarray:
    """Fractional Gaussian noise (n_series, n) with mean 0 and variance 1, exactly (Davies and Harte 1987)."""
    covariances = noise_covariances(n + 1, hurst)
    powers = np.fft.fft(np.concatenate([covariances, covariances[-2:0:-1]])).real
    assert powers.min() > -1e-9
    normal = np.random.default_rng(seed).standard_normal((2, n_series, len(powers)))
    spectrum = np.sqrt(np.maximum(powers, 0) / len(powers)) * (normal[0] + 1j * normal[1])
    return np.fft.fft(spectrum).real[:, :n]
