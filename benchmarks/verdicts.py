"""How often the verdicts of `compare` are right, on simulated differences (docs/RESULTS.md, "Coverage of intervals").

    python benchmarks/verdicts.py clusters      # a model that is better by 0.05 bits/byte, over commits of uneven sizes
    python benchmarks/verdicts.py seeds         # equal learners, deviations over seeds pooled over all groups
    python benchmarks/verdicts.py texts         # equal learners on one text: trends, long memory, heavy tails, few documents
    python benchmarks/verdicts.py runs          # some of k equal runs called better or worse than the first

Nothing is trained. The result is deterministic.
"""

import math
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from results import format_markdown
from scipy.linalg import toeplitz

from prequential.comparison.clusters import Clusters, equal_weights, holm, rate_interval
from prequential.comparison.evidence import over_seeds
from prequential.comparison.prediction import mean_variance, noise_covariances

Floats = NDArray[np.float64]
N = 2000
N_CELLS, N_PARTS = 96, 8


def share(hits: list[bool]) -> str:
    return f"{np.mean(hits):.2f}"


# ---- differences over clusters


def clusters_row(kind: str, sigma: float, k: int) -> list[str]:
    """Coverage of the expected difference of -0.05 and power, weighted with bytes and at equal weight; deviation 0.03."""
    random, weighted, equal = np.random.default_rng(1), [], []
    for _ in range(N):
        n_bytes = np.maximum(1, 1e4 * np.exp(sigma * random.standard_normal(k))).astype(int)
        noise = random.standard_normal(k)
        if kind == "t3 tails":
            noise = random.standard_t(3, k) / math.sqrt(3)
        elif kind == "variance ~ 1 / size":
            noise = noise / np.sqrt(n_bytes / 1e4)
        elif kind == "larger gain more":
            noise = noise - 0.5 * np.log(n_bytes / 1e4)
        elif kind == "skewed":
            noise = (np.exp(random.standard_normal(k)) - math.exp(0.5)) / 2.16
        bits = n_bytes * (-0.05 + 0.03 * noise)
        clusters = Clusters(n_documents=k, n_bytes=tuple(n_bytes.tolist()), bits=tuple(bits.tolist()))
        for results, interval in ((weighted, rate_interval(clusters)), (equal, equal_weights(clusters))):
            low, high = (interval.low_bits_per_byte, interval.high_bits_per_byte) if interval else (-math.inf, math.inf)
            results.append((low <= -0.05 <= high, high < 0))
    cells = [", ".join(share([each[i] for each in results]) for i in (0, 1)) for results in (weighted, equal)]
    return [kind, f"{sigma:g}", str(k), *cells]


def clusters_table() -> str:
    kinds = [("normal", 0.0, 5), ("normal", 1.0, 11), ("normal", 2.0, 5), ("normal", 2.0, 11), ("normal", 2.0, 30)]
    kinds += [(kind, 2.0, 11) for kind in ("t3 tails", "variance ~ 1 / size", "larger gain more", "skewed")]
    rows = [clusters_row(*kind) for kind in kinds]
    return format_markdown(("rates", "sigma of sizes", "clusters", "by bytes: held, found", "equal weight"), rows)


# ---- seeds


def seeds_row(k: int, n: int) -> list[str]:
    """Groups of equal learners with a deviation of 0.3 %: half the width, whether it holds 0, and any false difference to A."""
    random, widths, held, any_false, any_after_holm = np.random.default_rng(2), [], [], [], []
    for _ in range(N):
        groups = np.exp(random.normal(0, 0.003, (k, n))).tolist()
        made = [over_seeds(groups, [True] * k, i, 0.95) for i in range(1, k)]
        found = [each for each in made if each]
        widths.append((found[0].high_percent - found[0].low_percent) / 2)
        held.append(found[0].low_percent <= 0 <= found[0].high_percent)
        p_values = [each.p_value for each in found]
        any_false.append(min(p_values) <= 0.05)
        any_after_holm.append(any(holm(p_values, 0.05)))
    return [f"{k}, {n}", f"{np.mean(widths):.2f} %", share(held), share(any_false), share(any_after_holm)]


def seeds_table() -> str:
    titles = ("groups, seeds", "half width", "holds 0", "some false difference", "after Holm")
    return format_markdown(titles, [seeds_row(k, n) for k, n in ((2, 2), (4, 2), (6, 2), (12, 2), (6, 3))])


# ---- other texts, by one text


def long_memory(hurst: float) -> Callable[[np.random.Generator], Floats]:
    root = np.linalg.cholesky(toeplitz(noise_covariances(N_CELLS, hurst)))
    return lambda random: np.asarray(root @ random.standard_normal(N_CELLS))


def autoregressive(coefficient: float) -> Callable[[np.random.Generator], Floats]:
    root = np.linalg.cholesky(toeplitz(coefficient ** np.arange(N_CELLS)))
    return lambda random: np.asarray(root @ random.standard_normal(N_CELLS))


def pareto(shape: float) -> Callable[[np.random.Generator], Floats]:
    def draw(random: np.random.Generator) -> Floats:
        return np.asarray((random.pareto(shape, N_CELLS) + 1) - shape / (shape - 1))

    return draw


TEXTS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "no memory": lambda random: random.standard_normal(N_CELLS),
    "t3 tails": lambda random: random.standard_t(3, N_CELLS),
    "AR 0.5": autoregressive(0.5),
    "AR 0.9": autoregressive(0.9),
    "AR 0.97": autoregressive(0.97),
    "long memory, H = 0.8": long_memory(0.8),
    "long memory, H = 0.9": long_memory(0.9),
    "long memory, H = 0.97": long_memory(0.97),
    "Pareto 1.5": pareto(1.5),
    "Pareto 1.2": pareto(1.2),
}


def texts_row(name: str) -> list[str]:
    """Whether the interval holds the expectation, 0; and in how many texts all eighths have one sign without any effect."""
    random, held, one_sign = np.random.default_rng(3), [], []
    for _ in range(N // 2):
        cells = TEXTS[name](random)
        held.append(bool(abs(cells.mean()) <= mean_variance(cells).half_width(0.95)))
        one_sign.append(abs(np.sign(cells.reshape(N_PARTS, -1).mean(1)).sum()) == N_PARTS)
    return [name, share(held), f"{np.mean(one_sign):.3f}"]


def documents_row(k: int, sigma: float) -> list[str]:
    """A text of k documents, each with a level of its own: the interval of the text, and Student's t over the documents."""
    random, text, documents = np.random.default_rng(4), [], []
    for _ in range(N // 2):
        sizes = np.exp(sigma * random.standard_normal(k))
        levels = random.standard_normal(k)
        edges = np.concatenate(([0.0], np.cumsum(sizes) / sizes.sum()))
        along = np.interp(
            np.linspace(0, 1, N_CELLS + 1), edges, np.concatenate(([0.0], np.cumsum(levels * np.diff(edges))))
        )
        cells = np.diff(along) * N_CELLS
        text.append(bool(abs(cells.mean()) <= mean_variance(cells).half_width(0.95)))
        n_bytes = np.maximum(1, 1e6 * np.diff(edges)).astype(int)
        clusters = Clusters(n_documents=k, n_bytes=tuple(n_bytes.tolist()), bits=tuple((n_bytes * levels).tolist()))
        interval = equal_weights(clusters)
        documents.append(interval is None or interval.low_bits_per_byte <= 0 <= interval.high_bits_per_byte)
    return [str(k), f"{sigma:g}", share(text), share(documents) if k >= 3 else "-"]


def texts_table() -> str:
    titles = ("differences of cells", "95 % hold", "all eighths of one sign")
    few = [documents_row(k, sigma) for k in (2, 3, 4, 8) for sigma in (0.0, 1.5)]
    documents = format_markdown(("documents", "sigma of sizes", "interval of the text", "t over documents"), few)
    return f"{format_markdown(titles, list(map(texts_row, TEXTS)))}\n\n{documents}"


# ---- several runs


def runs_row(k: int, hurst: float) -> list[str]:
    """Equal runs with noise of their own along the text: is one called better or worse than the first, without Holm and with?"""
    random, draw, alone, together = np.random.default_rng(5), long_memory(hurst), [], []
    for _ in range(N // 10):
        first, *others = (draw(random) for _ in range(k))
        p_values = [mean_variance(each - first).p_value(float((each - first).mean())) for each in others]
        alone.append(min(p_values) <= 0.05)
        together.append(any(holm(p_values, 0.05)))
    return [str(k), f"{hurst:g}", share(alone), share(together)]


def runs_table() -> str:
    rows = [runs_row(k, hurst) for hurst in (0.8, 0.9) for k in (5, 10, 20)]
    return format_markdown(("runs", "H", "some false difference", "after Holm"), rows)


TABLES = {"clusters": clusters_table, "seeds": seeds_table, "texts": texts_table, "runs": runs_table}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(TABLES[name](), end="\n\n")
