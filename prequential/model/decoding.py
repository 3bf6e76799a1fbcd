"""A segment decoded in one compiled loop: column, frequencies, bits, column ..., with nothing of Python between two symbols.

It composes the kernels of `fused_column`, `fused` and `mixing`; the bits are theirs. Threads that learn meanwhile go on.
"""

from typing import Any

import numpy as np

from prequential.codecs.bit_coder import BitCoder
from prequential.exact.fused import fill_frequencies, integer_frequency_table
from prequential.exact.fused_loops import Array, inlined, kernel
from prequential.model.gpt.column import Column, fill_logits
from prequential.model.mixer.mixing import code_mixed, code_plain


def find_symbols(
    recent: Array, symbols: Array, column: Column, mixer: tuple[Any, ...] | None, coder: BitCoder
) -> Array:
    """Fills in the open segment's symbols (n,) int64, the first of which follows `recent` (E,) int64, newest first.

    mixer: the arguments of a Mixer, or None to decode under the GPT's frequencies alone. Returns the frequencies under which the
    bits were coded: (n, 8) uint16, of a total of 2**16.
    """
    coded = np.empty((len(symbols), 8), np.uint16)
    arguments = (recent, symbols, coded, integer_frequency_table(), column.arguments)
    if mixer is None:
        _find_plain(*arguments, coder.state, coder.words)
    else:
        _find_mixed(*arguments, mixer, coder.state, coder.words)
    return coded


@kernel
def _find_mixed(
    recent: Array, symbols: Array, coded: Array, table: Array, column: Any, mixer: Any, state: Array, words: Array
) -> None:
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        fill_logits(recent, t, *column, logits[0])
        fill_frequencies(logits, table, frequencies)
        code_mixed(symbols[t : t + 1], frequencies, coded[t : t + 1], *mixer, state, words)
        _move_on(recent, symbols[t])


@kernel
def _find_plain(
    recent: Array, symbols: Array, coded: Array, table: Array, column: Any, state: Array, words: Array
) -> None:
    logits, frequencies = np.empty((1, 256), np.float32), np.empty((1, 256), np.int32)
    for t in range(symbols.size):
        fill_logits(recent, t, *column, logits[0])
        fill_frequencies(logits, table, frequencies)
        code_plain(symbols[t : t + 1], frequencies, coded[t : t + 1], state, words)
        _move_on(recent, symbols[t])


@inlined
def _move_on(recent: Array, symbol: int) -> None:
    for e in range(recent.size - 1, 0, -1):
        recent[e] = recent[e - 1]
    recent[0] = symbol
