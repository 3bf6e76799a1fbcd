"""The weights of the GPT and its forward pass, which is the same for reading a stream and for learning from rows.

The input h is the sum of the embeddings of the last E symbols, with one table for each position, and of those of contexts
(context_table.py). Each layer has pre-norm residual blocks: h += attention(rmsnorm(h)); h += mlp(rmsnorm(h)). Then logits =
head(rmsnorm(h)). No gains and no biases, rotary positions, normalised queries and keys, squared ReLU, and a head that shares no
weights with the embedding. Each matrix has a float32 master copy for the optimiser and int8 levels for all products.

Letters in this package: R rows, T columns (positions in a row or segment), D width, H heads, K = D/H, V symbols of the alphabet,
E embedding tables, C last symbols that a prediction depends on, W window, L layers, N = R*T positions.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Self

import torch

from prequential.exact.arrays import uniform
from prequential.exact.backend import Arithmetic, Primitives
from prequential.exact.plain import EMBEDDING_LIMIT, FINE, INT8_LIMIT
from prequential.exact.tables import HOST, ROTARY_PERIOD, rotary_table, rotary_wave_numbers
from prequential.model.config import N_SYMBOLS, GPTConfig
from prequential.model.gpt.context_table import ContextTable

Tensor = torch.Tensor
SavedActivations = dict[str, tuple[Tensor, ...]]  # by the name of the matrix that uses them

# The largest dot product of a normalised query and key is K. This is the best factor found at K = 64. `Weights.score_scale`
# adapts it to other K, so that the largest score stays 0.18 * 64.
SCORE_SCALE = 0.18


class Linear:
    """A weight matrix (C_in, C_out): a float32 master copy, and int8 levels with a scale per output column.

    An update writes the master copy in place. `quantise` then replaces the levels and scales, so a snapshot keeps the old ones.
    """

    def __init__(self, weight: Tensor, backend: Arithmetic) -> None:
        self.weight, self.backend = weight, backend
        self.quantise()

    def quantise(self) -> None:
        """Replaces levels and scales by those of the master copy."""
        ops = self.backend.primitives
        peaks = ops.column_peaks(self.weight)
        self.levels: Tensor = ops.round_columns(self.weight, peaks)
        self.scale: Tensor = peaks * (1.0 / INT8_LIMIT)

    def with_backend(self, backend: Arithmetic, device: torch.device) -> "Linear":
        """The same levels for another backend, on a device. The float32 master copy is shared."""
        other = copy(self)
        other.backend = backend
        other.levels, other.scale = self.levels.to(device), self.scale.to(device)
        return other

    def sums(self, x: Tensor) -> Tensor:
        """x (N, C_in) int8 -> (N, C_out) int32. The product is these sums times the row scale of x and `self.scale`."""
        return self.backend.matmul(x, self.levels)

    def input_gradient_sums(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient at the input, as integer sums (N, C_in) and row scales (N,), from g (N, C_out) at the output.

        g is multiplied by the scales of the columns before it is rounded, so that the scale is constant along the summed axis.
        """
        levels, row_scale = self.backend.primitives.quantise_rows(g, column_factor=self.scale)
        return self.backend.matmul(levels, self.levels.t()), row_scale

    def fine_input_gradient_sums(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """`input_gradient_sums` with 15 bits of each entry instead of 7: (254 + 1) * 127 * 127 * C_out < 2**31 for C_out <= 522.

        For the head. There g has rows frequency - onehot, and all but the likeliest symbols are below 1/254 of the largest entry.
        """
        high, low, row_scale = self.backend.primitives.quantise_rows_finely(g, self.scale)
        sums = self.backend.matmul(high, self.levels.t()) * FINE + self.backend.matmul(low, self.levels.t())
        return sums, row_scale


@dataclass(frozen=True)
class Weights:
    """All weights of a GPT: the embedding (E, V, D) float32, the context table, and the matrices.

    layers: the matrices of each layer by name: qkv, out, up and down. head_width: K.
    """

    embedding: Tensor
    contexts: ContextTable
    layers: Sequence[dict[str, Linear]]
    head: Linear
    head_width: int
    backend: Arithmetic

    @classmethod
    def initial(cls, config: GPTConfig, seed: int, backend: Arithmetic, device: torch.device) -> Self:
        """The weights before the first step: output projections, head, context table and all but one embedding table are zero."""
        d, m = config.width, config.mlp_factor * config.width
        half_width = math.sqrt(3.0 / d) * 0.5  # the standard deviation is 0.5 / sqrt(D)

        def linear(name: str, n_in: int, n_out: int, half_width: float) -> Linear:
            start = torch.from_numpy(uniform(seed, name, (n_in, n_out), half_width))
            return Linear(start.to(device), backend)

        shapes = {"qkv": (d, 3 * d, half_width), "out": (d, d, 0.0), "up": (d, m, half_width), "down": (m, d, 0.0)}
        layers = [{name: linear(f"{i}.{name}", *s) for name, s in shapes.items()} for i in range(config.n_layers)]
        embedding = torch.zeros(config.n_embeddings, N_SYMBOLS, d, device=device)
        embedding[0] = torch.from_numpy(uniform(seed, "embedding", (N_SYMBOLS, d), 1.0)).to(device)
        contexts, head = ContextTable(config, backend.primitives), linear("head", d, N_SYMBOLS, 0.0)
        return cls(embedding, contexts, layers, head, d // config.n_heads, backend)

    @property
    def score_scale(self) -> float:
        """The factor of the dot product of a normalised query and key, which depends on the width of a head."""
        return SCORE_SCALE * 64.0 / self.head_width

    @property
    def device(self) -> torch.device:
        """The device of all weights except the context table, which has its own."""
        return self.embedding.device

    def snapshot(self) -> "Weights":
        """Weights that later updates do not change.

        An update writes the embedding in place, so it is copied. An update replaces the levels of a matrix, so a reference to the
        old levels is enough. The context table is shared: it is written only after the segment has ended.
        """
        layers = [{name: copy(linear) for name, linear in layer.items()} for layer in self.layers]
        return replace(self, embedding=self.embedding.clone(), layers=layers, head=copy(self.head))

    def with_backend(self, backend: Arithmetic, device: torch.device = HOST) -> "Weights":
        """The same weights for another backend, on a device. The context table is on the host."""
        layers = [{name: m.with_backend(backend, device) for name, m in layer.items()} for layer in self.layers]
        head = self.head.with_backend(backend, device)
        embedding, contexts = self.embedding.to(device), self.contexts.on_host()
        return replace(self, embedding=embedding, contexts=contexts, layers=layers, head=head, backend=backend)

    def rows_of_tables(self, recent: Tensor, places: Tensor | None = None) -> Tensor:
        """The rows that the input of each position is the sum of: (N, E + K) int64 on the host.

        The first E are those of the embedding tables: the last symbols. The others are those of the context table. recent (N, C)
        int64 on the host: the last symbols at each position, the newest first. For a step, places (N,) int64 as in `GPT.update`
        are the last column, if there are contexts.
        """
        rows = (recent[:, : len(self.embedding)], self.contexts.row_indices(recent))
        return torch.cat(rows if places is None or not self.contexts.n_rows else (*rows, places[:, None]), 1)

    def logits(
        self, rows: Tensor, attend: Callable[[int, Tensor], Tensor], saved: SavedActivations | None = None
    ) -> Tensor:
        """Logits (N, V) float32 of the next symbol. rows (N, E + K) int64 on the device: `rows_of_tables` of each position.

        attend(i, qkv) computes the attention of layer i, (N, 3D) -> (N, D) float32. If `saved` is given, it receives the
        activations that the backward pass needs.
        """

        def save(name: str, *values: Tensor) -> tuple[Tensor, ...]:
            if saved is not None:
                saved[name] = values
            return values

        ops, h = self.backend.primitives, self.embedding[0][rows[:, 0]]  # (N, D)
        for e, table in enumerate(self.embedding[1:], 1):
            h = h + table[rows[:, e]]
        h = self.contexts.add_to(h, rows[:, len(self.embedding) :])
        for i, layer in enumerate(self.layers):
            x, r, _ = save(f"{i}.qkv", *ops.normalise_rows(h))
            qkv = ops.dequantise(layer["qkv"].sums(x), r, layer["qkv"].scale)  # (N, 3D)
            x, s = save(f"{i}.out", *ops.quantise_rows(attend(i, qkv)))
            h = ops.dequantise(layer["out"].sums(x), s, layer["out"].scale, base=h)
            x, r, _ = save(f"{i}.up", *ops.normalise_rows(h))
            x, s, _ = save(f"{i}.down", *ops.squared_relu(layer["up"].sums(x), r, layer["up"].scale))
            h = ops.dequantise(layer["down"].sums(x), s, layer["down"].scale, base=h)
        x, r, _ = save("head", *ops.normalise_rows(h))
        return ops.dequantise(self.head.sums(x), r, self.head.scale)


def rotary_phases(config: GPTConfig, first: int, n_columns: int, device: torch.device = HOST) -> tuple[Tensor, Tensor]:
    """cos and sin of the rotary phases of the columns first .. first + n_columns - 1: two (T, K/2) float32."""
    waves = rotary_wave_numbers(config.width // config.n_heads // 2)
    phase = (torch.arange(first, first + n_columns)[:, None] * waves) % ROTARY_PERIOD
    cos, sin = rotary_table()
    return cos[phase].to(device), sin[phase].to(device)


@lru_cache(maxsize=4)
def phases_of_rows(config: GPTConfig, n_columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The rotary phases of rows, which begin at column 0. Cached, because every step needs them."""
    return rotary_phases(config, 0, n_columns, device)


# ---- gradients


def matrix_gradient(linear: Linear, parts: Sequence[tuple[Tensor, ...]]) -> Tensor:
    """The gradient of a matrix, (C_in, C_out) float32.

    parts: for each piece of the rows, the input x (N, C_in) int8, its row scale (N,), and the gradient at the output (N, C_out).
    """
    ops = linear.backend.primitives
    peaks = reduce(torch.maximum, [ops.column_peaks(g, x_scale) for _, x_scale, g in parts])  # (C_out,), of g * x_scale
    x, levels = joined([x for x, _, _ in parts]), joined([ops.round_columns(g, peaks, s) for _, s, g in parts])
    sums = linear.backend.matmul(x.t(), levels)  # 127 * 127 * N < 2**31 for N <= 8192
    return ops.dequantise(sums, None, peaks * (1.0 / INT8_LIMIT))


def embedding_gradient(ops: Primitives, g: Tensor, symbols: Tensor) -> Tensor:
    """The gradient of the embedding, (E, V, D) float32, from g (N, D) and symbols (N, E) int64. All columns share one peak."""
    peak = ops.peak_of(g)  # (1,)
    return ops.embedding_sums(g, symbols, N_SYMBOLS, peak).float() * (peak * (1.0 / EMBEDDING_LIMIT))


def joined(parts: Sequence[Tensor]) -> Tensor:
    """The rows of all parts."""
    return torch.cat(tuple(parts)) if len(parts) > 1 else parts[0]
