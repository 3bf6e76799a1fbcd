"""Random numbers from a counter: Philox-4x64-10 (Salmon et al. 2011).

The key is a hash of the seed and a name, so the numbers for one purpose do not depend on the order of the calls.
"""

import hashlib

import numpy as np


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
