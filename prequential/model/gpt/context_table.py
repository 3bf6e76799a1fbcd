"""Embeddings of contexts: additional inputs of the GPT, each for several of the last symbols together.

A context is hashed to a row of one table, which all contexts share. Rows hold integers of 16 bits, in units of 2**-12, so their
sum at a position is exact. A step changes only the rows of its own contexts. The optimiser is Adagrad (Duchi et al. 2011) with
one step size per row: the gradient is divided by the root of the sum of the row's mean squares so far, so rare contexts take
large steps.

A row that has learned what follows its context answers too well when that place is replayed, and the other weights would learn
to rely on it. So a memory, if the configuration has one, keeps the sum of rows at each of the last symbols as it was when the
symbol was new, as int8 levels times a power of two. Replayed places get that sum, and their gradient does not change the table.

Letters as in weights.py; K contexts, U distinct rows that a step touches.
"""

import math
from copy import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from prequential.exact.backend import Primitives
from prequential.exact.fused_loops import INVERSE_INT8_LIMIT, ONE, SMALLEST_SCALE, levels_per_unit, round_row_to_int8
from prequential.exact.plain import TINY, peak_of
from prequential.machine.atomics import prefetch
from prequential.machine.compiled import Array, helper, inlined, kernel
from prequential.model.config import CONTEXT_REACH, GPT_CONTEXTS, HASHED_CONTEXTS, GPTConfig
from prequential.model.hashing import hashed, is_letter

Tensor = torch.Tensor

UNITS = 4096.0  # of a row's numbers in 1
MAX_LEVEL = (1 << 15) - 1
CHANGE_LIMIT = 2.0 * MAX_LEVEL  # of a row's numbers in a step
TENSORS = ("rows", "squares", "levels", "shifts")  # of a ContextTable
MOST_SHIFTS = 17  # of a sum below 2**24


class StagedStep(NamedTuple):
    """What a step will write."""

    rows: Tensor  # (U,) int64: rows of the table
    change: Tensor  # (U, D) int32: what is subtracted from them
    places: Tensor  # (N,) int64: places in memory, of new positions
    levels: Tensor  # (N, D) int8: what is kept there
    shifts: Tensor  # (N,) int8


class ContextTable:
    """Rows (2**context_bits, D) int16 in units of 1 / UNITS, initially zero, and a memory of sums of rows.

    `stage_update` computes a step and `commit` writes it, after the segment has ended and nothing reads the rows.
    """

    def __init__(self, config: GPTConfig, ops: Primitives) -> None:
        self.kinds: NDArray[np.int64] = np.array([GPT_CONTEXTS.index(name) for name in config.contexts], np.int64)
        self.n_rows, self.n_places = 1 << config.context_bits if config.contexts else 0, config.n_places
        self.rows: Tensor = torch.zeros(self.n_rows, config.width, dtype=torch.int16)
        self.squares: Tensor = torch.zeros(self.n_rows)  # for each row, the sum of the mean squares of its gradients
        self.levels: Tensor = torch.zeros(self.n_places, config.width, dtype=torch.int8)
        self.shifts: Tensor = torch.zeros(self.n_places, dtype=torch.int8)
        self._step_size, self._ops = config.context_step, ops
        self.pending: list[StagedStep] = []

    def on_host(self) -> "ContextTable":
        """This table, or a copy on the host without staged updates."""
        return self

    def row_indices(self, recent: Tensor) -> Tensor:
        """The row of each context, (N, K) int64, at N positions described by `recent` (N, C) int64, on the host."""
        rows = np.empty((len(recent), len(self.kinds)), np.int64)
        if rows.size:
            context_rows(recent.contiguous().numpy(), self.kinds, self.n_rows, rows)
        return torch.from_numpy(rows)

    def add_to(self, h: Tensor, rows: Tensor) -> Tensor:
        """h (N, D) plus the sum of the rows at each position: (N, K), or (N, K + 1) with its place as in `GPT.update`."""
        k = len(self.kinds)
        if not k:
            return h
        sums = self.sums(rows[:, :k])
        if rows.shape[1] > k and self.n_places:
            sums = self._with_memory(sums, rows[:, k])
        return h + sums.to(h.device).float() * (1.0 / UNITS)  # below 2**15 * 2**8, so exact

    def sums(self, rows: Tensor) -> Tensor:
        """For each position, the sum of its rows (N, K): (N, D) int32 on the host."""
        sums = torch.empty(len(rows), self.rows.shape[1], dtype=torch.int32)
        sum_of_rows(self.rows.numpy(), rows.cpu().contiguous().numpy(), sums.numpy())
        return sums

    def _with_memory(self, sums: Tensor, places: Tensor) -> Tensor:
        """The sums (N, D). Replayed positions get the sum that is kept at their place. places (N,): as in `GPT.update`."""
        places = places.cpu()
        replayed = (places >= 0).nonzero()[:, 0]
        kept = places[replayed]
        sums[replayed] = self.levels[kept].to(torch.int32) << self.shifts[kept, None].to(torch.int32)
        return sums

    def gradient(self, g: Tensor, rows: Tensor) -> "ContextGradient":
        """The gradient from g (N, D) float32 at the input h. rows (N, K + 1): as for `add_to`. Replayed positions have none."""
        g, rows = g.cpu(), rows.cpu()  # a device may learn while the table is on the host
        is_new = rows[:, -1] < 0
        return ContextGradient(g[is_new], rows[is_new, :-1], rows[is_new, -1])

    def stage_update(self, gradient: "ContextGradient") -> None:
        """Computes a step for the rows that the gradient touches, and what is kept of its positions. `commit` writes both."""
        peak = peak_of(gradient.g) if len(gradient.g) else gradient.g.new_full((1,), TINY)
        if self._ops.COMPILED:
            g, rows, squares = gradient.g.contiguous(), gradient.rows.contiguous(), self.squares.numpy()
            found = row_changes(g.numpy(), np.float32(peak[0]), rows.numpy(), squares, np.float32(self._step_size))
            touched, change = map(torch.from_numpy, found)
        else:
            touched, change = self._changes(gradient, peak)
        kept = slice(None if self.n_places else 0)
        places, sums = ~gradient.places[kept], self.sums(gradient.rows[kept])
        self.pending.append(StagedStep(touched, change, places, *compressed(sums)))

    def _changes(self, gradient: "ContextGradient", peak: Tensor) -> tuple[Tensor, Tensor]:
        """`row_changes` by the primitives: the rows (U,) and what is subtracted from them, (U, D) int32."""
        touched, places = self._distinct(gradient.rows)
        levels = (gradient.g * (peak.reciprocal() * float(SUM_LIMIT))).round().to(torch.int32)
        sums = levels.new_zeros(len(touched), levels.shape[1])
        for column in places.t():
            sums.index_add_(0, column, levels)
        self.squares[touched], change = self._ops.adagrad_change(
            sums, peak * (1.0 / SUM_LIMIT), self.squares[touched], self._step_size, UNITS, CHANGE_LIMIT
        )
        return touched, change

    def _distinct(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The distinct rows among `rows` (N, K), and the place of each, (N, K)."""
        return torch.unique(rows, return_inverse=True)

    def commit(self) -> None:
        """Writes the staged updates."""
        for step in self.pending:
            self._subtract(step)
            self.levels[step.places], self.shifts[step.places] = step.levels, step.shifts
        self.pending.clear()

    def _subtract(self, step: StagedStep) -> None:
        subtract_rows(self.rows.numpy(), step.rows.numpy(), step.change.numpy(), MAX_LEVEL)

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, without staged updates; empty if there are no contexts."""
        if not len(self.kinds):
            return {}
        kept = {"contexts.levels": self.levels, "contexts.shifts": self.shifts} if self.n_places else {}
        return {"contexts": self.rows, "contexts.squares": self.squares, **kept}


def compressed(sums: Tensor) -> tuple[Tensor, Tensor]:
    """int8 levels (N, D) and shifts (N,): levels << shifts are the sums (N, D) int32, rounded to 8 bits. Sums are below 2**24."""
    # As many shifts as there are bounds that the largest sum reaches.
    bounds = 128 << torch.arange(MOST_SHIFTS, dtype=torch.int32, device=sums.device)
    shifts = (sums.abs().amax(1, keepdim=True) >= bounds).sum(1, dtype=torch.int32)
    half = (1 << shifts) >> 1
    levels = (sums + half[:, None]) >> shifts[:, None]
    return levels.clamp(-127, 127).to(torch.int8), shifts.to(torch.int8)


class ContextGradient(NamedTuple):
    """The gradient of a ContextTable.

    g (N, D) float32: the gradient at the input h, at new positions. rows (N, K) int64: the table rows that were added to h.
    places (N,) int64: of these positions, as in `GPT.update`.
    """

    g: Tensor
    rows: Tensor
    places: Tensor


# ---- on a device


class DeviceContextTable(ContextTable):
    """A copy of a table on a device, with the same bits. One more row and one more place take what a step does not need.

    No shape depends on the values, so that a step can be captured as a graph (device.py).
    """

    def __init__(self, table: ContextTable, device: torch.device, ops: Primitives) -> None:
        """table: on the host, without staged updates. ops: the primitives of the device."""
        self.__dict__.update(table.__dict__)
        self._ops = ops
        self._empty = copy(table)
        self.pending: list[StagedStep] = []
        for name in TENSORS:
            tensor: Tensor = getattr(table, name)
            setattr(self._empty, name, tensor[:0].clone())
            setattr(self, name, torch.cat((tensor, tensor.new_zeros(1, *tensor.shape[1:]))).to(device))

    def on_host(self) -> ContextTable:
        table = copy(self._empty)
        table.pending = []
        for name in TENSORS:
            setattr(table, name, getattr(self, name)[:-1].cpu())
        return table

    def sums(self, rows: Tensor) -> Tensor:
        return self.rows[rows].sum(1, dtype=torch.int32)

    def _with_memory(self, sums: Tensor, places: Tensor) -> Tensor:
        found = places.clamp_min(0)
        kept = self.levels[found].to(torch.int32) << self.shifts[found, None].to(torch.int32)
        return torch.where(places[:, None] < 0, sums, kept)

    def gradient(self, g: Tensor, rows: Tensor) -> ContextGradient:
        places, spare = rows[:, -1], len(self.levels) - 1
        is_new = places < 0
        rows = torch.where(is_new[:, None], rows[:, :-1], self.n_rows)
        return ContextGradient(torch.where(is_new[:, None], g, 0.0), rows, torch.where(is_new, places, ~spare))

    def _distinct(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return distinct(rows, self.n_rows)

    def _subtract(self, step: StagedStep) -> None:
        self.rows[step.rows] = (self.rows[step.rows] - step.change).clamp(-MAX_LEVEL, MAX_LEVEL).to(torch.int16)

    def state(self) -> dict[str, Tensor]:
        return {name: tensor[:-1] for name, tensor in super().state().items()}


def distinct(rows: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """The distinct rows among `rows` (N, K), ascending, (N * K,) filled up with n_rows; and the place of each, (N, K)."""
    ordered, order = rows.flatten().sort()
    is_new = torch.cat((ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).to(torch.int64)))
    number = is_new.cumsum(0)
    places = torch.empty_like(number).scatter_(0, order, number)
    found = torch.full_like(ordered, n_rows).scatter_(0, number, ordered)  # equal rows write the same value
    return found, places.view_as(rows)


# ---- kernels


LONGEST = 6  # contexts 0 .. LONGEST - 2 are the last 2 .. LONGEST symbols
N_HASHED = LONGEST + 1  # with the two of words
assert len(HASHED_CONTEXTS) == N_HASHED and CONTEXT_REACH >= LONGEST
LINE = 32  # numbers of a row in a line of the cache
SUM_LIMIT = 32767  # levels of a gradient: sums of 2**16 terms are below 2**31


@inlined
def context_hashes(recent: Array, all_hashes: Array) -> None:
    """all_hashes[kind] = the hash of one of HASHED_CONTEXTS, 32 bits. recent: at first the last CONTEXT_REACH symbols."""
    h = recent[0] + 1
    for e in range(1, LONGEST):
        h = hashed(h, recent[e] + 1)
        all_hashes[e - 1] = h
    # The current word: the letters back to the first other symbol. With the word before: back to the second other symbol.
    word, n_marks = 7, 0
    all_hashes[LONGEST - 1] = all_hashes[LONGEST] = word
    for e in range(CONTEXT_REACH):
        c = recent[e]
        if is_letter(c):
            word = hashed(word, c + 32 if 65 <= c <= 90 else c)
        else:
            n_marks += 1
            if n_marks == 2:
                break
            all_hashes[LONGEST - 1] = word
            word = hashed(word, 1)
    if n_marks == 0:
        all_hashes[LONGEST - 1] = word
    all_hashes[LONGEST] = word


@inlined
def fill_context_rows(recent: Array, kinds: Array, n_rows: int, all_hashes: Array, rows: Array) -> None:
    """rows[i] = the row of context kinds[i], below n_rows, a power of two. all_hashes: scratch memory, (N_HASHED,) int64."""
    context_hashes(recent, all_hashes)
    for i in range(kinds.size):
        value = all_hashes[kinds[i]] if kinds[i] < N_HASHED else recent[CONTEXT_REACH + kinds[i] - N_HASHED]
        rows[i] = (hashed(value, kinds[i] + 1) >> 3) & (n_rows - 1)


@kernel
def context_rows(recent: Array, kinds: Array, n_rows: int, rows: Array) -> None:
    """rows (N, K) int64 = the rows of the contexts kinds (K,) int64 at positions with the last symbols recent (N, C) int64."""
    all_hashes = np.zeros(N_HASHED, np.int64)
    for i in range(recent.shape[0]):
        fill_context_rows(recent[i], kinds, n_rows, all_hashes, rows[i])


@kernel
def sum_of_rows(table: Array, rows: Array, sums: Array) -> None:
    """sums (N, D) int32 = for each position, the sum of its rows (N, K) int64 of the table (2**context_bits, D) int16."""
    for i in range(rows.shape[0]):
        total, following = sums[i], rows[min(i + 1, len(rows) - 1)]
        for j in range(total.size):
            total[j] = 0
        for k in range(rows.shape[1]):
            for j in range(0, total.size, LINE):
                prefetch(table[following[k]], j)
            row = table[rows[i, k]]
            for j in range(total.size):
                total[j] += np.int32(row[j])


@kernel
def subtract_rows(table: Array, rows: Array, change: Array, limit: int) -> None:
    """table[rows[u]] -= change[u], clipped to `limit` in magnitude. rows (U,) int64: distinct; change (U, D) int32."""
    for u in range(rows.size):
        row, following = table[rows[u]], table[rows[min(u + 8, rows.size - 1)]]
        for j in range(0, row.size, LINE):
            prefetch(following, j)
        for j in range(row.size):
            row[j] = np.int16(max(-limit, min(limit, np.int32(row[j]) - change[u, j])))


@kernel
def row_changes(g: Array, peak: np.float32, rows: Array, squares: Array, step_size: np.float32) -> tuple[Array, Array]:
    """The distinct rows (U,) int64 among `rows` (N, K) int64, and what a step subtracts from them, (U, D) int32.

    g (N, D) float32: the gradient at the sum of the rows of each position. peak: at least its largest magnitude. Its levels of
    peak / SUM_LIMIT are summed by row: exact in any order if N * K <= 2**16. squares (2**context_bits,): advanced.
    """
    touched, last, before = _terms_of_rows(rows)
    factor, levels = levels_per_unit(peak, SUM_LIMIT), np.empty(g.shape, np.int16)
    for i in range(len(g)):
        level = levels[i]
        for j in range(level.size):
            level[j] = np.int32(np.rint(g[i, j] * factor))
    change, total = np.empty((len(touched), g.shape[1]), np.int32), np.empty(g.shape[1], np.int32)
    unit = peak * np.float32(1.0 / SUM_LIMIT)
    value, rounded = np.empty(total.size, np.float32), np.empty(total.size, np.int8)
    for u in range(len(touched)):
        term = last[u]
        total[:] = 0
        while term >= 0:
            level = levels[term // rows.shape[1]]
            for j in range(total.size):
                total[j] += np.int32(level[j])
            term = before[term]
        for j in range(total.size):
            value[j] = np.float32(total[j]) * unit
        squares[touched[u]] = _adagrad_change(value, squares[touched[u]], step_size, rounded, change[u])
    return touched, change


@helper
def _terms_of_rows(rows: Array) -> tuple[Array, Array, Array]:
    """The distinct rows (U,), the last place of each in rows.ravel(), (U,), and for each place the one before it, or -1."""
    n_terms, n_kinds, n, size = rows.size, rows.shape[1], 0, 1
    while size < 2 * n_terms:
        size *= 2
    numbers = np.full(size, -1, np.int32)  # of the rows found so far, hashed; rows are hashes themselves
    touched, last, before = np.empty(n_terms, np.int64), np.empty(n_terms, np.int32), np.empty(n_terms, np.int32)
    for term in range(n_terms):
        row = rows[term // n_kinds, term % n_kinds]
        slot = row & (size - 1)
        while numbers[slot] >= 0 and touched[numbers[slot]] != row:
            slot = (slot + 1) & (size - 1)
        if numbers[slot] < 0:
            numbers[slot], touched[n], last[n] = n, row, -1
            n += 1
        before[term], last[numbers[slot]] = last[numbers[slot]], term
    return touched[:n], last, before


@helper
def _adagrad_change(g: Array, square: np.float32, step_size: np.float32, levels: Array, change: Array) -> np.float32:
    """change = that of one row, with the bits of `plain.adagrad_change`; returns the new square. levels: scratch memory."""
    magnitude, energy = round_row_to_int8(g, 0, levels)
    scale, limit = magnitude * INVERSE_INT8_LIMIT, np.float32(CHANGE_LIMIT)
    mean_square = (np.float32(energy) * (scale * scale)) * np.float32(1.0 / g.size)
    square = square + (np.float32(0.0) if mean_square < SMALLEST_SCALE else mean_square)
    factor = (ONE / (np.float32(math.sqrt(np.float64(square))) + np.float32(1e-8))) * step_size
    for j in range(g.size):
        level = np.rint((g[j] * factor) * np.float32(UNITS))
        change[j] = np.int32(max(-limit, min(limit, level))) if level == level else 0  # NaN: 0
    return square
