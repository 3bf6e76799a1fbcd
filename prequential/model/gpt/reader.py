"""Reads the stream segment by segment, with weights that do not change within a segment.

The keys and values of the last W - 1 columns are carried from one segment to the next. A segment can be read in any division,
with the same bits: each result depends only on its own column and the keys before it, and all sums are of integers.

Letters as in weights.py; S = W - 1 + T slots of the cache of keys and values; t columns in one call, J keys in their products.
"""

from functools import partial

import torch

from prequential.exact.pool import Pool
from prequential.exact.tables import HOST
from prequential.model.config import COLUMNS_AT_ONCE, GPTConfig
from prequential.model.gpt.column import ColumnDecoder
from prequential.model.gpt.weights import Weights, rotary_phases

Tensor = torch.Tensor

# The same as COLUMNS_AT_ONCE on a device, where products with invisible keys cost less than launching more kernels.
DEVICE_COLUMNS = 1024


class Reader:
    """Reads one stream. It computes on the device and with the backend of the segment's weights."""

    weights: Weights  # that the open segment is read with
    pool: Pool | None = None  # whose threads read columns that are known together; None: the caller alone

    def __init__(self, config: GPTConfig) -> None:
        self.config = config
        self._n_before = self._n_open = 0  # columns before the open segment, and columns in it
        shape = (config.n_layers, config.n_heads, config.window - 1)
        width = config.width // config.n_heads
        self._cache = {
            "k": torch.zeros(*shape, width, dtype=torch.int8),
            "v": torch.zeros(*shape, width, dtype=torch.int8),
            "k_r": torch.zeros(shape),
            "v_scale": torch.zeros(shape),
        }

    @property
    def compiled(self) -> bool:
        """Whether compiled kernels read the open segment."""
        return self.weights.backend.primitives.COMPILED

    @property
    def n_columns(self) -> int:
        """Columns of the stream so far, including all columns of the open segment."""
        return self._n_before + self._n_open

    def resume(self, n_columns: int) -> None:
        """Continues after n_columns columns, whose last keys and values `carried_cache` has received."""
        self._cache, self._n_before, self._n_open = self.carried_cache(), n_columns, 0

    def detach(self) -> None:
        """Closes the segment and keeps copies of its last keys and values, so that the buffers can be used elsewhere."""
        self.resume(self.n_columns)
        self._cache = {name: t.clone() for name, t in self._cache.items()}

    def fork(self) -> "Reader":
        """A reader at the same position of the stream, with a copy of the keys and values. Call it between segments."""
        other = Reader(self.config)
        for name, tensor in self.carried_cache().items():
            other.carried_cache()[name].copy_(tensor)
        other.resume(self.n_columns)
        return other

    def carried_cache(self) -> dict[str, Tensor]:
        """The last W - 1 keys and values after the open segment is read: k, v (L, H, W - 1, K); k_r, v_scale (L, H, W - 1)."""
        return {name: t[:, :, self._n_open :] for name, t in self._cache.items()}

    def begin(self, weights: Weights, n_columns: int) -> None:
        """Opens a segment of n_columns columns, to be read with these weights. Its keys and values follow the carried ones."""
        self.weights = weights
        carried = {name: t.to(weights.device) for name, t in self.carried_cache().items()}
        self._cache = {
            name: torch.cat((t, t.new_zeros(*t.shape[:2], n_columns, *t.shape[3:])), 2) for name, t in carried.items()
        }
        self._n_before, self._n_open = self.n_columns, n_columns
        self._first_valid = max(0, self.config.window - 1 - self._n_before)  # the first slot that holds a key
        self._cos, self._sin = rotary_phases(self.config, self._n_before, n_columns, weights.device)
        self._column_decoder: ColumnDecoder | None = None  # created when it is first needed

    def adopt(self, weights: Weights, buffers: dict[str, Tensor], n_before: int, n_columns: int) -> None:
        """`begin` after n_before columns, at least a window, in the `buffers` of a reader that had as many columns open.

        Their first slots must hold the carried keys and values, and their phases must be those of the segment.
        """
        self.weights, self._n_before, self._n_open = weights, n_before, n_columns
        self._cache = {name: t for name, t in buffers.items() if name in self._cache}
        self._cos, self._sin = buffers["cos"], buffers["sin"]
        self._first_valid, self._column_decoder = 0, None

    def buffers(self) -> dict[str, Tensor]:
        """The tensors of the open segment: keys and values, carried and new; cos and sin of the rotary phases."""
        return {**self._cache, "cos": self._cos, "sin": self._sin}

    def forward(self, recent: Tensor, first: int) -> Tensor:
        """Logits (t, V) float32 of the symbols after the columns first .. first + t - 1: see `GPT.forward`."""
        if self.compiled:
            return self.column_decoder().logits(recent, first, self.pool)
        return self.read(self.weights.rows_of_tables(recent).to(self.weights.device), first)

    def read(self, rows: Tensor, first: int) -> Tensor:
        """`forward` for `rows_of_tables` of the columns, on the device."""
        self._column_decoder = None  # it has copies of the keys
        at_once = COLUMNS_AT_ONCE if rows.device == HOST else DEVICE_COLUMNS
        parts = [
            self.weights.logits(part, partial(self._attend, first + i * at_once))
            for i, part in enumerate(rows.split(at_once))
        ]
        return torch.cat(parts)

    def _attend(self, first: int, i: int, qkv: Tensor) -> Tensor:
        """The output (t, D) of attention in layer i for t columns from `first` on. Adds their keys and values to the cache."""
        backend, n_carried, n = self.weights.backend, self.config.window - 1, len(qkv)
        ops, matmul = backend.primitives, backend.matmul
        layer_cache = {name: t[i : i + 1] for name, t in self._cache.items()}  # (1, H, S, ..)
        run = slice(first, first + n)
        shape = (1, n, self.config.n_heads)
        q, q_r, _, k, k_r, _, v, v_scale = ops.attention_inputs(qkv, self._cos[run], self._sin[run], shape)
        for name, value in (("k", k), ("k_r", k_r), ("v", v), ("v_scale", v_scale)):
            layer_cache[name][:, :, n_carried + first : n_carried + first + n] = value
        seen = {name: t[:, :, first : n_carried + first + n] for name, t in layer_cache.items()}  # J = W - 1 + t slots
        scores = matmul.batched(q, seen["k"].float().transpose(-1, -2))  # (1, H, t, J)
        mask = n_carried, self._first_valid - first, self.config.window
        _, inverse_sum, levels, scale = ops.attention_weights(
            scores, q_r * self.weights.score_scale, seen["k_r"], seen["v_scale"], mask=mask
        )
        acc = matmul.batched(levels, seen["v"].float())  # (1, H, t, K)
        return ops.attention_output(acc, scale * inverse_sum)

    def column_decoder(self) -> ColumnDecoder:
        """The open segment for a decoder, which reads it symbol by symbol. Needs compiled kernels."""
        if self._column_decoder is None:
            phases, window = (self._cos, self._sin), self.config.window
            self._column_decoder = ColumnDecoder(self.weights, self._cache, phases, self._first_valid, window)
        return self._column_decoder
