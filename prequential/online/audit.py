"""A learner that is audited while it runs: flipped bits are found, and no bit that is coded is another.

What is compared, and when:

    GPT at rest       digests of all it holds, taken when each tensor was last written: of what a segment is read with, before it
                      and after it; of a parameter and its optimiser state, before their update; of all, before a block is written
    predictions       each segment is predicted twice: by the learner, and by a second reader with keys and values of its own
                      and a second mixer and history (`Shadow`) with arrays of their own. After the segment: the GPT's
                      frequencies (an encoder's), costs of the symbols, keys and values, the encoder's words
    mixer, history    all arrays of both, after every `every` segments, at each checkpoint and before a block is written
    rows of a step    with those drawn from the second history
    one segment       of each `every`, drawn: the second prediction is made by another matmul backend and other kernels
                      (`Way.opposite`), and so is the GPT's whole step, from a copy of its state before; all tensors after it

So a bit that flips in the learner's memory or in what a prediction computes, and what a library or the program gets wrong again
and again, is found within `every` segments. What remains is a passing fault within the computation of a step (a temporary, or a
parameter in the milliseconds of its update): that is found if the segment is the drawn one, and so always with every = 1.

Cost at the default preset, 100 kB: some 30 % of the run's time with every = 64, 48 % with 16. A prediction is made twice (17 %,
and 30 % once segments have 1024 symbols), digests take 4 %, all arrays of two mixers 110 ms, the drawn segment's step in the
opposite way 410 ms where the run's own takes 120. Memory: a second mixer and history, and the GPT's state once or twice more.
docs/AUDIT.md has the measurements.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch

from prequential.codecs.bit_coder import ENCODE, FOLLOW, MODE, BitCoder, ideal_bits
from prequential.errors import FaultError
from prequential.exact.digest import digest
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.exact.random import random_words
from prequential.model.config import N_SYMBOLS, Config
from prequential.model.gpt.context_table import ContextGradient
from prequential.model.gpt.gpt import GPT, NOT_LEARNED, Reader, Weights
from prequential.model.history import History
from prequential.model.learner import Learner, code_under, inputs_of_segment, rows_of_step
from prequential.model.mixer.mixer import Mixer
from prequential.online.recomputing import MEMORY, TRANSIENT, Way, cause

Tensor = torch.Tensor

MAX_NAMES = 10  # of tensors in a message
WRITTEN = ("embedding", "contexts")  # of what a segment is read with, in place, by steps


def digests(tensors: Mapping[str, Tensor]) -> dict[str, bytes]:
    """Each tensor's own digest."""
    return {name: digest({name: tensor}) for name, tensor in tensors.items()}


def differing(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> list[str]:
    """Names, of a, of the tensors that are not the same bits in b."""
    return [name for name, tensor in a.items() if digest({name: tensor}) != digest({name: b[name]})]


class WatchedGPT(GPT):
    """A GPT that knows the digest of each of its tensors since that was last written."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._seen = digests(self.tensors())
        self.changed_in_step: list[str] = []  # names of what changed before its update

    def tensors(self) -> dict[str, Tensor]:
        """All that a change of would be a fault between segments: the state, and the levels and scales made of it."""
        return self.state() | {name: t for name, t in self._weights.as_read().items() if name != "embedding"}

    def learned(self) -> dict[str, Tensor]:
        """Of these, what a step writes."""
        return {name: t for name, t in self.tensors().items() if not name.startswith(NOT_LEARNED)}

    def known(self, names: Iterable[str]) -> dict[str, bytes]:
        """Digests of these tensors as they were last written."""
        return {name: self._seen[name] for name in names}

    def changed(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Names of those of these tensors that changed since they were last written."""
        return [name for name, value in digests(tensors).items() if value != self._seen[name]]

    def to_read(self) -> dict[str, Tensor]:
        """What the next segment is going to be read with, and the counters."""
        return {name: t for name, t in self.state().items() if name.startswith(NOT_LEARNED)} | self._weights.as_read()

    def written(self, tensors: Mapping[str, Tensor]) -> None:
        """These are as they stay until they are written again."""
        self._seen |= digests(tensors)

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        super().load_state(tensors)
        self._seen, self.changed_in_step = digests(self.tensors()), []

    def passage(self, n_columns: int) -> "Passage":
        """What predicts the segment that is about to begin."""
        return Passage(self._weights.snapshot(), self._reader.fork(), n_columns)

    def _learn(self, name: str, gradient: Callable[[], Tensor] | ContextGradient, factor: float | Tensor) -> None:
        if isinstance(gradient, ContextGradient):
            self.changed_in_step += self.changed(self._of_parameter(name))
            super()._learn(name, gradient, factor)
            self._seen |= digests(self._of_parameter(name) | {name: self._weights.contexts.committed()})
            return

        def gradient_then_look() -> Tensor:
            result = gradient()
            self.changed_in_step += self.changed(self._of_parameter(name))
            return result

        super()._learn(name, gradient_then_look, factor)
        self._seen |= digests(self._of_parameter(name))

    def _of_parameter(self, name: str) -> dict[str, Tensor]:
        """What a step of the named parameter writes."""
        if name == "contexts":
            return {name: self._weights.contexts.rows, "contexts.squares": self._weights.contexts.squares}
        if name in self._hidden:
            linear, tensors = self._hidden[name], {f"momentum.{name}": self._momentum[name]}
        else:
            linear = self._weights.head
            tensors = dict(zip((f"adam.mean.{name}", f"adam.square.{name}"), self._adam[name], strict=True))
            if name == "embedding":
                return {name: self._weights.embedding, **tensors}
        return {name: linear.weight, f"{name}.levels": linear.levels, f"{name}.scale": linear.scale, **tensors}


@dataclass(frozen=True)
class Passage:
    """A segment to be read: the weights that read it, and a reader that stands before it and never goes on itself."""

    weights: Weights
    reader: Reader
    n_columns: int

    def predict(self, inputs: np.ndarray, way: Way, *, singly: bool = False) -> tuple[np.ndarray, dict[str, Tensor]]:
        """Frequencies (n, V) int32 of what follows inputs (n, E) int64, and what is then `carried`: the last keys and values.

        singly: column by column, as a decoder does.
        """
        reader = self.reader.fork()
        reader.begin(self.weights.under(way.ops, way.matmul), self.n_columns)
        recent = torch.from_numpy(inputs)
        if singly:
            logits = torch.cat([reader.forward(recent[t : t + 1], t) for t in range(len(recent))])
        else:
            logits = reader.forward(recent, 0)
        return way.ops.frequencies(logits).numpy(), {f"carried.{name}": t for name, t in reader.memory().items()}


class Shadow:
    """Mixer and history once more, with arrays of their own."""

    def __init__(self, config: Config) -> None:
        self.history = History(config.schedule.history_bits)
        self.mixer = Mixer(config.mixer, self.history.ring) if config.mixer else None
        self._coder: BitCoder | None = None  # whose words `coder` makes once more

    def coder(self, coder: BitCoder, n_symbols: int) -> BitCoder:
        """The second coder beside `coder`: an encoder beside an encoder, to be called before that goes on."""
        if coder is not self._coder:
            self._coder, encodes = coder, coder.state[MODE] == ENCODE
            self._second = BitCoder(ENCODE if encodes else FOLLOW)
            if encodes:
                self._second.restore(*coder.saved())
        self._second.reserve(n_symbols)
        return self._second

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes on as a learner of this state."""
        self._coder = None
        self.history.n_symbols = int(tensors["counters"][0])
        torch.from_numpy(self.history.ring).copy_(tensors["history"])
        if self.mixer:
            self.mixer.load_state({name: tensors[f"mixer.{name}"] for name in self.mixer.state()})

    def state(self) -> dict[str, Tensor]:
        """What a learner's state says of mixer and history."""
        tensors = {"history": torch.from_numpy(self.history.ring)}
        return tensors | ({f"mixer.{name}": t for name, t in self.mixer.state().items()} if self.mixer else {})


class AuditedLearner(Learner):
    """A Learner, audited as the module's text says. Same bits. Every method may raise FaultError."""

    def __init__(self, config: Config, ops: ModuleType, matmul: Matmul | None, pool: Pool, every: int) -> None:
        """every: segments in a period, at least 1."""
        super().__init__(config, ops, matmul, pool)
        self._every, self._n_segments, self._pool = every, 0, pool
        self._shadow = Shadow(config)
        self._compared = self._start = self._stop = 0  # what was compared whole; the open segment
        self._frequencies: list[np.ndarray] = []  # that the learner has made of the open segment
        self._watched: WatchedGPT | None = None
        if config.gpt:
            assert matmul is not None
            self._way = Way(ops, matmul)
            self.gpt = self._watched = self._gpt_of(self._way)

    def begin(self, n_symbols: int) -> None:
        """As a Learner's, once all that is about to be used is as it was written."""
        self._start, self._stop = self.history.n_symbols, self.history.n_symbols + n_symbols
        self._rows_taken: tuple[Tensor, Tensor] | None = None
        if self._watched:
            self._check_rest(self._watched.to_read())
            self._drawn = self._n_segments % self._every == self._draw()
            self._before = {name: t.clone() for name, t in self._watched.state().items()} if self._drawn else {}
            self._passage = self._watched.passage(n_symbols)
            self._levels = self._watched.known(name for name in self._passage.weights.as_read() if name not in WRITTEN)
        super().begin(n_symbols)

    def _draw(self) -> int:
        """Which segment of the current period is drawn; not the very first one, before which there is nothing to learn."""
        first = self._n_segments - self._n_segments % self._every
        drawn = int(random_words(self.config.seed, f"audit/{first}", 1)[0] % np.uint64(self._every))
        return max(drawn, min(1, self._every - 1)) if first == 0 else drawn

    def _rows(self) -> tuple[Tensor, Tensor]:
        rows = super()._rows()
        second = rows_of_step(self.config, self._shadow.history, self._n_new)
        if not all(torch.equal(a, b) for a, b in zip(rows, second, strict=True)):
            raise self._fault(["history"], MEMORY)
        self._rows_taken = rows
        return rows

    def expected(self, inputs: np.ndarray, first: int) -> np.ndarray:
        rows = super().expected(inputs, first)
        self._frequencies.append(rows)
        return rows

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """As a Learner's, and once more by the second reader and the shadow."""
        self._frequencies = []
        shadow, second = self._shadow, self._shadow.coder(coder, len(symbols))
        bits = super().code(symbols, coder)
        names, frequencies = [], None
        if self._watched:
            inputs = inputs_of_segment(self.config, shadow.history, symbols)
            frequencies, memory = self._passage.predict(inputs, self._way.opposite if self._drawn else self._way)
            if self._frequencies and not np.array_equal(np.concatenate(self._frequencies), frequencies):
                names.append("gpt.frequencies")
            names += [f"gpt.{name}" for name in differing(memory, self._watched.state())]
            self._watched.written(memory)
        costs = ideal_bits(code_under(frequencies, shadow.mixer, symbols.copy(), second))
        shadow.history.append(symbols)
        if names:
            raise self._fault(names, self._cause_of_prediction(inputs, coder))
        if not np.array_equal(bits, costs):
            why = self._cause_of_prediction(inputs, coder) if self._watched else TRANSIENT
            raise self._fault(["the costs of symbols", *differing(shadow.state(), super().state())], why)
        if coder.state[MODE] == ENCODE and not all(map(np.array_equal, coder.saved(), second.saved())):
            raise self._fault(["the coder"], TRANSIENT)
        return bits

    def _cause_of_prediction(self, inputs: np.ndarray, coder: BitCoder) -> str:
        def predicted(way: Way, singly: bool = False) -> bytes:
            frequencies, memory = self._passage.predict(inputs, way, singly=singly)
            return digest(memory | {"frequencies": torch.from_numpy(frequencies)})

        batched = predicted(self._way)
        if coder.decodes and predicted(self._way, singly=True) != batched == predicted(self._way.opposite):
            return "program (the decoder's columns differ)"
        return cause(predicted, self._way)

    def end(self, n_symbols: int) -> None:
        """As a Learner's; then what was used is unchanged, a drawn step comes out again, and a period ends with a comparison."""
        super().end(n_symbols)
        if self._watched:
            levels = digests(self._passage.weights.as_read())
            changed = [name for name, value in self._levels.items() if value != levels[name]]
            if names := self._watched.changed_in_step + changed:
                raise self._fault([f"gpt.{name}" for name in names], MEMORY)
            self._watched.written({"counters": self._watched.state()["counters"]})
            if self._drawn and self._rows_taken:
                self._check_step(self._watched, self._rows_taken)
        self._n_segments += 1
        if self._n_segments % self._every == 0:
            self._compare_shadow()

    def _check_step(self, gpt: WatchedGPT, rows: tuple[Tensor, Tensor]) -> None:
        """Takes the segment's step once more, in the opposite way."""

        def stepped(way: Way) -> dict[str, Tensor]:
            again = self._gpt_of(way)
            again.load_state(self._before)
            again.update(*rows)
            again.end()
            return again.learned()

        if names := differing(gpt.learned(), stepped(self._way.opposite)):
            why = cause(lambda way: digest(stepped(way)), self._way, digest(gpt.learned()))
            raise self._fault([f"gpt.{name}" for name in names], why)

    def _gpt_of(self, way: Way) -> WatchedGPT:
        return WatchedGPT(self.config.gpt, N_SYMBOLS, self.config.seed, way.ops, way.matmul, self._pool)

    def _check_rest(self, tensors: Mapping[str, Tensor]) -> None:
        if self._watched and (names := self._watched.changed(tensors)):
            raise self._fault([f"gpt.{name}" for name in names], MEMORY)

    def _compare_shadow(self) -> None:
        """All of mixer and history with their seconds."""
        if names := differing(self._shadow.state(), super().state()):
            self._start = self._compared
            raise self._fault(names, TRANSIENT)
        self._compared = self.history.n_symbols

    def state(self) -> dict[str, Tensor]:
        """As a Learner's, once all of it is audited: a digest or a checkpoint is going to be made of it."""
        if self._watched:
            self._check_rest(self._watched.tensors())
        self._compare_shadow()
        return super().state()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """As a Learner's; a new period begins."""
        super().load_state(tensors)
        self._shadow.load_state(tensors)
        self._n_segments, self._compared = 0, self.history.n_symbols
        self._start = self._stop = self._compared

    def _fault(self, names: list[str], why: str) -> FaultError:
        """names: of what deviates, the open segment's or since `_start`."""
        shown = names[:MAX_NAMES] + [f"{len(names) - MAX_NAMES} more"] * (len(names) > MAX_NAMES)
        block = self._start // self.config.schedule.block_symbols
        where = f"block {block} (original bytes {self._start}-{self._stop})"
        return FaultError(f"audit: {where}: {', '.join(shown)}: changed or miscomputed; likely cause: {why}")
