"""The forward pass of the GPT for one position of the stream, a column, as a kernel, and the loop of decoders around it.

The bits are those of `Weights.logits`. Products with matrices and with the keys of attention are those of products.py. Letters as
in weights.py and reader.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from prequential_codecs.bit_coder import BitCoder

from prequential.exact.fused import fill_frequencies, integer_frequency_table
from prequential.exact.fused_attention import WEIGHT_LIMIT, normalised_levels, softmax_numerators, softmax_table
from prequential.exact.fused_loops import INVERSE_INT8_LIMIT, ONE, inverse_rms, round_row, round_row_to_int8
from prequential.exact.plain import INT8_LIMIT
from prequential.machine.compiled import Array, inlined, kernel
from prequential.model.gpt.context_kernels import N_HASHED, fill_context_rows
from prequential.model.gpt.context_table import UNITS
from prequential.model.gpt.products import OFFSET, PART, ROWS, interleaved, interleaved_rows, multiply_add, offsets
from prequential.model.gpt.recall import RecallArrays, read_symbols
from prequential.model.gpt.weights import Linear, Weights
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import MixerArrays, Team, code_mixed, code_plain

Tensor = torch.Tensor

ROW_UNIT = np.float32(1.0 / UNITS)


class MatrixArrays(NamedTuple):
    """One matrix of each of L layers, in the layout of `interleaved`. C_out and C_in rounded up are B * ROWS and P * PART."""

    levels: Array  # (L, B, P, ROWS, PART) int8
    offset: Array  # (L, B * ROWS) int32: OFFSET times the sum of each column of the matrix
    scale: Array  # (L, C_out) float32


class ColumnArrays(NamedTuple):
    """All arrays that the forward pass of a column reads, and the cache of keys and values, which it writes."""

    embedding: Array  # (E, V, D) float32
    context_kinds: Array  # (number of contexts,) int64: see context_table.py
    contexts: Array  # (2**context_bits, D) int16: see context_table.py
    qkv: MatrixArrays
    out: MatrixArrays
    up: MatrixArrays
    down: MatrixArrays
    head: MatrixArrays  # L = 1
    k: Array  # (L, H, S, K) int8
    k_r: Array  # (L, H, S) float32
    v: Array  # (L, H, S, K) int8
    v_scale: Array  # (L, H, S) float32
    keys: Array  # (L, H, B, P, ROWS, PART) int8: k, interleaved; S and K rounded up are B * ROWS and P * PART
    key_offset: Array  # (L, H, B * ROWS) int32: OFFSET times the sum of each key
    cos: Array  # (T, K/2) float32
    sin: Array  # (T, K/2) float32
    softmax_table: Array
    first_valid: int  # slots of the cache before this one are empty
    window: int
    score_scale: np.float32


class ColumnDecoder:
    """Computes the columns of one open segment, during which the weights do not change."""

    def __init__(
        self, weights: Weights, cache: Mapping[str, Tensor], phases: tuple[Tensor, Tensor], first_valid: int, window: int
    ) -> None:  # fmt: skip
        """Arguments as in `ColumnArrays`. Nothing else may add to the cache as long as this decoder is used. phases: cos, sin."""
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in cache.items()}
        arrays |= {name: stack_matrices([layer[name] for layer in weights.layers]) for name in weights.layers[0]}
        keys = [interleaved_rows(k) for k in cache["k"]]
        self.arrays: ColumnArrays = ColumnArrays(
            embedding=weights.embedding.numpy(),
            context_kinds=weights.contexts.kinds,
            contexts=weights.contexts.rows.numpy(),
            head=stack_matrices([weights.head]),
            keys=np.stack(keys),
            key_offset=np.stack([offsets(k) for k in keys]),
            cos=phases[0].numpy(),
            sin=phases[1].numpy(),
            softmax_table=softmax_table(),
            first_valid=first_valid,
            window=window,
            score_scale=np.float32(weights.score_scale),
            **arrays,
        )

    def logits(self, recent: Tensor, column: int) -> Tensor:
        """Logits (1, V) float32 of the symbol after this column. recent: its last symbols, (C,) int64, the newest first."""
        y = torch.empty(1, self.arrays.embedding.shape[1])
        fill_logits(recent.numpy(), column, self.arrays, y.numpy()[0])
        return y


def stack_matrices(matrices: Sequence[Linear]) -> MatrixArrays:
    """The matrices of one kind in all layers, in the layout for `multiply`."""
    levels = interleaved(torch.stack([matrix.levels for matrix in matrices]))
    return MatrixArrays(levels, offsets(levels), torch.stack([matrix.scale for matrix in matrices]).numpy())


@kernel
def fill_logits(recent: Array, column: int, a: ColumnArrays, logits: Array) -> None:
    """logits (V,) float32 = those of the symbol after this column. recent: its last symbols, (C,) int64, the newest first."""
    h = a.embedding[0, recent[0]].copy()
    for e in range(1, a.embedding.shape[0]):
        _add(h, a.embedding[e, recent[e]])
    if a.context_kinds.size:
        all_hashes, rows = np.empty(N_HASHED, np.int64), np.empty(a.context_kinds.size, np.int64)
        fill_context_rows(recent, a.context_kinds, a.contexts.shape[0], all_hashes, rows)
        sums = np.zeros(h.size, np.int32)
        for i in range(rows.size):
            row = a.contexts[rows[i]]
            for j in range(h.size):
                sums[j] += np.int32(row[j])
        for j in range(h.size):
            h[j] += np.float32(sums[j]) * ROW_UNIT
    x, u = np.zeros(a.qkv.levels.shape[2] * PART, np.uint8), np.zeros(a.down.levels.shape[2] * PART, np.uint8)
    qkv, wide = np.empty(a.qkv.scale.shape[1], np.float32), np.empty(a.up.scale.shape[1], np.float32)
    y, totals = np.empty(h.size, np.float32), np.empty(ROWS, np.int32)
    for i in range(a.qkv.levels.shape[0]):
        multiply(x, _normalise(h, x), a.qkv, i, totals, qkv)
        _attend(qkv, column, a, i, totals, y)
        scale, _ = round_row_to_int8(y, OFFSET, x)
        multiply(x, scale * INVERSE_INT8_LIMIT, a.out, i, totals, y)
        _add(h, y)
        multiply(x, _normalise(h, x), a.up, i, totals, wide)
        for j in range(wide.size):
            r = max(wide[j], np.float32(0.0))
            wide[j] = r * r
        scale, _ = round_row_to_int8(wide, OFFSET, u)
        multiply(u, scale * INVERSE_INT8_LIMIT, a.down, i, totals, y)
        _add(h, y)
    multiply(x, _normalise(h, x), a.head, 0, totals, logits)


@inlined
def _normalise(h: Array, x: Array) -> np.float32:
    """x = h, rounded and shifted; returns the factor r of the RMS norm, as `normalise_rows` does."""
    _, squares = round_row_to_int8(h, OFFSET, x)
    return inverse_rms(squares, h.size)


@inlined
def multiply(x: Array, factor: np.float32, matrix: MatrixArrays, layer: int, totals: Array, y: Array) -> None:
    """y = ((x - 128) @ levels) * factor * scale, for the matrix in this layer. totals: space for ROWS int32."""
    levels, offset, scale = matrix.levels[layer], matrix.offset[layer], matrix.scale[layer]
    for i in range(levels.shape[0]):
        multiply_add(totals, x, levels[i])  # 255 * 127 * C < 2**31
        # Parts of arrays, because numba makes vector operations only of loops whose indices cannot be negative.
        block = slice(i * ROWS, (i + 1) * ROWS)
        part, shift, factors = y[block], offset[block], scale[block]
        for j in range(part.size):
            part[j] = (np.float32(np.int32(totals[j] - shift[j])) * factor) * factors[j]


@inlined
def _add(h: Array, y: Array) -> None:
    for j in range(h.size):
        h[j] = h[j] + y[j]


@kernel
def _attend(qkv: Array, column: int, a: ColumnArrays, layer: int, totals: Array, y: Array) -> None:
    """y = the output (D,) of attention in this layer, with the bits of plain.py, from qkv (3D,). totals: space for ROWS int32."""
    _, n_heads, _, width = a.k.shape
    own = a.window - 1 + column  # the slot of this column's key
    first = max(a.first_valid, column)  # and of the first visible one
    visible, n_keys = slice(first, own + 1), own + 1 - first
    scores, weights, levels = np.empty(n_keys, np.float32), np.empty(n_keys, np.float32), np.empty(width, np.float32)
    query = np.zeros(a.keys.shape[3] * PART, np.uint8)
    for h in range(n_heads):
        keys, key_offset = a.keys[layer, h], a.key_offset[layer, h]
        own_key, own_value = a.k[layer, h, own], a.v[layer, h, own]
        k_r, v_scale = a.k_r[layer, h], a.v_scale[layer, h]
        rest = qkv[h * width :]
        q_r, _ = normalised_levels(rest[:width], a.cos[column], a.sin[column], levels)
        for i in range(width):
            query[i] = np.int32(levels[i]) + OFFSET
        rest = rest[y.size :]
        k_r[own], _ = normalised_levels(rest[:width], a.cos[column], a.sin[column], levels)
        block, row, total = keys[own // ROWS], own % ROWS, np.int32(0)
        for i in range(width):
            level = np.int32(levels[i])
            own_key[i] = block[i // PART, row, i % PART] = level
            total += level
        key_offset[own] = total * OFFSET
        rest = rest[y.size :]
        v_scale[own] = round_row(rest[:width], INT8_LIMIT, levels) * INVERSE_INT8_LIMIT
        for i in range(width):
            own_value[i] = np.int8(levels[i])
        for start in range(first // ROWS * ROWS, own + 1, ROWS):
            multiply_add(totals, query, keys[start // ROWS])
            low, high = max(first, start), min(start + ROWS, own + 1)
            part, sums, shift = scores[low - first : high - first], totals[low - start :], key_offset[low:]
            for j in range(part.size):
                part[j] = np.float32(np.int32(sums[j] - shift[j]))
        sum_of_weights = softmax_numerators(scores, q_r * a.score_scale, k_r[visible], a.softmax_table, weights)
        seen_scale = v_scale[visible]
        for j in range(n_keys):
            weights[j] = weights[j] * seen_scale[j]
        scale = round_row(weights, WEIGHT_LIMIT, weights) * np.float32(1.0 / WEIGHT_LIMIT)
        output = y[h * width : (h + 1) * width]
        _weighted_sum(weights, a.v[layer, h, visible], output)
        factor = scale * (ONE / np.float32(sum_of_weights))
        for i in range(width):
            output[i] = output[i] * factor


@inlined
def _weighted_sum(weights: Array, values: Array, sums: Array) -> None:
    """sums (K,) float32 = weights (J,) @ values (J, K) int8. All are integers, and exact: 255 * 127 * J < 2**24."""
    sums[:] = np.float32(0.0)
    rest = weights.size % 4
    for j in range(rest):
        for i in range(sums.size):
            sums[i] += weights[j] * np.float32(values[j, i])
    for j in range(rest, weights.size, 4):  # four at a time, so that the sums are read and written less often
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for i in range(sums.size):
            first = a * np.float32(values[j, i]) + b * np.float32(values[j + 1, i])
            second = c * np.float32(values[j + 2, i]) + d * np.float32(values[j + 3, i])
            sums[i] += first + second


# ---- decoding a segment


def decode_segment(
    recent: Array, symbols: Array, recall: RecallArrays, column: ColumnDecoder, mixer: Mixer | None, coder: BitCoder
) -> Array:  # fmt: skip
    """Decodes the symbols (n,) int64 of the open segment, in place, in one compiled loop: a call for each step would take longer.

    recent: the GPT's inputs for the first symbol, (C,) int64; they are overwritten. recall: has read the symbols before it; reads
    those of the segment. mixer: None to decode with the frequencies of the GPT alone. Returns the frequency of each coded bit,
    (n, 8) uint16 of a total of 2**16.
    """
    coded = np.empty((len(symbols), 8), np.uint16)
    known = (recent, symbols, coded, integer_frequency_table(), recall, column.arrays)

    def decode(*team: Any) -> None:
        _decode(*known, team or None, coder.state, coder.words)

    if mixer:
        mixer.threads.run(mixer.arrays, len(symbols), decode)
    else:
        decode()
    return coded


@kernel
def _decode(
    recent: Array, symbols: Array, coded: Array, table: Array, recall: RecallArrays, column: ColumnArrays,
    team: tuple[MixerArrays, Team] | None, state: Array, words: Array,
) -> None:  # fmt: skip
    """team: what `code_mixed` needs of the mixer and its threads; None to decode without a mixer."""
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        symbol = symbols[t : t + 1]
        fill_logits(recent, t, column, logits[0])
        fill_frequencies(logits, table, frequencies)
        if team is None:
            code_plain(symbol, frequencies, coded[t : t + 1], state, words)
        else:
            code_mixed(symbol, frequencies, coded[t : t + 1], *team, state, words)
        _advance(recent, symbol, recall)


@kernel
def _advance(recent: Array, symbol: Array, recall: RecallArrays) -> None:
    """recent = the inputs for the symbol after this one, (1,): the last symbols, and what is recalled."""
    n_values = recall.values.shape[1]
    n_last = recent.size - n_values
    for e in range(n_last - 1, 0, -1):
        recent[e] = recent[e - 1]
    recent[0] = symbol[0]
    if n_values:
        read_symbols(symbol, recall)
        values = recall.values[recall.n_read[0] & (recall.values.shape[0] - 1)]
        for x in range(n_values):
            recent[n_last + x] = values[x]
