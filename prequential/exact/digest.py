"""Digest of a set of arrays: a few bytes that two machines compare instead of gigabytes.

XXH3-128 hashes the bytes of each array, at about 10 GB/s, so a digest per block costs little. BLAKE2b hashes names, dtypes,
shapes and those hashes. The digest detects faults, but it does not resist an adversary. Archives have a strong hash of the
original for that.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from prequential.exact.host import to_array

if TYPE_CHECKING:
    import torch


def digest(arrays: Mapping[str, "np.ndarray | torch.Tensor"], n_bytes: int = 8) -> bytes:
    """A digest of `n_bytes` bytes. It depends only on the names, dtypes, shapes and values of the arrays, or tensors.

    Arrays are hashed in the order of their names, values as little-endian bytes in row-major order. Two values are equal only
    if their bits are equal: 0.0 and -0.0 differ.
    """
    outer = hashlib.blake2b(digest_size=n_bytes)
    for name in sorted(arrays):
        array = to_array(arrays[name])
        outer.update(f"{name} {array.dtype} {array.shape}\n".encode())
        outer.update(
            xxhash.xxh3_128_digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
        )
    return outer.digest()
