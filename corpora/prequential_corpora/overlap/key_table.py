"""A compiled hash table of 64-bit keys in limited memory: the first position of each key, and a flag.

The keys may be chosen by a stranger: they are hashes of his texts without a secret. So each table draws its own random function
from keys to slots: simple tabulation, with which linear probing takes a constant expected time for any set of keys (Patrascu and
Thorup 2012). The function changes the order of the slots, and nothing else.
"""

import numpy as np
from numpy.typing import NDArray

from prequential.machine.compiled import kernel

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]

SLOT_BYTES = 8 + 8 + 1  # key, position, seen
MIN_SLOTS = 16
_LOW_HALF = np.uint64(2**32 - 1)
_EMPTY = np.uint64(0)


class KeyTable:
    """Distinct keys other than 0, each with its first position and a flag. Open addressing with linear probing.

    n_keys: the maximum number of keys. If these would fill more than half of n_slots, the table takes only keys whose low half is
    below a limit, so that about half of it is filled. When 3/4 are filled, it takes no more keys. The selection depends only on
    the keys and their order. A slot is an index of `position` and `seen`.
    """

    def __init__(self, n_keys: int, n_slots: int) -> None:
        n_slots = max(min(1 << (2 * n_keys).bit_length(), n_slots), MIN_SLOTS)
        self._limit = np.uint64(min(2**32, 2**32 * (n_slots // 2) // max(n_keys, 1)))
        self._shift = np.uint64(64 - (n_slots.bit_length() - 1))
        self._room = 3 * n_slots // 4
        self._slots = np.zeros((n_slots, 2), np.uint64)  # key, 0 of an empty slot; position
        self._random = _random_words()
        self.position = self._slots.view(np.int64)[:, 1]
        self.seen = np.zeros(n_slots, np.bool_)

    def find(self, keys: Keys) -> Indices:
        """The slots (m,) of keys (m,), none of them 0; -1 for a key that is not in the table."""
        found = np.empty(len(keys), np.int64)
        _find(self._slots, self._random, self._shift, keys, found)
        return found

    def add(self, keys: Keys, positions: Indices) -> Indices:
        """Adds the new keys, if there is room, and returns the slots (m,) of all keys; -1 for a key that the table did not take.

        positions: (m,), ascending, and greater than those of earlier calls.
        """
        found = np.empty(len(keys), np.int64)
        self._room = _add(self._slots, self._random, self._shift, self._limit, self._room, keys, positions, found)
        return found


def _random_words() -> Keys:
    """(8, 256): a random number for each value of each byte of a key."""
    return np.random.default_rng().integers(0, 2**64, (8, 256), np.uint64)


@kernel
def _slot(slots, random, shift, key):  # type: ignore[no-untyped-def]
    """The slot that holds the key, or the empty slot where it belongs."""
    mixed = np.uint64(0)
    for i in range(8):
        mixed ^= random[i, (key >> np.uint64(8 * i)) & np.uint64(255)]
    at, last = np.int64(mixed >> shift), len(slots) - 1
    while slots[at, 0] != _EMPTY and slots[at, 0] != key:
        at = (at + 1) & last
    return at


@kernel
def _find(slots, random, shift, keys, found):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        at = _slot(slots, random, shift, keys[i])
        found[i] = at if slots[at, 0] == keys[i] else -1


@kernel
def _add(slots, random, shift, limit, room, keys, positions, found):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        at = _slot(slots, random, shift, keys[i])
        found[i] = at
        if slots[at, 0] == _EMPTY:
            if room > 0 and (keys[i] & _LOW_HALF) < limit:
                slots[at, 0], slots[at, 1], room = keys[i], np.uint64(positions[i]), room - 1
            else:
                found[i] = -1
    return room
