"""The forward pass of the GPT for positions of the stream, columns, as a kernel, and the loop of decoders around it.

The bits are those of `Weights.logits`. All products are those of byte_products.py. Letters as in weights.py and reader.py.
"""

import math
from collections.abc import Mapping, Sequence
from inspect import unwrap
from typing import Any, NamedTuple

import numpy as np
import torch
from prequential_codecs.bit_coder import BitCoder
from torch.nn.functional import pad

from prequential.exact.byte_products import OFFSET, PART, ROWS, TILE, interleaved, multiply_bytes, new_words
from prequential.exact.fused import fill_frequencies, integer_frequency_table
from prequential.exact.fused_attention import WEIGHT_LIMIT, normalised_levels, softmax_numerators
from prequential.exact.fused_loops import INVERSE_INT8_LIMIT, ONE, array, inverse_rms, round_row, round_row_to_int8
from prequential.exact.plain import INT8_LIMIT
from prequential.exact.pool import Pool
from prequential.exact.tables import attention_table
from prequential.machine.compiled import Array, helper, inlined, kernel
from prequential.model.gpt.context_table import N_HASHED, UNITS, fill_context_rows
from prequential.model.gpt.recall import RecallArrays, read_symbols
from prequential.model.gpt.weights import Linear, Weights
from prequential.model.mixer.arrays import CodingState, MixerArrays
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import code_mixed, code_plain

Tensor = torch.Tensor

ROW_UNIT = np.float32(1.0 / UNITS)


class MatrixArrays(NamedTuple):
    """One matrix of each of L layers, in the layout of `interleaved`. C_in and C_out rounded up are P * PART and B * ROWS."""

    levels: Array  # (L, B, P, ROWS) uint32
    shift: Array  # (L, B * ROWS) int32
    scale: Array  # (L, C_out) float32


class ColumnArrays(NamedTuple):
    """All arrays that the forward pass of columns reads, and the cache of keys and values, which it writes."""

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
    # Bytes of k and v, interleaved. S and K rounded up are numbers of blocks times ROWS, or of parts times PART:
    keys: Array  # (L, H, blocks of S, parts of K, ROWS, PART) int8
    key_shift: Array  # (L, H, blocks of S * ROWS) int32: minus OFFSET times the sum of each key
    values: Array  # (L, H, blocks of K, parts of S, ROWS, PART) int8
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
        keys, key_shift = interleaved_stack(cache["k"].flatten(0, 1).mT)
        values, _ = interleaved_stack(cache["v"].flatten(0, 1))
        heads = cache["k"].shape[:2]
        self.arrays: ColumnArrays = ColumnArrays(
            embedding=weights.embedding.numpy(),
            context_kinds=weights.contexts.kinds,
            contexts=weights.contexts.rows.numpy(),
            head=stack_matrices([weights.head]),
            keys=keys.view(np.int8).reshape(*heads, *keys.shape[1:], PART),
            key_shift=key_shift.reshape(*heads, -1),
            values=values.view(np.int8).reshape(*heads, *values.shape[1:], PART),
            cos=phases[0].numpy(),
            sin=phases[1].numpy(),
            softmax_table=attention_table().numpy(),
            first_valid=first_valid,
            window=window,
            score_scale=np.float32(weights.score_scale),
            **arrays,
        )

    def logits(self, recent: Tensor, first: int, pool: Pool | None = None) -> Tensor:
        """Logits (t, V) float32 of the symbols after the columns from `first` on. recent: the inputs there, (t, C) int64.

        pool: reads with all its threads. A stage of each column needs what the stage before has kept of all columns.
        """
        inputs, a = array(recent), self.arrays
        h, qkv, y = new_columns(len(inputs), a)
        n_stages, n_tiles = a.qkv.levels.shape[0] + 1, -(-len(inputs) // TILE)
        pieces = pool.pieces(n_tiles) if pool else []
        if pool and len(pieces) > 1:
            for stage in range(n_stages):

                def read(tiles: slice, stage: int = stage) -> None:
                    rows = slice(tiles.start * TILE, tiles.stop * TILE)
                    fill_logits(inputs[rows], first + rows.start, a, stage, stage + 1, h[rows], qkv[rows], y[rows])

                pool.map(read, pieces)
        else:
            fill_logits(inputs, first, a, 0, n_stages, h, qkv, y)
        return torch.from_numpy(y)


def interleaved_stack(levels: Tensor) -> tuple[Array, Array]:
    """`interleaved` for levels (L, C_in, C_out) int8, filled with zeros, and the shifts."""
    n, n_in, n_out = levels.shape
    levels = pad(levels, (0, 0, 0, -n_in % PART)) if n_in % PART else levels
    shape = n, -(-n_out // ROWS), levels.shape[1] // PART, ROWS
    out = new_words(math.prod(shape)).reshape(shape)
    shift = np.empty((n, out.shape[1] * ROWS), np.int32)
    interleaved(array(levels).view(np.uint8), out, shift)
    return out, shift


def stack_matrices(matrices: Sequence[Linear]) -> MatrixArrays:
    """The matrices of one kind in all layers, in the layout for `multiply`."""
    stack = interleaved_stack(torch.stack([matrix.levels for matrix in matrices]))
    return MatrixArrays(*stack, torch.stack([matrix.scale for matrix in matrices]).numpy())


@kernel
def new_columns(n: int, a: ColumnArrays) -> tuple[Array, Array, Array]:
    """Arrays of n columns for `fill_logits`: h (n, D), qkv (n, 3D) and logits (n, V), all float32."""
    return (
        np.empty((n, a.embedding.shape[2]), np.float32),
        np.empty((n, a.qkv.scale.shape[1]), np.float32),
        np.empty((n, a.head.scale.shape[1]), np.float32),
    )


@kernel
def fill_logits(
    recent: Array, first: int, a: ColumnArrays, begin: int, end: int, h: Array, qkv: Array, logits: Array
) -> None:  # fmt: skip
    """The stages begin .. end - 1 of the L + 1 stages of columns from `first` on. The last one fills logits (t, V) float32.

    recent (t, C) int64: the inputs. h, qkv: of `new_columns`; they carry what a stage leaves to the next. TILE columns at a time
    share what is read of the matrices.
    """
    n_symbols, n_done = len(recent), 0
    while n_done < n_symbols:
        n = TILE if n_symbols - n_done >= TILE else 1
        rows = slice(n_done, n_done + n)
        for stage in range(begin, end):
            _fill_tile(recent[rows], first + n_done, a, stage, h[rows], qkv[rows], logits[rows])
        n_done += n


@helper
def _fill_tile(recent: Array, first: int, a: ColumnArrays, stage: int, h: Array, qkv: Array, logits: Array) -> None:
    """A stage for one column or TILE columns: the layer before, from its attention on; then what the next attention reads."""
    n, width = h.shape
    y, factors, totals = np.empty((n, width), np.float32), np.empty(n, np.float32), np.empty((n, ROWS), np.int32)
    x = np.zeros((n, a.qkv.levels.shape[2] * PART), np.uint8)
    if stage == 0:
        _embed(recent, a, h)
    else:
        i = stage - 1
        for t in range(n):
            _attend(qkv[t], first + t, a, i, totals[0], y[t])
        _quantise(y, x, factors)
        multiply(x, factors, a.out, i, totals, y)
        _add(h, y)
        _normalise(h, x, factors)
        wide = np.empty((n, a.up.scale.shape[1]), np.float32)
        multiply(x, factors, a.up, i, totals, wide)
        for t in range(n):
            row = wide[t]
            for j in range(row.size):
                r = max(row[j], np.float32(0.0))
                row[j] = r * r
        u = np.zeros((n, a.down.levels.shape[2] * PART), np.uint8)
        _quantise(wide, u, factors)
        multiply(u, factors, a.down, i, totals, y)
        _add(h, y)
    _normalise(h, x, factors)
    if stage < a.qkv.levels.shape[0]:
        multiply(x, factors, a.qkv, stage, totals, qkv)
        for t in range(n):
            _keep(qkv[t, width:], first + t, a, stage)
    else:
        multiply(x, factors, a.head, 0, totals, logits)


@helper
def _embed(recent: Array, a: ColumnArrays, h: Array) -> None:
    """h (n, D) = the input of the columns: sums of embeddings and of rows of contexts."""
    all_hashes, rows = np.empty(N_HASHED, np.int64), np.empty(a.context_kinds.size, np.int64)
    sums = np.empty(h.shape[1], np.int32)
    for t in range(len(recent)):
        out = h[t]
        out[:] = np.float32(0.0)
        for e in range(a.embedding.shape[0]):
            row = a.embedding[e, recent[t, e]]
            for j in range(out.size):
                out[j] = out[j] + row[j] if e else row[j]
        if a.context_kinds.size:
            fill_context_rows(recent[t], a.context_kinds, a.contexts.shape[0], all_hashes, rows)
            sums[:] = 0
            for i in range(rows.size):
                added = a.contexts[rows[i]]
                for j in range(sums.size):
                    sums[j] += np.int32(added[j])
            for j in range(sums.size):
                out[j] += np.float32(sums[j]) * ROW_UNIT


@inlined
def _normalise(h: Array, x: Array, factors: Array) -> None:
    """x = h, rounded and shifted; factors: r of the RMS norm of each column, as in `normalise_rows`."""
    for t in range(h.shape[0]):
        _, squares = round_row_to_int8(h[t], OFFSET, x[t])
        factors[t] = inverse_rms(squares, h.shape[1])


@inlined
def _quantise(y: Array, x: Array, scales: Array) -> None:
    """x = y, rounded and shifted, as in `quantise_rows`."""
    for t in range(y.shape[0]):
        magnitude, _ = round_row_to_int8(y[t], OFFSET, x[t])
        scales[t] = magnitude * INVERSE_INT8_LIMIT


@helper
def multiply(x: Array, factors: Array, matrix: MatrixArrays, layer: int, totals: Array, y: Array) -> None:
    """y = ((x - 128) @ levels) * factors * scale, for the matrix of this layer. x: one row, or TILE. totals: (n, ROWS) int32."""
    levels, shifts, scale = matrix.levels[layer], matrix.shift[layer], matrix.scale[layer]
    row, sums_of_row = x[0], totals[0]
    for i in range(levels.shape[0]):
        if len(x) == TILE:  # 255 * 127 * C < 2**31
            multiply_bytes(totals, x, levels[i])
        else:
            multiply_bytes(sums_of_row, row, levels[i])
        # Parts of arrays, because numba makes vector operations only of loops whose indices cannot be negative.
        block = slice(i * ROWS, (i + 1) * ROWS)
        shift, columns = shifts[block], scale[block]
        for t in range(len(x)):
            part, sums, factor = y[t, block], totals[t], factors[t]
            for j in range(part.size):
                part[j] = (np.float32(np.int32(sums[j] + shift[j])) * factor) * columns[j]


@inlined
def _add(h: Array, y: Array) -> None:
    for t in range(h.shape[0]):
        to, more = h[t], y[t]
        for j in range(to.size):
            to[j] = to[j] + more[j]


@helper
def _attend(qkv: Array, column: int, a: ColumnArrays, layer: int, totals: Array, y: Array) -> None:
    """y = the output (D,) of attention in this layer, with the bits of plain.py, from qkv (3D,). totals: space for ROWS int32.

    The keys and values up to this column must have been kept.
    """
    _, n_heads, _, width = a.k.shape
    own = a.window - 1 + column  # the slot of this column's key
    first = max(a.first_valid, column)  # and of the first visible one
    start = first // PART * PART  # of a part of values
    visible, n_keys = slice(first, own + 1), own + 1 - first
    scores, weights, levels = np.empty(n_keys, np.float32), np.empty(n_keys, np.float32), np.empty(width, np.float32)
    query, shares = np.zeros(a.keys.shape[3] * PART, np.uint8), np.zeros((own // PART + 1) * PART - start, np.uint8)
    for h in range(n_heads):
        k_r, v_scale = a.k_r[layer, h], a.v_scale[layer, h]
        q_r, _ = normalised_levels(qkv[h * width : (h + 1) * width], a.cos[column], a.sin[column], levels)
        for i in range(width):
            query[i] = np.int32(levels[i]) + OFFSET
        for low in range(first // ROWS * ROWS, own + 1, ROWS):
            multiply_bytes(totals, query, a.keys[layer, h, low // ROWS])
            begin, end = max(first, low), min(low + ROWS, own + 1)
            part, sums, shift = (
                scores[begin - first : end - first],
                totals[begin - low :],
                a.key_shift[layer, h, begin:],
            )
            for j in range(part.size):
                part[j] = np.float32(np.int32(sums[j] + shift[j]))
        sum_of_weights = softmax_numerators(scores, q_r * a.score_scale, k_r[visible], a.softmax_table, weights)
        seen_scale = v_scale[visible]
        for j in range(n_keys):
            weights[j] = weights[j] * seen_scale[j]
        scale = round_row(weights, WEIGHT_LIMIT, weights) * np.float32(1.0 / WEIGHT_LIMIT)
        seen = shares[first - start :]
        for j in range(n_keys):
            seen[j] = np.uint8(np.int32(weights[j]))
        factor = scale * (ONE / np.float32(sum_of_weights))
        for block in range(a.values.shape[2]):  # 255 * 127 * J < 2**24
            multiply_bytes(totals, shares, a.values[layer, h, block, start // PART :])
            output = y[h * width + block * ROWS : min(h * width + (block + 1) * ROWS, (h + 1) * width)]
            for i in range(output.size):
                output[i] = np.float32(totals[i]) * factor


@helper
def _keep(kv: Array, column: int, a: ColumnArrays, layer: int) -> None:
    """Adds the keys and values of a column to the cache. kv (2D,): keys of all heads, then values."""
    _, n_heads, _, width = a.k.shape
    own, depth = a.window - 1 + column, n_heads * width
    levels = np.empty(width, np.float32)
    for h in range(n_heads):
        k, v = a.k[layer, h, own], a.v[layer, h, own]
        a.k_r[layer, h, own], _ = normalised_levels(
            kv[h * width : (h + 1) * width], a.cos[column], a.sin[column], levels
        )
        block, total = a.keys[layer, h, own // ROWS], np.int32(0)
        for i in range(width):
            level = np.int32(levels[i])
            k[i] = block[i // PART, own % ROWS, i % PART] = level
            total += level
        a.key_shift[layer, h, own] = -total * OFFSET
        value = kv[depth + h * width : depth + (h + 1) * width]
        a.v_scale[layer, h, own] = round_row(value, INT8_LIMIT, levels) * INVERSE_INT8_LIMIT
        for i in range(width):
            v[i] = a.values[layer, h, i // ROWS, own // PART, i % ROWS, own % PART] = np.int8(levels[i])


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

    def decode(*mixing: Any) -> None:
        _decode(*known, mixing or None, coder.state, coder.words)

    if mixer:
        mixer.threads.run(mixer.arrays, len(symbols), decode)
    else:
        decode()
    return coded


# Kernels as parts of `_decode`: if it called themselves, each would be compiled for Python as well, which does not call it there.
_code_mixed = inlined(unwrap(code_mixed))
_code_plain, _new_columns, _fill_logits, _fill_frequencies, _read_symbols = (
    helper(unwrap(each)) for each in (code_plain, new_columns, fill_logits, fill_frequencies, read_symbols)
)


@kernel
def _decode(
    recent: Array, symbols: Array, coded: Array, table: Array, recall: RecallArrays, column: ColumnArrays,
    mixing: tuple[MixerArrays, CodingState] | None, state: Array, words: Array,
) -> None:  # fmt: skip
    """mixing: what `code_mixed` needs of the mixer and its threads; None to decode without a mixer."""
    h, qkv, logits = _new_columns(1, column)
    frequencies, n_stages = np.empty((1, 256), np.int32), column.qkv.levels.shape[0] + 1
    inputs = recent.reshape(1, -1)
    for t in range(symbols.size):
        symbol = symbols[t : t + 1]
        _fill_logits(inputs, t, column, 0, n_stages, h, qkv, logits)
        _fill_frequencies(logits, table, frequencies)
        if mixing is None:
            _code_plain(symbol, frequencies, coded[t : t + 1], state, words)
        else:
            _code_mixed(symbol, frequencies, coded[t : t + 1], *mixing, state, words)
        _advance(recent, symbol, recall)


@helper
def _advance(recent: Array, symbol: Array, recall: RecallArrays) -> None:
    """recent = the inputs for the symbol after this one, (1,): the last symbols, and what is recalled."""
    n_values = recall.values.shape[1]
    n_last = recent.size - n_values
    for e in range(n_last - 1, 0, -1):
        recent[e] = recent[e - 1]
    recent[0] = symbol[0]
    if n_values:
        _read_symbols(symbol, recall)
        values = recall.values[recall.n_read[0] & (recall.values.shape[0] - 1)]
        for x in range(n_values):
            recent[n_last + x] = values[x]
