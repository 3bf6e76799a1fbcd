"""A GPT on an accelerator, which takes the optimiser steps there and reads known symbols there.

A decoder finds the symbols one by one. One column is a few dozen products of a matrix and a vector. Launching their kernels on a
device would take longer than computing them. So each segment is read in one of two places: on the device, many columns at once,
or on the host by a compiled kernel, with the levels of the weights copied once per segment. The first request for the segment
decides. Both give the same bits (docs/EXACT.md).

A step consists of thousands of kernels. If the device supports it, the step is captured once as a CUDA graph, and later steps
launch the graph.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch

from prequential.exact import plain
from prequential.exact.backend import Backend
from prequential.exact.matmul import Matmul
from prequential.exact.optim import orthogonalise
from prequential.exact.pool import Pool
from prequential.model.config import GPTConfig
from prequential.model.gpt.column import ColumnDecoder
from prequential.model.gpt.context_table import ContextGradient
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.reader import Reader
from prequential.model.gpt.weights import Weights, phases_of_rows

Tensor = torch.Tensor


@dataclass(frozen=True)
class Accelerator:
    """A device, and a matmul implementation that is exact there."""

    device: torch.device
    matmul: Matmul
    captures: bool = False  # whether steps are captured as a graph


class CapturedStep:
    """The step of a GPT on rows of one shape as a CUDA graph: its kernels, with the addresses of all tensors.

    The values that differ between steps, rows and step factor, are copied to fixed buffers first. The graph updates weights and
    optimiser state in place. Its kernels are those of an uncaptured step, so the bits are the same.
    """

    def __init__(self, gpt: "DeviceGPT", shape: Sequence[int]) -> None:
        """Captures a step without computing it. shape: of the inputs, (R, T, C). No other thread may use the device meanwhile.

        Raises RuntimeError if a step contains an operation that a graph cannot hold, such as waiting for the device.
        """
        device = gpt.accelerator.device
        buffer = partial(torch.zeros, device=device)
        self.shape = tuple(shape)
        self._phases = phases_of_rows(gpt.config, shape[1], device)  # kept, because the graph reads them
        self._inputs, self._targets = buffer(self.shape, dtype=torch.int64), buffer(self.shape[:2], dtype=torch.int64)
        self._factor = buffer((), dtype=torch.float64)
        self._graph, before, stream = torch.cuda.CUDAGraph(), gpt.levels(), torch.cuda.current_stream(device)
        torch.cuda.current_blas_handle()  # creates the handle of this thread, which is not possible while capturing
        try:
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                gpt.quantise()  # levels have a new address after each step, so the graph makes them from the weights
                gpt.run_step(self._inputs, self._targets, self._factor)
            self._levels, self._head_change = gpt.levels(), gpt._head_change
        finally:
            torch.cuda.set_stream(stream)  # a capture that fails leaves another stream
            gpt.set_levels(before)

    def __call__(self, gpt: "DeviceGPT", inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """Takes a step. gpt: the GPT from which the step was captured."""
        self._inputs.copy_(inputs)
        self._targets.copy_(targets)
        self._factor.fill_(factor)
        self._graph.replay()
        # Copies, because the next replay overwrites the levels of the graph.
        gpt.set_levels([(levels.clone(), scale.clone()) for levels, scale in self._levels])
        gpt._head_change = self._head_change


class DeviceGPT(GPT):
    """A GPT with its weights on a device. Arguments and results are on the host. The bits are those of a GPT on the host."""

    def __init__(self, accelerator: Accelerator, config: GPTConfig, seed: int, host: Backend) -> None:
        super().__init__(config, seed, Backend(plain, accelerator.matmul, Pool(1)), accelerator.device)
        self.accelerator, self._host = accelerator, host
        # The open segment, until the first request decides where it is read.
        self._pending_segment: tuple[Weights, int] | None = None
        self.captures = accelerator.captures  # becomes False if a capture fails
        self._captured_step: CapturedStep | None = None
        # The shapes of the inputs of the last two steps that were not captured.
        self._last_shapes: list[tuple[int, ...]] = []
        self._step_stream = torch.cuda.Stream(accelerator.device) if accelerator.device.type == "cuda" else None
        self._record_event()

    def _record_event(self) -> None:
        """Makes the next step wait for all earlier operations on the device. Later operations run in parallel with the step."""
        self._event = torch.cuda.current_stream(self.accelerator.device).record_event() if self._step_stream else None

    def begin(self, n_columns: int) -> None:
        if self.captures and len(self._last_shapes) == 2 and self._last_shapes[0] == self._last_shapes[1]:
            self._capture(self._last_shapes[0])
        self._pending_segment = self._weights.snapshot(), n_columns
        self._record_event()

    def _capture(self, shape: Sequence[int]) -> None:
        """Captures a step on rows of this shape. If that fails, all steps run kernel by kernel."""
        self._last_shapes = []
        try:
            self._captured_step = CapturedStep(self, shape)
        except RuntimeError as error:
            self.captures = False
            text = str(error).partition("\n")[0]
            logging.getLogger(__name__).warning(
                "optimiser steps run kernel by kernel, because capturing a step failed: %s", text
            )

    def _open_reader(self, *, on_host: bool) -> Reader:
        """The reader of the open segment. The first call decides whether the segment is read on the host or on the device."""
        if self._pending_segment:
            (weights, n_columns), self._pending_segment = self._pending_segment, None
            self._reader.begin(weights.with_backend(self._host) if on_host else weights, n_columns)
        return self._reader

    def forward(self, recent: Tensor, first: int) -> Tensor:
        # An encoder knows all symbols of a segment and requests all columns at once.
        is_decoder = self._pending_segment is not None and len(recent) < self._pending_segment[1]
        reader = self._open_reader(on_host=is_decoder)
        return reader.forward(recent.to(reader.device), first).cpu()

    def frequencies(self, recent: Tensor, first: int) -> Tensor:
        return self._host.primitives.frequencies(self.forward(recent, first))

    def column_decoder(self) -> ColumnDecoder | None:
        return self._open_reader(on_host=True).column_decoder() if self._host.primitives.COMPILED else None

    def end(self) -> None:
        self._open_reader(on_host=False)
        super().end()

    def inference_tensors(self) -> dict[str, Tensor]:
        return self._pending_segment[0].inference_tensors() if self._pending_segment else super().inference_tensors()

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        device = self.accelerator.device
        with torch.cuda.stream(self._step_stream) if self._step_stream else nullcontext():
            if self._step_stream and self._event:
                self._step_stream.wait_event(self._event)
            super().update(inputs.to(device), targets.to(device))  # waits for the step at the end

    def _apply_step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        if self._captured_step and self._captured_step.shape == inputs.shape:
            self._captured_step(self, inputs, targets, factor)
            self._last_shapes = []
        else:
            self.run_step(inputs, targets, factor)
            self._last_shapes = [*self._last_shapes[-1:], tuple(inputs.shape)]

    def run_step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """A step, kernel by kernel. Matrices of one shape are orthogonalised as a stack."""
        stacks: dict[tuple[int, ...], list[tuple[Tensor, Tensor, float | Tensor]]] = {}
        for name, gradient in self._gradients(inputs, targets):
            if name not in self._hidden_matrices or isinstance(gradient, ContextGradient):
                self._update_parameter(name, gradient, factor)
                continue
            for w, g, step_size in self._muon_blocks(name, self._momentum_direction(name, gradient()), factor):
                if w.shape[0] > w.shape[1]:
                    w, g = w.t(), g.t()  # orthogonalise would transpose it too
                stacks.setdefault(w.shape, []).append((w, g, step_size))
        for stack in stacks.values():
            orthogonal = orthogonalise(torch.stack([g for _, g, _ in stack]), self.backend)
            for (w, _, step_size), o in zip(stack, orthogonal, strict=True):
                w.sub_(o * step_size)
        for linear in self._hidden_matrices.values():
            linear.quantise()

    def levels(self) -> list[tuple[Tensor, Tensor]]:
        """Levels and scales of every matrix. A step replaces them by new tensors."""
        return [(linear.levels, linear.scale) for linear in self._all_matrices()]

    def set_levels(self, levels: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Sets levels and scales of every matrix, in the order of `levels`."""
        for linear, (entries, scale) in zip(self._all_matrices(), levels, strict=True):
            linear.levels, linear.scale = entries, scale

    def state(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in super().state().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._pending_segment = None
        super().load_state(tensors)
        self._record_event()
