"""Steps and reading of a GPT on a device as CUDA graphs: thousands of kernels, launched as one.

A graph holds kernels with the addresses of all tensors. What differs from one use to the next is copied to fixed buffers first.
The kernels are those of an uncaptured step or reading, so the bits are the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch

from prequential.exact.tables import ROTARY_PERIOD
from prequential.model.gpt.reader import Reader
from prequential.model.gpt.weights import Weights, phases_of_rows, rotary_phases

if TYPE_CHECKING:
    from prequential.model.gpt.device import DeviceGPT

Tensor = torch.Tensor


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

    def __init__(self, gpt: "DeviceGPT", shape: Sequence[int]) -> None:
        """shape: of `table_rows`, (R, T, E + K + 1). Raises RuntimeError if a step cannot be captured."""
        device = gpt.accelerator.device
        buffer = partial(torch.zeros, device=device)
        self.shape = tuple(shape)
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

    def __call__(self, gpt: "DeviceGPT", inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
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


class _CapturedReader:
    """A reader whose weights, keys and values lie in fixed memory, with a complete window of keys before its columns."""

    def __init__(self, gpt: "DeviceGPT", n_columns: int) -> None:
        config, device = gpt.config, gpt.accelerator.device
        self.n_columns = n_columns
        self.weights = _fixed(gpt._weights)
        self._reader = Reader(config)
        self._reader.resume(config.window)
        self._reader.begin(self.weights, n_columns)
        self._buffers = self._reader.buffers()
        self._phases = rotary_phases(config, 0, ROTARY_PERIOD, device)  # of all columns: they repeat after a period
        n_tables = config.n_embeddings + len(config.contexts)
        self._rows = torch.zeros(n_columns, n_tables, dtype=torch.int64, device=device)

    def load(self, weights: Weights) -> Weights:
        """Copies the weights, which a step may then change. Returns those that the graph reads with."""
        for own, others in zip(_tensors(self.weights), _tensors(weights), strict=True):
            torch._foreach_copy_(own, others)
        return self.weights

    def _set_phases(self, columns: Tensor) -> None:
        """Copies the phases of these columns of a period, (n_columns,) int64, to where the graph reads them."""
        for name, phases in zip(("cos", "sin"), self._phases, strict=True):
            self._buffers[name].copy_(phases[columns])


class CapturedReading(_CapturedReader):
    """The reading of a segment of n_columns columns, all at once, with a complete window of keys before it."""

    def __init__(self, gpt: "DeviceGPT", n_columns: int) -> None:
        """Raises RuntimeError if reading cannot be captured."""
        super().__init__(gpt, n_columns)
        self._reader.read(self._rows, 0)
        with _capturing(gpt.accelerator.device, gpt.capture_streams[1]) as self._graph:
            self._logits = self._reader.read(self._rows, 0)

    def open(self, reader: Reader) -> None:
        """Opens the segment in the graph's buffers: `reader` gets them, with what it carried."""
        before = reader.n_columns
        for name, tensor in reader.carried_cache().items():
            self._buffers[name][:, :, : tensor.shape[2]].copy_(tensor)
        self._set_phases(torch.arange(before, before + self.n_columns, device=self.weights.device) % ROTARY_PERIOD)
        reader.adopt(self.weights, self._buffers, before, self.n_columns)

    def __call__(self, rows: Tensor) -> Tensor:
        """Logits (n_columns, V) of the open segment. rows: `rows_of_tables` of all its columns."""
        self._rows.copy_(rows)
        self._graph.replay()
        return self._logits


class CapturedColumn(_CapturedReader):
    """The reading of one column after another, for a decoder. The graph moves keys and values on by one column, then reads."""

    def __init__(self, gpt: "DeviceGPT") -> None:
        """Raises RuntimeError if reading cannot be captured."""
        super().__init__(gpt, 1)
        device = gpt.accelerator.device
        self._column = torch.zeros(1, dtype=torch.int64, device=device)
        self._read_next()
        with _capturing(device, gpt.capture_streams[1]) as self._graph:
            self._logits = self._read_next()

    def _read_next(self) -> Tensor:
        for name in self._reader.carried_cache():
            slots = self._buffers[name]
            slots[:, :, :-1].copy_(slots[:, :, 1:].clone())
        self._set_phases(self._column)
        self._column.copy_((self._column + 1) % ROTARY_PERIOD)
        return self._reader.read(self._rows, 0)

    def open(self, reader: Reader, n_columns: int) -> None:
        """Opens a segment of n_columns columns. `reader` gets the buffers, which hold what it carries when all are read."""
        for name, tensor in reader.carried_cache().items():
            self._buffers[name][:, :, 1:].copy_(tensor)
        self._column.fill_(reader.n_columns % ROTARY_PERIOD)
        reader.adopt(self.weights, self._buffers, reader.n_columns + n_columns - 1, 1)

    def __call__(self, rows: Tensor) -> Tensor:
        """Logits (1, V) of the next column. rows: its `rows_of_tables`."""
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
