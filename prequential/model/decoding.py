"""Decodes a segment in one compiled loop: a column of the GPT, its frequencies, the eight bits of a symbol, the next column.

A call from Python for each step of each symbol would take longer than the computation. The loop calls the kernels of
gpt/column.py, exact/fused.py and mixer/mixing.py, so it gives their bits. It does not hold the interpreter lock.

Letters: n symbols in the segment, C symbols that a prediction looks at.
"""

import numpy as np
from prequential_codecs.bit_coder import BitCoder

from prequential.exact.fused import fill_frequencies, integer_frequency_table
from prequential.machine.compiled import Array, kernel
from prequential.model.gpt.column import ColumnArrays, ColumnDecoder, fill_logits
from prequential.model.gpt.recall import RecallArrays, read_symbols
from prequential.model.mixer.mixing import MixerArrays, code_mixed, code_plain


def decode_segment(
    recent: Array,
    symbols: Array,
    recall: RecallArrays,
    column: ColumnDecoder,
    mixer: MixerArrays | None,
    coder: BitCoder,
) -> Array:
    """Decodes the symbols (n,) int64 of the open segment, in place.

    recent: the GPT's inputs for the first symbol, (C,) int64; they are overwritten. recall: has read the symbols before it; reads
    those of the segment. mixer: None to decode with the frequencies of the GPT alone. Returns the frequency of each coded bit,
    (n, 8) uint16 of a total of 2**16.
    """
    coded = np.empty((len(symbols), 8), np.uint16)
    arguments = (recent, symbols, coded, integer_frequency_table(), recall, column.arrays)
    if mixer is None:
        _decode_plain(*arguments, coder.state, coder.words)
    else:
        _decode_mixed(*arguments, mixer, coder.state, coder.words)
    return coded


@kernel
def _decode_mixed(
    recent: Array, symbols: Array, coded: Array, table: Array, recall: RecallArrays,
    column: ColumnArrays, mixer: MixerArrays, state: Array, words: Array,
) -> None:  # fmt: skip
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        fill_logits(recent, t, column, logits[0])
        fill_frequencies(logits, table, frequencies)
        code_mixed(symbols[t : t + 1], frequencies, coded[t : t + 1], mixer, state, words)
        _advance(recent, symbols[t : t + 1], recall)


@kernel
def _decode_plain(
    recent: Array, symbols: Array, coded: Array, table: Array, recall: RecallArrays,
    column: ColumnArrays, state: Array, words: Array,
) -> None:  # fmt: skip
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        fill_logits(recent, t, column, logits[0])
        fill_frequencies(logits, table, frequencies)
        code_plain(symbols[t : t + 1], frequencies, coded[t : t + 1], state, words)
        _advance(recent, symbols[t : t + 1], recall)


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
