"""A GPT on an accelerator. There it takes its steps, and reads what is known beforehand; but not what is found symbol by symbol.

A decoder's column is some dozens of products of a matrix and a vector: launching their kernels would take longer than computing
them. So an open segment is read in one of two places, wherever it is asked for first: on the accelerator many columns at once, or
on the host by a compiled kernel, with the levels of the weights fetched once a segment. Both give the same bits (docs/EXACT.md).

A step is thousands of kernels. Where the device can, they are captured once as a graph and launched together from then on.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch

from prequential.exact import plain
from prequential.exact.matmul import Matmul
from prequential.exact.optim import orthogonalise
from prequential.exact.pool import Pool
from prequential.model.config import GPTConfig
from prequential.model.gpt.context_table import ContextGradient
from prequential.model.gpt.gpt import GPT, Reader, Weights, phases_of_rows

Tensor = torch.Tensor


@dataclass(frozen=True)
class Accelerator:
    """A device, and the integer products that are exact there."""

    device: torch.device
    matmul: Matmul
    captures: bool = False  # whether steps become a graph


class CapturedStep:
    """A GPT's step on rows of one shape, as a graph: what a step launches, with the places in memory that it uses.

    What differs between steps, the rows and the factor of their size, has places of its own, which are written first. Weights and
    what the optimiser keeps are learned where they lie. The kernels are those of any other step, so the bits are.
    """

    def __init__(self, gpt: "DeviceGPT", shape: Sequence[int]) -> None:
        """shape: of the inputs, (R, T, C). Nothing is computed; nothing else may be asked of the device meanwhile.

        Raises RuntimeError where a step does what a graph cannot hold, such as waiting for the device.
        """
        device = gpt.accelerator.device
        place = partial(torch.zeros, device=device)
        self.shape = tuple(shape)
        self._phases = phases_of_rows(gpt.config, shape[1], device)  # the graph reads them
        self._inputs, self._targets = place(self.shape, dtype=torch.int64), place(self.shape[:2], dtype=torch.int64)
        self._factor = place((), dtype=torch.float64)
        self._graph, before, stream = torch.cuda.CUDAGraph(), gpt.levels(), torch.cuda.current_stream(device)
        torch.cuda.current_blas_handle()  # this thread's may not be made while capturing
        try:
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                gpt.quantise()  # each step leaves its levels in other places; here they are made of the weights
                gpt.learn(self._inputs, self._targets, self._factor)
            self._levels, self._head_change = gpt.levels(), gpt._head_change
        finally:
            torch.cuda.set_stream(stream)  # a capture that fails leaves its own
            gpt.take_levels(before)

    def __call__(self, gpt: "DeviceGPT", inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """The step of the GPT that it was captured of."""
        self._inputs.copy_(inputs)
        self._targets.copy_(targets)
        self._factor.fill_(factor)
        self._graph.replay()
        gpt.take_levels([(levels.clone(), scale.clone()) for levels, scale in self._levels])  # who reads, keeps them
        gpt._head_change = self._head_change


class DeviceGPT(GPT):
    """See the module's text. What goes in and comes out is on the host, as a GPT's there; the bits are the same."""

    def __init__(
        self, accelerator: Accelerator, config: GPTConfig, n_symbols: int, seed: int, ops: ModuleType, matmul: Matmul
    ) -> None:
        """ops, matmul: of the host."""
        super().__init__(config, n_symbols, seed, plain, accelerator.matmul, Pool(1), accelerator.device)
        self.accelerator, self._host = accelerator, (ops, matmul)
        self._unread: tuple[Weights, int] | None = None  # an open segment, until it is known where it is read
        self.captures = accelerator.captures  # until that fails
        self._captured: CapturedStep | None = None
        self._shapes: list[tuple[int, ...]] = []  # of the last steps' inputs that were not captured, two at most
        self._steps = torch.cuda.Stream(accelerator.device) if accelerator.device.type == "cuda" else None
        self._mark()

    def _mark(self) -> None:
        """What was asked of the device so far is done before the next step begins; what is asked from here on, beside it."""
        self._before = torch.cuda.current_stream(self.accelerator.device).record_event() if self._steps else None

    def begin(self, n_columns: int) -> None:
        if self.captures and len(self._shapes) == 2 and self._shapes[0] == self._shapes[1]:
            self._capture(self._shapes[0])
        self._unread = self._weights.snapshot(), n_columns
        self._mark()

    def _capture(self, shape: Sequence[int]) -> None:
        self._shapes = []
        try:
            self._captured = CapturedStep(self, shape)
        except RuntimeError as error:
            self.captures = False
            text = str(error).partition("\n")[0]
            logging.getLogger(__name__).warning("steps go kernel by kernel, as capturing one has failed: %s", text)

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
        with torch.cuda.stream(self._steps) if self._steps else nullcontext():
            if self._steps and self._before:
                self._steps.wait_event(self._before)
            super().update(inputs.to(device), targets.to(device))  # and waits for it

    def _step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        if self._captured and self._captured.shape == inputs.shape:
            self._captured(self, inputs, targets, factor)
            self._shapes = []
        else:
            self.learn(inputs, targets, factor)
            self._shapes = [*self._shapes[-1:], tuple(inputs.shape)]

    def learn(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """A step, kernel by kernel; what is orthogonalised, is so in stacks of one shape."""
        stacks: dict[tuple[int, ...], list[tuple[Tensor, Tensor, float | Tensor]]] = {}
        for name, gradient in self._gradients(inputs, targets):
            if name not in self._hidden or isinstance(gradient, ContextGradient):
                self._learn(name, gradient, factor)
                continue
            for w, g, step_size in self._parts(name, self._direction(name, gradient()), factor):
                if w.shape[0] > w.shape[1]:
                    w, g = w.t(), g.t()  # orthogonalised so, anyhow
                stacks.setdefault(w.shape, []).append((w, g, step_size))
        for stack in stacks.values():
            orthogonal = orthogonalise(torch.stack([g for _, g, _ in stack]), self._ops, self._matmul)
            for (w, _, step_size), o in zip(stack, orthogonal, strict=True):
                w.sub_(o * step_size)
        for linear in self._hidden.values():
            linear.quantise()

    def levels(self) -> list[tuple[Tensor, Tensor]]:
        """Levels and scales of every matrix; a step puts others in their place."""
        return [(linear.levels, linear.scale) for linear in self._matrices()]

    def take_levels(self, levels: Sequence[tuple[Tensor, Tensor]]) -> None:
        """What `levels` gave, or equal ones."""
        for linear, (of_entries, of_columns) in zip(self._matrices(), levels, strict=True):
            linear.levels, linear.scale = of_entries, of_columns

    def state(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in super().state().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._unread = None
        super().load_state(tensors)
        self._mark()
