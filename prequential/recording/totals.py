"""What a training run has cost so far: rows counted once and rows counted apart, the curve, and which rows each step used.

All sums are of integers, so their order does not matter: two ranks give what one gives, and a resumed run what a whole one gives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.evaluation.curves import GROUP, MODEL, Curve
from prequential.exact.arrays import random_words
from prequential.records import digest_of

MAX_ROWS = 1 << 27  # hashes that a process keeps: 1 GiB
N_COLUMNS = 1 << 20  # of a usual row
HEAD = 16
GRAM, FACTOR = 32, 0x9E3779B97F4A7C15
N_NEGATIVE = 128  # above the negative numbers that mark what is ignored, so that no term is 0
MASK = (1 << 64) - 1


@lru_cache(maxsize=16)
def _multipliers(name: str, device: str, n: int) -> torch.Tensor:
    return torch.from_numpy(random_words(0, f"rows/{name}", n).view(np.int64) | 1).to(device)


def hash_rows(ids: torch.Tensor, name: str, within: torch.Tensor | None = None) -> torch.Tensor:
    """A hash, (rows,) int64, of each row of ids (rows, columns) int64, by name. within (rows, columns): 0: does not count."""
    n = max(N_COLUMNS, 1 << ids.shape[1].bit_length())  # a longer list begins with the shorter one
    terms = (ids + N_NEGATIVE) * _multipliers(name, str(ids.device), n)[: ids.shape[1]]
    return (terms if within is None else terms * within).sum(1)


def sampled_grams(ids: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """Hashes of the sampled GRAMs of each row, (rows, n) int64 on the device of the ids, (rows, columns) int64; 0: none.

    used (rows, columns): whether an id counts. Only GRAMs of such ids do. Nothing is synchronised, so n is fixed: of a row with
    more than about twice the expected number, the last ones are left out.
    """
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


def head_hashes(ids: torch.Tensor) -> torch.Tensor:
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
        is_new = np.zeros(len(keys), np.bool_)
        is_new[np.unique(keys, return_index=True)[1]] = True
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            is_new &= run[places] != keys
        if is_new.any() and not self.is_full:
            self._runs.append(np.sort(keys[is_new]))
            while len(self._runs) > 1 and 2 * len(self._runs[-1]) >= len(self._runs[-2]):
                last = self._runs.pop()
                self._runs[-1] = np.sort(np.concatenate((self._runs[-1], last)), kind="stable")
        return is_new

    def keys(self) -> np.ndarray:
        """All keys, (n,) uint64, ascending."""
        return np.sort(np.concatenate([*self._runs, np.empty(0, np.uint64)]))


MAX_GROUPS, MAX_GROUP_POINTS, MAX_GROUP_CURVES = 1000, 1 << 10, 32
NO_GROUP, OTHERS = -1, -2  # codes of rows without a group, and of groups beyond MAX_GROUPS
MAX_POINTS = 1 << 16  # of the curve; beyond it every second one is dropped
COUNTS = ("n_rows", "n_tokens", "n_bytes")
MIN_SEEN = 8  # samples; fewer say nothing
MAX_SEEN = 0.02  # share of new targets in text that was seen, beyond which the sum is not the code length of the data
UNITS_PER_NAT = 1 / (math.log(2.0) * UNIT_BITS)


def _mark(points: list[tuple[int, int]], sums: Sequence[int]) -> None:
    """A point of a curve, where bytes were added; bits without bytes belong to the last one."""
    _, _, n_bytes, units = sums
    if points and points[-1][0] == n_bytes:
        points.pop()
    if n_bytes:
        points.append((n_bytes, units))


@dataclass
class Totals:
    """Sums up to a step. new, repeated: (rows, tokens, bytes, units of 2**-22 bits) of rows seen first and of rows seen again.

    rows, keys: sums of the mixed hashes of the new rows, of their targets alone, and with inputs. order: a chained digest of the
    rows of each step. points: (bytes, units) counted at the end of steps, every `stride` of them. steps: those that are in the
    sums. all_rows_kept: every row was looked up among all earlier ones. impossible: rows that are in no sum, by reason
    (account.IMPOSSIBLE).
    n_grams, n_grams_seen: sampled grams of new rows, and those that an earlier row had. n_checked_steps: those whose calls of the
    model were compared with their scores. n_samples, n_unknown: of text that was scored, and those not in the declared text.
    groups: sums as `new` by the code of their group; group_points: (bytes, units) of each at the end of steps, every
    `group_stride` of them; group_names: what a loop called them.
    """

    new: list[int] = field(default_factory=lambda: [0] * 4)
    repeated: list[int] = field(default_factory=lambda: [0] * 4)
    rows: int = 0
    keys: int = 0
    order: str = digest_of(b"")
    steps: int = 0
    all_rows_kept: bool = True
    points: list[tuple[int, int]] = field(default_factory=list)
    stride: int = 1
    impossible: dict[str, int] = field(default_factory=lambda: {"n_outside": 0, "n_not_finite": 0, "n_negative": 0})
    n_grams: int = 0
    n_grams_seen: int = 0
    n_checked_steps: int = 0
    n_samples: int = 0
    n_unknown: int = 0
    groups: dict[int, list[int]] = field(default_factory=dict)
    group_points: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    group_stride: int = 1
    group_names: dict[int, str] = field(default_factory=dict)

    def add_groups(self, codes: np.ndarray, sums: np.ndarray) -> None:
        """New rows of the step that `add_step` ends: the code of their group (n,), and their sums (n, 4)."""
        for code in np.unique(codes).tolist():
            is_kept = len(self.groups) < MAX_GROUPS or code in self.groups
            total = self.groups.setdefault(code if is_kept else OTHERS, [0] * 4)
            total[:] = [a + int(b) for a, b in zip(total, sums[codes == code].sum(0, dtype=object), strict=True)]
        if (self.steps + 1) % self.group_stride == 0:
            self._mark_groups()

    def _mark_groups(self) -> None:
        for code, sums in self.groups.items():
            _mark(self.group_points.setdefault(code, []), sums)
        if max(map(len, self.group_points.values()), default=0) > MAX_GROUP_POINTS:
            self.group_stride *= 2
            self.group_points = {code: points[1::2] for code, points in self.group_points.items()}

    def _named_groups(self) -> dict[int, str]:
        """The codes of groups with bytes, the largest first, and their names; {} if the loop gave none."""
        if not self.groups.keys() - {NO_GROUP}:
            return {}
        names = {NO_GROUP: "no group", OTHERS: "other groups", **self.group_names}
        codes = sorted(self.groups, key=lambda code: (-self.groups[code][2], code))
        return {code: names.get(code, str(code)) for code in codes if self.groups[code][2]}

    def group_table(self) -> dict[str, Any]:
        """Of new rows, a row for each group with bytes, the largest first; {} if the loop gave none. They sum to `new`."""
        rows = []
        for code, name in self._named_groups().items():
            _, n_tokens, n_bytes, units = self.groups[code]
            bits = {MODEL: units * UNIT_BITS}
            rows.append({"name": name, "n_bytes": n_bytes, "n_tokens": n_tokens, "bits": bits})
        return {"groups": {"rows": rows}} if rows else {}

    def add_step(self, sums: np.ndarray, new: Sequence[int], hashes: np.ndarray) -> None:
        """The next step. sums (2, 4): of new and of repeated rows. new: the sums for `rows` and `keys`. hashes (n,): of all."""
        for total, part in ((self.new, sums[0]), (self.repeated, sums[1])):
            total[:] = [a + int(b) for a, b in zip(total, part, strict=True)]
        self.rows, self.keys = ((total + part) & MASK for total, part in zip((self.rows, self.keys), new, strict=True))
        step = int(hashes.sum(dtype=np.uint64)).to_bytes(8, "little") + len(hashes).to_bytes(8, "little")
        self.order = digest_of(bytes.fromhex(self.order) + step)
        self.steps += 1
        if self.steps % self.stride == 0:
            _mark(self.points, self.new)
        if len(self.points) > MAX_POINTS:
            self.stride *= 2
            self.points = self.points[1::2]

    @property
    def code_bits(self) -> float:
        """The code length of the new rows."""
        return self.new[3] * UNIT_BITS

    def not_of_the_data(self) -> list[str]:
        """Why the sum is not the code length of the data; nothing, if nothing is known against it.

        Of data with half of MAX_SEEN, a run reaches MIN_SEEN and MAX_SEEN by chance in one of 20 cases, or fewer.
        """
        if self.n_grams_seen < max(MIN_SEEN, MAX_SEEN * self.n_grams):
            return []
        share = self.n_grams_seen / self.n_grams
        return [
            f"{share:.1%} or more of the new targets lie in text that an earlier row had (random crops, rows packed anew): "
            "unless the data repeat themselves, this is not the code length of the data"
        ]

    def rows_digest(self) -> str:
        """A digest of the new rows, in whichever order they came."""
        return digest_of(self.rows.to_bytes(8, "little") + self.new[0].to_bytes(8, "little"))

    def curves(self) -> dict[str, Curve]:
        """Cumulative bits at the ends of steps, up to the end, of all new rows, and of each group against its own bytes."""
        _mark(self.points, self.new)
        self._mark_groups()
        groups = list(self._named_groups().items())[:MAX_GROUP_CURVES]
        named = {MODEL: self.points} | {f"{GROUP}{name}": self.group_points[code] for code, name in groups}
        parts = {name: np.array(points, np.float64).T for name, points in named.items()}
        return {name: Curve(n_bytes=x.astype(np.int64), bits=units * UNIT_BITS) for name, (x, units) in parts.items()}

    def metrics(self) -> dict[str, float]:
        """The sums by names for a logger; {} before the first reading, as zeros would be wrong figures."""
        _, n_tokens, n_bytes, _ = self.new
        figures = {
            "steps": self.steps,
            "tokens": n_tokens,
            "bytes": n_bytes,
            "bits": self.code_bits,
            "bits_per_byte": self.code_bits / max(1, n_bytes),
            "repeated_tokens": self.repeated[1],
            "seen_text_share": self.n_grams_seen / max(1, self.n_grams),
            "not_finite_rows": self.impossible["n_not_finite"],
        }
        return {f"prequential/{name}": value for name, value in figures.items() if self.steps}

    def record(self) -> dict[str, Any]:
        """The sums by their names in the record, in bits."""
        parts = {
            name: dict(zip(COUNTS, sums, strict=False)) | {"code_bits": sums[3] * UNIT_BITS}
            for name, sums in (("new", self.new), ("repeated", self.repeated))
        }
        plain = ("n_grams", "n_grams_seen", "all_rows_kept", "order", "n_checked_steps")
        n_rows = self.new[0] + self.repeated[0] + sum(self.impossible.values())
        return {"n_rows": n_rows, **parts, **self.impossible, **{name: getattr(self, name) for name in plain}}
