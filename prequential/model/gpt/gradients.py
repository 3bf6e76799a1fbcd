"""The gradient of each kind of parameter, as an object that computes it when it is called.

Computing it later lets several threads compute gradients of different parameters in parallel with the backward pass.

Several processes can share the rows of a step. Then the gradient has three stages: `peaks` of the own rows, whose maximum over
all processes is taken; `sums` of the own rows for these common peaks, which are added over all processes; and `from_sums`, which
makes the gradient. It has the bits of the gradient that one process computes from all rows. Letters as in weights.py.
"""

from dataclasses import dataclass

import torch

from prequential.exact.backend import Primitives
from prequential.exact.plain import EMBEDDING_LIMIT, INT8_LIMIT
from prequential.model.gpt.context_table import ContextGradient
from prequential.model.gpt.weights import Linear

Tensor = torch.Tensor


@dataclass(frozen=True)
class MatrixGradient:
    """The gradient of a matrix, (C_in, C_out) float32."""

    linear: Linear
    x: Tensor  # (N, C_in) int8, the input
    x_scale: Tensor  # (N,) float32, its row scale
    g: Tensor  # (N, C_out) float32, the gradient at the output

    def __call__(self) -> Tensor:
        return self.linear.weight_gradient(self.x, self.x_scale, self.g)

    def peaks(self) -> Tensor:
        """The largest magnitude of each column of g * x_scale, at least TINY: (C_out,) float32."""
        return self.linear.backend.primitives.column_peaks(self.g, self.x_scale)

    def sums(self, peaks: Tensor) -> Tensor:
        """(C_in, C_out) int32. 127 * 127 * N < 2**31 if all processes together have N <= 8192 rows."""
        levels = self.linear.backend.primitives.round_columns(self.g, peaks, self.x_scale)
        return self.linear.backend.matmul(self.x.t(), levels)

    @staticmethod
    def from_sums(ops: Primitives, sums: Tensor, peaks: Tensor) -> Tensor:
        """The gradient (C_in, C_out) float32 from the sums and peaks of all processes."""
        return ops.dequantise(sums, None, peaks * (1.0 / INT8_LIMIT))


@dataclass(frozen=True)
class EmbeddingGradient:
    """The gradient of the embedding, (E, V, D) float32, with the methods of a MatrixGradient. All columns share one peak."""

    ops: Primitives
    g: Tensor  # (N, D)
    symbols: Tensor  # (N, E) int64
    n_symbols: int

    def __call__(self) -> Tensor:
        peaks = self.peaks()
        return self.from_sums(self.ops, self.sums(peaks), peaks)

    def peaks(self) -> Tensor:
        return self.ops.peak_of(self.g)  # (1,)

    def sums(self, peaks: Tensor) -> Tensor:
        return self.ops.embedding_sums(self.g, self.symbols, self.n_symbols, peaks)  # (E, V, D) int32

    @staticmethod
    def from_sums(ops: Primitives, sums: Tensor, peaks: Tensor) -> Tensor:
        return sums.float() * (peaks * (1.0 / EMBEDDING_LIMIT))


Gradient = MatrixGradient | EmbeddingGradient | ContextGradient
