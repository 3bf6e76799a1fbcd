"""A learner of one's own in the loop of this program, and the law that it must keep.

For each run of n symbols the loop asks for n distributions, codes the symbols, and only then lets the learner learn from them.
The learner sees the run when it predicts, because one call for n symbols is n times as fast as n calls. So it could look ahead.
That is checked. In the first runs, and then in one of CHECK_EVERY, drawn at random:

    future    the symbols from a drawn place on are replaced by others. The distributions up to that place must not move
    nll       where the learner gives the nats of the true symbols, they agree with its distributions
    state     the digest of state_dict() before and after, in one of STATE_EVERY runs. Predicting is not learning
"""

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import BitCoder, ideal_bits

from prequential.errors import CausalityError, ConfigError
from prequential.exact.arrays import digest
from prequential.learners.distributions import (
    MAX_NATS,
    TOTAL,
    checked_nats,
    checked_rows,
    chunks,
    integer_frequencies,
    named_failures,
    nll_bits,
    probabilities,
    row_bits,
)
from prequential.learners.protocol import DEFAULT_RUN_SYMBOLS, MAX_RUN_SYMBOLS, OnlineModel
from prequential.machine.facts import usable_memory_bytes
from prequential.model.config import N_SYMBOLS, ScheduleConfig
from prequential.model.mixer.mixing import code_plain

FIRST_CHECKED, CHECK_EVERY, STATE_EVERY = 4, 16, 128  # the second divides the third
# Probabilities of a learner that is not deterministic may move by so much: the order of its sums may change.
MAX_MOVE = 1e-4
MAX_NLL_MOVE = 1e-3  # nats
FIRST_CAPACITY = 1 << 16
MAX_SYMBOLS = 1 << 18
NOT_RESUMED = "a run of your own learner cannot be resumed: start it again"
MODEL, SEEN = "model.", "seen"


class AdaptedLearner:
    """A Learner of the loop (online/loop.py) that asks an OnlineModel. Symbols are bytes, or ids in 0 .. V - 1."""

    gpt_bits = None
    update_size = None

    def __init__(self, model: OnlineModel, n_symbols: int, *, secret: int = 0, n_known: int = 0) -> None:
        """n_symbols: V of the symbols that will come. secret: seeds the draw of checks. n_known: runs before it.

        Raises ConfigError for an unfit model.
        """
        own, kind = getattr(model, "n_symbols", None), type(model).__name__
        for name in ("predict", "update"):
            if not callable(getattr(model, name, None)):
                raise ConfigError(f"{kind} has no method {name!r}: see docs/LEARNERS.md")
        if not isinstance(own, int) or not 2 <= own <= MAX_SYMBOLS:
            raise ConfigError(f"n_symbols of {kind} is {own!r}; give a number from 2 to {MAX_SYMBOLS}")
        if own < n_symbols:
            raise ConfigError(f"{kind} predicts {own} symbols; the corpus has {n_symbols}")
        self.model, self._n_alphabet = model, own
        self._deterministic = bool(getattr(model, "deterministic", False))
        self._gives_nll = callable(getattr(model, "nll", None)) and not is_coded(model)
        self._draws, self._learns = np.random.default_rng(secret), True
        self.schedule: ScheduleConfig = schedule_of(model)
        self._seen, self._read = np.zeros(FIRST_CAPACITY, np.int64), hashlib.blake2b(digest_size=16)
        self.n_symbols, self._n_runs = 0, n_known

    def begin(self, n_symbols: int) -> None:
        """Nothing happens between two runs."""

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """As of the loop: codes a run, or decodes it in place. Raises CausalityError, InvalidDistributionError with the place."""
        coder.reserve(len(symbols))
        if not coder.decodes:
            bits = self._code_known(symbols, coder)
        else:  # predicts a run of the same length, of which it knows t symbols, so that equal sums are computed
            bits, known = np.empty(len(symbols)), np.zeros_like(symbols)
            for t in range(len(symbols)):
                row, symbol = self._predict(known)[t : t + 1], symbols[t : t + 1]
                bits[t] = _code(symbol, row, coder, self.n_symbols + t)[0]
                known[t] = symbol[0]
        self._append(symbols)
        return bits

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

    def _code_known(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        word, is_early = int(self._draws.integers(1 << 62)), self._n_runs < FIRST_CHECKED
        before = self.digest() if is_early or not word % STATE_EVERY else None
        # The nats come first, so that a learner cannot know whether its distributions will be asked, too.
        nats = self._nll(symbols) if self._gives_nll else None
        rows = self._predict_checked(symbols, word, before) if is_early or not word % CHECK_EVERY else None
        if nats is None:
            return _code(symbols, self._predict(symbols) if rows is None else rows, coder, self.n_symbols)
        if rows is not None:
            self._compare_nats(nats, rows, symbols)
        return nll_bits(nats, self._n_alphabet)

    def _predict_checked(self, symbols: np.ndarray, word: int, before: bytes | None) -> np.ndarray:
        """Predicts the run, and checks the learner at a place that `word` draws. before: the digest that it must still have."""
        place = (word >> 8) % len(symbols)
        changed = self._changed(symbols, place)
        # The true run comes first or second, so that a learner cannot give its first answer again.
        is_first = bool(word >> 7 & 1)
        first = self._predict(symbols if is_first else changed).copy()  # the learner may use its memory again
        second = self._predict(changed if is_first else symbols)
        if before is not None and self.digest() != before:
            where = f"symbols {self.n_symbols}-{self.n_symbols + len(symbols)}"
            raise CausalityError(f"{where}: predict changed the learner's state; only update may learn")
        self._compare(first[: place + 1], second[: place + 1], place)
        return first if is_first else second

    def _predict(self, symbols: np.ndarray) -> np.ndarray:
        with named_failures(f"the learner's predict failed at symbol {self.n_symbols}"):
            rows = self.model.predict(self._context(), symbols.copy())
        return checked_rows(rows, len(symbols), self._n_alphabet)

    def _nll(self, symbols: np.ndarray) -> np.ndarray:
        model: Any = self.model
        with named_failures(f"the learner's nll failed at symbol {self.n_symbols}"):
            nats = model.nll(self._context(), symbols.copy())
        return checked_nats(nats, len(symbols), self.n_symbols)

    def _context(self) -> np.ndarray:
        context = self._seen[: self.n_symbols]  # what comes after it in this memory is zero, not the future
        context.flags.writeable = False
        return context

    def _changed(self, symbols: np.ndarray, place: int) -> np.ndarray:
        """The run with another symbol in each place from `place` on."""
        changed = symbols.copy()
        changed[place:] += self._draws.integers(1, self._n_alphabet, len(symbols) - place)
        changed[place:] %= self._n_alphabet
        return changed

    def _compare(self, rows: np.ndarray, again: np.ndarray, place: int) -> None:
        if np.array_equal(rows, again):
            return
        for part in chunks(rows):
            p, q = (probabilities(each[part], self.n_symbols + part.start) for each in (rows, again))
            same = p == q if self._deterministic else np.abs(p - q) <= MAX_MOVE
            if not same.all():
                t = self.n_symbols + part.start + int(np.argmin(same.all(axis=1)))
                what = f"the prediction of symbol {t} moves when symbols from {self.n_symbols + place} on change"
                raise CausalityError(f"{what}: the learner looks ahead, or equal calls do not give equal results")

    def _compare_nats(self, nats: np.ndarray, rows: np.ndarray, symbols: np.ndarray) -> None:
        """nll must agree with the rows, and with itself: else it learns."""
        true = np.empty(len(symbols))
        for part in chunks(rows):
            p = probabilities(rows[part], self.n_symbols + part.start)
            with np.errstate(divide="ignore"):
                true[part] = -np.log(p[np.arange(len(p)), symbols[part]])
        again = np.minimum(self._nll(symbols), MAX_NATS)
        for other, what in ((np.minimum(true, MAX_NATS), "predict"), (again, "its second call")):
            wrong = np.abs(np.minimum(nats, MAX_NATS) - other) > MAX_NLL_MOVE
            if wrong.any():
                t = int(np.argmax(wrong))
                text = f"nll of symbol {self.n_symbols + t} is {nats[t]:.6g}, but {what} gives {other[t]:.6g}"
                raise CausalityError(f"{text}: the learner looks ahead, learns in nll, or computes another loss")

    def _append(self, symbols: np.ndarray) -> None:
        needed = self.n_symbols + len(symbols)
        if needed > len(self._seen):
            self._seen = np.concatenate((self._seen, np.zeros(needed + len(self._seen), np.int64)))
        self._seen[self.n_symbols : needed] = symbols
        self._read.update(symbols.astype("<i8", copy=False).data)
        self.n_symbols = needed

    # ---- state

    @property
    def resumes(self) -> bool:
        """Whether the learner can save its state and load it."""
        return all(callable(getattr(self.model, name, None)) for name in ("state_dict", "load_state_dict"))

    def state(self) -> dict[str, np.ndarray]:
        """The arrays of the model's state_dict (learners/adapted.py), and the symbols read."""
        seen = self._seen[: self.n_symbols]
        return self._model_state() | {SEEN: seen.astype(np.uint8 if self._n_alphabet <= N_SYMBOLS else np.int32)}

    def state_like(self, types: Mapping[str, tuple[np.dtype, tuple[int, ...]]]) -> dict[str, np.ndarray]:
        """Arrays like those of a saved state, which grows; without memory. Raises ValueError for a state of no such learner."""
        if sum(math.prod(shape) * dtype.itemsize for dtype, shape in types.values()) > usable_memory_bytes():
            raise ValueError("it needs more memory than there is")
        return {name: np.broadcast_to(np.zeros((), dtype), shape) for name, (dtype, shape) in types.items()}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continues from the `state` of an equal learner. Raises ValueError for damage."""
        model: Any = self.model
        if any(array.ndim != 1 or (array.dtype != np.uint8 and name != SEEN) for name, array in arrays.items()):
            raise ValueError("its arrays have other types")
        state = restored({name.removeprefix(MODEL): array for name, array in arrays.items() if name != SEEN})
        with named_failures("the learner's load_state_dict failed"):
            model.load_state_dict(state)
        seen = arrays[SEEN].astype(np.int64)
        if seen.size and not 0 <= seen.min() <= seen.max() < self._n_alphabet:
            raise ValueError("symbols out of range")
        self._append(seen)

    def digest(self) -> bytes:
        return digest(self._model_state() | {"read": np.frombuffer(self._read.digest(), np.uint8)})

    def _model_state(self) -> dict[str, np.ndarray]:
        with named_failures("the learner's state_dict failed"):
            values: Any = getattr(self.model, "state_dict", dict)()
            return {MODEL + name: array for name, array in flattened(values).items()}


def is_coded(model: OnlineModel) -> bool:
    """Whether its symbols are written into an archive: bytes, of a learner that can be repeated."""
    return getattr(model, "tokenizer", None) is None and bool(getattr(model, "deterministic", False))


def schedule_of(model: OnlineModel) -> ScheduleConfig:
    """Segments of run_symbols symbols. Raises ConfigError if run_symbols is not such a number."""
    n = getattr(model, "run_symbols", DEFAULT_RUN_SYMBOLS)
    if not isinstance(n, int) or not 1 <= n <= MAX_RUN_SYMBOLS:
        raise ConfigError(f"run_symbols of the learner is {n!r}; give 1 to {MAX_RUN_SYMBOLS}")
    block_symbols = ScheduleConfig.block_symbols // n * n  # whole runs
    n_rows = -(-n // ScheduleConfig.row_symbols)  # a bound that is checked; nothing else depends on it
    return ScheduleConfig(first_segment_symbols=n, segment_symbols=n, n_rows=n_rows, block_symbols=block_symbols)


def _code(symbols: np.ndarray, rows: np.ndarray, coder: BitCoder, first: int) -> np.ndarray:
    """Codes bytes, or decodes them in place; of other alphabets only the ideal code length is computed. Returns bits, (n,).

    rows: log-probabilities (n, V). first: the position of the first symbol.
    """
    if rows.shape[1] != N_SYMBOLS:
        return row_bits(rows, symbols, first)
    frequencies, coded = np.empty(rows.shape, np.int32), np.empty((len(symbols), 8), np.uint16)
    for part in chunks(rows):
        integer_frequencies(probabilities(rows[part], first + part.start), TOTAL, frequencies[part])
    code_plain(symbols, frequencies, coded, coder.state, coder.words)
    return ideal_bits(coded)


# ---- states


STRUCTURE, SMALL = "structure", "small"
SMALL_BYTES = 1 << 12
PLAIN = (bool, int, float, str, type(None))


def flattened(state: Any) -> dict[str, np.ndarray]:
    """Arrays (n,) uint8 by name; of tensors and arrays in their own memory if possible. Raises ConfigError for other types."""
    arrays: dict[str, np.ndarray] = {}
    small = bytearray()

    def place(values: np.ndarray) -> list[int]:
        if values.size >= SMALL_BYTES:
            arrays[str(len(arrays))] = values
            return [len(arrays) - 1]
        small.extend(values.data)
        return [len(small) - values.size, values.size]

    def walked(value: Any, name: str) -> Any:
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, Mapping):
            return {"dict": [[walked(key, name), walked(each, f"{name}.{key}")] for key, each in value.items()]}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [walked(each, f"{name}.{i}") for i, each in enumerate(value)]}
        if hasattr(value, "detach"):
            return {"tensor": place(_bytes_of(value)), "dtype": str(value.dtype), "shape": list(value.shape)}
        array = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value)
        if array.dtype.kind not in "biufc":
            raise ConfigError(f"state_dict of the learner: {name or 'its value'} is a {type(value).__name__}")
        kind = "bytes" if isinstance(value, bytes) else "array"
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return {kind: place(raw), "dtype": array.dtype.str, "shape": array.shape}

    structure = json.dumps(walked(state, "")).encode()
    both = {STRUCTURE: structure, SMALL: bytes(small)}
    return arrays | {name: np.frombuffer(data, np.uint8) for name, data in both.items()}


def _bytes_of(tensor: Any) -> np.ndarray:
    import torch

    flat = tensor.detach().contiguous().reshape(-1)
    return np.asarray(flat.view(torch.uint8).numpy(force=True)) if flat.numel() else np.zeros(0, np.uint8)


def restored(arrays: Mapping[str, np.ndarray]) -> Any:
    """The state that `flattened` had, in memory of its own; tensors on the processor. Raises ValueError for other arrays."""

    def built(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kind, inside = next(iter(value.items()))
        if kind == "dict":
            return {built(key): built(each) for key, each in inside}
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(map(built, inside))
        is_small = len(inside) == 2
        values = (arrays[SMALL][inside[0] : sum(inside)] if is_small else arrays[str(inside[0])]).copy()
        if kind == "bytes":
            return values.tobytes()
        if kind == "tensor":
            import torch

            dtype = getattr(torch, value["dtype"].removeprefix("torch."))
            if not isinstance(dtype, torch.dtype):
                raise ValueError("not a type of a tensor")
            flat = torch.from_numpy(values).view(dtype) if values.size else torch.zeros(0, dtype=dtype)
            return flat.reshape(value["shape"])
        return values.view(np.dtype(value["dtype"])).reshape(value["shape"])[()]  # of a number, itself

    try:
        return built(json.loads(arrays[STRUCTURE].tobytes()))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError, RuntimeError) as error:
        raise ValueError(f"the state of the learner is damaged: {type(error).__name__}") from error
