"""The identity of a law: the mean loss over D bytes is the integral of the loss at each byte, divided by D.

So the forecast of the total and the law of the loss must agree. They are two fits to the same runs. If they do not agree, at
least one of them is wrong for the target, and the parts of the disagreement say where: before the first block that the law of
the loss is fitted to, in the ladder's bytes, or beyond them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from prequential.evaluation.curves import Curve
from prequential.forecasting.backtest import block_starts, loss_bits_per_byte
from prequential.forecasting.scaling import Fit, Floats
from prequential.sweeps.ladder import PREFIX_RATIO

TOLERANCE_PERCENT = 3.0  # a forecast says so if the two ways disagree by more


def identity(
    means: Fit, losses: Fit, prefixes: Sequence[int], n_weights: float, n_bytes: int, proxy: Curve | None = None
) -> dict[str, Any]:
    """Both ways to the total bits of n_weights over n_bytes, as JSON values.

    means: the law of the mean loss. losses: the law of the loss. With a proxy, both are of ratios to it. parts_percent: the
    disagreement in the bytes before the first block, in the other bytes of the ladder, and beyond, in percent of the total. The
    law of the loss does not count before the first block unless it has a finite integral; then that part is None.
    """
    first, end = int(block_starts(np.asarray(prefixes))[0]), int(prefixes[-1])
    edges = np.array([0, first, end, n_bytes], np.float64)
    direct = np.diff(_bits_by_means(means, edges, n_weights, proxy))  # (3,)
    integral = None if proxy else losses.mean_to(n_weights, first)
    start = float(direct[0]) if integral is None else integral * first
    implied = [
        start,
        *(_bits_by_losses(losses, int(a), int(b), n_weights, proxy) for a, b in ((first, end), (end, n_bytes))),
    ]
    total = float(direct.sum())
    shares = [100 * (a - b) / total for a, b in zip(implied, direct.tolist(), strict=True)]
    return {
        "form": losses.form,
        "total_bits": total,
        "total_bits_from_losses": math.fsum(implied),
        "disagreement_percent": math.fsum(shares),
        "parts_percent": {"start": None if integral is None else shares[0], "ladder": shares[1], "beyond": shares[2]},
        "holds": abs(math.fsum(shares)) <= TOLERANCE_PERCENT,
    }


def _bits_by_means(law: Fit, edges: Floats, n_weights: float, proxy: Curve | None) -> Floats:
    """Cumulative bits at `edges`, of which the first is 0."""
    ends = edges[1:]
    unit = loss_bits_per_byte(proxy, ends, "total_bits") if proxy else np.ones(len(ends))
    return np.concatenate([[0.0], [law.at(n_weights, end) for end in ends] * unit * ends])


def _bits_by_losses(law: Fit, start: int, end: int, n_weights: float, proxy: Curve | None) -> float:
    """Bits from byte `start` to byte `end`, in blocks like those that the law was fitted to, or shorter ones."""
    n_blocks = max(1, math.ceil(math.log(end / start) / -math.log(PREFIX_RATIO)))
    edges = np.unique(np.round(np.geomspace(start, end, n_blocks + 1))).astype(np.int64)
    sizes, middles = np.diff(edges), (edges[1:] + edges[:-1]) / 2
    bits = np.diff(proxy.at(edges)) if proxy else sizes
    return math.fsum(law.at(n_weights, middle) * each for middle, each in zip(middles, bits.tolist(), strict=True))
