"""How an exact computation runs: its elementwise primitives, its integer matrix products and its threads.

The three choices are independent. None of them changes a bit of any result; they change only the speed. Two modules implement
the primitives: `plain` (torch, the definition, on any device) and `fused` (compiled loops on a processor, the same bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from prequential.exact.matmul import Matmul
    from prequential.exact.pool import Pool

NEWTON_SCHULZ_STEPS = 5  # of exact/optim.py; it stands here because operations are counted without torch


class Primitives(Protocol):
    """The functions that exact/plain.py defines and describes. exact/fused.py has the same signatures. Letters as in plain.py."""

    COMPILED: bool  # whether the GPT may also use its own compiled kernels

    def __hash__(self) -> int: ...
    def sqrt(self, x: Tensor) -> Tensor: ...
    def quantise_rows(self, x: Tensor, column_factor: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    def quantise_rows_finely(self, x: Tensor, column_factor: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...
    def quantise_columns(self, x: Tensor, row_factor: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    def column_peaks(self, x: Tensor, row_factor: Tensor | None = None) -> Tensor: ...
    def round_columns(self, x: Tensor, peaks: Tensor, row_factor: Tensor | None = None) -> Tensor: ...
    def normalise_rows(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...
    def normalise_rows_backward(self, g: Tensor, q: Tensor, r: Tensor, s: Tensor, base: Tensor) -> Tensor: ...
    def dequantise(
        self, acc: Tensor, row: Tensor | None, column: Tensor | None,
        base: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
    ) -> Tensor: ...  # fmt: skip
    def requantise(
        self, acc: Tensor, row: Tensor | None, column: Tensor | None, base: Tensor | None = None,
        alpha: float = 1.0, beta: float = 1.0, column_factor: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...  # fmt: skip
    def squared_relu(self, acc: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...
    def squared_relu_backward(self, acc: Tensor, row: Tensor, a: Tensor) -> Tensor: ...
    def attention_inputs(
        self, qkv: Tensor, cos: Tensor, sin: Tensor, shape: tuple[int, int, int]
    ) -> tuple[Tensor, ...]: ...
    def attention_weights(
        self, scores: Tensor, q_r: Tensor, k_r: Tensor, v_scale: Tensor, mask: tuple[int, int, int]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
    def attention_output(self, acc: Tensor, factor: Tensor) -> Tensor: ...
    def attention_backward_values(self, grad: Tensor, inverse_sum: Tensor, n_heads: int) -> tuple[Tensor, ...]: ...
    def attention_backward_scores(
        self, products: Tensor, g_scale: Tensor, v_scale: Tensor, e: Tensor,
        inverse_sum: Tensor, q_r: Tensor, k_r: Tensor,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    def attention_inputs_backward(
        self, sums: tuple[Tensor, Tensor, Tensor], scales: tuple[Tensor, Tensor, Tensor],
        saved: tuple[Tensor, ...], cos: Tensor, sin: Tensor,
    ) -> Tensor: ...  # fmt: skip
    def frequencies(self, logits: Tensor) -> Tensor: ...
    def loss_gradient(self, frequency: Tensor, symbols: Tensor) -> Tensor: ...
    def embedding_gradient(self, g: Tensor, symbols: Tensor, n_symbols: int) -> Tensor: ...
    def embedding_sums(self, g: Tensor, symbols: Tensor, n_symbols: int, peak: Tensor) -> Tensor: ...
    def peak_of(self, x: Tensor) -> Tensor: ...
    def adam_(
        self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor,
        step_size: float | Tensor, beta1: float, beta2: float,
    ) -> None: ...  # fmt: skip
    def nesterov_(self, momentum: Tensor, gradient: Tensor, mu: float) -> Tensor: ...
    def row_squares(self, q: Tensor) -> Tensor: ...
    def adagrad_change(
        self, sums: Tensor, unit: Tensor, squares: Tensor, step_size: float, units: float, limit: float
    ) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Backend:
    """Everything that a computation of the GPT runs on."""

    primitives: Primitives
    matmul: Matmul
    pool: Pool
