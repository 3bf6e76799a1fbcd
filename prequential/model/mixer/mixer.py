"""The context mixer: small networks mix the predictions of many contexts, of the matches and of the GPT for every bit.

It learns from every bit as soon as the bit is coded. This file owns the arrays; mixing.py has the kernel, and the letters.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np
from prequential_codecs.bit_coder import BitCoder

from prequential.model.config import CURVES, WEIGHT_SETS, MixerConfig
from prequential.model.hashing import HASH_MASK
from prequential.model.mixer import arrays as blocks
from prequential.model.mixer import curves as refine
from prequential.model.mixer import evidence, lookup, mixing, nodes, sets, weights
from prequential.model.mixer import past as at
from prequential.model.mixer.arrays import MixerArrays
from prequential.model.mixer.contexts import OF_FIELDS, OF_SUCCESSORS, kinds_by_input, parts_of
from prequential.model.mixer.exchange import apart
from prequential.model.mixer.past import MAX_MATCH_LENGTH
from prequential.model.mixer.past_advance import MAX_RECORD, STAYS_BINARY
from prequential.model.mixer.threads import Threads

# The arrays that later probabilities depend on, in the order of the state.
LEARNED = (
    "table", "deterministic", "history_maps", "run_maps", "pair_maps", "match_map", "match_byte_map", "order_maps", "weights",
    "row_ages", "row_errors", "last_weights", "curves", "gpt_curves", "indirect", "followers", "fields", "matches",
    "past",
)  # fmt: skip


class Mixer:
    """The arrays of the mixer, and coding with them."""

    def __init__(self, config: MixerConfig, ring: np.ndarray, *, most_threads: int = 1) -> None:
        """ring: the last bytes (a power of two of them), uint8. The mixer writes it; its owner may read it (model/history.py).

        most_threads: at most so many mix at a time; weights that one thread looks after lie together.
        """
        self.config, self.threads = config, Threads(config, most_threads)
        set_kinds, curve_kinds = (
            np.array([known.index(name) for name in names], np.int64)
            for names, known in ((config.sets, WEIGHT_SETS), (config.curves, CURVES))
        )
        names, set_sizes = blocks.in_order(config.contexts), np.array(sets.SET_SIZES)[set_kinds]
        n_contexts, n_sets, places = len(names), len(set_sizes), {name: i for i, name in enumerate(names)}
        columns, n_columns = blocks.columns_of(config)
        self.arrays: MixerArrays = MixerArrays(
            kinds=(kinds := kinds_by_input(names)),
            groups=sets.groups_of_contexts(names),
            columns=columns,
            regions=blocks.regions_of(config),
            parts=parts_of(kinds),
            state_contexts=np.array([places.get(name, -1) for name in sets.STATE_CONTEXTS], np.int64),
            sets=set_kinds,
            set_starts=np.cumsum(set_sizes) - set_sizes,
            curve_kinds=curve_kinds,
            table=apart((1 << config.table_bits, lookup.SLOTS), np.uint32),
            deterministic=apart((lookup.ENTRIES_PER_BUCKET << config.table_bits,), np.uint32),
            history_maps=_adaptive(np.tile(nodes.HISTORY_PROBABILITY, (n_contexts, 1))),
            run_maps=_adaptive(np.tile(evidence.first_run_maps(), (n_contexts, 1))),
            pair_maps=_adaptive(np.tile(evidence.first_pair_maps(), (n_contexts, 1))),
            match_map=_adaptive((5 << 19) + (11 << 17) * np.minimum(np.arange(mixing.MATCH_MAP), 40) // 40),
            match_byte_map=_adaptive(np.full(mixing.MATCH_BYTE_MAP, 7 << 19, np.int64)),
            order_maps=_adaptive(np.full((2, mixing.ORDER_MAP), 1 << 21, np.int64)),
            column_bounds=self.threads.column_bounds,
            weights=apart(int(set_sizes.sum()) * n_columns, np.int16),
            row_ages=np.zeros(set_sizes.sum(), np.uint16),
            row_errors=np.full(set_sizes.sum(), weights.FIRST_ROW_ERROR, np.uint32),
            new_rates=weights.new_row_rates(n_contexts),
            last_weights=np.full((sum(sets.LAST_SIZES), n_sets), (1 << weights.LAST_WEIGHT_BITS) // n_sets, np.int32),
            curves=apart((len(curve_kinds), refine.N_CURVE_CONTEXTS, refine.N_POINTS), np.uint32),
            gpt_curves=np.zeros((len(curve_kinds), refine.N_GPT_CURVE_CONTEXTS, refine.N_POINTS), np.uint32),
            indirect=np.zeros(at.INDIRECT_SIZE, np.int64),
            followers=np.zeros((at.N_SUCCESSORS, table_size(config, OF_SUCCESSORS)), np.uint32),
            fields=np.zeros((at.N_FIELDS, table_size(config, OF_FIELDS)), np.uint32),
            ring=ring,
            matches=np.zeros(1 << config.match_bits, np.int64),
            past=np.zeros(at.PAST_SIZE, np.int64),
            learns=True,
        )
        self._no_frequencies = np.zeros((0, 256), np.int32)

    def frozen(self, ring: np.ndarray) -> Self:
        """A mixer that predicts with the arrays of this one, which it shares, and learns nothing.

        ring: a copy of this mixer's ring. The new mixer has this ring and a copy of the past, and both advance independently.
        """
        other = copy(self)
        other.arrays = self.arrays._replace(ring=ring, past=self.arrays.past.copy(), learns=False)
        return other

    def restart(self, position: int) -> None:
        """Forgets all bytes before: contexts and matches are those of a stream that begins at this position of the ring.

        The length of records is kept. In binary data, contexts of the bytes above may therefore reach back to learned bytes.
        """
        now = self.arrays.past
        learned = now[[at.N_BITS, at.RECORD]]
        now[:] = 0
        now[[at.N_BITS, at.RECORD]] = learned
        now[[at.POSITION, at.LINE, at.LINE_ABOVE, at.LINE_ABOVE2]] = position

    def code(self, symbols: np.ndarray, frequencies: np.ndarray | None, coder: BitCoder) -> np.ndarray:
        """Codes `symbols` (n,) int64 and learns from them, unless the mixer is frozen. A decoder fills the symbols in.

        frequencies: those of the GPT, (n, 256) int32 with a total of 2**24 per row; None without a GPT. Returns the frequency of
        each coded bit, (n, 8) uint16 of a total of 2**16. The number of threads changes none of it.
        """
        coded = np.empty((len(symbols), 8), np.uint16)
        expected = self._no_frequencies if frequencies is None else frequencies

        def code_all(*arguments: Any) -> None:
            mixing.code_mixed(symbols, expected, coded, *arguments, coder.state, coder.words)

        self.threads.run(self.arrays, len(symbols), code_all)
        return coded

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copies the `state` of another mixer of this configuration. Raises ValueError for values out of range."""
        _check_state(arrays)
        for name in LEARNED:
            own = getattr(self.arrays, name)
            if name != "weights":
                own.view(arrays[name].dtype)[...] = arrays[name]
        for columns, weights_of_group in self._groups():
            weights_of_group[...] = arrays["weights"][:, columns]

    def state(self) -> dict[str, np.ndarray]:
        """Every array that later probabilities depend on, by name, as signed integers. They share memory with it, but for the
        weights of a mixer of several threads."""
        found = {name: getattr(self.arrays, name) for name in LEARNED}
        groups = [group for _, group in self._groups()]
        found["weights"] = groups[0] if len(groups) == 1 else np.concatenate(groups, 1)
        return {name: a.view(f"i{a.itemsize}") for name, a in found.items()}

    def _groups(self) -> list[tuple[slice, np.ndarray]]:
        """The columns of each group, and its weights (rows of all sets, its columns): a view."""
        bounds, n_rows = self.threads.column_bounds.tolist(), len(self.arrays.row_ages)
        return [
            (slice(left, right), self.arrays.weights[n_rows * left : n_rows * right].reshape(n_rows, -1))
            for left, right in pairwise(bounds)
        ]


def n_inputs(config: MixerConfig) -> int:
    """I: the columns of the weights: the inputs of a decision, and zeros that fill them up."""
    return blocks.columns_of(config)[1]


def table_size(config: MixerConfig, users: Sequence[str]) -> int:
    """The entries of each table of `successors` or `fields`: one, if the config has no contexts that are made of them."""
    return 1 << at.SUCCESSOR_BITS if set(users) & set(config.contexts) else 1


def past_limits(position: int) -> np.ndarray:
    """(PAST_SIZE,) int64: the largest values that the past can have at this position; the smallest are 0."""
    limits = np.full(at.PAST_SIZE, HASH_MASK)
    limits[[at.POSITION, at.N_BITS]] = (1 << 48) - 1
    limits[[at.LINE, at.LINE_ABOVE, at.LINE_ABOVE2, at.MATCH, at.LONG_MATCH, at.RECORD_SINCE]] = position
    limits[[at.MATCH_LENGTH, at.LONG_MATCH_LENGTH]] = MAX_MATCH_LENGTH
    limits[at.DEPTH] = at.N_OWNERS - 1
    limits[at.FIRST], limits[at.RECORD] = 255, MAX_RECORD
    limits[at.BINARY_UNTIL] = position + STAYS_BINARY
    return limits


def _check_state(arrays: Mapping[str, np.ndarray]) -> None:
    """Raises ValueError unless kernels can work on these arrays of a state: the values that they use as places are in range."""
    now = arrays["past"]
    if int(arrays["table"].view(np.uint32)[:, 1:].max()) >> nodes.HISTORY_SHIFT >= nodes.N_HISTORIES:
        raise ValueError("mixer.table contains a history that does not exist")
    if (now < 0).any() or (now > past_limits(int(now[at.POSITION]))).any():
        raise ValueError("mixer.past is out of range")
    if not 0 <= arrays["matches"].min() <= arrays["matches"].max() <= now[at.POSITION]:
        raise ValueError("mixer.matches contains a position after the end of the stream")
    if not 0 <= arrays["indirect"].min() <= arrays["indirect"].max() <= HASH_MASK:
        raise ValueError("mixer.indirect is out of range")
    if arrays["row_errors"].view(np.uint32).max() > 1 << 24:
        raise ValueError("mixer.row_errors is out of range")
    if np.abs(arrays["last_weights"].astype(np.int64)).max() > weights.MAX_LAST_WEIGHT:
        raise ValueError("mixer.last_weights is out of range")


def _adaptive(probabilities: np.ndarray) -> np.ndarray:
    """Adaptive probabilities, uint32 (nodes.step_towards), of age 0. probabilities: int64 in units of 2**-22."""
    return probabilities.astype(np.uint32) << np.uint32(10)
