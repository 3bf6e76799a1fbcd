"""How often the intervals of `decompose` hold the truth, on simulated learning curves whose law is known.

    python benchmarks/learning_cost.py

A text has a million bytes in segments of 1,000. The cost of a segment is its law and noise: autoregressive with this correlation
of neighbouring segments (AR), or fractional Gaussian with this Hurst exponent (H), which has long memory, as text has. In some
texts the level changes in the middle, as if another kind of text began. Of some, pieces of four segments are shuffled in two
orders; the final rate is then the one at the mean level of this text. Beside the coverage stand the root mean square error of
the learning cost, and how many changes were found.
"""

from functools import cache
from itertools import product

import numpy as np
from scipy.linalg import toeplitz

from prequential.decomposition.expected import Bounded, expected_curve
from prequential.evaluation.curves import Curve

N_BYTES, SEGMENT_BYTES, N_TEXTS = 1_000_000, 1000, 80
NOISES = (("AR", 0.0), ("AR", 0.95), ("H", 0.7), ("H", 0.8), ("H", 0.9))
CASES = ((0.0, 0), (0.4, 0), (-0.8, 0), (-0.8, 2))  # jump of the level in bits per byte, shuffled orders
PIECE_SEGMENTS = 4
# Places are shares of the text. The exponent is between two nodes of the grid.
FLOOR, FACTOR, EXPONENT, SHIFT = 1.8, 1.0, 0.4, 0.01
DEVIATION = 0.25  # of a segment's bits per byte
ABOVE = 0.3  # of the threshold, above the final rate


def law(places: np.ndarray) -> np.ndarray:
    """The expected bits per byte at these shares of the text."""
    return FLOOR + FACTOR * (places + SHIFT) ** -EXPONENT


@cache
def root(hurst: float, n: int) -> np.ndarray:
    """The lower triangle that makes fractional Gaussian noise of variance 1 of independent draws, (n, n)."""
    lag = np.arange(n)
    return np.linalg.cholesky(
        toeplitz((abs(lag - 1) ** (2 * hurst) - 2 * lag ** (2 * hurst) + (lag + 1) ** (2 * hurst)) / 2)
    )


def text_of(kind: str, strength: float, seed: int, jump: float = 0.0, n_orders: int = 0) -> Curve:
    """The learning curve of a simulated text, whose level changes in the middle (its mean stays), or of shuffled orders."""
    n_segments, random = N_BYTES // SEGMENT_BYTES, np.random.default_rng(seed)
    noise = random.normal(size=n_segments)
    if kind == "H":
        noise = root(strength, n_segments) @ noise
    else:
        for k in range(1, n_segments):
            noise[k] = strength * noise[k - 1] + (1 - strength**2) ** 0.5 * noise[k]
    fine = law((np.arange(10 * n_segments) + 0.5) / (10 * n_segments)).reshape(n_segments, 10).mean(1)
    level = jump * (np.arange(n_segments) >= n_segments // 2) - jump / 2
    deviations = DEVIATION * noise + level
    if n_orders:
        pieces = deviations.reshape(-1, PIECE_SEGMENTS)
        deviations = np.mean([random.permutation(pieces).ravel() for _ in range(n_orders)], axis=0)
    bits = SEGMENT_BYTES * (fine + deviations)
    return Curve(n_bytes=SEGMENT_BYTES * np.arange(1, n_segments + 1), bits=bits.cumsum())


def truths() -> dict[str, float]:
    """What the law says."""
    rates, end = law((np.arange(1_000_000) + 0.5) / 1_000_000), float(law(np.array(1.0)))
    return {
        "final rate": end,
        "learning": N_BYTES * (float(rates.mean()) - end),
        "surplus": N_BYTES * float(np.maximum(rates - end - ABOVE, 0.0).mean()),
    }


def holds(estimate: Bounded, truth: float) -> bool:
    """Whether the interval holds the truth."""
    assert estimate.low is not None and estimate.high is not None
    return estimate.low <= truth <= estimate.high


def measured(kind: str, strength: float, n_texts: int, jump: float = 0.0, n_orders: int = 0) -> dict[str, float]:
    """The share of texts whose interval holds each truth, the root mean square error of the learning cost, as a share, and the
    number of changes found in a text.
    """
    true = truths()
    end, area = true["final rate"], true["learning"]
    hits: dict[str, list[bool]] = {name: [] for name in true}
    errors, n_changes = [], 0
    for seed in range(n_texts):
        curve = text_of(kind, strength, seed, jump, n_orders)
        found = expected_curve(curve, is_shuffled=n_orders > 0)
        true["final rate"] = (curve.bits[-1] - area) / N_BYTES if n_orders else end
        estimates = (found.final_rate, found.learning_bits, found.surplus_bits(true["final rate"] + ABOVE))
        true["learning"] = float(curve.bits[-1]) - N_BYTES * true["final rate"]
        for (name, truth), estimate in zip(true.items(), estimates, strict=True):
            hits[name].append(holds(estimate, truth))
        errors.append(found.learning_bits.point / true["learning"] - 1)
        n_changes += len(found.changes)
    coverage = {name: float(np.mean(hit)) for name, hit in hits.items()}
    return coverage | {"error": float(np.sqrt(np.mean(np.square(errors)))), "changes": n_changes / n_texts}


def main() -> None:
    """Prints the table as Markdown."""
    print("| noise | jump | orders | final rate | learning | surplus | error of learning | changes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (jump, n_orders), (kind, strength) in product(CASES, NOISES):
        *shares, n_changes = measured(kind, strength, N_TEXTS, jump, n_orders).values()
        cells = [f"{jump:+g}", str(n_orders), *(f"{100 * share:.1f} %" for share in shares), f"{n_changes:.2f}"]
        print(f"| {kind} {strength:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
