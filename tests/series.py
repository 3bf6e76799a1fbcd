"""Series of known dependence, whose mean is 0, for measurements of coverage; and runs whose costs are planted."""

from pathlib import Path

import numpy as np
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.comparison.prediction import noise_covariances
from prequential.evaluation.curves import Curve, curve_table
from prequential.evaluation.runs import CURVE, RECORD, Run, read_run
from prequential.records import append_record

SEGMENT = 64  # bytes


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


def write_run(folder: Path, units, *, seed=0, model="a", ends=None, blake2b="00", **fields) -> Run:
    """A run whose segments cost the given units of 2**-22 bits. ends: where segments end; by default each has SEGMENT bytes."""
    folder.mkdir(parents=True)
    units = np.array(units, np.int64)
    ends = SEGMENT * np.arange(1, len(units) + 1) if ends is None else np.array(ends, np.int64)
    curve = Curve(n_bytes=ends, bits=np.cumsum(units) * UNIT_BITS)
    record = {
        "kind": "evaluation", "schema": 1, "config": {"seed": seed, "model": model},
        "corpus": {"name": "synthetic", "n_bytes": int(ends[-1]), "blake2b": blake2b},
        "archive_bits": 8 * int(np.ceil(curve.bits[-1] / 8)), **fields,
    }  # fmt: skip
    append_record(folder / RECORD, record)
    (folder / CURVE).write_bytes(curve_table({"model": curve}))
    return read_run(folder)
