"""Copies of a context mixer for experiments: each begins in the same state, and does not see what happens to the others."""

import mmap
import os
from collections.abc import Iterator, Sequence
from copy import copy
from typing import cast

import numpy as np

from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import MixerArrays

Arrays = tuple[np.ndarray, ...]


def mixer_copies(mixer: Mixer, n_copies: int) -> Iterator[Mixer]:
    """Yields copies of the mixer. Each is valid until the next one is requested."""
    has_private_mappings = hasattr(os, "memfd_create") and hasattr(mmap, "MADV_DONTNEED")
    arrays, other, learns = cast(Arrays, mixer.arrays[:-1]), copy(mixer), mixer.arrays.learns
    for copied in _mapped_copies(arrays, n_copies) if has_private_mappings else _plain_copies(arrays, n_copies):
        other.arrays = MixerArrays._make([*copied, learns])
        yield other


def _plain_copies(arrays: Arrays, n_copies: int) -> Iterator[Arrays]:
    for _ in range(n_copies):
        yield tuple(array.copy() for array in arrays)


def _mapped_copies(arrays: Arrays, n_copies: int) -> Iterator[Arrays]:
    """Private mappings of one file in memory. Only pages that change are copied, instead of hundreds of megabytes."""
    sizes = [-(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE for array in arrays]
    file = os.memfd_create("mixer")
    try:
        os.truncate(file, sum(sizes))
        shared = mmap.mmap(file, sum(sizes), mmap.MAP_SHARED)
        for view, array in zip(_views(shared, arrays, sizes), arrays, strict=True):
            view[...] = array
        private = mmap.mmap(file, sum(sizes), mmap.MAP_PRIVATE)
        views = _views(private, arrays, sizes)
        for _ in range(n_copies):
            yield views
            private.madvise(mmap.MADV_DONTNEED)  # drops the pages that have changed
    finally:
        os.close(file)


def _views(memory: mmap.mmap, arrays: Arrays, sizes: Sequence[int]) -> Arrays:
    """Arrays of the same types and shapes, one after the other in `memory`, with so many bytes for each."""
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    return tuple(
        np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
        for array, start in zip(arrays, starts, strict=True)
    )
