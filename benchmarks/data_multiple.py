"""How near the data multiple of `sweep` is to a truth of 2, and how often its 90 % interval holds it, on simulated curves.

    python benchmarks/data_multiple.py

A text has a million bytes in segments of 1,000. Both learners follow a law, 1.8 + A (c t + 0.01)^-0.4 bits per byte at the share
t of the text, with c = 2 and 1. Both get the noise of the text, fractional Gaussian with this Hurst exponent and a deviation of
0.25 bits per byte a segment, and noise of their own, of this deviation. 100 texts each.
"""

import numpy as np
from learning_cost import root
from results import format_markdown

from prequential.comparison.data_multiple import data_multiple
from prequential.evaluation.curves import Curve

N_SEGMENTS, SEGMENT_BYTES, N_TEXTS = 1000, 1000, 100
SHARED = 0.25


def pair(factor: float, own: float, hurst: float, seed: int) -> list[Curve]:
    """The curves of both learners on a text."""
    t = (np.arange(10 * N_SEGMENTS) + 0.5) / (10 * N_SEGMENTS)
    noise = root(hurst, N_SEGMENTS) @ np.random.default_rng(seed).standard_normal((N_SEGMENTS, 3))
    curves = []
    for i, speed in enumerate((2.0, 1.0), 1):
        rates = 1.8 + factor * ((speed * t + 0.01) ** -0.4).reshape(N_SEGMENTS, 10).mean(1)
        bits = SEGMENT_BYTES * np.cumsum(rates + SHARED * noise[:, 0] + own * noise[:, i])
        curves.append(Curve(n_bytes=SEGMENT_BYTES * np.arange(1, N_SEGMENTS + 1), bits=bits))
    return curves


def main() -> None:
    """Prints the table as Markdown."""
    rows = []
    for factor, own in ((1.0, 0.01), (1.0, 0.1), (0.3, 0.01), (0.3, 0.1)):
        for hurst in (0.5, 0.7, 0.8, 0.9):
            found = [each for seed in range(N_TEXTS) if (each := data_multiple(*pair(factor, own, hurst, seed)))]
            points = np.quantile([each.point for each in found], (0.05, 0.5, 0.95))
            held = sum(each.low <= 2.0 <= each.high for each in found) / N_TEXTS
            rows.append([f"{factor:g}", f"{own:g}", f"{hurst:g}", *(f"{point:.2f}" for point in points), f"{held:.2f}"])
    print(format_markdown(("A", "own noise", "Hurst exponent", "5 %", "median", "95 %", "held"), rows))


if __name__ == "__main__":
    main()
