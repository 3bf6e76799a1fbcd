"""The GPT in exact arithmetic: it reads the stream in sequence, and learns from rows drawn out of what was read.

h = the sum of embeddings of the last E symbols, a table for each, all but the newest's zero at first, and, where configured, of
contexts that several symbols make together (model/gpt/context_table.py). Pre-norm residual layers: h += attention(rmsnorm(h)); h +=
mlp(rmsnorm(h)); logits = head(rmsnorm(h)). No gains or biases, rotary positions, normalised queries and keys, squared ReLU,
zero-initialised output projections, untied head.

Reading and learning share nothing that either writes. A `Reader` reads one stream, a segment at a time, with the weights as
they stood when the segment was opened, and remembers the keys and values of its last `window - 1` columns. Any run of columns
(all at once, one by one, or anything between) gives the same bits: every result depends on its own column and on the keys
before it, and all sums are of integers. A step of the `GPT` takes rows that know nothing of the stream or of each other, forward
and backward, and then Muon on the hidden matrices, Adam on the embedding and the head. Weights are rounded to int8 once a step.

Letters: R rows, T columns, D width, H heads, K = D/H, V symbols, E embeddings, C symbols looked at, W window, L layers;
S = W - 1 + T slots for keys. N = R*T.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import torch

from prequential.errors import ConfigError
from prequential.exact.matmul import Matmul
from prequential.exact.optim import orthogonalise
from prequential.exact.plain import EMBEDDING_LIMIT, FINE, INT8_LIMIT
from prequential.exact.pool import Pool
from prequential.exact.random import uniform
from prequential.exact.tables import HOST, ROTARY_PERIOD, rotary_table, rotary_wave_numbers
from prequential.model.config import GPTConfig
from prequential.model.gpt.context_table import ContextGradient, ContextTable

Tensor = torch.Tensor
Saved = dict[str, tuple[Tensor, ...]]

MAX_MAGNITUDE = 1e6  # of a checkpoint's floats: nothing overflows below it
NOT_NEGATIVE = (
    "contexts.squares",
    "adam.square.",
    "carried.k_r",
    "carried.v_scale",
)  # of a state: sums of squares, and scales
NOT_LEARNED = ("carried.", "counters")  # of a state: what no step writes; what the names begin with
MAX_SQUARE = 1e30  # those of contexts are sums over all steps, without end
COLUMNS_AT_ONCE = 128  # on a processor, of a run: each query meets W - 1 + COLUMNS_AT_ONCE keys, of which it may see W
DEVICE_COLUMNS = 1024  # on a device, where launching a kernel costs more than what is hidden
# Normalised q . k reaches K. The prototype's optimum at K = 64, scaled so that the peak stays 0.18 * 64.
SCORE_SCALE = 0.18


class Linear:
    """A weight matrix (C_in, C_out): float32 master, and int8 levels with a scale per output, replaced once per update."""

    def __init__(self, weight: Tensor, ops: ModuleType, matmul: Matmul) -> None:
        self.weight, self._ops, self._matmul = weight, ops, matmul
        self.quantise()

    def quantise(self) -> None:
        self.levels, self.scale = self._ops.quantise_columns(self.weight)

    def under(self, ops: ModuleType, matmul: Matmul, device: torch.device) -> "Linear":
        """The same levels, for other kernels and products, on a device; the master is the one there is."""
        other = copy(self)
        other._ops, other._matmul = ops, matmul
        other.levels, other.scale = self.levels.to(device), self.scale.to(device)
        return other

    def sums(self, x: Tensor) -> Tensor:
        """(N, C_in) int8 -> (N, C_out) int32; times the row scale and `self.scale` it is the product."""
        return self._matmul(x, self.levels)

    def input_gradient_sums(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient at the output (N, C_out) -> integer sums (N, C_in) and their row scale, the scales folded in first."""
        levels, row_scale = self._ops.quantise_rows(g, column_factor=self.scale)
        return self._matmul(levels, self.levels.t()), row_scale

    def fine_input_gradient_sums(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """The same with 15 bits of each entry instead of 7: (254 + 1) * 127 * 127 * C_out < 2**31 for C_out <= 522.

        For the head: in rows of frequency - onehot all but the likeliest symbols lie below 1/254 of the largest entry.
        """
        high, low, row_scale = self._ops.quantise_rows_finely(g, self.scale)
        sums = self._matmul(high, self.levels.t()) * FINE + self._matmul(low, self.levels.t())
        return sums, row_scale

    def weight_gradient(self, x: Tensor, x_scale: Tensor, g: Tensor) -> Tensor:
        """Gradient at the weight, (C_in, C_out) float32, from the int8 input x with its row scale."""
        levels, column_scale = self._ops.quantise_columns(g, row_factor=x_scale)
        return self._ops.dequantise(self._matmul(x.t(), levels), None, column_scale)


@dataclass(frozen=True)
class MatrixGradient:
    """The gradient at a matrix: called, it is that of its rows. In steps, of rows that are held in several places:

    `finished` is the same function of the largest `peaks` of all places and of the sum of `sums` over them.
    """

    linear: Linear
    x: Tensor  # (N, C_in) int8
    x_scale: Tensor  # (N,)
    g: Tensor  # (N, C_out), at the output

    def __call__(self) -> Tensor:
        return self.linear.weight_gradient(self.x, self.x_scale, self.g)

    def peaks(self) -> Tensor:
        """(C_out,) float32, at least TINY: what the gradient's columns are rounded by."""
        return self.linear._ops.column_peaks(self.g, self.x_scale)

    def sums(self, peaks: Tensor) -> Tensor:
        """(C_in, C_out) int32; 127 * 127 * N < 2**31 for all N <= 8192 rows that share the peaks."""
        levels = self.linear._ops.round_columns(self.g, peaks, self.x_scale)
        return self.linear._matmul(self.x.t(), levels)

    @staticmethod
    def finished(ops: ModuleType, sums: Tensor, peaks: Tensor) -> Tensor:
        """(C_in, C_out) float32."""
        return ops.dequantise(sums, None, peaks * (1.0 / INT8_LIMIT))


@dataclass(frozen=True)
class EmbeddingGradient:
    """The gradient at the embedding, with the methods of a MatrixGradient; it has one peak for all columns."""

    ops: ModuleType
    g: Tensor  # (N, D)
    symbols: Tensor  # (N, E) int64
    n_symbols: int

    def __call__(self) -> Tensor:
        return self.ops.embedding_gradient(self.g, self.symbols, self.n_symbols)

    def peaks(self) -> Tensor:
        return self.ops.peak_of(self.g)  # (1,)

    def sums(self, peaks: Tensor) -> Tensor:
        return self.ops.embedding_sums(self.g, self.symbols, self.n_symbols, peaks)  # (E, V, D) int32

    @staticmethod
    def finished(ops: ModuleType, sums: Tensor, peaks: Tensor) -> Tensor:
        return sums.float() * (peaks * (1.0 / EMBEDDING_LIMIT))


Gradient = MatrixGradient | EmbeddingGradient | ContextGradient


@dataclass(frozen=True)
class Weights:
    """The embedding (E, V, D) float32, that of contexts, the matrices of each layer (qkv, out, up, down) and the head."""

    embedding: Tensor
    contexts: ContextTable
    layers: Sequence[dict[str, Linear]]
    head: Linear
    ops: ModuleType
    matmul: Matmul

    @property
    def device(self) -> torch.device:
        """Where all but the contexts are, which stay on the host."""
        return self.embedding.device

    def snapshot(self) -> "Weights":
        """These weights as they stand: an update writes the embedding, but replaces the levels of a matrix.

        The table of contexts is written when the segment has ended.
        """
        layers = [{name: copy(linear) for name, linear in layer.items()} for layer in self.layers]
        return replace(self, embedding=self.embedding.clone(), layers=layers, head=copy(self.head))

    def under(self, ops: ModuleType, matmul: Matmul, device: torch.device = HOST) -> "Weights":
        """The same weights, for other kernels and products, and elsewhere."""
        layers = [{name: linear.under(ops, matmul, device) for name, linear in layer.items()} for layer in self.layers]
        head = self.head.under(ops, matmul, device)
        return Weights(self.embedding.to(device), self.contexts, layers, head, ops, matmul)

    def as_read(self) -> dict[str, Tensor]:
        """What predictions are made of, by name: the embedding, and every matrix's levels and scales."""
        matrices = {f"{i}.{name}": linear for i, layer in enumerate(self.layers) for name, linear in layer.items()}
        matrices["head"] = self.head
        tensors = {f"{name}.levels": linear.levels for name, linear in matrices.items()}
        return {
            "embedding": self.embedding,
            "contexts": self.contexts.rows,
            **tensors,
            **{f"{n}.scale": linear.scale for n, linear in matrices.items()},
        }

    def logits(self, recent: Tensor, attend: Callable[[int, Tensor], Tensor], saved: Saved | None = None) -> Tensor:
        """Logits (N, V) float32 of what follows; recent: the last symbols at each place, (N, C) int64, the newest first.

        attend(i, qkv) is layer i's attention, (N, 3D) to (N, D) float32. What a backward pass needs goes to `saved`.
        """

        def keep(name: str, *values: Tensor) -> tuple[Tensor, ...]:
            if saved is not None:
                saved[name] = values
            return values

        ops, h = self.ops, self.embedding[0][recent[:, 0]]  # (N, D)
        for e, table in enumerate(self.embedding[1:], 1):
            h = h + table[recent[:, e]]
        h = self.contexts.add_to(h, recent)
        for i, layer in enumerate(self.layers):
            x, r, _ = keep(f"{i}.qkv", *ops.normalise_rows(h))
            qkv = ops.dequantise(layer["qkv"].sums(x), r, layer["qkv"].scale)  # (N, 3D)
            x, s = keep(f"{i}.out", *ops.quantise_rows(attend(i, qkv)))
            h = ops.dequantise(layer["out"].sums(x), s, layer["out"].scale, base=h)
            x, r, _ = keep(f"{i}.up", *ops.normalise_rows(h))
            x, s, _ = keep(f"{i}.down", *ops.squared_relu(layer["up"].sums(x), r, layer["up"].scale))
            h = ops.dequantise(layer["down"].sums(x), s, layer["down"].scale, base=h)
        x, r, _ = keep("head", *ops.normalise_rows(h))
        return ops.dequantise(self.head.sums(x), r, self.head.scale)


def score_scale(config: GPTConfig) -> float:
    """What the dot product of a normalised query and key is multiplied by."""
    return SCORE_SCALE * 64.0 / (config.width // config.n_heads)


def rotary_phases(config: GPTConfig, first: int, n_columns: int, device: torch.device = HOST) -> tuple[Tensor, Tensor]:
    """cos and sin of the columns first .. first + n_columns - 1: two (T, K/2) float32."""
    waves = rotary_wave_numbers(config.width // config.n_heads // 2)
    phase = (torch.arange(first, first + n_columns)[:, None] * waves) % ROTARY_PERIOD
    cos, sin = rotary_table()
    return cos[phase].to(device), sin[phase].to(device)


@lru_cache(maxsize=4)
def phases_of_rows(config: GPTConfig, n_columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The same for rows that begin at 0, made once: every step has them."""
    return rotary_phases(config, 0, n_columns, device)


class Reader:
    """Reads one stream, segment by segment, in the caller's thread; what it remembers are keys and values.

    Each segment is read where its weights are, with their kernels and products.
    """

    def __init__(self, config: GPTConfig) -> None:
        self.config = config
        self._score_scale = score_scale(config)
        self._start = self._n_time = 0  # columns before the open segment, and in it
        shape = (config.n_layers, config.n_heads, config.window - 1)
        width = config.width // config.n_heads
        self._room = {
            "k": torch.zeros(*shape, width, dtype=torch.int8),
            "v": torch.zeros(*shape, width, dtype=torch.int8),
            "k_r": torch.zeros(shape),
            "v_scale": torch.zeros(shape),
        }

    @property
    def device(self) -> torch.device:
        """Where the open segment is read."""
        return self._weights.device

    @property
    def n_columns(self) -> int:
        """Columns of the stream so far, all of the open segment among them."""
        return self._start + self._n_time

    def resume(self, n_columns: int) -> None:
        """Goes on as the reader of n_columns columns whose memory this one has got."""
        self._room, self._start, self._n_time = self.memory(), n_columns, 0

    def fork(self) -> "Reader":
        """Another reader that stands where this one does between segments, with keys and values of its own."""
        other = Reader(self.config)
        for name, tensor in self.memory().items():
            other.memory()[name].copy_(tensor)
        other.resume(self.n_columns)
        return other

    def memory(self) -> dict[str, Tensor]:
        """The last W - 1 keys and values, once the open segment is read: k, v (L, H, W - 1, K); k_r, v_scale (L, H, W - 1)."""
        return {name: t[:, :, self._n_time :] for name, t in self._room.items()}

    def begin(self, weights: Weights, n_columns: int) -> None:
        """Opens a segment of n_columns columns, to be read with these weights: room for its keys behind the last ones."""
        self._weights = weights
        memory = {name: t.to(weights.device) for name, t in self.memory().items()}
        self._room = {
            name: torch.cat((t, t.new_zeros(*t.shape[:2], n_columns, *t.shape[3:])), 2) for name, t in memory.items()
        }
        self._start, self._n_time = self.n_columns, n_columns
        self._first_valid = max(0, self.config.window - 1 - self._start)  # the first slot that holds a key
        self._cos, self._sin = rotary_phases(self.config, self._start, n_columns, weights.device)
        self._column: Any = None  # ops.Column of the open segment, made when a single column is first asked for

    def forward(self, recent: Tensor, first: int) -> Tensor:
        """Logits (t, V) float32 of what follows columns first .. first + t - 1, whose last symbols are `recent` (t, C) int64."""
        if len(recent) == 1 and self._weights.ops.Column:
            return self.column().logits(recent[0], first)
        at_once = COLUMNS_AT_ONCE if self.device == HOST else DEVICE_COLUMNS
        parts = [
            self._weights.logits(part, partial(self._attend, first + i * at_once))
            for i, part in enumerate(recent.split(at_once))
        ]
        return torch.cat(parts)

    def _attend(self, first: int, i: int, qkv: Tensor) -> Tensor:
        """Attention's output rows (t, D) for the columns from `first` on; their keys and values join the room of layer i."""
        ops, matmul, last_memory, n = self._weights.ops, self._weights.matmul, self.config.window - 1, len(qkv)
        room = {name: t[i : i + 1] for name, t in self._room.items()}  # (1, H, S, ..)
        run = slice(first, first + n)
        shape = (1, n, self.config.n_heads)
        q, q_r, _, k, k_r, _, v, v_scale = ops.attention_inputs(qkv, self._cos[run], self._sin[run], shape)
        for name, value in (("k", k), ("k_r", k_r), ("v", v), ("v_scale", v_scale)):
            room[name][:, :, last_memory + first : last_memory + first + n] = value
        seen = {name: t[:, :, first : last_memory + first + n] for name, t in room.items()}  # J = W - 1 + t slots
        scores = matmul.batched(q, seen["k"].float().transpose(-1, -2))  # (1, H, t, J)
        _, inverse_sum, levels, scale = ops.attention_weights(
            scores, q_r * self._score_scale, seen["k_r"], seen["v_scale"],
            first_query=last_memory, first_valid=self._first_valid - first, window=self.config.window,
        )  # fmt: skip
        acc = matmul.batched(levels, seen["v"].float())  # (1, H, t, K)
        return ops.attention_output(acc, scale * inverse_sum)

    def column(self) -> Any:
        """The open segment as an ops.Column, which reads symbol by symbol: a decoder's way, in a compiled kernel of its own."""
        if self._column is None:
            weights = self._weights
            self._column = weights.ops.Column(
                weights.embedding, weights.contexts, weights.layers, weights.head, self._room,
                self._cos, self._sin, self._first_valid, self.config.window, self._score_scale,
            )  # fmt: skip
        return self._column


class GPT:
    """See the module's text. All tensors live on one device, but for the table of contexts, which stays on the host.

    begin(T) ; { forward(columns) -> logits }* in one thread, while update(rows) runs in another; both done, end().
    """

    def __init__(
        self,
        config: GPTConfig,
        n_symbols: int,
        seed: int,
        ops: ModuleType,
        matmul: Matmul,
        pool: Pool,
        device: torch.device = HOST,
    ) -> None:
        self.config, self.n_symbols, self._ops, self._matmul, self._pool = config, n_symbols, ops, matmul, pool
        d, m = config.width, config.mlp_factor * config.width
        half_width = math.sqrt(3.0 / d) * 0.5  # standard deviation 0.5 / sqrt(D)

        def linear(name: str, n_in: int, n_out: int, half_width: float) -> Linear:
            return Linear(uniform(seed, name, (n_in, n_out), half_width).to(device), ops, matmul)

        layers = [
            {
                "qkv": linear(f"{i}.qkv", d, 3 * d, half_width),
                "out": linear(f"{i}.out", d, d, 0.0),
                "up": linear(f"{i}.up", d, m, half_width),
                "down": linear(f"{i}.down", m, d, 0.0),
            }
            for i in range(config.n_layers)
        ]
        self._weights = Weights(
            torch.zeros(config.n_embeddings, n_symbols, d, device=device),
            ContextTable(config, ops),
            layers,
            linear("head", d, n_symbols, 0.0),
            ops,
            matmul,
        )
        self._weights.embedding[0] = uniform(seed, "embedding", (n_symbols, d), 1.0).to(device)
        self._hidden = {f"{i}.{name}": linear for i, layer in enumerate(layers) for name, linear in layer.items()}
        self._momentum = {name: torch.zeros_like(linear.weight) for name, linear in self._hidden.items()}
        self._adam = {
            name: (torch.zeros_like(p), torch.zeros_like(p))
            for name, p in (("embedding", self._weights.embedding), ("head", self._weights.head.weight))
        }
        self._n_updates = 0
        self._head_change: Tensor | None = None
        self.update_size: float | None = None  # a report: Learner.update_size
        self._score_scale = score_scale(config)
        self._reader = Reader(config)

    # ---- reading

    def begin(self, n_columns: int) -> None:
        """Opens a segment of n_columns columns, to be read with the weights as they stand: not during an `update`."""
        self._reader.begin(self._weights.snapshot(), n_columns)

    def forward(self, recent: Tensor, first: int) -> Tensor:
        """Logits (t, V) float32 of what follows columns first .. first + t - 1, whose last symbols are `recent` (t, C) int64.

        Columns are read in order, each once, in any runs: the bits do not depend on the runs, nor on an `update` meanwhile.
        """
        return self._reader.forward(recent, first)

    def column(self) -> Any:
        """The open segment for a compiled decoder; compiled kernels only."""
        return self._reader.column()

    def end(self) -> None:
        """Closes the segment, once the `update` beside it is done: what that left to be written, is written."""
        self._weights.contexts.commit()

    def weights_read(self) -> dict[str, Tensor]:
        """What the open segment is predicted with, by name; it stands still until the next `begin`."""
        return self._reader._weights.as_read()

    # ---- learning

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        """One optimiser step on R independent rows: inputs (R, T, C) int64 as in `forward`, targets (R, T) int64 what followed.

        R * T <= 8192, T <= 512. The gradient of the code length travels down the layers; each matrix learns, beside it, as
        soon as its own gradient is known.
        """
        self._step(inputs, targets, self._next_factor())
        self._check_finite()

    def _step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        for name, gradient in self._gradients(inputs, targets):
            self._pool.start(partial(self._learn, name, gradient, factor))
        self._pool.finish()

    def _next_factor(self) -> float:
        """Counts a step, and returns what its size is multiplied by."""
        self._n_updates += 1
        c = self.config
        return min(1.0, self._n_updates / c.warmup_updates) / math.sqrt(1.0 + self._n_updates / c.decay_updates)

    def _check_finite(self) -> None:
        if self._head_change is not None:
            self.update_size = float(self._head_change)  # only now: a device is waited for here
        if not math.isfinite(self.update_size or 0.0):
            raise ConfigError("the GPT has diverged: its weights are no longer numbers; take smaller steps")

    def _gradients(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[str, Gradient]]:
        """Each parameter's name and its gradient, from these rows, in the order of `_backward`."""
        phases = phases_of_rows(self.config, inputs.shape[1], inputs.device)
        gradient, saved = self._forward_rows(inputs, targets, phases)
        yield from self._backward(gradient, saved, inputs, phases)

    def _forward_rows(self, inputs: Tensor, targets: Tensor, phases: tuple[Tensor, Tensor]) -> tuple[Tensor, Saved]:
        """The gradient (N, V) in nats at the logits, and what the backward pass needs: tensors of N or of R first entries."""
        pieces = self._pool.pieces(len(inputs))
        saved: list[Saved] = [{} for _ in pieces]
        gradients: list[Tensor] = [torch.empty(0) for _ in pieces]

        def work(i: int) -> None:
            rows = inputs[pieces[i]]
            attend = partial(self._attend, saved[i], phases, (*rows.shape[:2], self.config.n_heads))
            logits = self._weights.logits(rows.flatten(0, 1), attend, saved[i])
            gradients[i] = self._ops.loss_gradient(self._ops.frequencies(logits), targets[pieces[i]].reshape(-1))

        self._pool.map(work, range(len(pieces)))
        if len(pieces) == 1:
            return gradients[0], saved[0]
        joined = {
            name: tuple(torch.cat(parts) for parts in zip(*(s[name] for s in saved), strict=True)) for name in saved[0]
        }
        return torch.cat(gradients), joined

    def _attend(
        self, saved: Saved, phases: tuple[Tensor, Tensor], shape: tuple[int, int, int], i: int, qkv: Tensor
    ) -> Tensor:
        """Attention's output (N, D) of whole rows, shape = (R, T, H): each column sees the columns of its row up to itself."""
        q, q_r, q_s, k, k_r, k_s, v, v_scale = self._ops.attention_inputs(qkv, *phases, shape)
        scores = self._matmul.batched(q, k.transpose(-1, -2))  # (R, H, T, T)
        e, inverse_sum, levels, scale = self._ops.attention_weights(
            scores, q_r * self._score_scale, k_r, v_scale, first_query=0, first_valid=0, window=self.config.window
        )
        saved[f"{i}.attention"] = (q, q_r, q_s, k, k_r, k_s, v, v_scale, e, inverse_sum)
        return self._ops.attention_output(self._matmul.batched(levels, v), scale * inverse_sum)

    def _backward(
        self, g: Tensor, saved: Saved, inputs: Tensor, phases: tuple[Tensor, Tensor]
    ) -> Iterator[tuple[str, Gradient]]:
        """From the gradient rows (N, V) at the logits down to the embedding: each parameter's name and how to get its gradient.

        A parameter is named once its old value has been used for the last time; what its gradient needs never changes later.
        """
        ops, head = self._ops, self._weights.head
        norm = saved["head"]
        dh = self._through_norm(head.fine_input_gradient_sums(g), norm, g.new_zeros(len(g), self.config.width))
        yield "head", MatrixGradient(head, norm[0], norm[1], g)
        for i, layer in reversed(list(enumerate(self._weights.layers))):
            x, scale, a = saved[f"{i}.down"]
            dy = ops.squared_relu_backward(*layer["down"].input_gradient_sums(dh), a)
            yield f"{i}.down", MatrixGradient(layer["down"], x, scale, dh)
            norm = saved[f"{i}.up"]
            dh = self._through_norm(layer["up"].input_gradient_sums(dy), norm, dh)
            yield f"{i}.up", MatrixGradient(layer["up"], norm[0], norm[1], dy)
            x, scale = saved[f"{i}.out"]
            acc, row_scale = layer["out"].input_gradient_sums(dh)
            yield f"{i}.out", MatrixGradient(layer["out"], x, scale, dh)
            dqkv = self._attention_backward(ops.dequantise(acc, row_scale, None), saved[f"{i}.attention"], phases)
            norm = saved[f"{i}.qkv"]
            dh = self._through_norm(layer["qkv"].input_gradient_sums(dqkv), norm, dh)
            yield f"{i}.qkv", MatrixGradient(layer["qkv"], norm[0], norm[1], dqkv)
        recent = inputs.flatten(0, 1)
        yield "embedding", EmbeddingGradient(ops, dh, recent[:, : self.config.n_embeddings], self.n_symbols)
        if self.config.contexts:
            yield "contexts", ContextGradient(dh.cpu(), self._weights.contexts.places(recent))

    def _through_norm(self, sums: tuple[Tensor, Tensor], norm: Sequence[Tensor], dh: Tensor) -> Tensor:
        """dh plus the gradient that reaches the residual stream through normalised rows, given its sums and scales there."""
        return self._ops.normalise_rows_backward(self._ops.dequantise(*sums, None), *norm, base=dh)

    def _attention_backward(self, g: Tensor, saved: Sequence[Tensor], phases: tuple[Tensor, Tensor]) -> Tensor:
        """Gradient (N, 3D) at queries, keys and values from that at attention's output rows (N, D)."""
        ops, batched = self._ops, self._matmul.batched
        q, q_r, q_s, k, k_r, k_s, v, v_scale, e, inverse_sum = saved
        by_query, g_scale, by_column, dv_scale = ops.attention_backward_values(g, inverse_sum, self.config.n_heads)
        dv = batched(e.transpose(-1, -2), by_column)  # 255 * 127 * T < 2**24 needs T <= 518
        products = batched(by_query, v.transpose(-1, -2))  # (R, H, T, T); 1023 * 127 * K < 2**24 needs K <= 129
        ds_rows, row_scale, ds_columns, column_scale = ops.attention_backward_scores(
            products, g_scale, v_scale, e, inverse_sum, q_r, k_r
        )
        dq = batched(ds_rows, k)
        dk = batched(ds_columns.transpose(-1, -2), q)
        return ops.attention_inputs_backward(
            dq, dk, dv, row_scale * self._score_scale, column_scale * self._score_scale, dv_scale,
            (q, q_r, q_s, k, k_r, k_s), *phases,
        )  # fmt: skip

    def _learn(self, name: str, gradient: Callable[[], Tensor] | ContextGradient, factor: float | Tensor) -> None:
        """One step of the named parameter: Adam for embedding and head, Muon for the hidden matrices.

        factor: of its size; as a tensor () float64 it is rounded to float32 where it multiplies, as a number is.
        """
        if isinstance(gradient, ContextGradient):
            self._weights.contexts.learn(gradient)
            return
        if name in self._hidden:
            for w, g, step_size in self._parts(name, self._direction(name, gradient()), factor):
                w.sub_(orthogonalise(g.contiguous(), self._ops, self._matmul) * step_size)
            self._hidden[name].quantise()
            return
        c, weights = self.config, self._weights
        weight = weights.embedding if name == "embedding" else weights.head.weight
        before = weight.clone() if name == "head" else None
        self._ops.adam_(weight, gradient(), *self._adam[name], c.vector_step * factor, c.beta1, c.beta2)
        if before is not None:
            weights.head.quantise()
            self._head_change = (weight - before).norm() / weight.norm().clamp_min(1e-30)

    def _direction(self, name: str, gradient: Tensor) -> Tensor:
        """Where Muon's step of a hidden matrix goes, before it is orthogonalised: Nesterov momentum."""
        return self._ops.nesterov_(self._momentum[name], gradient, self.config.momentum)

    def _parts(
        self, name: str, direction: Tensor, factor: float | Tensor
    ) -> Iterator[tuple[Tensor, Tensor, float | Tensor]]:
        """What is orthogonalised by itself: the weights, their direction, and the size of their step.

        That is the whole matrix, or what it holds side by side: query, key and value.
        """
        n_parts = 3 if name.endswith("qkv") else 1
        for w, g in zip(self._hidden[name].weight.chunk(n_parts, 1), direction.chunk(n_parts, 1), strict=True):
            shape_factor = math.sqrt(max(1.0, g.shape[1] / g.shape[0]))
            yield w, g, self.config.matrix_step * shape_factor * factor

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over what `state` of another GPT of this configuration gave. Raises ValueError for what none can have given."""
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                continue
            low, high = (0.0, MAX_SQUARE) if name.startswith(NOT_NEGATIVE) else (-MAX_MAGNITUDE, MAX_MAGNITUDE)
            if not bool(((tensor >= low) & (tensor <= high)).all()):  # nor for no number
                raise ValueError(f"gpt.{name} holds what is no weight")
        if not all(0 <= n < 1 << 48 for n in tensors["counters"].tolist()):
            raise ValueError("gpt.counters are out of range")
        for name, tensor in GPT.state(self).items():
            if name != "counters":
                tensor.copy_(tensors[name])
        self._n_updates, n_columns = tensors["counters"].tolist()
        self._reader.resume(n_columns)
        self.quantise()

    def quantise(self) -> None:
        """The levels of every matrix are again those of its weights."""
        for linear in self._matrices():
            linear.quantise()

    def _matrices(self) -> list[Linear]:
        return [self._weights.head, *self._hidden.values()]

    def learned_state(self) -> dict[str, Tensor]:
        """Of the state, what steps write: weights and what the optimiser keeps."""
        return {name: t for name, t in GPT.state(self).items() if not name.startswith(NOT_LEARNED)}

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on, by name, after `end`: what a digest or a checkpoint covers."""
        tensors = {"embedding": self._weights.embedding, "head": self._weights.head.weight}
        tensors |= {name: linear.weight for name, linear in self._hidden.items()}
        tensors |= {f"momentum.{name}": m for name, m in self._momentum.items()}
        for name, (mean, square) in self._adam.items():
            tensors |= {f"adam.mean.{name}": mean, f"adam.square.{name}": square}
        tensors |= self._weights.contexts.state()
        tensors |= {f"carried.{name}": t for name, t in self._reader.memory().items()}
        tensors["counters"] = torch.tensor([self._n_updates, self._reader.n_columns])
        return tensors
