"""The context mixer: every coded bit is predicted by many contexts, the longest match and the GPT, mixed by small networks.

This file holds its arrays; model/mixer/mixing.py what is done with them. It learns from every bit as soon as that is coded.

Contexts, by name: `0` none; `1`..`8` the last so many bytes; `word` the letters of the current word so far, case folded; `word2`,
`word3` with the one or two words before; `word,1` with the mark after it; `word,2` with the last two bytes; `word,word3` with the
word before the last; `word,marks` with what stood between the last words; `skip2-3` and the like: only the bytes at those
distances; `above` the byte one line up in this column, `line,above` with the column; `first,word` the first byte of the
line; `classes` the kinds of the last six characters; `match` the byte after the longest match, with its length.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
import torch

from prequential.codecs.bit_coder import BitCoder
from prequential.model.config import CONTEXTS, MixerConfig
from prequential.model.mixer import mixing

Tensor = torch.Tensor

LANES = 16  # inputs are filled up to a multiple of this with zeros: loops over them then have no remainder (5 to 15 % faster)


class Mixer:
    """See the module's text. The past `ring` (a power of two of bytes, uint8) is shared with whoever else needs the history."""

    def __init__(self, config: MixerConfig, ring: np.ndarray) -> None:
        self._kinds = np.array([CONTEXTS.index(name) for name in config.contexts], np.int64)
        n_contexts = len(self._kinds)
        n_inputs = _rounded_up(n_contexts * mixing.INPUTS_PER_CONTEXT + mixing.EXTRA_INPUTS, LANES)
        self._table = np.zeros(((1 << config.table_bits) + 1, mixing.SLOTS), np.uint32)
        self._table[-1, 1:] = (
            mixing.NEW_NODE
        )  # the spare row: what one that does not learn reads where there is no bucket
        self._history_maps = _adaptive(np.tile(mixing.HISTORY_PROBABILITY, (n_contexts, 1)))
        self._run_maps = _adaptive(np.tile(_guesses(mixing.RUN_MAP // 2, 1 << 21, 93 << 15, 20), (n_contexts, 2)))
        self._match_map = _adaptive(_guesses(mixing.MATCH_MAP, 5 << 19, 31 << 17, 40))
        self._weights = np.full((sum(mixing.SET_SIZES), n_inputs), int(0.6 * 65536) // n_contexts, np.int32)
        self._last_weights = np.full((256, mixing.N_SETS), 65536 // mixing.N_SETS, np.int32)
        line = mixing.SQUASH[np.clip((np.arange(mixing.REFINED_STEPS) - 16) * 128 + 3071, 0, 6142)].astype(np.uint16)
        self._refined = np.tile(line, (mixing.REFINED_MAPS, mixing.REFINED_CONTEXTS, 1))
        self._matches = np.zeros(1 << config.match_bits, np.int64)
        self._past = np.zeros(mixing.PAST_SIZE, np.int64)
        self.arrays = (
            self._kinds, self._table, self._history_maps, self._run_maps, self._match_map, self._weights, self._last_weights,
            self._refined, ring, self._matches, self._past,
        )  # fmt: skip
        self.learns = True
        self._none = np.zeros((0, 256), np.int32)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the compiled loops take of a mixer."""
        return (*self.arrays, self.learns)

    def frozen(self, ring: np.ndarray) -> Self:
        """A mixer that predicts by what this one has learned, at any time, and learns nothing.

        Its past is its own and goes on from here, over a ring of its own: a copy of this one's.
        """
        other = copy(self)
        other.learns, other._past = False, self._past.copy()
        other.arrays = (*self.arrays[:-3], ring, self._matches, other._past)
        return other

    def restart(self, position: int) -> None:
        """No byte went before: contexts and match are those of a stream that begins at this position of the ring."""
        n_bits = self._past[mixing.N_BITS]
        self._past[:] = 0
        self._past[mixing.N_BITS] = n_bits
        self._past[[mixing.POSITION, mixing.LINE, mixing.LINE_ABOVE]] = position

    def code(self, symbols: np.ndarray, frequencies: np.ndarray | None, coder: BitCoder) -> np.ndarray:
        """Codes or finds out `symbols` (n,) int64, in place, and learns them, unless frozen.

        Returns the frequencies under which their bits were coded, (n, 8) uint16 of a total of 2**16.

        frequencies: what the GPT expects, (n, 256) int32, rows of total 2**24; None without one.
        """
        expected = self._none if frequencies is None else frequencies
        coded = np.empty((len(symbols), 8), np.uint16)
        mixing.code_mixed(symbols, expected, coded, *self.arguments, coder.state, coder.words)
        return coded

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over what `state` of another mixer of this configuration gave. Raises ValueError for what would lead astray."""
        past, matches = tensors["past"], tensors["matches"]
        largest_node = int(tensors["table"].numpy().view(np.uint32)[:, 1:].max())
        if largest_node >> 16 >= mixing.N_HISTORIES:
            raise ValueError("mixer.table holds a history that there is not")
        if not (past.amin() >= 0 and past.amax() < 1 << 48 and past[mixing.MATCH_LENGTH] <= mixing.MAX_MATCH_LENGTH):
            raise ValueError("mixer.past is out of range")
        if not (matches.amin() >= 0 and matches.amax() <= past[mixing.POSITION]):
            raise ValueError("mixer.matches point ahead")
        for name, tensor in self.state().items():
            tensor.copy_(tensors[name])

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on, by name."""
        arrays = {
            "table": self._table[:-1].view(np.int32), "history_maps": self._history_maps.view(np.int32),
            "run_maps": self._run_maps.view(np.int32), "match_map": self._match_map.view(np.int32), "weights": self._weights,
            "last_weights": self._last_weights, "refined": self._refined.view(np.int16), "matches": self._matches,
            "past": self._past,
        }  # fmt: skip
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _rounded_up(n: int, step: int) -> int:
    return -(-n // step) * step


def _adaptive(probabilities: np.ndarray) -> np.ndarray:
    """Adaptive probabilities, uint32, of age 0 from int64 ones in 2**-22."""
    return probabilities.astype(np.uint32) << np.uint32(10)


def _guesses(n: int, first: int, last: int, n_steps: int) -> np.ndarray:
    """(n,) int64 probabilities in 2**-22, from `first` in n_steps equal steps to `last`, where they stay."""
    return first + (last - first) * np.minimum(np.arange(n), n_steps) // n_steps
