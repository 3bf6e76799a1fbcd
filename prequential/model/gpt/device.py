"""A GPT on an accelerator, which takes the optimiser steps there and reads known symbols there.

A decoder finds the symbols one by one, and launching the kernels of a column would take longer than computing it. So the first
request for a segment decides: it is read on the device, many columns at once; or on the host, with the levels of the weights
copied once. Both give the same bits (docs/EXACT.md). The context table lies where segments are read.

Steps and readings whose shapes repeat are captured as CUDA graphs, if the device supports it. A graph holds kernels with the
addresses of all tensors; what differs from one use to the next is copied to fixed buffers first. So the bits are the same.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch

from prequential.exact import plain
from prequential.exact.backend import Arithmetic, Primitives, orthogonalise
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.exact.tables import ROTARY_PERIOD
from prequential.model.config import GPTConfig
from prequential.model.gpt.column import ColumnDecoder
from prequential.model.gpt.context_table import ContextGradient, ContextTable, DeviceContextTable
from prequential.model.gpt.gpt import GPT, n_blocks
from prequential.model.gpt.reader import Reader
from prequential.model.gpt.weights import Weights, phases_of_rows, rotary_phases

Tensor = torch.Tensor


@dataclass(frozen=True)
class Accelerator:
    """A device, and a matmul implementation that is exact there."""

    device: torch.device
    matmul: Matmul
    primitives: Primitives = plain  # those with which the device computes
    captures: bool = False  # whether steps and readings are captured as graphs


class DeviceGPT(GPT):
    """A GPT with its weights on a device. Arguments and results are on the host. The bits are those of a GPT on the host."""

    def __init__(self, accelerator: Accelerator, config: GPTConfig, seed: int, host: Arithmetic) -> None:
        backend = Arithmetic(accelerator.primitives, accelerator.matmul, Pool(1))
        super().__init__(config, seed, backend, accelerator.device)
        self.accelerator, self._host = accelerator, host
        # As long as the table is on the host, so are its steps.
        self._weights = replace(self._weights, contexts=ContextTable(config, host.primitives))
        # The open segment, until the first request decides where it is read.
        self._pending_segment: tuple[Weights, int] | None = None
        self.captures: bool = accelerator.captures  # becomes False if a capture fails
        self._captured_step: CapturedStep | None = None
        self._captured_reading: CapturedReading | None = None
        # The shapes of the last two steps and the sizes of the last two segments that were not captured.
        self._last_shapes: list[tuple[int, ...]] = []
        self._last_sizes: list[int] = []
        is_cuda = accelerator.device.type == "cuda"
        self._step_stream = torch.cuda.Stream(accelerator.device) if is_cuda else None
        # Those on which steps and readings are captured.
        self.capture_streams = [torch.cuda.Stream(accelerator.device) for _ in range(2)] if is_cuda else []
        self._reads_on_host = False
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
            self._captured_step = self._captured_reading = None  # they know the old place
            self._last_shapes, self._last_sizes = [], []

    def _record_event(self) -> None:
        """Makes the next step wait for all earlier operations on the device. Later operations run in parallel with the step."""
        self._event = torch.cuda.current_stream(self.accelerator.device).record_event() if self._step_stream else None

    def begin(self, n_columns: int) -> None:
        self._move_contexts()
        if self.captures:
            self._capture(n_columns)
        reading = self._captured_reading
        if reading and self._reader.n_columns >= self.config.window and reading.n_columns == n_columns:
            self._pending_segment = reading.load(self._weights), n_columns
        else:
            self._pending_segment = self._weights.snapshot(), n_columns
        self._record_event()

    def _capture(self, n_columns: int) -> None:
        """Captures a step or a reading of the shape of the last two, if the context table is here. A failure ends capturing."""
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
            text = "the GPT runs kernel by kernel, because capturing failed"
            logging.getLogger(__name__).warning("%s: %s", text, str(error).partition("\n")[0])

    def _open_reader(self, *, on_host: bool) -> Reader:
        """The reader of the open segment. The first call decides whether the segment is read on the host or on the device."""
        if self._pending_segment:
            (weights, n_columns), self._pending_segment = self._pending_segment, None
            self._reads_on_host = on_host
            if on_host:
                self._reader.begin(weights.with_backend(self._host), n_columns)
                self._last_sizes = []
            elif self._captured_reading and weights is self._captured_reading.weights:
                self._captured_reading.open(self._reader)
            else:
                self._reader.begin(weights, n_columns)
                self._last_sizes = [*self._last_sizes[-1:], n_columns]
        return self._reader

    def forward(self, recent: Tensor, first: int) -> Tensor:
        # An encoder knows all symbols of a segment and requests all columns at once.
        is_decoder = self._pending_segment is not None and len(recent) < self._pending_segment[1]
        reader, captured = self._open_reader(on_host=is_decoder), self._captured_reading
        if captured and reader.weights is captured.weights and len(recent) == captured.n_columns:
            return captured(self._weights.rows_of_tables(recent)).cpu()
        return reader.forward(recent, first).cpu()

    def frequencies(self, recent: Tensor, first: int) -> Tensor:
        return self._host.primitives.frequencies(self.forward(recent, first))

    def column_decoder(self) -> ColumnDecoder | None:
        return self._open_reader(on_host=True).column_decoder() if self._host.primitives.COMPILED else None

    def end(self) -> None:
        reader = self._open_reader(on_host=False)
        if self._captured_reading and reader.weights is self._captured_reading.weights:
            reader.detach()  # others may read with the same graph, such as a FrozenLearner
        super().end()

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
            whole = self._hidden_matrices[name].weight, self._momentum_direction(name, gradient())
            step_size = self._muon_step_size(name) * factor
            for w, g in zip(*(t.chunk(n_blocks(name), 1) for t in whole), strict=True):
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
        return [(linear.levels, linear.scale) for linear in self._matrices.values()]

    def set_levels(self, levels: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Sets levels and scales of every matrix, in the order of `levels`."""
        for linear, (entries, scale) in zip(self._matrices.values(), levels, strict=True):
            linear.levels, linear.scale = entries, scale

    def state(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in super().state().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._pending_segment, self._last_sizes = None, []
        super().load_state(tensors)
        self._record_event()


# ---- graphs


@contextmanager
def _capturing(device: torch.device, own: torch.cuda.Stream) -> Iterator[torch.cuda.CUDAGraph]:
    """The graph of the operations in the context. Nothing is computed. No other thread may use the device.

    The same operations, on tensors of the same shapes, must have run before: a kernel cannot be loaded while capturing. own: a
    stream for this kind of graph. The products of graphs that are captured on one stream share their scratch memory, so steps
    and readings, which run at the same time, have one each. Raises RuntimeError for an operation that a graph cannot hold, such
    as waiting for the device.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
    torch.cuda.current_blas_handle()  # creates the handle of this thread, which is not possible while capturing
    try:
        with torch.cuda.graph(graph, stream=own, capture_error_mode="thread_local"):
            yield graph
    finally:
        torch.cuda.set_stream(stream)  # a capture that fails leaves another stream


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of tensors of one dtype, with one launch."""
    made = [torch.empty_like(t) for t in tensors]
    torch._foreach_copy_(made, list(tensors))
    return made


class CapturedStep:
    """The step of a GPT on rows of one shape. The graph updates weights and optimiser state in place."""

    def __init__(self, gpt: DeviceGPT, shape: Sequence[int]) -> None:
        """shape: of the rows of `_apply_step`, (R, T, ..). Raises RuntimeError if a step cannot be captured."""
        device = gpt.accelerator.device
        buffer = partial(torch.zeros, device=device)
        self.shape: tuple[int, ...] = tuple(shape)
        self._phases = phases_of_rows(gpt.config, shape[1], device)  # kept, because the graph reads them
        self._inputs, self._targets = buffer(self.shape, dtype=torch.int64), buffer(self.shape[:2], dtype=torch.int64)
        self._factor = buffer((), dtype=torch.float64)
        before, contexts = gpt.levels(), gpt._weights.contexts
        staged, contexts.pending = contexts.pending, []
        try:
            with _capturing(device, gpt.capture_streams[0]) as self._graph:
                gpt.quantise()  # levels have a new address after each step, so the graph makes them from the weights
                gpt.run_step(self._inputs, self._targets, self._factor)
            self._levels, self._head_change = gpt.levels(), gpt._head_change
            self._pending = contexts.pending
        finally:
            contexts.pending = staged
            gpt.set_levels(before)

    def __call__(self, gpt: DeviceGPT, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """Takes a step. gpt: the GPT from which the step was captured."""
        self._inputs.copy_(inputs)
        self._targets.copy_(targets)
        self._factor.fill_(factor)
        self._graph.replay()
        # Copies, because the next replay overwrites the levels of the graph.
        levels, scales = (copies(tensors) for tensors in zip(*self._levels, strict=True))
        gpt.set_levels(list(zip(levels, scales, strict=True)))
        gpt._weights.contexts.pending.extend(self._pending)
        gpt._head_change = self._head_change


class CapturedReading:
    """The reading of n_columns columns at once, after a complete window of keys. Weights, keys and values lie in fixed memory."""

    def __init__(self, gpt: DeviceGPT, n_columns: int) -> None:
        """Raises RuntimeError if reading cannot be captured."""
        config, device = gpt.config, gpt.accelerator.device
        self.n_columns = n_columns
        self.weights: Weights = _fixed(gpt._weights)
        self._reader = Reader(config)
        self._reader.resume(config.window)
        self._reader.begin(self.weights, n_columns)
        self._buffers = self._reader.buffers()
        self._phases = rotary_phases(config, 0, ROTARY_PERIOD, device)  # of all columns: they repeat after a period
        n_tables = config.n_embeddings + len(config.contexts)
        self._rows = torch.zeros(n_columns, n_tables, dtype=torch.int64, device=device)
        self._reader.read(self._rows, 0)
        with _capturing(device, gpt.capture_streams[1]) as self._graph:
            self._logits = self._reader.read(self._rows, 0)

    def load(self, weights: Weights) -> Weights:
        """Copies the weights, which a step may then change. Returns those that the graph reads with."""
        for own, others in zip(_tensors(self.weights), _tensors(weights), strict=True):
            torch._foreach_copy_(own, others)
        return self.weights

    def open(self, reader: Reader) -> None:
        """Opens the segment in the graph's buffers: `reader` gets them, with what it carried."""
        before = reader.n_columns
        for name, tensor in reader.carried_cache().items():
            self._buffers[name][:, :, : tensor.shape[2]].copy_(tensor)
        columns = torch.arange(before, before + self.n_columns, device=self.weights.device) % ROTARY_PERIOD
        for name, phases in zip(("cos", "sin"), self._phases, strict=True):
            self._buffers[name].copy_(phases[columns])
        reader.adopt(self.weights, self._buffers, before, self.n_columns)

    def __call__(self, rows: Tensor) -> Tensor:
        """Logits (n_columns, V) of the open segment. rows: `rows_of_tables` of all its columns."""
        self._rows.copy_(rows)
        self._graph.replay()
        return self._logits


def _fixed(weights: Weights) -> Weights:
    """The weights in memory that no step writes or replaces. The context table is shared: only `commit` writes it.

    Levels are stored by columns, as products on tensor cores take them (exact/matmul.py).
    """
    own = weights.snapshot()  # copies the embedding
    for linear in (own.head, *(linear for layer in own.layers for linear in layer.values())):
        linear.levels, linear.scale = linear.levels.t().contiguous().t(), linear.scale.clone()
    return own


def _tensors(weights: Weights) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors that a segment is read with, by dtype."""
    linears = [weights.head, *(linear for layer in weights.layers for linear in layer.values())]
    return [m.levels for m in linears], [*(m.scale for m in linears), weights.embedding]
