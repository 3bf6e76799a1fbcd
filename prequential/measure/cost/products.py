"""The matrix products that a configuration asks for in a full-size segment, by shape, and how fast this machine does each.

Letters as in model/gpt/gpt.py: D width, M = mlp_factor * D, L layers, H heads, K = D/H, V symbols, W window; N positions of a step in
R rows of T. Counts are those of `Matmul`: a test compares them with what a run asks for. One thread does each product.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from prequential.exact.matmul import Matmul
from prequential.exact.optim import NEWTON_SCHULZ_STEPS
from prequential.model.config import N_SYMBOLS, Config, GPTConfig
from prequential.model.gpt.gpt import COLUMNS_AT_ONCE
from prequential.model.gpt.replicas import parts
from prequential.online.flops import hidden_matrices

MIN_TRIALS, TRIAL_S = 3, 0.02  # repeated for this long; the best counts


class Shape(NamedTuple):
    """(m, k) times (k, n), `batch` of them side by side: of integers carried in float32 if `carried`, else of int8.

    a_t, b_t: the operand lies transposed in memory, as in the backward pass.
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
        """A multiply-add is two."""
        return 2 * self.batch * self.m * self.k * self.n

    def __str__(self) -> str:
        def of(rows: int, columns: int, transposed: bool) -> str:
            return f"({columns} x {rows})^T" if transposed else f"{rows} x {columns}"

        many = f"{self.batch} of " if self.batch > 1 else ""
        return f"{many}{of(self.m, self.k, self.a_t)} . {of(self.k, self.n, self.b_t)}"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A shape, how often a full-size segment asks for it, and the seconds that one takes in one thread here."""

    shape: Shape
    times: int
    wall_s: float

    @property
    def operations_per_s(self) -> float:
        return self.shape.operations / self.wall_s


def products(config: Config, n_threads: int = 1) -> Counter[Shape]:
    """How often a full-size segment asks for each shape, its step included; nothing without a GPT.

    n_threads: into so many pieces the rows of a step are cut, as far as there are rows (exact/pool.py).
    """
    gpt, schedule = config.gpt, config.schedule
    if gpt is None:
        return Counter()
    asked: Counter[Shape] = Counter()
    whole, rest = divmod(schedule.segment_symbols, COLUMNS_AT_ONCE)
    for t in [COLUMNS_AT_ONCE] * whole + [rest] * (rest > 0):
        asked.update(_forward(gpt, t))
        asked.update(_attention(gpt, 1, t, gpt.window - 1 + t))
    length = schedule.row_symbols
    for share in parts(schedule.n_rows, [1] * (config.replicas.n_replicas if config.replicas else 1)):
        rows = share.stop - share.start
        pieces = max(1, min(n_threads, rows))
        for i in range(pieces):
            n = rows * (i + 1) // pieces - rows * i // pieces
            asked.update(_forward(gpt, n * length))
            asked.update(_attention(gpt, n, length, length))
        asked.update(_backward(gpt, rows, length))
        asked.update(_orthogonalisation(gpt))
    return asked


def operations(asked: Mapping[Shape, int]) -> int:
    """Of all products together."""
    return sum(shape.operations * times for shape, times in asked.items())


def _forward(gpt: GPTConfig, n: int) -> Iterator[Shape]:
    """n positions through the matrices of every layer, and the head."""
    d, m = gpt.width, gpt.width * gpt.mlp_factor
    for _ in range(gpt.n_layers):
        for c_in, c_out in ((d, 3 * d), (d, d), (d, m), (m, d)):
            yield Shape(1, n, c_in, c_out)
    yield Shape(1, n, d, N_SYMBOLS)


def _attention(gpt: GPTConfig, rows: int, t: int, n_keys: int) -> Iterator[Shape]:
    """Scores, and what they weigh."""
    width = gpt.width // gpt.n_heads
    for _ in range(gpt.n_layers):
        yield Shape(rows * gpt.n_heads, t, width, n_keys, b_t=True, carried=True)
        yield Shape(rows * gpt.n_heads, t, n_keys, width, carried=True)


def _backward(gpt: GPTConfig, rows: int, length: int) -> Iterator[Shape]:
    """Each matrix has a product for its input's gradient and one for its own; the head's input gradient is of two halves."""
    d, m, n = gpt.width, gpt.width * gpt.mlp_factor, rows * length
    width, batch = d // gpt.n_heads, rows * gpt.n_heads
    yield Shape(1, n, N_SYMBOLS, d, b_t=True)
    for c_in, c_out in ((d, N_SYMBOLS), *((d, 3 * d), (d, d), (d, m), (m, d)) * gpt.n_layers):
        yield Shape(1, n, c_out, c_in, b_t=True)
        yield Shape(1, c_in, n, c_out, a_t=True)
    for _ in range(gpt.n_layers):
        yield Shape(batch, length, length, width, a_t=True, carried=True)  # values
        yield Shape(batch, length, width, length, b_t=True, carried=True)  # weights
        yield Shape(batch, length, length, width, carried=True)  # queries
        yield Shape(batch, length, length, width, a_t=True, carried=True)  # keys


def _orthogonalisation(gpt: GPTConfig) -> Iterator[Shape]:
    """Newton-Schulz on (R, C), R <= C: X X^T, its square, and that with X."""
    for c_in, c_out, n_parts in hidden_matrices(gpt):
        r, c = sorted((c_in, c_out))
        for _ in range(gpt.n_layers * n_parts * NEWTON_SCHULZ_STEPS):
            yield Shape(1, r, c, r, b_t=True)
            yield Shape(1, r, r, r, b_t=True)
            yield Shape(1, r, r, c)


def measure(asked: Mapping[Shape, int], matmul: Matmul) -> list[Rate]:
    """The rate of each shape on this machine in one thread, best of several; those with the most operations first.

    Costs some 0.03 s a shape, more where one product takes longer. Leaves torch at one thread, as a run does.
    """
    torch.set_num_threads(1)
    ordered = sorted(asked.items(), key=lambda item: -item[0].operations * item[1])
    return [Rate(shape=shape, times=times, wall_s=_best_s(shape, matmul)) for shape, times in ordered]


def _best_s(shape: Shape, matmul: Matmul) -> float:
    def operand(rows: int, columns: int, transposed: bool) -> torch.Tensor:
        size = (shape.batch, columns, rows) if transposed else (shape.batch, rows, columns)
        x = torch.ones(size) if shape.carried else torch.ones(size, dtype=torch.int8)
        return x.transpose(1, 2) if transposed else x

    a, b = operand(shape.m, shape.k, shape.a_t), operand(shape.k, shape.n, shape.b_t)
    best, spent, n = float("inf"), 0.0, 0
    while n < MIN_TRIALS or spent < TRIAL_S:
        start = time.perf_counter()
        matmul.batched(a, b) if shape.carried else matmul(a[0], b[0])
        wall_s = time.perf_counter() - start
        best, spent, n = min(best, wall_s), spent + wall_s, n + 1
    return best
