"""Arrays of numpy and tensors of torch: one as the other, digests, and random numbers. It needs no torch.

A digest is a few bytes that two machines compare instead of gigabytes: BLAKE2b of names, dtypes, shapes and XXH3-128 of the bytes
of each array, at about 10 GB/s. It detects faults, but does not resist an adversary; archives have a strong hash for that.

Random numbers are Philox-4x64-10 (Salmon et al. 2011) of a counter. The key is a hash of the seed and a name, so the numbers for
one purpose do not depend on the order of the calls.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

if TYPE_CHECKING:
    import torch


def to_array(values: "np.ndarray | torch.Tensor") -> np.ndarray:
    """An array as it is, or a tensor as an array: in the same memory if it is on the processor, else a copy."""
    tensor: Any = values
    return values if isinstance(values, np.ndarray) else tensor.detach().cpu().numpy()


def to_tensor(array: np.ndarray) -> "torch.Tensor":
    """A tensor in the array's memory."""
    import torch

    return torch.from_numpy(array)


def digest(arrays: Mapping[str, "np.ndarray | torch.Tensor"], n_bytes: int = 8) -> bytes:
    """A digest of `n_bytes` bytes. It depends only on the names, dtypes, shapes and values of the arrays, or tensors.

    Arrays are hashed in the order of their names, values as little-endian bytes in row-major order. Two values are equal only
    if their bits are equal: 0.0 and -0.0 differ.
    """
    outer = hashlib.blake2b(digest_size=n_bytes)
    for name in sorted(arrays):
        array = to_array(arrays[name])
        outer.update(f"{name} {array.dtype} {array.shape}\n".encode())
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
        outer.update(xxhash.xxh3_128_digest(data))
    return outer.digest()


def random_words(seed: int, name: str, n: int) -> np.ndarray:
    """(n,) uint64: the first n outputs of Philox for this seed and name."""
    key = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest(), "little")
    return np.random.Philox(key=key).random_raw(n)


def uniform(seed: int, name: str, shape: tuple[int, ...], half_width: float) -> np.ndarray:
    """A float32 array of this shape, uniform on a grid of 2**23 points in [-half_width, half_width).

    Each entry is (top 23 bits of a Philox word - 2**22) * 2**-22 * half_width, rounded once to float32.
    """
    n = int(np.prod(shape))
    centred = (random_words(seed, name, n) >> np.uint64(41)).astype(np.int64) - (1 << 22)
    return ((centred * 2.0**-22).astype(np.float32) * np.float32(half_width)).reshape(shape)
