"""Rows of ids: their hashes, samples of their text, which of them were seen before, and a digest of which rows each step used.

A row is hashed where it is, on the device: the sum of (id + 128) times a fixed odd number for each column, modulo 2**64, which is
then mixed. Two different rows have one hash with a probability near 2**-64; of n rows, some two with n**2 / 2**65.

Text is recognised by its GRAMs, as many successive ids, at whichever place of a row: one in 256 is sampled, by its hash, so that
all its occurrences are (winnowing: Schleimer, Wilkerson, Aiken 2003).
"""

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from prequential.exact.arrays import random_words

if TYPE_CHECKING:
    import torch

MAX_ROWS = 1 << 27  # hashes that a process keeps: 1 GiB
N_COLUMNS = 1 << 20  # of a usual row
HEAD = 16
GRAM, FACTOR = 32, 0x9E3779B97F4A7C15
N_NEGATIVE = 128  # above the negative numbers that mark what is ignored, so that no term is 0
MASK = (1 << 64) - 1


@lru_cache(maxsize=16)
def _multipliers(name: str, device: str, n: int) -> "torch.Tensor":
    import torch

    return torch.from_numpy(random_words(0, f"rows/{name}", n).view(np.int64) | 1).to(device)


def hash_rows(ids: "torch.Tensor", name: str, within: "torch.Tensor | None" = None) -> "torch.Tensor":
    """A hash of each row, (rows,) int64 on the device of the ids, (rows, columns) int64. Names give different hashes.

    within (rows, columns): 0 where a column does not count.
    """
    n = max(N_COLUMNS, 1 << ids.shape[1].bit_length())  # a longer list begins with the shorter one
    terms = (ids + N_NEGATIVE) * _multipliers(name, str(ids.device), n)[: ids.shape[1]]
    return (terms if within is None else terms * within).sum(1)


def sampled_grams(ids: "torch.Tensor", used: "torch.Tensor") -> "torch.Tensor":
    """Hashes of the sampled GRAMs of each row, (rows, n) int64 on the device of the ids, (rows, columns) int64; 0: none.

    used (rows, columns): whether an id counts. Only GRAMs of such ids do. Nothing is synchronised, so n is fixed: of a row with
    more than about twice the expected number, the last ones are left out.
    """
    import torch

    hashes, n = (ids + N_NEGATIVE) * _signed(FACTOR), 1
    while n < GRAM:  # of 2 ids, 4, 8, ...: the sum of (id + 128) * FACTOR**place
        hashes, used = hashes[:, :-n] * _signed(FACTOR**n) + hashes[:, n:], used[:, :-n] & used[:, n:]
        n *= 2
    sampled, most = (hashes >> 56 == 0) & used, hashes.shape[1] // 128 + 8
    places = torch.where(sampled, sampled.cumsum(1) - 1, most).clamp(max=most)
    return hashes.new_zeros(len(hashes), most + 1).scatter_(1, places, hashes)[:, :most]


def _signed(number: int) -> int:
    """The number modulo 2**64, as int64."""
    return (number + (1 << 63) & MASK) - (1 << 63)


def head_hashes(ids: "torch.Tensor") -> "torch.Tensor":
    """A hash of the first HEAD columns of each row, by which calls of the model and scores are matched. Never 0."""
    return hash_rows(ids[:, :HEAD], "head") | 1


def mix(hashes: np.ndarray) -> np.ndarray:
    """A permutation of 64-bit numbers, (n,) uint64, after which every bit depends on every bit (SplitMix64, Steele 2014)."""
    with np.errstate(over="ignore"):
        x = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class SeenRows:
    """The rows that were seen, by their hashes. It keeps at most `max_rows`: what comes later is looked up, but not kept.

    Sorted arrays of growing length: a row costs 8 bytes, and a look-up a binary search in each of a few arrays.
    """

    def __init__(self, keys: np.ndarray | None = None, max_rows: int = MAX_ROWS) -> None:
        self._runs = [np.sort(keys)] if keys is not None and len(keys) else []
        self.max_rows = max_rows

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def is_full(self) -> bool:
        """Whether it keeps no further rows."""
        return len(self) >= self.max_rows

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Which of the keys (n,) uint64 are new, (n,) bool. Of equal keys the first one is."""
        _, first = np.unique(keys, return_index=True)
        is_new = np.zeros(len(keys), np.bool_)
        is_new[first] = True
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            is_new &= run[places] != keys
        if not self.is_full:
            self._keep(np.sort(keys[is_new]))
        return is_new

    def _keep(self, run: np.ndarray) -> None:
        if not len(run):
            return
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate((self._runs[-1], last)), kind="stable")

    def keys(self) -> np.ndarray:
        """All keys, (n,) uint64, ascending."""
        return np.sort(np.concatenate([*self._runs, np.empty(0, np.uint64)]))


def chained(before: str, total: int, n_rows: int) -> str:
    """The digest after one more step, whose rows have this sum of mixed hashes. Their order within a step does not matter."""
    step = (total & MASK).to_bytes(8, "little") + n_rows.to_bytes(8, "little")
    return hashlib.blake2b(bytes.fromhex(before) + step, digest_size=32).hexdigest()
