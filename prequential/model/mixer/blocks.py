"""The blocks of contexts: each owns a part of both tables and its own columns of all weights.

So several threads can mix at once, each some blocks, and the bits do not depend on how many threads do: blocks depend on the
configuration only. The first block has the inputs that belong to no context, and the contexts that select weights. One thread
needs these to code, and it always has the first block.

A block has BLOCK_INPUTS inputs, which fill two cache lines of a row of weights: no line is written by two threads.
"""

from collections.abc import Sequence

import numpy as np

from prequential.machine.compiled import Array
from prequential.model.config import MixerConfig
from prequential.model.mixer.evidence import INPUTS_PER_CONTEXT
from prequential.model.mixer.lookup import WAYS
from prequential.model.mixer.sets import STATE_CONTEXTS

BLOCK_INPUTS = 64
LANES = 32  # the number of columns is a multiple of it: whole cache lines
# Inputs that do not belong to a context or a map of curves: the bias; four of the matches; four of the orders 0 and 1; two of
# the GPT.
EXTRA_INPUTS = 11
CODING_BLOCKS = 1.5  # coding takes as long as so many blocks (dev/LOG.md)


def in_order(names: Sequence[str]) -> list[str]:
    """The contexts in the order of the mixer: first those that select weights, which belong to the first block."""
    return [name for name in STATE_CONTEXTS if name in names] + [name for name in names if name not in STATE_CONTEXTS]


def first_contexts(config: MixerConfig) -> Array:
    """(blocks + 1,) int64: the first context of each block; at the end, the number of contexts."""
    n = len(config.contexts)
    first = (BLOCK_INPUTS - EXTRA_INPUTS - len(config.curves)) // INPUTS_PER_CONTEXT
    starts = range(min(first, n), n, BLOCK_INPUTS // INPUTS_PER_CONTEXT)
    return np.array([0, *starts, n], np.int64)


def columns_of(config: MixerConfig) -> tuple[Array, int]:
    """(C,) uint64: the first column of each context's inputs; and the number of columns."""
    starts, n = first_contexts(config), len(config.contexts)
    block = np.searchsorted(starts, np.arange(n), "right") - 1
    extra = EXTRA_INPUTS + len(config.curves)
    columns = block * BLOCK_INPUTS + (np.arange(n) - starts[block]) * INPUTS_PER_CONTEXT + np.where(block, 0, extra)
    used = int(columns[-1]) + INPUTS_PER_CONTEXT
    return columns.astype(np.uint64), -(-used // LANES) * LANES


def regions_of(config: MixerConfig) -> Array:
    """(C, 2) int64: the first row of the table that a context of each block may use, and how many it may use.

    The same parts of the deterministic entries belong to it.
    """
    starts, n = first_contexts(config), len(config.contexts)
    n_blocks, least = len(starts) - 1, np.arange(len(starts))  # one group of rows for each
    bounds = WAYS * (least + starts * ((1 << config.table_bits) // WAYS - n_blocks) // n)
    return np.repeat(np.stack((bounds[:-1], np.diff(bounds)), 1), np.diff(starts), 0)


def group_starts(config: MixerConfig, n_groups: int) -> Array:
    """(n_groups + 1,) int64: the first block of each group of blocks. A thread looks after one or several groups.

    The first one is for the thread that codes, so it is smaller. No group is empty: there are at most as many as blocks.
    """
    n_blocks = len(first_contexts(config)) - 1
    if n_groups == 1:
        return np.array([0, n_blocks])
    first = max(1, round((n_blocks + CODING_BLOCKS) / n_groups - CODING_BLOCKS))
    return np.concatenate(([0], first + np.arange(n_groups) * (n_blocks - first) // (n_groups - 1)))


def shares(n_groups: int, n_threads: int) -> Array:
    """(n_threads + 1,) int64: the first group of each thread."""
    return np.arange(n_threads + 1) * n_groups // n_threads
