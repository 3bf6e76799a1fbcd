"""Decodes a segment in one compiled loop: a column of the GPT, its frequencies, the eight bits of a symbol, the next column.

A call from Python for each step of each symbol would take longer than the computation. The loop calls the kernels of
gpt/column.py, exact/fused.py and mixer/mixing.py, so it gives their bits. It does not hold the interpreter lock.

Letters: n symbols in the segment, C symbols that a prediction looks at.
"""

import numpy as np

from prequential.codecs.bit_coder import BitCoder
from prequential.compiled import Array, inlined, kernel
from prequential.exact.fused import fill_frequencies, integer_frequency_table
from prequential.model.gpt.column import ColumnArrays, ColumnDecoder, fill_logits
from prequential.model.mixer.mixing import MixerArrays, code_mixed, code_plain


def decode_segment(
    recent: Array, symbols: Array, column: ColumnDecoder, mixer: MixerArrays | None, coder: BitCoder
) -> Array:
    """Decodes the symbols (n,) int64 of the open segment, in place.

    recent: the symbols before the first one, (C,) int64, the newest first; it is overwritten. mixer: None to decode with the
    frequencies of the GPT alone. Returns the frequency of each coded bit, (n, 8) uint16 of a total of 2**16.
    """
    coded = np.empty((len(symbols), 8), np.uint16)
    arguments = (recent, symbols, coded, integer_frequency_table(), column.arrays)
    if mixer is None:
        _decode_plain(*arguments, coder.state, coder.words)
    else:
        _decode_mixed(*arguments, mixer, coder.state, coder.words)
    return coded


@kernel
def _decode_mixed(
    recent: Array, symbols: Array, coded: Array, table: Array,
    column: ColumnArrays, mixer: MixerArrays, state: Array, words: Array,
) -> None:  # fmt: skip
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        fill_logits(recent, t, column, logits[0])
        fill_frequencies(logits, table, frequencies)
        code_mixed(symbols[t : t + 1], frequencies, coded[t : t + 1], mixer, state, words)
        _shift_in(recent, symbols[t])


@kernel
def _decode_plain(
    recent: Array, symbols: Array, coded: Array, table: Array, column: ColumnArrays, state: Array, words: Array
) -> None:
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        fill_logits(recent, t, column, logits[0])
        fill_frequencies(logits, table, frequencies)
        code_plain(symbols[t : t + 1], frequencies, coded[t : t + 1], state, words)
        _shift_in(recent, symbols[t])


@inlined
def _shift_in(recent: Array, symbol: int) -> None:
    """recent = the symbol and all but the oldest of `recent`."""
    for e in range(recent.size - 1, 0, -1):
        recent[e] = recent[e - 1]
    recent[0] = symbol
