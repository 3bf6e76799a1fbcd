"""Digest of a set of tensors: one number that two machines compare instead of gigabytes.

Each tensor's bytes go through XXH3-128 (some 10 GB/s, so a digest per block costs little); names, dtypes, shapes and those
hashes go through BLAKE2b. It detects faults, it does not resist an adversary: archives carry a strong hash of the original.
"""

import hashlib
from collections.abc import Mapping

import torch
import xxhash


def digest(tensors: Mapping[str, torch.Tensor], n_bytes: int = 8) -> bytes:
    """`n_bytes` of BLAKE2b over the tensors in name order; a function of names, dtypes, shapes and values only.

    Values are hashed as little-endian bytes in row-major order. Integers and floats are equal only if their bits are.
    """
    outer = hashlib.blake2b(digest_size=n_bytes)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        outer.update(f"{name} {str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}\n".encode())
        values = tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b""
        outer.update(xxhash.xxh3_128_digest(values))
    return outer.digest()
