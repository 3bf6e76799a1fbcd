"""A learner that is audited while it runs. The audit finds flipped bits and repeated errors, and changes no coded bit.

docs/RELIABILITY.md says what is compared and when, which faults are found, and what it costs. A second reader, mixer and history
are in `Shadow`. The rows of a step are compared with those drawn from the second history.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from prequential_codecs.bit_coder import ENCODE, FOLLOW, MODE, BitCoder, ideal_bits

from prequential.errors import FaultError, InexactMachineError
from prequential.exact import fused, matmul, plain
from prequential.exact.arrays import digest, random_words, to_array, to_tensor
from prequential.exact.backend import Backend, Primitives
from prequential.exact.matmul import Matmul
from prequential.model.config import Config, GPTConfig
from prequential.model.gpt.context_table import TENSORS, ContextGradient, ContextTable
from prequential.model.gpt.gpt import GPT, NOT_LEARNED
from prequential.model.gpt.reader import Reader
from prequential.model.gpt.weights import Weights
from prequential.model.history import History
from prequential.model.learner import OnlineLearner, code_symbols, segment_inputs, training_rows
from prequential.model.mixer.mixer import Mixer

Array = np.ndarray
Tensor = torch.Tensor

MEMORY = "memory"
TRANSIENT = "memory or processor"


@dataclass(frozen=True)
class Crossed(Matmul):
    """Products of single matrices by one method and of batches by another; int8 and float32 share their batched method."""

    batches: str

    def batched(self, a: Tensor, b: Tensor) -> Tensor:
        return Matmul(self.batches).batched(a, b)


def other_primitives(backend: Backend) -> Primitives:
    """The primitives that this backend does not use."""
    return plain if backend.primitives.COMPILED else fused


def opposite(backend: Backend) -> Backend:
    """The backend that shares as little code as possible: the other primitives and, if exact here, other library routines."""
    own = backend.matmul.name
    names = [matmul.name for matmul in exact_matmuls()]
    products = next((name for name in names if name != own), own)
    batches = "float32" if own == "float64" else "float64"
    crossed = Crossed(products, batches if batches in names else own)
    return replace(backend, primitives=other_primitives(backend), matmul=crossed)


def exact_matmuls() -> list[Matmul]:
    """Every matmul method that passes its self-test on this machine, in the order of their usual speed."""
    passed = []
    for name in matmul.BACKEND_NAMES:
        with suppress(InexactMachineError):
            passed.append(matmul.choose("cpu", name))
    return passed


def likely_cause(compute: Callable[[Backend], bytes], own: Backend, observed: bytes | None = None) -> str:
    """The likely cause of a deviation, in words: the library if another matmul gives another result, the program if other
    primitives do, else a transient fault.

    compute: the digest of the result on a backend, always from the same operands. own, observed: the run's backend and result.
    """
    result = compute(own)
    if compute(own) != result or observed not in (None, result):
        return f"{TRANSIENT} (computed again, the result is different)"
    results = {own.matmul.name: result}
    results |= {m.name: compute(replace(own, matmul=m)) for m in exact_matmuls() if m != own.matmul}
    if len(set(results.values())) > 1:
        common, count = Counter(results.values()).most_common(1)[0]  # of two that differ, the run's own is in question
        few = [name for name, found in results.items() if found != common] if count > 1 else [own.matmul.name]
        return f"library (products by {', '.join(few)} differ from those by {', '.join(results.keys() - set(few))})"
    if compute(replace(own, primitives=other_primitives(own))) != result:
        return "program (compiled and plain kernels differ)"
    return f"{TRANSIENT} (computed again on every backend, the result is right)"


MAX_NAMES = 10  # of tensors in a message
WRITTEN_BY_STEPS = ("embedding", "contexts")  # tensors that steps write in place while a segment is read with them


def digests(tensors: Mapping[str, Array | Tensor]) -> dict[str, bytes]:
    """The digest of each tensor, by name."""
    return {name: digest({name: tensor}) for name, tensor in tensors.items()}


def differing(a: Mapping[str, Array | Tensor], b: Mapping[str, Array | Tensor]) -> list[str]:
    """Names of the tensors of `a` whose bits differ in `b`."""
    return [name for name, tensor in a.items() if digest({name: tensor}) != digest({name: b[name]})]


class WatchedGPT(GPT):
    """A GPT that keeps the digest of each of its tensors from when the tensor was last written."""

    def __init__(self, config: GPTConfig, seed: int, backend: Backend) -> None:
        super().__init__(config, seed, backend)
        self._recorded = digests(self.tensors())
        # names of tensors that changed between their last writing and their update
        self.changed_in_step: list[str] = []

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that must not change between segments: the state, and the levels and scales made of it."""
        return self.state() | {name: t for name, t in self._weights.inference_tensors().items() if name != "embedding"}

    def learned(self) -> dict[str, Tensor]:
        """Those of `tensors` that a step writes."""
        return {name: t for name, t in self.tensors().items() if not name.startswith(NOT_LEARNED)}

    def recorded(self, names: Iterable[str]) -> dict[str, bytes]:
        """The digests that these tensors had when they were last written."""
        return {name: self._recorded[name] for name in names}

    def changed(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Names of the given tensors that changed since they were last written."""
        return [name for name, value in digests(tensors).items() if value != self._recorded[name]]

    def reading_tensors(self) -> dict[str, Tensor]:
        """The tensors that the next segment will be read with, and the counters."""
        return {
            name: t for name, t in self.state().items() if name.startswith(NOT_LEARNED)
        } | self._weights.inference_tensors()

    def record(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes the digests of tensors that have just been written."""
        self._recorded |= digests(tensors)

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        super().load_state(tensors)
        self._recorded, self.changed_in_step = digests(self.tensors()), []

    def second_reading(self, n_columns: int) -> "SecondReading":
        """A second prediction of the segment that is about to begin."""
        return SecondReading(self._weights.snapshot(), self._reader.fork(), n_columns)

    def _update_parameter(
        self, name: str, gradient: Callable[[], Tensor] | ContextGradient, factor: float | Tensor
    ) -> None:
        if isinstance(gradient, ContextGradient):
            self.changed_in_step += self.changed(self._tensors_of(name))
            super()._update_parameter(name, gradient, factor)
            self.record(self._tensors_of(name) | committed(self._weights.contexts))
            return

        def gradient_then_check() -> Tensor:
            result = gradient()
            self.changed_in_step += self.changed(self._tensors_of(name))
            return result

        super()._update_parameter(name, gradient_then_check, factor)
        self.record(self._tensors_of(name))

    def _tensors_of(self, name: str) -> dict[str, Tensor]:
        """The tensors that a step of the named parameter writes."""
        if name == "contexts":
            return self._weights.contexts.state()
        if name in self._hidden_matrices:
            linear, tensors = self._hidden_matrices[name], {f"momentum.{name}": self._momentum[name]}
        else:
            linear = self._weights.head
            tensors = dict(zip((f"adam.mean.{name}", f"adam.square.{name}"), self._adam[name], strict=True))
            if name == "embedding":
                return {name: self._weights.embedding, **tensors}
        return {name: linear.weight, f"{name}.levels": linear.levels, f"{name}.scale": linear.scale, **tensors}


def committed(table: ContextTable) -> dict[str, Tensor]:
    """The state of the table as `commit` will leave it, in copies."""
    copied = copy(table)
    copied.pending = list(table.pending)
    for name in TENSORS:
        setattr(copied, name, getattr(table, name).clone())
    copied.commit()
    return copied.state()


def watched_gpt(config: Config, backend: Backend) -> WatchedGPT:
    """A fresh GPT of a configuration that has one."""
    assert config.gpt is not None
    return WatchedGPT(config.gpt, config.seed, backend)


@dataclass(frozen=True)
class SecondReading:
    """A segment to be predicted: the weights, and a reader before it, of which each prediction takes a fork."""

    weights: Weights
    reader: Reader
    n_columns: int

    def predict(
        self, inputs: np.ndarray, backend: Backend, *, by_column: bool = False
    ) -> tuple[np.ndarray, dict[str, Tensor]]:
        """Frequencies (n, V) int32 of the symbols after inputs (n, E) int64, and the `carried` keys and values afterwards.

        by_column: one column at a time, as a decoder does.
        """
        reader = self.reader.fork()
        reader.begin(self.weights.with_backend(backend), self.n_columns)
        recent = to_tensor(inputs)
        if by_column:
            logits = torch.cat([reader.forward(recent[t : t + 1], t) for t in range(len(recent))])
        else:
            logits = reader.forward(recent, 0)
        return to_array(backend.primitives.frequencies(logits)), {
            f"carried.{name}": t for name, t in reader.carried_cache().items()
        }


class Shadow:
    """A second mixer and history, with arrays of their own."""

    def __init__(self, config: Config) -> None:
        self.history: History = History.of(config)
        self.mixer: Mixer | None = Mixer(config.mixer, self.history.ring) if config.mixer else None
        self._coder: BitCoder | None = None  # the coder that `second_coder` repeats

    def second_coder(self, coder: BitCoder, n_symbols: int) -> BitCoder:
        """The coder that repeats `coder`: an encoder for an encoder. Call it before `coder` codes the next n_symbols."""
        if coder is not self._coder:
            self._coder, encodes = coder, coder.state[MODE] == ENCODE
            self._second = BitCoder(ENCODE if encodes else FOLLOW)
            if encodes:
                self._second.restore(*coder.saved())
        self._second.reserve(n_symbols)
        return self._second

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continues from the state of a learner."""
        self._coder = None
        self.history.load_state(arrays, int(arrays["counters"][0]))
        if self.mixer:
            self.mixer.load_state({name: arrays[f"mixer.{name}"] for name in self.mixer.state()})

    def state(self) -> dict[str, np.ndarray]:
        """The part of a learner's state that mixer and history make up."""
        arrays = {f"mixer.{name}": array for name, array in self.mixer.state().items()} if self.mixer else {}
        return arrays | self.history.state()


class AuditedLearner(OnlineLearner):
    """An audited OnlineLearner, which codes the same bits. Every method may raise FaultError."""

    def __init__(self, config: Config, backend: Backend | None, every: int) -> None:
        """backend: None for a configuration without a GPT. every: segments in a period, at least 1."""
        self._watched = watched_gpt(config, backend) if backend and config.gpt else None
        step_thread = backend is not None and backend.pool.n_threads > 1
        super().__init__(config, self._watched, step_thread=step_thread)
        self._every, self._n_segments = every, 0
        self._shadow = Shadow(config)
        self._n_compared = 0  # symbols read at the last comparison of all arrays of mixer and history
        self._start = self._stop = 0  # the open segment
        self._frequencies: list[np.ndarray] = []  # the learner's own, of the open segment

    def begin(self, n_symbols: int) -> None:
        self._start, self._stop = self.history.n_symbols, self.history.n_symbols + n_symbols
        self._rows_taken: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        if self._watched:
            self._check_unchanged(self._watched.reading_tensors())
            self._is_drawn = self._n_segments % self._every == self._draw()
            state = self._watched.state() if self._is_drawn else {}
            self._state_before = {name: t.clone() for name, t in state.items()}
            self._reading = self._watched.second_reading(n_symbols)
            self._read_with = self._watched.recorded(
                name for name in self._reading.weights.inference_tensors() if name not in WRITTEN_BY_STEPS
            )
        super().begin(n_symbols)

    def _draw(self) -> int:
        """The place of the drawn segment in the current period. With every > 1, not the run's first segment: it has no step."""
        first = self._n_segments - self._n_segments % self._every
        drawn = int(random_words(self.config.seed, f"audit/{first}", 1)[0] % np.uint64(self._every))
        return max(drawn, min(1, self._every - 1)) if first == 0 else drawn

    def _training_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = super()._training_rows()
        second = training_rows(self.config, self._shadow.history, self._last_segment_size)
        if not all(np.array_equal(a, b) for a, b in zip(rows, second, strict=True)):
            raise self._fault(["history"], MEMORY)
        self._rows_taken = rows
        return rows

    def gpt_frequencies(self, inputs: np.ndarray, first: int) -> np.ndarray:
        rows = super().gpt_frequencies(inputs, first)
        self._frequencies.append(rows)
        return rows

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        self._frequencies = []
        shadow, second = self._shadow, self._shadow.second_coder(coder, len(symbols))
        bits = super().code(symbols, coder)
        names, frequencies = [], None
        if self._watched:
            inputs = segment_inputs(self.config, shadow.history, symbols)
            own = self._watched.backend
            frequencies, carried = self._reading.predict(inputs, opposite(own) if self._is_drawn else own)
            if self._frequencies and not np.array_equal(np.concatenate(self._frequencies), frequencies):
                names.append("gpt.frequencies")
            names += [f"gpt.{name}" for name in differing(carried, self._watched.state())]
            self._watched.record(carried)
        costs = ideal_bits(code_symbols(frequencies, shadow.mixer, symbols.copy(), second))
        shadow.history.append(symbols)
        if names:
            assert self._watched is not None
            raise self._fault(names, self._cause_of_prediction(self._watched.backend, inputs, coder))
        if not np.array_equal(bits, costs):
            why = self._cause_of_prediction(self._watched.backend, inputs, coder) if self._watched else TRANSIENT
            raise self._fault(["the costs of symbols", *differing(shadow.state(), super().state())], why)
        if coder.state[MODE] == ENCODE and not all(map(np.array_equal, coder.saved(), second.saved())):
            raise self._fault(["the coder"], TRANSIENT)
        return bits

    def _cause_of_prediction(self, own: Backend, inputs: np.ndarray, coder: BitCoder) -> str:
        """The likely cause, where the two predictions of the open segment differ."""

        def predicted(backend: Backend, by_column: bool = False) -> bytes:
            frequencies, carried = self._reading.predict(inputs, backend, by_column=by_column)
            return digest(carried | {"frequencies": to_tensor(frequencies)})

        batched = predicted(own)
        if coder.decodes and predicted(own, by_column=True) != batched == predicted(opposite(own)):
            return "program (the decoder's columns differ)"
        return likely_cause(predicted, own)

    def end(self, n_symbols: int) -> None:
        super().end(n_symbols)
        if self._watched:
            found = digests(self._reading.weights.inference_tensors())
            changed = [name for name, value in self._read_with.items() if value != found[name]]
            if names := self._watched.changed_in_step + changed:
                raise self._fault([f"gpt.{name}" for name in names], MEMORY)
            self._watched.record({"counters": self._watched.state()["counters"]})
            if self._is_drawn and self._rows_taken:
                self._check_step(self._watched, self._rows_taken)
        self._n_segments += 1
        if self._n_segments % self._every == 0:
            self._compare_shadow()

    def _check_step(self, gpt: WatchedGPT, rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Repeats the segment's step on the opposite backend. Raises FaultError if any tensor differs."""

        def stepped(backend: Backend) -> dict[str, Tensor]:
            again = watched_gpt(self.config, backend)
            again.load_state(self._state_before)
            again.update(*map(to_tensor, rows))
            again.end()
            return again.learned()

        if names := differing(gpt.learned(), stepped(opposite(gpt.backend))):
            why = likely_cause(lambda backend: digest(stepped(backend)), gpt.backend, digest(gpt.learned()))
            raise self._fault([f"gpt.{name}" for name in names], why)

    def _check_unchanged(self, tensors: Mapping[str, Tensor]) -> None:
        """Raises FaultError for a tensor of the GPT that changed since it was last written."""
        if self._watched and (names := self._watched.changed(tensors)):
            raise self._fault([f"gpt.{name}" for name in names], MEMORY)

    def _compare_shadow(self) -> None:
        """Compares all arrays of mixer and history with those of the shadow."""
        if names := differing(self._shadow.state(), super().state()):
            self._start = self._n_compared
            raise self._fault(names, TRANSIENT)
        self._n_compared = self.history.n_symbols

    def state(self) -> dict[str, np.ndarray]:
        """`OnlineLearner.state`, after a check of all of it: a digest or a checkpoint will be made of it."""
        if self._watched:
            self._check_unchanged(self._watched.tensors())
        self._compare_shadow()
        return super().state()

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().load_state(arrays)
        self._shadow.load_state(arrays)
        self._n_segments, self._n_compared = 0, self.history.n_symbols
        self._start = self._stop = self._n_compared

    def _fault(self, names: list[str], why: str) -> FaultError:
        """names: the deviating tensors and values. They deviate since `_start`."""
        shown = names[:MAX_NAMES] + [f"{len(names) - MAX_NAMES} more"] * (len(names) > MAX_NAMES)
        block = self._start // self.config.schedule.block_symbols
        where = f"block {block} (original bytes {self._start}-{self._stop})"
        return FaultError(f"audit: {where}: {', '.join(shown)}: changed or miscomputed; likely cause: {why}")
