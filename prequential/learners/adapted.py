"""A learner of one's own in the loop of this program, and the law that it must keep (docs/LEARNERS.md).

For each run of n symbols the loop asks for n distributions, codes the symbols, and only then lets the learner learn from them.
The learner sees the run when it predicts, because one call for n symbols is n times as fast as n calls. So it could look ahead,
which is checked: in the first runs, and then in one of CHECK_EVERY, drawn at random.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import UNIT_BITS, BitCoder, ideal_bits

from prequential.errors import ConfigError, InvalidDistributionError, LawError, PrequentialError
from prequential.exact.arrays import digest, random_words, to_array
from prequential.learners.protocol import DEFAULT_RUN_SYMBOLS, MAX_RUN_SYMBOLS, OnlineModel
from prequential.model.config import N_SYMBOLS, ScheduleConfig
from prequential.model.mixer.mixing import code_plain

FIRST_CHECKED, CHECK_EVERY = 4, 16
# Log-probabilities of a learner that is not deterministic may move by so many nats: the order of its sums may change.
MAX_MOVE = 1e-4
FIRST_CAPACITY = 1 << 16
TOTAL = 1 << 24
WIDE_TOTAL_BITS = 32  # of alphabets that are not bytes, whose symbols are not written
MAX_SYMBOLS = 1 << 18
PART_VALUES = 1 << 22  # 32 MiB; all rows of bytes are one part
MAX_LOG_SUM = 0.01  # nats; reduced precision gives about half of that


class AdaptedLearner:
    """A Learner of the loop (online/loop.py) that asks an OnlineModel. Symbols are bytes, or ids in 0 .. V - 1."""

    gpt_bits = None
    update_size = None

    def __init__(self, model: OnlineModel, n_symbols: int, *, secret: int = 0) -> None:
        """n_symbols: V of the symbols that will come. secret: seeds the draw of checks. Raises ConfigError for an unfit model."""
        self.model = model
        self._n_alphabet = _checked_alphabet(model, n_symbols)
        self._deterministic = bool(getattr(model, "deterministic", False))
        self._secret, self._learns = secret, True
        self.schedule = schedule_of(model)
        self._seen, self._read = np.zeros(FIRST_CAPACITY, np.int64), hashlib.blake2b(digest_size=16)
        self.n_symbols, self._n_runs = 0, 0

    def begin(self, n_symbols: int) -> None:
        """Nothing happens between two runs."""

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """As of the loop: codes a run, or decodes it in place. Raises LawError or InvalidDistributionError with the place."""
        coder.reserve(len(symbols))
        if coder.decodes:
            bits = np.concatenate([self._decode(symbols, t, coder) for t in range(len(symbols))])
        else:
            found = self._checked_prediction(symbols)
            bits = np.concatenate(
                [_code(symbols[part], self._rows(found, part), coder) for part in self._parts(len(symbols))]
            )
        self._append(symbols)
        return bits

    def _decode(self, symbols: np.ndarray, t: int, coder: BitCoder) -> np.ndarray:
        """Decodes symbol t: predicts a run of the same length, of which it knows t symbols, so that equal sums are computed."""
        known = symbols.copy()
        known[t:] = 0
        return _code(symbols[t : t + 1], self._rows(self._predict(known), slice(t, t + 1)), coder)

    def end(self, n_symbols: int) -> None:
        """The learner learns from the run, unless it is frozen."""
        self._n_runs += 1
        if not self._learns:
            return
        run = self._seen[self.n_symbols - n_symbols : self.n_symbols]
        with named_failures(f"the learner's update failed at symbol {self.n_symbols - n_symbols}"):
            self.model.update(run.copy())

    def frozen(self) -> "AdaptedLearner":
        """A learner that has read the same and predicts with the same model, but does not learn. It reads what it codes."""
        frozen = copy.copy(self)
        frozen._seen, frozen._read, frozen._learns = self._seen.copy(), self._read.copy(), False
        return frozen

    # ---- predictions and their checks

    def _predict(self, symbols: np.ndarray) -> Any:
        """What the model says of the run: logarithms of its probabilities, not checked but for their shape."""
        context = self._seen[: self.n_symbols]  # what comes after it in this memory is zero, not the future
        context.flags.writeable = False
        with named_failures(f"the learner's predict failed at symbol {self.n_symbols}"):
            found = self.model.predict(context, symbols.copy())
        return checked_shape(found, len(symbols), self._n_alphabet)

    def _rows(self, found: Any, part: slice) -> np.ndarray:
        return checked_rows(found[part], self.n_symbols + part.start)

    def _parts(self, n: int) -> list[slice]:
        """Rows that are computed with at a time: those of a vocabulary are long, and become 64-bit numbers."""
        step = max(1, PART_VALUES // self._n_alphabet)
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def _checked_prediction(self, symbols: np.ndarray) -> Any:
        word = int(random_words(self._secret, f"law/{self.n_symbols}", 1)[0])
        if self._n_runs >= FIRST_CHECKED and word % CHECK_EVERY:
            return self._predict(symbols)
        place = (word >> 8) % len(symbols)
        others = random_words(self._secret, f"law/others/{self.n_symbols}", len(symbols) - place)
        changed = symbols.copy()
        steps = 1 + (others % np.uint64(self._n_alphabet - 1)).astype(np.int64)  # so that each symbol is another one
        changed[place:] = (changed[place:] + steps) % self._n_alphabet
        # The true run comes first or second, so that a learner cannot give its first answer again.
        before, true_first = self.digest(), bool(word >> 4 & 1)
        first = self._predict(symbols if true_first else changed)
        first = (
            first.detach().clone() if hasattr(first, "detach") else first.copy()
        )  # the model may use its memory again
        if self.digest() != before:
            where = f"symbols {self.n_symbols}-{self.n_symbols + len(symbols)}"
            raise LawError(f"{where}: predict changed the learner's state; only update may learn")
        second = self._predict(changed if true_first else symbols)
        for part in self._parts(place + 1):
            self._compare(self._rows(first, part), self._rows(second, part), part.start, place)
        return first if true_first else second

    def _compare(self, rows: np.ndarray, again: np.ndarray, start: int, place: int) -> None:
        same = (rows == again) | (~self._deterministic & (np.abs(np.exp(rows) - np.exp(again)) <= MAX_MOVE))
        if not same.all():
            t = start + int(np.argmin(same.all(axis=1)))
            what = f"the prediction of symbol {self.n_symbols + t} moves when symbols from {self.n_symbols + place} on change"
            raise LawError(f"{what}: the learner looks ahead, or equal calls do not give equal results")

    def _append(self, symbols: np.ndarray) -> None:
        needed = self.n_symbols + len(symbols)
        if needed > len(self._seen):
            self._seen = np.concatenate((self._seen, np.zeros(needed + len(self._seen), np.int64)))
        self._seen[self.n_symbols : needed] = symbols
        self._read.update(symbols.astype("<i8").tobytes())
        self.n_symbols = needed

    # ---- state

    def state(self) -> dict[str, np.ndarray]:
        """The arrays of the model's state_dict, by name; without one, only what was read."""
        with named_failures("the learner's state_dict failed"):
            values: Any = getattr(self.model, "state_dict", dict)()
        found = {f"model.{name}": array for name, array in arrays_of(values).items()}
        return found | {"read": np.frombuffer(self._read.digest(), np.uint8)}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """A learner of one's own cannot be resumed."""
        raise ConfigError("a run of your own learner cannot be resumed: start it again")

    def digest(self) -> bytes:
        return digest(self.state())


def schedule_of(model: OnlineModel) -> ScheduleConfig:
    """Segments of run_symbols symbols. Raises ConfigError if run_symbols is not such a number."""
    n = getattr(model, "run_symbols", DEFAULT_RUN_SYMBOLS)
    if not isinstance(n, int) or not 1 <= n <= MAX_RUN_SYMBOLS:
        raise ConfigError(f"run_symbols of the learner is {n!r}; give 1 to {MAX_RUN_SYMBOLS}")
    block_symbols = ScheduleConfig.block_symbols // n * n  # whole runs
    n_rows = -(-n // ScheduleConfig.row_symbols)  # a bound that is checked; nothing else depends on it
    return ScheduleConfig(first_segment_symbols=n, segment_symbols=n, n_rows=n_rows, block_symbols=block_symbols)


def arrays_of(value: Any, name: str = "") -> dict[str, np.ndarray]:
    """The arrays in nested dicts and lists, by their path. Raises ConfigError for values of other types."""
    if isinstance(value, Mapping):
        parts = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(str(i), each) for i, each in enumerate(value)]
    elif value is None or isinstance(value, str | bytes):
        return {name: np.frombuffer(repr(value).encode(), np.uint8)}
    elif isinstance(value, bool | int | float | np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ConfigError(f"state_dict of the learner: {name or 'its value'} has type {array.dtype}")
        return {name: array}
    elif hasattr(value, "detach"):
        tensor = value.detach()
        return {name: to_array(tensor if tensor.dtype.itemsize > 2 else tensor.float())}
    else:
        raise ConfigError(f"state_dict of the learner: {name or 'its value'} is a {type(value).__name__}")
    return {path: array for key, each in parts for path, array in arrays_of(each, f"{name}.{key}").items()}


def _code(symbols: np.ndarray, rows: np.ndarray, coder: BitCoder) -> np.ndarray:
    """Codes bytes, or decodes them in place; of other alphabets only the ideal code length is computed. Returns bits, (n,)."""
    if rows.shape[1] != N_SYMBOLS:
        chosen = integer_frequencies(rows, 1 << WIDE_TOTAL_BITS)[np.arange(len(symbols)), symbols]
        return np.asarray(np.rint((WIDE_TOTAL_BITS - np.log2(chosen)) / UNIT_BITS) * UNIT_BITS)
    frequencies = integer_frequencies(rows)
    coded = np.empty((len(symbols), 8), np.uint16)
    code_plain(symbols, frequencies.astype(np.int32), coded, coder.state, coder.words)
    return ideal_bits(coded)


# ---- distributions


def checked_shape(found: Any, n: int, n_symbols: int) -> Any:
    """The same array or tensor if it is (n, V). Raises InvalidDistributionError for anything else."""
    shape = getattr(found, "shape", None)
    if shape is None or not (isinstance(found, np.ndarray) or hasattr(found, "detach")):
        raise InvalidDistributionError(
            f"predict returned {type(found).__name__}; give log-probabilities as an array or a tensor"
        )
    if tuple(shape) != (n, n_symbols):
        raise InvalidDistributionError(
            f"predict returned shape {tuple(shape)} for {n} symbols; give ({n}, {n_symbols})"
        )
    return found


def checked_rows(found: Any, first: int) -> np.ndarray:
    """Log-probabilities as (n, V) float64, each row of which sums to one. first: the position of the first, for messages.

    Raises InvalidDistributionError for anything else.
    """
    try:
        rows = to_array(found.detach().double() if hasattr(found, "detach") else found)
    except RuntimeError as error:
        raise InvalidDistributionError(
            "predict returned a tensor that has no numbers: give log-probabilities"
        ) from error
    if rows.dtype.kind != "f":
        raise InvalidDistributionError(f"predict returned {rows.dtype}; give floating-point log-probabilities")
    rows = rows.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        log_sums = np.logaddexp.reduce(rows, axis=1)
    wrong = ~(np.abs(log_sums) <= MAX_LOG_SUM) | np.isnan(rows).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        what = "hold NaN" if np.isnan(rows[t]).any() else f"sum to {np.exp(min(log_sums[t], 700.0)):.6g}, not to 1"
        raise InvalidDistributionError(f"the probabilities for symbol {first + t} {what}")
    return np.asarray(rows - log_sums[:, None])


def integer_frequencies(rows: np.ndarray, total: int = TOTAL) -> np.ndarray:
    """(n, V) int64 from normalised log-probabilities (n, V) float64: each at least 1, the sum of each row `total`."""
    frequencies = 1 + np.floor(np.exp(rows) * (total - rows.shape[1])).astype(np.int64)
    frequencies[np.arange(len(rows)), frequencies.argmax(axis=1)] += total - frequencies.sum(axis=1)
    return frequencies


def _checked_alphabet(model: OnlineModel, n_symbols: int) -> int:
    for name in ("predict", "update"):
        if not callable(getattr(model, name, None)):
            raise ConfigError(f"{type(model).__name__} has no method {name!r}: see docs/LEARNERS.md")
    own = getattr(model, "n_symbols", None)
    if not isinstance(own, int) or not 2 <= own <= MAX_SYMBOLS:
        raise ConfigError(f"n_symbols of {type(model).__name__} is {own!r}; give a number from 2 to {MAX_SYMBOLS}")
    if own < n_symbols:
        raise ConfigError(
            f"{type(model).__name__} predicts {own} symbols; the corpus has symbols up to {n_symbols - 1}"
        )
    return own


@contextmanager
def named_failures(what: str) -> Iterator[None]:
    """What somebody else's code in the body raises becomes a ConfigError of one line: WHAT: TYPE: TEXT. Ctrl-C passes."""
    try:
        yield
    except PrequentialError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a library in Rust
            raise
        text = " ".join(str(error).split())[:300]
        raise ConfigError(": ".join(filter(None, [what, type(error).__name__, text]))) from error


def check_sequence(ids: Any, n_symbols: int) -> np.ndarray:
    """Ids of a tokenizer as (n,) int64. Raises ConfigError for anything else."""
    try:
        found = np.asarray(list(ids) if isinstance(ids, Sequence) else to_array(ids))
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the tokenizer's encode returned {type(ids).__name__}; give integers") from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ConfigError(f"the tokenizer's encode returned {found.dtype} of shape {found.shape}; give integers (n,)")
    if found.size and not 0 <= found.min() <= found.max() < n_symbols:
        raise ConfigError(f"the tokenizer gives id {found.max()}, but the learner predicts {n_symbols} symbols")
    return found.astype(np.int64)
