"""How the threads of a mixer hand over numbers: rows of a board, each written by one thread only.

A row fills two cache lines. Its last number says to which byte or bit of the call the others belong, and is written last. That of
BYTE is negative where the other threads have to finish their byte and wait. The first row is written before and after a call.
"""

from typing import Any

import numpy as np

from prequential.machine.atomics import doze, load, pause, store
from prequential.machine.compiled import Array, inlined

WIDTH = 32  # numbers of a row, int32
SETTINGS, BYTE, ROWS, ERRORS = range(4)  # rows: settings; of the coding thread: a byte, rows of weights, bit and errors
COUNTS, SUMS, N_OF_THREAD = 0, 1, 2  # rows of each thread after those, by `row_of`
N_THREADS, STOP = 0, 1  # of SETTINGS
BIT, COMMON, FIRST_ERROR = 0, 1, 2  # of ERRORS
# A waiting thread looks so often at once, then so often with pauses, and then it sleeps between looks. Many pauses in sequence
# let a hypervisor take the processor away, for longer than most waits last. A sleep takes 0.1 to 0.2 ms, and the others must not
# fall asleep meanwhile: then each would always wait for the other to wake up.
LOOKS, PAUSES = 10000, 20000
ALONE, LEAVE = -1, -2  # numbers of BYTE: wait for the next byte; return
STOPPED = -3
LINES_BYTES = 128


def apart(shape: int | tuple[int, ...], dtype: Any = np.int64) -> Array:
    """Zeros of this shape that share no cache line, nor the line beside it, with other arrays."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(-(-n_bytes // LINES_BYTES) * LINES_BYTES + LINES_BYTES, np.uint8)
    start = -memory.ctypes.data % LINES_BYTES
    return memory[start : start + n_bytes].view(dtype).reshape(shape)


def new_board(n_threads: int) -> Array:
    """((ERRORS + 1 + N_OF_THREAD * n_threads) * WIDTH,) int32 zeros."""
    return apart((ERRORS + 1 + N_OF_THREAD * n_threads) * WIDTH, np.int32)


@inlined
def row_of(thread: int, which: int) -> int:
    """The row of the board in which a thread writes its COUNTS or SUMS."""
    return ERRORS + 1 + N_OF_THREAD * thread + which


@inlined
def publish(board: Array, row: int, number: int) -> None:
    """Ends the writing of a row: it belongs to this byte or bit."""
    store(board, row * WIDTH + WIDTH - 1, np.int32(number))  # type: ignore[arg-type]


@inlined
def number_of(board: Array, row: int) -> Any:
    """To which byte or bit a row belongs now."""
    return np.int64(load(board, row * WIDTH + WIDTH - 1))


@inlined
def wait(board: Array, row: int, number: int) -> Any:
    """Returns when the row belongs to this byte or bit: how often this thread slept meanwhile, or STOPPED if all must stop."""
    n: Any = 0
    while number_of(board, row) != number:
        n += 1
        if not await_more(board, n):
            return STOPPED
    return max(n - LOOKS - PAUSES, 0)


@inlined
def wait_for_other(board: Array, row: int, number: int) -> Any:
    """Returns when the row no longer belongs to this byte: to which it belongs then, or STOPPED if all must stop."""
    n: Any = 0
    while number_of(board, row) == number:
        n += 1
        if not await_more(board, n):
            return STOPPED
    return number_of(board, row)


@inlined
def await_more(board: Array, n: int) -> bool:
    """Passes some time before the n-th look after the first. False if all must stop."""
    if n > LOOKS:
        pause()
    if n > LOOKS + PAUSES:
        if load(board, STOP) != 0:
            return False
        doze()
    return True
