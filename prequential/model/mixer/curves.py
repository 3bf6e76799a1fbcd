"""The last step of a prediction: adaptive curves, each from the mixed log-odds to a probability, one for each small context.

A curve has points at equal distances of log-odds and is interpolated between the two next to the mixed log-odds. Both learn: the
nearer one, and the other half as much. The result is the mean of all curves and of the mixed probability itself, which counts
twice. To add a map of curves, append its name to CURVES in model/config.py, and a line to `curve_of`.

Each map has a second one, of fewer curves, for the log-odds of the GPT: its results are inputs of the mixer.
"""

from typing import Any

import numpy as np

from prequential.machine.atomics import prefetch
from prequential.machine.compiled import Array, inlined
from prequential.model.hashing import hashed
from prequential.model.mixer.nodes import RECIPROCAL, clamp, log_odds_of_share, step_towards
from prequential.model.mixer.past import COLLAPSED, LAST4
from prequential.model.mixer.sets import ABOVE, EXPECTED_BYTE, GPT_BYTE, GPT_CONFIDENCE, MATCH_CLASS, WORD_HASH
from prequential.model.mixer.weights import SQUASH, squash

N_CURVE_CONTEXTS, N_GPT_CURVE_CONTEXTS, N_POINTS = 1 << 15, 1 << 13, 33
FIRST_AGE = 6
# (N_POINTS,): packed probabilities that leave the log-odds as they are.
_AS_THEY_ARE = SQUASH[np.clip((np.arange(N_POINTS) - 16) * 128 + 3071, 0, 6142)].astype(np.uint32)
FIRST_POINTS = (_AS_THEY_ARE << 16 | FIRST_AGE).astype(np.uint32)


@inlined
def point_at(maps: Array, m: int, curve: int, point: int) -> Any:
    """The packed probability of a point of a curve. Arrays hold it xor its first value, so memory that is not used stays zero."""
    return np.int64(maps[np.uint64(m), np.uint64(curve), np.uint64(point)] ^ FIRST_POINTS[np.uint64(point)])


@inlined
def curve_of(kind: int, prefix: int, past: Array, facts: Array, expects: int) -> Any:
    """The context of the map of curves of this kind, an index in CURVES."""
    last4: Any = past[LAST4]
    curve: Any = (last4 & 255) << 8 | prefix  # "1"
    if kind == 1:
        curve = hashed(hashed(last4 & 0xFFFF, 2), prefix)  # "2"
    elif kind == 2:
        curve = hashed(hashed(last4 & 0xFFFFFF, 3), prefix)  # "3"
    elif kind == 3:
        expected = facts[EXPECTED_BYTE] * 4 + facts[MATCH_CLASS] if expects >= 0 else 1024
        curve = hashed(prefix, expected)  # "expected"
    elif kind == 4:
        curve = hashed(facts[WORD_HASH], prefix)  # "word"
    elif kind == 5:
        curve = hashed(hashed(last4, 4), prefix)  # "4"
    elif kind == 6:
        curve = hashed(hashed(past[COLLAPSED], 5), prefix)  # "collapsed4"
    elif kind == 7:
        curve = hashed(hashed(facts[ABOVE], last4 & 255), prefix)  # "above,1"
    elif kind == 8:
        curve = hashed(hashed(facts[GPT_BYTE], facts[GPT_CONFIDENCE]), prefix)  # "gpt"
    return curve & 0xFFFF


@inlined
def curve_position(log_odds: Any) -> Any:
    """The position of log-odds on a curve of N_POINTS points, in 1/128 of the distance between two points."""
    return clamp(log_odds, -2047, 2047) + 2048


@inlined
def fetch_curves(maps: Array, curves: Array) -> None:
    """Asks the memory for the curves before they are needed: N_POINTS points are three cache lines."""
    for m in range(curves.size):
        place = (m * maps.shape[1] + (curves[m] & (maps.shape[1] - 1))) * N_POINTS
        for line in range(3):
            prefetch(maps, place + 16 * line)


@inlined
def set_point(maps: Array, m: int, curve: int, point: int, packed: Any) -> None:
    maps[np.uint64(m), np.uint64(curve), np.uint64(point)] = packed ^ FIRST_POINTS[np.uint64(point)]


@inlined
def refine(mixed: Any, maps: Array, curves: Array) -> Any:
    """The probability of a one in 2**-16. curves (n,) int64: the context of each of n maps."""
    total = 2 * squash(mixed)
    for m in range(curves.size):
        total += refined(mixed, maps, m, curves)
    return total // (curves.size + 2)


@inlined
def refined(log_odds: Any, maps: Array, m: int, curves: Array) -> Any:
    """The probability in 2**-16 of the curve of map m at these log-odds. Maps of fewer contexts use their lower bits."""
    position, curve = curve_position(log_odds), curves[m] & (maps.shape[1] - 1)
    lower, share = position >> 7, position & 127
    low, high = point_at(maps, m, curve, lower) >> 10, point_at(maps, m, curve, lower + 1) >> 10
    return (low * (128 - share) + high * share) >> 13


@inlined
def refine_gpt(log_odds: Any, maps: Array, curves: Array, inputs: Array) -> None:
    """inputs[m] = the log-odds of the curve of map m at the GPT's log-odds."""
    for m in range(curves.size):
        inputs[m] = log_odds_of_share(refined(log_odds, maps, m, curves))


@inlined
def learn_curves(bit: int, log_odds: Any, maps: Array, curves: Array) -> None:
    """The curves that `refined` these log-odds learn from the bit."""
    position = curve_position(log_odds)
    lower, nearest = position >> 7, (position + 64) >> 7
    other = lower + (1 if nearest == lower else 0)
    for m in range(curves.size):
        curve = curves[m] & (maps.shape[1] - 1)
        set_point(maps, m, curve, nearest, step_towards(point_at(maps, m, curve, nearest), bit))
        set_point(maps, m, curve, other, half_step(point_at(maps, m, curve, other), bit))


@inlined
def half_step(packed: int, bit: int) -> int:
    """An adaptive probability after half of a step. Its age stays."""
    p = packed >> 10
    p += (((bit << 22) - p) * RECIPROCAL[packed & 1023]) >> 17
    return p << 10 | packed & 1023
