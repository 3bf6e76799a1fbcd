"""Codes with random states that `load_state` accepts, in kernels that check every index of an array.

    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d) python dev/fuzz/bounds.py --count 1000 --seed 1 [--mixing 2]

prints how often each outcome occurred, as JSON. The bits may be any; "exact" says that they were decoded from the same state. An
IndexError names the first states with it, and `--first N --count 1` repeats state N. A crash ends the process. The
intrinsics of exact/byte_products.py are not checked: the shapes of their arguments do not depend on the state, and the indices
of the blocks that they get are checked. Those of mixer/weights.py are not checked either: they use the rows whose ages are.
"""

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from prequential_codecs.bit_coder import DECODE, ENCODE, MODE, N_WORDS, SCORE, WIDTH, WORDS_PER_SYMBOL, BitCoder

from prequential.errors import ConfigError, CorruptArchiveError
from prequential.model import config as configs
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.frozen import FrozenLearner
from prequential.model.gpt.context_table import MOST_SHIFTS, context_rows
from prequential.model.gpt.gpt import MAX_MAGNITUDE, MAX_SQUARE, NOT_NEGATIVE
from prequential.model.gpt.recall import MOST_SUCCESSIONS
from prequential.model.hashing import HASH_MASK
from prequential.model.learner import OnlineLearner
from prequential.model.mixer.mixer import past_limits
from prequential.model.mixer.nodes import HISTORY_SHIFT, N_HISTORIES
from prequential.model.mixer.past import MATCH, POSITION
from prequential.model.mixer.weights import MAX_LAST_WEIGHT
from prequential.online.runtime import Runtime

Arrays = dict[str, np.ndarray]

N_SYMBOLS = 320  # coded with each state
COUNT = 1 << 48  # a limit of counters and positions
SCHEDULE = ScheduleConfig(
    first_segment_symbols=100, segment_symbols=100, row_symbols=50, n_rows=3, history_bits=14, block_symbols=1 << 12
)
SMALL = GPTConfig(n_layers=1, width=16, n_heads=2, mlp_factor=1, window=4)
ALL = {"contexts": configs.CONTEXTS, "sets": configs.WEIGHT_SETS, "curves": configs.CURVES}
CONFIGS = {
    "mixer": Config(gpt=None, mixer=MixerConfig(table_bits=6, match_bits=4), schedule=SCHEDULE),
    "large mixer": Config(gpt=None, mixer=MixerConfig(**ALL, table_bits=12, match_bits=10), schedule=SCHEDULE),
    "pure": Config(gpt=SMALL, mixer=None, schedule=SCHEDULE),
    "contexts": Config(
        gpt=GPTConfig(
            n_layers=2, width=48, n_heads=3, mlp_factor=2, window=64, n_embeddings=8, contexts=configs.GPT_CONTEXTS,
            context_bits=4, memory_bits=13,
        ),
        mixer=None,
        schedule=SCHEDULE,
    ),
    "both": Config(gpt=SMALL, mixer=MixerConfig(**ALL, table_bits=6, match_bits=6), schedule=SCHEDULE),
}  # fmt: skip


class Draw:
    """Random values, with a preference for the ends of a range."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def __call__(self, n: int, low: int, high: int) -> np.ndarray:
        """(n,) int64 from low to high, both included: one of the two ends, near them, small, or anything."""
        near, ends = self.random.integers(0, 5, n), np.where(self.random.random(n) < 0.5, low, high)
        values = (
            np.full(n, low), np.full(n, high), ends, np.where(ends == low, low + near, high - near), near,
            self.random.integers(low, high, n, endpoint=True),
        )[self.random.integers(6)]  # fmt: skip
        return np.clip(np.asarray(values, np.int64), low, high)

    def floats(self, n: int, low: float, high: float) -> np.ndarray:
        """(n,) float32 from low to high: an end, 0, tiny, ordinary or any."""
        signs = np.where(self.random.random(n) < 0.5, -1.0, 1.0) if low < 0 else np.ones(n)
        sizes = (
            np.full(n, high), np.zeros(n), np.full(n, 1e-45), self.random.random(n), self.random.random(n) * high,
            high ** (self.random.random(n) * 2 - 1), np.where(self.random.random(n) < 0.1, high, 0.0),
        )[self.random.integers(7)]  # fmt: skip
        return np.clip((signs * sizes).astype(np.float32), np.float32(low), np.float32(high))

    def like(self, array: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
        """Values of the type and shape of `array`, from low to high; without them, any of its type."""
        if array.dtype.kind == "f":
            values = self.floats(array.size, low or 0.0, high or 0.0)
        else:
            limits = np.iinfo(array.dtype)
            values = self(
                array.size, int(limits.min if low is None else low), int(limits.max if high is None else high)
            )
        return values.astype(array.dtype).reshape(array.shape)


def random_state(draw: Draw, state: Mapping[str, np.ndarray], config: Config) -> Arrays:
    """A state with any values that `load_state` accepts. Some arrays keep the values of `state`."""
    drawn = {}
    for name, array in state.items():
        own = re.sub(r"^gpt\.", "", name)
        if draw.random.random() < 0.2:
            drawn[name] = array.copy()
        elif array.dtype.kind == "f":
            squares = own.startswith(NOT_NEGATIVE)
            drawn[name] = draw.like(array, 0.0 if squares else -MAX_MAGNITUDE, MAX_SQUARE if squares else MAX_MAGNITUDE)
        elif name == "gpt.counters":
            drawn[name] = draw.like(array, 0, COUNT - 1)
        elif name == "gpt.contexts.shifts":
            drawn[name] = draw.like(array, 0, MOST_SHIFTS)
        else:
            drawn[name] = draw.like(array)
    n_symbols = int(draw(1, 0, COUNT - 1)[0])
    n_new = int(draw(1, 0, min(n_symbols, config.schedule.segment_symbols))[0])
    drawn["counters"] = np.array([n_symbols, n_new])
    if "recall.last" in state:
        drawn["recall.last"] = draw.like(state["recall.last"], 0, 255)
        successions = draw.like(state["recall.tables"], 0, MOST_SUCCESSIONS)
        drawn["recall.tables"] = draw.like(state["recall.tables"]) & ~0xFF00 | successions << 8
    if "mixer.past" in state:
        position = n_symbols if draw.random.random() < 0.5 else int(draw(1, 0, COUNT - 1)[0])
        past = np.array([int(draw(1, 0, limit)[0]) for limit in past_limits(position).tolist()])
        past[POSITION] = position
        if draw.random.random() < 0.5:
            past[MATCH] = max(0, position - int(draw(1, 0, 1 << 15)[0]))
        table = draw.like(state["mixer.table"])
        nodes = draw.like(table[:, 1:].astype(np.int64), 0, (N_HISTORIES << HISTORY_SHIFT) - 1)
        table[:, 1:] = nodes.astype(np.uint32).view(np.int32)
        drawn |= {
            "mixer.past": past,
            "mixer.table": table,
            "mixer.matches": draw.like(state["mixer.matches"], 0, position),
            "mixer.indirect": draw.like(state["mixer.indirect"], 0, HASH_MASK),
            "mixer.row_errors": draw.like(state["mixer.row_errors"], 0, 1 << 24),
            "mixer.last_weights": draw.like(state["mixer.last_weights"], -MAX_LAST_WEIGHT, MAX_LAST_WEIGHT),
        }
    return drawn


def restore(draw: Draw, coder: BitCoder, n_open: int) -> bool:
    """Restores a coder from a random checkpoint that online/checkpoint.py accepts after n_open symbols of a block."""
    encodes = coder.state[MODE] == ENCODE
    state = draw(len(coder.state), -(1 << 63), (1 << 63) - 1).view(np.uint64)
    n_words = int(draw(1, 0, WORDS_PER_SYMBOL * n_open + (0 if encodes else 2))[0])
    state[MODE], state[N_WORDS] = coder.state[MODE], n_words
    state[-1] = 0  # no fault
    state[WIDTH] |= np.uint64(1 << 32)
    words = draw(n_words if encodes else 0, 0, (1 << 32) - 1).astype(np.uint32)
    return coder.restore(state, words)


def coded(learner: OnlineLearner, coder: BitCoder, symbols: np.ndarray) -> np.ndarray:
    """Codes the symbols (n,) int64, or decodes as many, in segments."""
    done = []
    size = learner.schedule.segment_symbols
    for start in range(0, len(symbols), size):
        part = symbols[start : start + size].copy()
        learner.begin(len(part))
        learner.code(part, coder)
        learner.end(len(part))
        done.append(part)
    return np.concatenate(done)


def tried(learners: tuple[OnlineLearner, OnlineLearner], first: Arrays, seed: int) -> list[str]:
    """Loads a random state into both learners, then codes with it. Returns the outcomes."""
    draw, (one, other) = Draw(seed), learners
    state = random_state(draw, first, one.config)
    symbols = draw(N_SYMBOLS, 0, 255)
    one.load_state(state)
    other.load_state(state)
    frozen, outcomes = FrozenLearner(one), []

    def attempt(name: str, work: object) -> None:
        try:
            outcomes.append(f"{name}: {work()}")  # type: ignore[operator]
        except (ConfigError, CorruptArchiveError) as error:  # diverged; the coder's fault
            outcomes.append(f"{name}: {type(error).__name__}")

    def frozen_coding() -> str:
        coded(frozen, BitCoder(SCORE), symbols)
        frozen.restart()
        coded(frozen, BitCoder(DECODE, draw.random.bytes(400)), symbols[:50])
        return "done"

    def round_trip() -> str:
        encoder = BitCoder(ENCODE)
        coded(one, encoder, symbols)
        decoder = BitCoder(DECODE, encoder.payload())
        decoded = coded(other, decoder, np.zeros_like(symbols))
        decoder.check_end()
        same = np.array_equal(decoded, symbols) and one.digest() == other.digest()
        return "exact" if same else "other bits"

    def resumed(mode: int, payload: bytes = b"") -> str:
        coder = BitCoder(mode, payload)
        n_open = int(draw(1, 0, 300)[0])
        if not restore(draw, coder, n_open):
            return "refused"
        other.load_state(state)
        coded(other, coder, symbols[:100])
        coder.payload() if mode == ENCODE else coder.check_end()
        return "done"

    attempt("frozen", frozen_coding)
    attempt("round trip", round_trip)
    attempt("resumed encoder", lambda: resumed(ENCODE))
    attempt("resumed decoder", lambda: resumed(DECODE, draw.random.bytes(4 * int(draw(1, 0, 400)[0]))))
    return outcomes


def made_for(config: Config, mixing: int) -> OnlineLearner:
    """A learner whose mixer, if it has one, uses so many threads."""
    learner = Runtime(threads=1 if mixing == 1 else 2 * mixing).learner(config)  # the GPT's steps take half of them
    if learner.mixer:
        learner.mixer.threads.fixed = mixing
    return learner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="random states, in turn of each configuration")
    parser.add_argument("--first", type=int, default=0, help="number of the first state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mixing", type=int, default=1, help="threads that mix")
    parser.add_argument("--configs", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    args = parser.parse_args()
    assert "NUMBA_CACHE_DIR" in os.environ, "name an empty folder: other runs must not load kernels that check indices"
    with pytest.raises(IndexError):  # otherwise nothing is checked
        context_rows(np.zeros((1, 8), np.int64), np.array([100]), 16, np.zeros((1, 1), np.int64))
    np.seterr(all="ignore")
    outcomes: Counter[str] = Counter()
    failures: dict[str, str] = {}
    made = {}
    for name in args.configs:
        learner, other = (made_for(CONFIGS[name], args.mixing) for _ in range(2))
        coded(learner, BitCoder(SCORE), np.arange(300) % 256)
        made[name] = (learner, other), {key: array.copy() for key, array in learner.state().items()}
    for number in range(args.first, args.first + args.count):
        name = args.configs[number % len(args.configs)]
        learners, first = made[name]
        try:
            outcomes.update(f"{name}, {outcome}" for outcome in tried(learners, first, args.seed << 32 | number))
        except Exception as error:
            failures[f"state {number}, {name}"] = f"{type(error).__name__}: {error}"
            made[name] = (made_for(CONFIGS[name], args.mixing), made_for(CONFIGS[name], args.mixing)), first
    print(json.dumps({"outcomes": dict(sorted(outcomes.items())), "failures": failures}, indent=1))


if __name__ == "__main__":
    main()
