"""Corpora whose windows were chosen to collide take no longer than others.

The chosen ones would collide in tables with a known hash: each of n would be compared with n / 2 others on average.
"""

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from prequential_corpora.bundled import sample_path

from prequential.evaluation import novelty
from prequential.evaluation.novelty import Copies

Bytes = NDArray[np.uint8]
FACTOR = np.uint64(0x9E3779B97F4A7C15)
N_CHOSEN = 1 << 15
MOST_TIMES_LONGER = 5  # with a known hash: 7


def seconds(work: Callable[[], object]) -> float:
    """The shortest of three runs; kernels are compiled in the first."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def chosen_rows(hashes_of: Callable[[Bytes], NDArray[np.uint64]], shape: tuple[int, int], n_slots: int) -> Bytes:
    """Rows of letters, (n, width), of which all belong to the first 256th of the slots under a known hash."""
    random, found, n_found = np.random.default_rng(1), [], 0
    while n_found < shape[0]:
        rows = random.integers(0x61, 0x7B, (1 << 19, shape[1])).astype(np.uint8)
        found.append(rows[(hashes_of(rows) & np.uint64(n_slots - 1)) < n_slots // 256])
        n_found += len(found[-1])
    return np.concatenate(found)[: shape[0]]


def window_homes(rows: Bytes) -> NDArray[np.uint64]:
    """The home slots of windows of 32 bytes in a table with a known hash, before they are masked."""
    windows = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        windows = windows * FACTOR + column
    mixed = (windows ^ windows >> np.uint64(29)) * FACTOR
    return (mixed ^ mixed >> np.uint64(32)) >> np.uint64(32)


@pytest.mark.first_quick
def test_chosen_windows_take_no_longer_than_others() -> None:
    shape = N_CHOSEN, 32
    n_bytes = shape[0] * (shape[1] + 1)
    chosen = chosen_rows(window_homes, shape, 1 << (n_bytes + n_bytes // 2).bit_length())
    others = np.random.default_rng(2).integers(0x61, 0x7B, chosen.shape).astype(np.uint8)

    def labelled(rows: Bytes) -> float:
        source = np.append(rows, np.full((len(rows), 1), 0x20, np.uint8), 1).reshape(-1)
        return seconds(lambda: Copies(source).next_labels(0, len(source)))

    labelled(others[:10])
    assert labelled(chosen) < MOST_TIMES_LONGER * labelled(others)


def test_the_key_depends_on_every_byte() -> None:
    source = np.frombuffer(sample_path("christmas_carol").read_bytes()[:30_000], np.uint8).copy()
    point = novelty.hash_point(source)
    for at in (0, len(source) // 2, len(source) - 1):
        source[at] ^= 1
        assert novelty.hash_point(source) != point
        source[at] ^= 1
