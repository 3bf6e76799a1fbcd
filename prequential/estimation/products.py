"""The matrix products that a configuration needs in a full-size segment, by shape, and how fast this machine computes each.

Letters as in model/gpt/gpt.py: D width, M = mlp_factor * D, L layers, H heads, K = D/H, V symbols, W window; N positions of a
step in R rows of T. A test compares these counts with the products that a run computes. One thread computes each product.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from prequential.exact import matmul as matmuls
from prequential.exact.backend import NEWTON_SCHULZ_STEPS
from prequential.exact.matmul import Matmul
from prequential.model.config import COLUMNS_AT_ONCE, N_SYMBOLS, Config, GPTConfig, ScheduleConfig
from prequential.model.gpt.replicas import split_range
from prequential.online.flops import hidden_matrices
from prequential.online.runtime import Runtime

MIN_TRIALS, TRIAL_S = 3, 0.02  # at least so many trials, for at least this long; the fastest counts


class ProductShape(NamedTuple):
    """`batch` products of (m, k) and (k, n) matrices. carried: integers carried in float32, otherwise int8.

    a_t, b_t: the operand is transposed in memory, as in the backward pass.
    """

    batch: int
    m: int
    k: int
    n: int
    a_t: bool = False
    b_t: bool = False
    carried: bool = False

    @property
    def operations(self) -> int:
        """Operations of all `batch` products. A multiply-add counts as two."""
        return 2 * self.batch * self.m * self.k * self.n

    def __str__(self) -> str:
        def matrix(rows: int, columns: int, transposed: bool) -> str:
            return f"({columns} x {rows})^T" if transposed else f"{rows} x {columns}"

        batch = f"{self.batch} of " if self.batch > 1 else ""
        return f"{batch}{matrix(self.m, self.k, self.a_t)} . {matrix(self.k, self.n, self.b_t)}"


@dataclass(frozen=True, kw_only=True)
class ProductRate:
    """A shape, its number of products in a full-size segment, and the seconds that one product takes here in one thread."""

    shape: ProductShape
    times: int
    wall_s: float

    @property
    def operations_per_s(self) -> float:
        return self.shape.operations / self.wall_s


def product_rates(config: Config, runtime: Runtime) -> list[ProductRate]:
    """Every product of a full-size segment, measured on this machine. Empty without a GPT."""
    if config.gpt is None:
        return []
    return measure_rates(count_products(config, runtime.n_step_threads), matmuls.choose("cpu", runtime.backend))


def count_products(config: Config, n_threads: int = 1) -> Counter[ProductShape]:
    """How many products of each shape a full-size segment needs, its optimiser step included. Empty without a GPT.

    n_threads: the rows of a step are cut into this many pieces, or one per row if the rows are fewer (exact/pool.py).
    """
    if config.gpt is None:
        return Counter()
    n_replicas = config.replicas.n_replicas if config.replicas else 1
    counts = _reading(config.gpt, config.schedule)
    for rows in split_range(config.schedule.n_rows, [1] * n_replicas):
        counts += _step(config.gpt, config.schedule, rows.stop - rows.start, n_threads)
    return counts


def _reading(gpt: GPTConfig, schedule: ScheduleConfig) -> Counter[ProductShape]:
    """Products that predict the symbols of a segment."""
    counts: Counter[ProductShape] = Counter()
    full, rest = divmod(schedule.segment_symbols, COLUMNS_AT_ONCE)
    for n_columns in [COLUMNS_AT_ONCE] * full + [rest] * (rest > 0):
        counts.update(_forward(gpt, n_columns))
        counts.update(_attention(gpt, 1, n_columns, gpt.window - 1 + n_columns))
    return counts


def _step(gpt: GPTConfig, schedule: ScheduleConfig, n_rows: int, n_threads: int) -> Counter[ProductShape]:
    """Products of one GPT's optimiser step on n_rows rows."""
    counts: Counter[ProductShape] = Counter()
    length, n_pieces = schedule.row_symbols, max(1, min(n_threads, n_rows))
    for i in range(n_pieces):
        n = n_rows * (i + 1) // n_pieces - n_rows * i // n_pieces
        counts.update(_forward(gpt, n * length))
        counts.update(_attention(gpt, n, length, length))
    counts.update(_backward(gpt, n_rows, length))
    counts.update(_orthogonalisation(gpt))
    return counts


def _forward(gpt: GPTConfig, n: int) -> Iterator[ProductShape]:
    """n positions through the matrices of every layer, and through the head."""
    d, m = gpt.width, gpt.width * gpt.mlp_factor
    for _ in range(gpt.n_layers):
        for c_in, c_out in ((d, 3 * d), (d, d), (d, m), (m, d)):
            yield ProductShape(1, n, c_in, c_out)
    yield ProductShape(1, n, d, N_SYMBOLS)


def _attention(gpt: GPTConfig, rows: int, t: int, n_keys: int) -> Iterator[ProductShape]:
    """Scores of queries and keys, and weighted sums of values."""
    width = gpt.width // gpt.n_heads
    for _ in range(gpt.n_layers):
        yield ProductShape(rows * gpt.n_heads, t, width, n_keys, b_t=True, carried=True)
        yield ProductShape(rows * gpt.n_heads, t, n_keys, width, carried=True)


def _backward(gpt: GPTConfig, rows: int, length: int) -> Iterator[ProductShape]:
    """One product for the input gradient of each matrix and one for its own gradient; the head's input gradient takes two."""
    d, m, n = gpt.width, gpt.width * gpt.mlp_factor, rows * length
    width, batch = d // gpt.n_heads, rows * gpt.n_heads
    yield ProductShape(1, n, N_SYMBOLS, d, b_t=True)
    for c_in, c_out in ((d, N_SYMBOLS), *((d, 3 * d), (d, d), (d, m), (m, d)) * gpt.n_layers):
        yield ProductShape(1, n, c_out, c_in, b_t=True)
        yield ProductShape(1, c_in, n, c_out, a_t=True)
    for _ in range(gpt.n_layers):
        yield ProductShape(batch, length, length, width, a_t=True, carried=True)  # values
        yield ProductShape(batch, length, width, length, b_t=True, carried=True)  # weights
        yield ProductShape(batch, length, length, width, carried=True)  # queries
        yield ProductShape(batch, length, length, width, a_t=True, carried=True)  # keys


def _orthogonalisation(gpt: GPTConfig) -> Iterator[ProductShape]:
    """Newton-Schulz on X (R, C), R <= C: X X^T, its square, and the product of that with X."""
    for c_in, c_out, n_parts in hidden_matrices(gpt):
        r, c = sorted((c_in, c_out))
        for _ in range(gpt.n_layers * n_parts * NEWTON_SCHULZ_STEPS):
            yield ProductShape(1, r, c, r, b_t=True)
            yield ProductShape(1, r, r, r, b_t=True)
            yield ProductShape(1, r, r, c)


def measure_rates(counts: Mapping[ProductShape, int], matmul: Matmul) -> list[ProductRate]:
    """The fastest of several trials of each shape, in one thread. Shapes with the most operations come first.

    Takes about 0.03 s a shape, more for slow products. Leaves torch at one thread, as a run does.
    """
    torch.set_num_threads(1)
    ordered = sorted(counts.items(), key=lambda item: -item[0].operations * item[1])
    return [ProductRate(shape=shape, times=times, wall_s=_fastest_s(shape, matmul)) for shape, times in ordered]


def _fastest_s(shape: ProductShape, matmul: Matmul) -> float:
    a = _operand(shape, shape.m, shape.k, transposed=shape.a_t)
    b = _operand(shape, shape.k, shape.n, transposed=shape.b_t)
    fastest_s, total_s, n_trials = float("inf"), 0.0, 0
    while n_trials < MIN_TRIALS or total_s < TRIAL_S:
        start = time.perf_counter()
        matmul.batched(a, b) if shape.carried else matmul(a[0], b[0])
        wall_s = time.perf_counter() - start
        fastest_s, total_s, n_trials = min(fastest_s, wall_s), total_s + wall_s, n_trials + 1
    return fastest_s


def _operand(shape: ProductShape, rows: int, columns: int, *, transposed: bool) -> torch.Tensor:
    size = (shape.batch, columns, rows) if transposed else (shape.batch, rows, columns)
    x = torch.ones(size) if shape.carried else torch.ones(size, dtype=torch.int8)
    return x.transpose(1, 2) if transposed else x
