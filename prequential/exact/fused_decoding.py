"""A segment decoded in one compiled loop: column, frequencies, bits, column ..., with nothing of Python between two symbols.

It composes the kernels of `fused_column`, `fused` and `mixing`; the bits are theirs. Threads that learn meanwhile go on.
"""

from typing import Any

import numpy as np

from prequential.exact.bit_coder import BitCoder
from prequential.exact.fused import _frequencies, _integer_frequency_table
from prequential.exact.fused_column import Column, _logits
from prequential.exact.fused_loops import Array, kernel
from prequential.exact.mixing import code_mixed, code_plain


def find_symbols(
    previous: int, symbols: Array, column: Column, mixer: tuple[Array, ...] | None, coder: BitCoder
) -> float:
    """Fills in the open segment's symbols (n,) int64, the first of which follows `previous`; returns their ideal bits.

    mixer: the arrays of a Mixer, or None to decode under the GPT's frequencies alone.
    """
    arguments = (previous, symbols, _integer_frequency_table(), column.arguments)
    if mixer is None:
        return float(_find_plain(*arguments, coder.state, coder.words))
    return float(_find_mixed(*arguments, mixer, coder.state, coder.words))


@kernel
def _find_mixed(
    previous: int, symbols: Array, table: Array, column: Any, mixer: Any, state: Array, words: Array
) -> float:
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    code_bits = 0.0
    for t in range(symbols.size):
        _logits(previous, t, *column, logits[0])
        _frequencies(logits, table, frequencies)
        code_bits += code_mixed(symbols[t : t + 1], frequencies, *mixer, state, words)
        previous = symbols[t]
    return code_bits


@kernel
def _find_plain(previous: int, symbols: Array, table: Array, column: Any, state: Array, words: Array) -> float:
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    code_bits = 0.0
    for t in range(symbols.size):
        _logits(previous, t, *column, logits[0])
        _frequencies(logits, table, frequencies)
        code_bits += code_plain(symbols[t : t + 1], frequencies, state, words)
        previous = symbols[t]
    return code_bits
