"""A GPT on an accelerator. There it takes its steps, and reads what is known beforehand; but not what is found symbol by symbol.

A decoder's column is some dozens of products of a matrix and a vector: launching their kernels would take longer than computing
them. So an open segment is read in one of two places, wherever it is asked for first: on the accelerator many columns at once, or
on the host by a compiled kernel, with the levels of the weights fetched once a segment. Both give the same bits (docs/EXACT.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from prequential.exact import plain
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model.config import GPTConfig
from prequential.model.gpt import GPT, Reader, Weights

Tensor = torch.Tensor


@dataclass(frozen=True)
class Accelerator:
    """A device, and the integer products that are exact there."""

    device: torch.device
    matmul: Matmul


class DeviceGPT(GPT):
    """See the module's text. What goes in and comes out is on the host, as a GPT's there; the bits are the same."""

    def __init__(
        self, accelerator: Accelerator, config: GPTConfig, n_symbols: int, seed: int, ops: ModuleType, matmul: Matmul
    ) -> None:
        """ops, matmul: of the host."""
        super().__init__(config, n_symbols, seed, plain, accelerator.matmul, Pool(1), accelerator.device)
        self.accelerator, self._host = accelerator, (ops, matmul)
        self._unread: tuple[Weights, int] | None = None  # an open segment, until it is known where it is read

    def begin(self, n_columns: int) -> None:
        self._unread = self._weights.snapshot(), n_columns

    def _opened(self, *, on_host: bool) -> Reader:
        """The reader of the open segment, which from now on is read there, unless it was begun elsewhere."""
        if self._unread:
            (weights, n_columns), self._unread = self._unread, None
            self._reader.begin(weights.under(*self._host) if on_host else weights, n_columns)
        return self._reader

    def forward(self, recent: Tensor, first: int) -> Tensor:
        is_decoder = self._unread is not None and len(recent) < self._unread[1]  # who knew all, would ask for all
        reader = self._opened(on_host=is_decoder)
        return reader.forward(recent.to(reader.device), first).cpu()

    def column(self) -> Any:
        return self._opened(on_host=True).column()

    def end(self) -> None:
        self._opened(on_host=False)
        super().end()

    def weights_read(self) -> dict[str, Tensor]:
        return self._unread[0].as_read() if self._unread else super().weights_read()

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        device = self.accelerator.device
        super().update(inputs.to(device), targets.to(device))

    def state(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in super().state().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._unread = None
        super().load_state(tensors)
