"""What each thread does with its share of the contexts and columns; and the threads that do no more than that."""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined, sharing_kernel, span
from prequential.model.mixer.arrays import MixerArrays, Share
from prequential.model.mixer.contexts import N_HASHES, hash_of
from prequential.model.mixer.evidence import learn_contexts, read_contexts
from prequential.model.mixer.exchange import (
    ALONE,
    BIT,
    BYTE,
    COMMON,
    COUNTS,
    ERRORS,
    FIRST_ERROR,
    ROWS,
    STOPPED,
    SUMS,
    WIDTH,
    publish,
    row_of,
    wait,
    wait_for_other,
)
from prequential.model.mixer.lookup import fetch, fetch_second_halves, find_contexts, find_second_halves, remember
from prequential.model.mixer.sets import count_known
from prequential.model.mixer.weights import N_SUMS, learn_columns, sum_columns


@inlined
def take_hashes(byte: int, kinds: Array, every_hash: Array, share: Share) -> None:
    """The hashes of the share's contexts for this byte; the memory begins to fetch what they need."""
    share.took[0] = byte
    kind, code = every_hash[N_HASHES], every_hash[N_HASHES + 1]
    for c in span(share.places.first, share.places.stop):
        h = hash_of(every_hash, kinds, kind, code, c)
        share.next_hashes[c] = h
        fetch(share.places, c, h)


@inlined
def open_byte(share: Share) -> None:
    for c in span(share.places.first, share.places.stop):
        share.places.hashes[c] = share.next_hashes[c]
    find_contexts(share.places)


@inlined
def node_of(prefix: int, k: int) -> Any:
    """The node of a bucket for the next bit."""
    return prefix if k < 4 else (prefix & ((1 << (k - 4)) - 1)) | (1 << (k - 4))


@inlined
def learn_share(bit: int, prefix: int, k: int, common: Any, share: Share) -> None:
    learn_contexts(bit, node_of(prefix, k), share.places, share.evidence)
    learn_columns(common, share.evidence.inputs, share.columns)


@sharing_kernel
def serve_share(thread: int, every_hash: Array, mixer: MixerArrays, share: Share, board: Array) -> None:
    """Looks after a share while another thread codes, until that thread says LEAVE."""
    n_sets = share.columns.rows.size
    counts, sums = board[row_of(thread, COUNTS) * WIDTH :], board[row_of(thread, SUMS) * WIDTH :]
    rows, errors = board[ROWS * WIDTH :], board[ERRORS * WIDTH :]
    byte: Any = wait_for_other(board, BYTE, 0)
    while True:
        while byte == ALONE:
            byte = wait_for_other(board, BYTE, byte)
        if byte < 0:  # LEAVE, or STOPPED
            return
        if share.took[0] != byte:
            take_hashes(byte, mixer.kinds, every_hash, share)
        share.took[0] = 0  # the next call counts from 1 again
        open_byte(share)
        count_known(share.places, mixer.groups, counts)
        publish(board, row_of(thread, COUNTS), byte)
        prefix: Any = 1
        for k in range(8):
            number = 8 * byte + k
            if k == 4:
                find_second_halves(share.places, prefix)
            read_contexts(prefix, k, node_of(prefix, k), share.places, share.evidence)
            if wait(board, ROWS, number) == STOPPED:
                return
            for s in range(n_sets):
                share.columns.rows[s] = rows[s]
            sum_columns(share.evidence.inputs, share.columns, sums[: n_sets + N_SUMS])
            publish(board, row_of(thread, SUMS), number)
            if wait(board, ERRORS, number) == STOPPED:
                return
            bit, common = np.int64(errors[BIT]), errors[COMMON]
            if k == 3:
                fetch_second_halves(share.places, prefix << 1 | bit)
            if mixer.learns:
                for s in range(n_sets):
                    share.columns.errors[s] = errors[FIRST_ERROR + s]
                learn_share(bit, prefix, k, common, share)
            prefix = prefix << 1 | bit
        done, byte = byte, wait_for_other(board, BYTE, byte)
        if byte > 0:
            take_hashes(byte, mixer.kinds, every_hash, share)
        if mixer.learns:
            remember(share.places, prefix & 255)
        publish(board, row_of(thread, COUNTS), -done)
