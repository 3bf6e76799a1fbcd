"""A GPT on an accelerator, which takes the optimiser steps there and reads known symbols there.

A decoder finds the symbols one by one. One column of a small GPT is a few dozen products of a matrix and a vector. Launching
their kernels on a device would take longer than computing them. So each segment is read in one of three ways: on the device,
many columns at once; on the host by a compiled kernel, with the levels of the weights copied once per segment; or, if the GPT is
large, column by column on the device. The first request for the segment decides. All give the same bits (docs/EXACT.md).

A step consists of many kernels, and so does reading. If the device supports it, both are captured as CUDA graphs (captured.py)
once their shapes repeat, and later ones launch the graph.

The context table lies where segments are read.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch

from prequential.exact import plain
from prequential.exact.backend import Backend, Primitives
from prequential.exact.matmul import Matmul
from prequential.exact.optim import orthogonalise
from prequential.exact.pool import Pool
from prequential.model.config import N_SYMBOLS, GPTConfig
from prequential.model.gpt.captured import CapturedColumn, CapturedReading, CapturedStep
from prequential.model.gpt.column import ColumnDecoder
from prequential.model.gpt.context_table import ContextGradient, ContextTable
from prequential.model.gpt.device_contexts import DeviceContextTable
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.reader import Reader
from prequential.model.gpt.weights import Weights

Tensor = torch.Tensor


# What a column costs, to choose where a decoder reads: measured on an H200, and on processors (docs/MACHINES.md). Both differ
# from machine to machine, so a device must promise half the time of the host.
COLUMN_S, COLUMN_A_LAYER_S = 60e-6, 82e-6
HOST_LEVELS_PER_S = 15.6e9


def decodes_there(config: GPTConfig) -> bool:
    """Whether a decoder should read the columns of this GPT on a device."""
    there = COLUMN_S + COLUMN_A_LAYER_S * config.n_layers
    n_levels = (4 + 2 * config.mlp_factor) * config.width**2 * config.n_layers + N_SYMBOLS * config.width
    return 2 * there < n_levels / HOST_LEVELS_PER_S


def _warn(text: str, error: RuntimeError) -> None:
    logging.getLogger(__name__).warning("%s: %s", text, str(error).partition("\n")[0])


@dataclass(frozen=True)
class Accelerator:
    """A device, and a matmul implementation that is exact there."""

    device: torch.device
    matmul: Matmul
    primitives: Primitives = plain  # those with which the device computes
    captures: bool = False  # whether steps and readings are captured as graphs


class DeviceGPT(GPT):
    """A GPT with its weights on a device. Arguments and results are on the host. The bits are those of a GPT on the host."""

    moves_contexts = True  # whether the context table may lie on the device

    def __init__(self, accelerator: Accelerator, config: GPTConfig, seed: int, host: Backend) -> None:
        backend = Backend(accelerator.primitives, accelerator.matmul, Pool(1))
        super().__init__(config, seed, backend, accelerator.device)
        self.accelerator, self._host = accelerator, host
        # As long as the table is on the host, so are its steps.
        self._weights = replace(self._weights, contexts=ContextTable(config, host.primitives))
        # The open segment, until the first request decides where it is read.
        self._pending_segment: tuple[Weights, int] | None = None
        self.captures = accelerator.captures  # becomes False if a capture fails
        self._captured_step: CapturedStep | None = None
        self._captured_reading: CapturedReading | None = None
        self._captured_column: CapturedColumn | None = None
        self._decodes = False  # whether the last segment was read by a decoder
        self._decodes_there = self.moves_contexts and accelerator.primitives is not plain and decodes_there(config)
        # The shapes of the last two steps and the sizes of the last two segments that were not captured.
        self._last_shapes: list[tuple[int, ...]] = []
        self._last_sizes: list[int] = []
        is_cuda = accelerator.device.type == "cuda"
        self._step_stream = torch.cuda.Stream(accelerator.device) if is_cuda else None
        # Those on which steps and readings are captured.
        self.capture_streams = [torch.cuda.Stream(accelerator.device) for _ in range(2)] if is_cuda else []
        self._reads_on_host = not self.moves_contexts
        self._move_contexts()
        self._record_event()

    def _move_contexts(self) -> None:
        """Moves the context table to where the last segment was read. No step may run."""
        table, is_on_device = self._weights.contexts, isinstance(self._weights.contexts, DeviceContextTable)
        if self.config.contexts and is_on_device == self._reads_on_host:
            if table.pending:
                raise RuntimeError("an update is staged: `end` must come between `update` and `begin`")
            moved = table.on_host() if is_on_device else DeviceContextTable(table, self.accelerator.device, self._ops)
            self._weights = replace(self._weights, contexts=moved)
            self._captured_step = self._captured_reading = self._captured_column = None  # they know the old place
            self._last_shapes, self._last_sizes = [], []

    def _record_event(self) -> None:
        """Makes the next step wait for all earlier operations on the device. Later operations run in parallel with the step."""
        self._event = torch.cuda.current_stream(self.accelerator.device).record_event() if self._step_stream else None

    def begin(self, n_columns: int) -> None:
        has_window = self._reader.n_columns >= self.config.window
        reads_columns = self._decodes and self._decodes_there and self.captures and has_window
        if reads_columns:
            self._reads_on_host = False
        self._move_contexts()
        if self.captures:
            self._capture(n_columns, reads_columns=reads_columns)
        reading, column = self._captured_reading, self._captured_column
        if reads_columns and column:
            self._pending_segment = column.load(self._weights), n_columns
        elif reading and has_window and reading.n_columns == n_columns:
            self._pending_segment = reading.load(self._weights), n_columns
        else:
            self._pending_segment = self._weights.snapshot(), n_columns
        self._record_event()

    def _capture(self, n_columns: int, *, reads_columns: bool) -> None:
        """Captures a step or a reading whose shape was that of the last two. If that fails, all run kernel by kernel.

        A step can be captured if the context table is on the device. reads_columns: also captures the reading of a column; if
        that fails, a decoder reads on the host.
        """
        shapes, sizes = self._last_shapes, [*self._last_sizes, n_columns]
        captures_step = not (self.config.contexts and self._reads_on_host)
        try:
            if captures_step and len(shapes) == 2 and shapes[0] == shapes[1]:
                self._last_shapes = []
                self._captured_step = CapturedStep(self, shapes[0])
            if n_columns and len(sizes) == 3 and len(set(sizes)) == 1 and self._reader.n_columns >= self.config.window:
                self._last_sizes = []
                self._captured_reading = CapturedReading(self, n_columns)
        except RuntimeError as error:
            self.captures = False
            _warn("the GPT runs kernel by kernel, because capturing failed", error)
            return
        try:
            if reads_columns and self._captured_column is None:
                self._captured_column = CapturedColumn(self)
        except RuntimeError as error:
            self._decodes_there, self._reads_on_host = False, True
            self._move_contexts()
            _warn("a decoder reads on the processor, because capturing failed", error)

    def _open_reader(self, *, on_host: bool) -> Reader:
        """The reader of the open segment. The first call decides whether the segment is read on the host or on the device."""
        if self._pending_segment:
            column = self._open_column()
            (weights, n_columns), self._pending_segment = self._pending_segment, None
            self._reads_on_host = on_host or not self.moves_contexts
            if column:
                column.open(self._reader, n_columns)
            elif on_host:
                self._reader.begin(weights.with_backend(self._host), n_columns)
                self._last_sizes = []
            elif self._captured_reading and weights is self._captured_reading.weights:
                self._captured_reading.open(self._reader)
            else:
                self._reader.begin(weights, n_columns)
                self._last_sizes = [*self._last_sizes[-1:], n_columns]
        return self._reader

    def _open_column(self) -> CapturedColumn | None:
        """What reads the open segment, if a decoder reads it column by column on the device."""
        weights, column = (
            self._pending_segment[0] if self._pending_segment else self._reader.weights,
            self._captured_column,
        )
        return column if self._decodes and column and weights is column.weights else None

    def forward(self, recent: Tensor, first: int) -> Tensor:
        if self._pending_segment:  # an encoder knows all symbols of a segment and requests all columns at once
            self._decodes = len(recent) < self._pending_segment[1]
        column, captured = self._open_column(), self._captured_reading
        reader = self._open_reader(on_host=self._decodes and column is None)
        if column:
            parts = self._weights.rows_of_tables(recent).split(1)
            return torch.cat([column(rows).cpu() for rows in parts])
        if captured and reader.weights is captured.weights and len(recent) == captured.n_columns:
            return captured(self._weights.rows_of_tables(recent)).cpu()
        return reader.forward(recent, first).cpu()

    def frequencies(self, recent: Tensor, first: int) -> Tensor:
        return self._host.primitives.frequencies(self.forward(recent, first))

    def column_decoder(self) -> ColumnDecoder | None:
        self._decodes = True
        if self._open_column():
            return None
        return self._open_reader(on_host=True).column_decoder() if self._host.primitives.COMPILED else None

    def end(self) -> None:
        reader = self._open_reader(on_host=False)
        if any(graph and reader.weights is graph.weights for graph in (self._captured_reading, self._captured_column)):
            reader.detach()  # others may read with the same graph, such as a FrozenLearner
        super().end()

    def inference_tensors(self) -> dict[str, Tensor]:
        return self._pending_segment[0].inference_tensors() if self._pending_segment else super().inference_tensors()

    def update(self, inputs: Tensor, targets: Tensor, places: Tensor) -> None:
        with torch.cuda.stream(self._step_stream) if self._step_stream else nullcontext():
            if self._step_stream and self._event:
                self._step_stream.wait_event(self._event)
            super().update(inputs, targets, places)  # waits for the step at the end

    def _apply_step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        if self._captured_step and self._captured_step.shape == inputs.shape:
            self._captured_step(self, inputs, targets, factor)
            self._last_shapes = []
        else:
            device = self.accelerator.device
            self.run_step(inputs.to(device), targets.to(device), factor)
            self._last_shapes = [*self._last_shapes[-1:], tuple(inputs.shape)]

    def run_step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """A step on rows on the device, kernel by kernel. Matrices of one shape are orthogonalised as a stack."""
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
        self._pending_segment, self._last_sizes = None, []
        super().load_state(tensors)
        self._record_event()
