"""The context mixer: small networks mix the predictions of many contexts, of the longest match and of the GPT for every bit.

It learns from every bit as soon as the bit is coded. This file owns the arrays. mixing.py has the kernels that work on them,
contexts.py the contexts and the match, and histories.py the states of a node.

The contexts by name (contexts.py explains how to add one):

    0               nothing
    1 .. 6, 8       the last 1 .. 6 or 8 bytes
    word            the letters of the current word so far, in lower case
    word,1          the same, and the last byte if it is not a letter
    word2, word3    the current word and the one or two words before it
    word,word3      the current word and the word before the previous one
    word,2          the current word and the byte before the last one; outside a word, the last two bytes
    word,marks      the current word and the first byte after each of the last two words
    skip2-3         the bytes at the distances 2 and 3
    skip1,3         the bytes at the distances 1 and 3
    skip3-4         the bytes at the distances 3 and 4
    above           the last byte, and the byte one line above the next one
    line,above      the column of the next byte, and the byte one line above it
    first,word      the first byte of the line, and the current word
    classes         the classes of the last six characters, and the last byte
    match           the byte that the longest match predicts, and the length of the match

Letters as in mixing.py.
"""

from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np
import torch

from prequential.codecs.bit_coder import BitCoder
from prequential.model.config import CONTEXTS, MixerConfig
from prequential.model.mixer import contexts, histories, mixing
from prequential.model.mixer.mixing import MixerArrays

Tensor = torch.Tensor

# Zeros fill the inputs up to a multiple of LANES. Loops over them then have no remainder and run 5 to 15 % faster.
LANES = 16


class Mixer:
    """The arrays of the mixer, and coding with them."""

    def __init__(self, config: MixerConfig, ring: np.ndarray) -> None:
        """ring: the last bytes (a power of two of them), uint8. The mixer writes it; its owner may read it (model/history.py)."""
        self._kinds = np.array([CONTEXTS.index(name) for name in config.contexts], np.int64)
        n_contexts = len(self._kinds)
        n_inputs = _rounded_up(n_contexts * mixing.INPUTS_PER_CONTEXT + mixing.EXTRA_INPUTS, LANES)
        self._table = np.zeros(((1 << config.table_bits) + 1, mixing.SLOTS), np.uint32)
        self._table[-1, 1:] = mixing.NEW_NODE  # the spare row: see mixing.find_bucket
        self._history_maps = _adaptive(np.tile(histories.HISTORY_PROBABILITY, (n_contexts, 1)))
        self._run_maps = _adaptive(np.tile(_ramp(mixing.RUN_MAP // 2, 1 << 21, 93 << 15, 20), (n_contexts, 2)))
        self._match_map = _adaptive(_ramp(mixing.MATCH_MAP, 5 << 19, 31 << 17, 40))
        self._weights = np.full((sum(mixing.SET_SIZES), n_inputs), int(0.6 * 65536) // n_contexts, np.int32)
        self._last_weights = np.full((256, mixing.N_SETS), 65536 // mixing.N_SETS, np.int32)
        line = mixing.SQUASH[np.clip((np.arange(mixing.REFINED_STEPS) - 16) * 128 + 3071, 0, 6142)].astype(np.uint16)
        self._refined = np.tile(line, (mixing.REFINED_MAPS, mixing.REFINED_CONTEXTS, 1))
        self._matches = np.zeros(1 << config.match_bits, np.int64)
        self._past = np.zeros(contexts.PAST_SIZE, np.int64)
        self.arrays = MixerArrays(
            kinds=self._kinds,
            table=self._table,
            history_maps=self._history_maps,
            run_maps=self._run_maps,
            match_map=self._match_map,
            weights=self._weights,
            last_weights=self._last_weights,
            refined=self._refined,
            ring=ring,
            matches=self._matches,
            past=self._past,
            learns=True,
        )
        self._no_frequencies = np.zeros((0, 256), np.int32)

    def frozen(self, ring: np.ndarray) -> Self:
        """A mixer that predicts with the arrays of this one, which it shares, and learns nothing.

        ring: a copy of this mixer's ring. The new mixer has this ring and a copy of the past, and both advance independently.
        """
        other = copy(self)
        other._past = self._past.copy()
        other.arrays = self.arrays._replace(ring=ring, past=other._past, learns=False)
        return other

    def restart(self, position: int) -> None:
        """Forgets all bytes before: contexts and match are those of a stream that begins at this position of the ring."""
        n_bits = self._past[contexts.N_BITS]
        self._past[:] = 0
        self._past[contexts.N_BITS] = n_bits
        self._past[[contexts.POSITION, contexts.LINE, contexts.LINE_ABOVE]] = position

    def code(self, symbols: np.ndarray, frequencies: np.ndarray | None, coder: BitCoder) -> np.ndarray:
        """Codes `symbols` (n,) int64 and learns from them, unless the mixer is frozen. A decoder fills the symbols in.

        frequencies: those of the GPT, (n, 256) int32 with a total of 2**24 per row; None without a GPT. Returns the frequency of
        each coded bit, (n, 8) uint16 of a total of 2**16.
        """
        expected = self._no_frequencies if frequencies is None else frequencies
        coded = np.empty((len(symbols), 8), np.uint16)
        mixing.code_mixed(symbols, expected, coded, self.arrays, coder.state, coder.words)
        return coded

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Copies the `state` of another mixer of this configuration. Raises ValueError for values out of range."""
        past, matches = tensors["past"], tensors["matches"]
        largest_node = int(tensors["table"].numpy().view(np.uint32)[:, 1:].max())
        if largest_node >> 16 >= histories.N_HISTORIES:
            raise ValueError("mixer.table contains a history that does not exist")
        if not (
            past.amin() >= 0 and past.amax() < 1 << 48 and past[contexts.MATCH_LENGTH] <= contexts.MAX_MATCH_LENGTH
        ):
            raise ValueError("mixer.past is out of range")
        if not (matches.amin() >= 0 and matches.amax() <= past[contexts.POSITION]):
            raise ValueError("mixer.matches contains a position after the end of the stream")
        for name, tensor in self.state().items():
            tensor.copy_(tensors[name])

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on, by name. The tensors share memory with the mixer."""
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
    """Adaptive probabilities, uint32 (mixing.step_towards), of age 0. probabilities: int64 in units of 2**-22."""
    return probabilities.astype(np.uint32) << np.uint32(10)


def _ramp(n: int, first: int, last: int, n_steps: int) -> np.ndarray:
    """(n,) int64 probabilities in units of 2**-22: from `first` to `last` in n_steps equal steps, then constant."""
    return first + (last - first) * np.minimum(np.arange(n), n_steps) // n_steps
