"""How many threads mix. It is measured while they do: the number changes the time, and no bit.

A trial of more or fewer threads is one call. It is adopted if it was faster than the call before. Trials take a small part of the
time, so a machine that gets busy, or whose processors are far from each other, costs little. Within a call, the coding thread
goes on alone when the others keep it waiting (mixing.PATIENCE).
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from prequential.machine.compiled import Array, is_cached
from prequential.model.config import MixerConfig
from prequential.model.mixer import arrays as blocks
from prequential.model.mixer import helper_thread, sets, weights
from prequential.model.mixer.arrays import CodingState, MixerArrays, Scratch, Share
from prequential.model.mixer.contexts import N_HASHES
from prequential.model.mixer.evidence import Evidence
from prequential.model.mixer.exchange import BYTE, LEAVE, N_THREADS, STOP, WIDTH, apart, new_board
from prequential.model.mixer.lookup import Places
from prequential.model.mixer.weights import Columns

SHORT_RUN_S = 5.0  # such a run compiles no kernel for other threads: that would take longer
LEAST_SYMBOLS = 64  # of a call: waking threads takes as long as mixing some symbols
TRIALS_SHARE = 40  # a trial is followed by this many times its duration without one
CLEARLY = 0.97  # a trial is adopted if it took at most this part of the time


class Threads:
    """The threads of a mixer of this configuration, at most `most`."""

    def __init__(self, config: MixerConfig, most: int) -> None:
        self._config = config
        self.most: int = min(most, len(blocks.first_contexts(config)) - 1)
        self.n = 1  # those that were last found to be fastest
        self.fixed: int | None = None  # for tests and measurements: this many, always
        self.n_symbols: Counter[int] = Counter()  # by the number of threads that mixed them
        self._group_starts = blocks.group_starts(config, self.most)
        self.column_bounds: Array = np.minimum(self._group_starts * blocks.BLOCK_INPUTS, blocks.columns_of(config)[1])
        self._executor: ThreadPoolExecutor | None = None
        self._compiled: Future[None] | None = None
        self._memory: dict[int, _Memory] = {}
        self._pace_s = 0.0  # of the call before, a symbol
        self._compiles_s = math.inf  # when a kernel that is not on disk is compiled
        self._next_trial_s, self._doubles = 0.0, True

    def run(self, arrays: MixerArrays, n_symbols: int, code: Callable[..., None]) -> None:
        """Calls code(arrays, coding), which codes n_symbols symbols, while other threads follow."""
        most = self.most if self._has_kernel(arrays) and n_symbols >= LEAST_SYMBOLS else 1
        n = min(self.fixed, self.most) if self.fixed else self._chosen(most)
        started = time.perf_counter()
        self._run(n, arrays, code)  # the first call may compile the kernel of the coding thread
        self.n_symbols[n] += n_symbols
        self._compiles_s = min(self._compiles_s, time.perf_counter() + SHORT_RUN_S)
        if most > 1 and not self.fixed:
            self._judge(n, (time.perf_counter() - started) / n_symbols, time.perf_counter() - started)

    def to_record(self) -> dict[str, Any]:
        """How many threads mixed until now, as JSON values (records.py)."""
        return {
            "most_threads": self.most,
            "used_threads": max(self.n_symbols, default=1),
            "together": 1 - self.n_symbols[1] / max(1, self.n_symbols.total()),
        }

    def _has_kernel(self, arrays: MixerArrays) -> bool:
        """Whether the kernel of the other threads is compiled. A thread does that meanwhile: a trial must not wait for it."""
        if self.most == 1:
            return False
        if self._compiled is None:
            may_compile = self.fixed or time.perf_counter() >= self._compiles_s
            if not may_compile and not is_cached(helper_thread.serve_share):
                return False
            self._executor = ThreadPoolExecutor(self.most - 1, "prequential-mixer")
            self._compiled = self._executor.submit(self.compile, arrays)
        if self.fixed:
            self._compiled.result()
        return self._compiled.done() and self._compiled.exception() is None

    def compile(self, arrays: MixerArrays) -> None:
        """Compiles the kernel of the other threads, by a call that ends at once."""
        memory, board = self._memory_of(2), new_board(2)
        board[BYTE * WIDTH + WIDTH - 1] = LEAVE
        helper_thread.serve_share(1, memory.scratch.every_hash, arrays, memory.shares(arrays)[1], board)

    def _chosen(self, most: int) -> int:
        """How many threads mix in this call: as many as before, or for a trial twice or half as many."""
        if most == 1 or not self._pace_s or time.perf_counter() < self._next_trial_s:
            return min(self.n, most)
        self._doubles = self.n == 1 or (self.n < most and not self._doubles)
        return min(2 * self.n, most) if self._doubles else self.n // 2

    def _judge(self, n: int, pace_s: float, duration_s: float) -> None:
        """pace_s: for each symbol."""
        if n != self.n:
            self._next_trial_s = time.perf_counter() + TRIALS_SHARE * duration_s
            if pace_s > CLEARLY * self._pace_s:
                return
            self.n, self._next_trial_s = n, 0.0  # and perhaps a step further
        self._pace_s = pace_s

    def _run(self, n: int, arrays: MixerArrays, code: Callable[..., None]) -> None:
        memory = self._memory_of(n)
        scratch, board, (*shares, whole) = memory.scratch, memory.board, memory.shares(arrays)
        board[:] = 0
        board[N_THREADS] = n
        others: list[Future[None]] = []
        try:
            for thread in range(1, n):
                assert self._executor
                arguments = thread, scratch.every_hash, arrays, shares[thread], board
                others.append(self._executor.submit(_serve_share, *arguments))
            code(arrays, CodingState(scratch, shares[0], whole, board))
            board[BYTE * WIDTH + WIDTH - 1] = LEAVE
        except BaseException:
            board[STOP] = 1
            raise
        finally:
            for error in [other.exception() for other in others]:  # waits for all
                if error:
                    raise error

    def _memory_of(self, n: int) -> "_Memory":
        """What n threads need; made once."""
        if n in self._memory:
            return self._memory[n]
        starts, contexts = self._group_starts, blocks.first_contexts(self._config)
        groups = [self.most * thread // n for thread in range(n + 1)]  # the first group of each thread
        bounds = [(int(contexts[starts[a]]), int(contexts[starts[b]]), a, b) for a, b in pairwise(groups)]
        whole = (0, len(self._config.contexts), 0, self.most)
        return self._memory.setdefault(n, _Memory(self._config, bounds, whole))


def _serve_share(*arguments: Any) -> None:
    try:
        helper_thread.serve_share(*arguments)
    except BaseException:
        arguments[-1][STOP] = 1
        raise


# The first context of a thread and the one after its last, and the same of its groups of columns.
Bounds = tuple[int, int, int, int]


class _Memory:
    """What the threads of a mixer need besides its arrays."""

    def __init__(self, config: MixerConfig, bounds: list[Bounds], whole: Bounds) -> None:
        n_sets, n_curves = len(config.sets), len(config.curves)
        self.board = new_board(len(bounds))
        self.scratch = Scratch(
            every_hash=apart(N_HASHES + 2),
            facts=apart(sets.N_FACTS),
            every_row=apart(sets.N_SETS),
            last_rows=apart(sets.N_LAST),
            curves=apart(n_curves),
            outputs=apart(n_sets, np.int32),
            finals=apart(sets.N_LAST),
            cumulative=apart(257),
        )
        self._config, self._bounds, self._whole = config, bounds, whole
        self._made_for: MixerArrays | None = None
        self._shares: list[Share] = []

    def shares(self, arrays: MixerArrays) -> list[Share]:
        """Those of the threads, and the whole, of a mixer with these arrays; made once, because that takes time."""
        if arrays is not self._made_for:
            self._shares = [_share(self._config, own, arrays) for own in self._bounds]
            own, (first, stop, first_group, stop_group) = self._shares[0], self._whole
            places = own.places._replace(first=first, stop=stop)
            columns = own.columns._replace(first=first_group, stop=stop_group)
            self._shares.append(own._replace(places=places, columns=columns))
            self._made_for = arrays
        for share in self._shares:
            share.took[0] = 0  # no byte
        return self._shares


def _share(config: MixerConfig, bounds: Bounds, arrays: MixerArrays) -> Share:
    """The share of a thread in a mixer with these arrays, and arrays of its own."""
    n_contexts, n_columns, n_sets = len(config.contexts), blocks.columns_of(config)[1], len(config.sets)
    first, stop, first_group, stop_group = bounds
    *places, seen, run_places, next_hashes = [apart(n_contexts) for _ in range(8)]
    inputs, centred = apart(n_columns, np.int16), apart(n_columns, np.int16)
    rows, sums, errors = apart(n_sets), apart(n_sets + weights.N_SUMS, np.int32), apart(n_sets, np.int32)
    return Share(
        Places(first, stop, arrays.regions, arrays.table, arrays.deterministic, *places),
        Evidence(arrays.columns, arrays.history_maps, arrays.run_maps, arrays.pair_maps, seen, run_places, inputs),
        Columns(
            first_group, stop_group, arrays.row_ages.size, arrays.column_bounds, arrays.weights, rows, sums, errors, centred
        ),
        next_hashes, apart(1),
    )  # fmt: skip
