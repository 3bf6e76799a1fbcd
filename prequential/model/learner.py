"""The learner: GPT and context mixer as one predictor of the next byte.

    begin(n) ; code(symbols) ; end()        for each segment of n symbols

Within a segment the GPT predicts with weights that stand still, while beside it, in a thread of its own, they take one step on
what was coded before the segment. `end` waits for that step. The mixer learns from every bit as soon as it is coded.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import ModuleType

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from prequential.codecs.bit_coder import BitCoder, expected_bits, ideal_bits
from prequential.exact.digest import digest
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.exact.random import random_words
from prequential.model.config import N_SYMBOLS, Config
from prequential.model.decoding import find_symbols
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.replicas import Replicas
from prequential.model.history import History
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import code_plain

Tensor = torch.Tensor


class Learner:
    """See the module's text. Symbols are bytes; V = 256."""

    def __init__(
        self,
        config: Config,
        ops: ModuleType,
        matmul: Matmul | None,
        pool: Pool,
        accelerator: Accelerator | None = None,
    ) -> None:
        """matmul: None where there is no GPT, which alone needs it. accelerator: where that is; None, and for replicas: here."""
        self.config, self._ops = config, ops
        self.history = History(config.schedule.history_bits)
        self.gpt: GPT | None = None
        if config.gpt:
            assert matmul is not None
            arguments = config.gpt, N_SYMBOLS, config.seed, ops, matmul, pool
            if config.replicas:
                self.gpt = Replicas(config.replicas, *arguments)
            else:
                self.gpt = DeviceGPT(accelerator, *arguments[:-1]) if accelerator else GPT(*arguments)
        self.mixer = Mixer(config.mixer, self.history.ring) if config.mixer else None
        self._n_new = 0  # symbols of the last segment
        self.gpt_bits: np.ndarray | None = (
            None  # a report: what the last segment's symbols cost the GPT alone, where known
        )
        self._aside = (
            ThreadPoolExecutor(1, "prequential-learner", initializer=torch.set_num_threads, initargs=(1,))
            if self.gpt and (pool.n_threads > 1 or accelerator)  # who waits for a device, codes meanwhile
            else None
        )
        self._step: Future[None] | None = None

    def begin(self, n_symbols: int) -> None:
        """Opens a segment: the GPT's weights for it are fixed, and a step on what came before it begins."""
        if self.gpt:
            self.gpt.begin(n_symbols)
            if self._n_new:
                update = partial(self.gpt.update, *self._rows())
                if self._aside:
                    self._step = self._aside.submit(update)
                else:
                    update()

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """Codes the segment's symbols (n,) int64, or finds them out, in place; returns their ideal code lengths in bits, (n,).

        Where they are known, the GPT reads them at once; else symbol by symbol. The bits are the same.
        """
        coder.reserve(len(symbols))
        if self.gpt is None:
            coded = code_under(None, self.mixer, symbols, coder)
        elif not coder.decodes:
            expected = self.expected(self.inputs(symbols), 0)
            self.gpt_bits = expected_bits(expected, symbols)
            coded = code_under(expected, self.mixer, symbols, coder)
        elif self._ops.Column:
            mixer = self.mixer.arguments if self.mixer else None
            coded = find_symbols(self.inputs(symbols[:1])[0], symbols, self.gpt.column(), mixer, coder)
        else:
            coded = np.empty((len(symbols), 8), np.uint16)
            for t in range(len(symbols)):
                row = self.expected(self.inputs(symbols[: t + 1])[t:], t)
                coded[t] = code_under(row, self.mixer, symbols[t : t + 1], coder)
        self.history.append(symbols)
        return ideal_bits(coded)

    def inputs(self, symbols: np.ndarray) -> np.ndarray:
        """What the GPT reads to predict the open segment's first symbols (t,), of which the last may be unknown: (t, E) int64."""
        return inputs_of_segment(self.config, self.history, symbols)

    def expected(self, inputs: np.ndarray, first: int) -> np.ndarray:
        """The GPT's frequencies (t, V) int32 of what follows inputs (t, E) int64, at columns first .. first + t - 1."""
        assert self.gpt
        return self._ops.frequencies(self.gpt.forward(torch.from_numpy(inputs), first)).numpy()

    def end(self, n_symbols: int) -> None:
        """Closes the segment: the step on what came before it is done."""
        if self._step:
            self._step.result()
            self._step = None
        if self.gpt:
            self.gpt.end()
        self._n_new = n_symbols

    def _rows(self) -> tuple[Tensor, Tensor]:
        return rows_of_step(self.config, self.history, self._n_new)

    @property
    def update_size(self) -> float | None:
        """The norm of the last change of the GPT's head over that of the head; None without a GPT or before a step. A report."""
        return self.gpt.update_size if self.gpt else None

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over what `state` of another learner of this configuration gave, between segments: both go on alike.

        Raises ValueError for values that no learner has.
        """
        n_symbols, n_new = tensors["counters"].tolist()
        if not (0 <= n_symbols < 1 << 48 and 0 <= n_new <= min(n_symbols, self.config.schedule.segment_symbols)):
            raise ValueError("counters are out of range")
        self.history.n_symbols, self._n_new = tensors["counters"].tolist()
        torch.from_numpy(self.history.ring).copy_(tensors["history"])
        for prefix, part in (("gpt.", self.gpt), ("mixer.", self.mixer)):
            if part:
                part.load_state(
                    {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
                )

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later predictions depend on, by name; between segments."""
        parts = {"gpt": self.gpt, "mixer": self.mixer}
        tensors = {f"{name}.{key}": t for name, part in parts.items() if part for key, t in part.state().items()}
        tensors["history"] = torch.from_numpy(self.history.ring)
        tensors["counters"] = torch.tensor([self.history.n_symbols, self._n_new])
        return tensors

    def digest(self) -> bytes:
        """8 bytes that two learners share if and (but for chance) only if they will predict alike."""
        return digest(self.state())


def code_under(frequencies: np.ndarray | None, mixer: Mixer | None, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
    """Codes symbols (n,) int64 in place, under the GPT's frequencies (n, V) int32, by the mixer, or both; the mixer learns them.

    Returns the frequencies under which their bits were coded, (n, 8) uint16 of a total of 2**16.
    """
    if mixer:
        return mixer.code(symbols, frequencies, coder)
    coded = np.empty((len(symbols), 8), np.uint16)
    code_plain(symbols, frequencies, coded, coder.state, coder.words)
    return coded


def inputs_of_segment(config: Config, history: History, symbols: np.ndarray) -> np.ndarray:
    """The GPT's inputs (t, E) int64, newest first: what goes before each of the first symbols (t,) after the history."""
    assert config.gpt
    n = config.gpt.n_inputs
    known = np.concatenate((history.at(history.n_symbols - np.arange(n, 0, -1)), symbols[:-1]))
    return sliding_window_view(known, n)[:, ::-1].copy()


def rows_of_step(config: Config, history: History, n_new_symbols: int) -> tuple[Tensor, Tensor]:
    """Inputs (R, T, E) and targets (R, T) int64 of a step: the newest segment, of n_new_symbols, in rows, and rows drawn
    from the whole history."""
    assert config.gpt
    schedule, end = config.schedule, history.n_symbols
    length = min(schedule.row_symbols, end - history.oldest)
    n_new = -(-n_new_symbols // length)
    n_rows = max(n_new, min(schedule.n_rows, end // length))
    newest = np.maximum(end - length * np.arange(n_new, 0, -1), history.oldest)
    words = random_words(config.seed, f"replay/{end}", n_rows - n_new)
    drawn = history.oldest + (words % np.uint64(end - length + 1 - history.oldest)).astype(np.int64)
    positions = np.concatenate((newest, drawn))[:, None] + np.arange(length)
    before = positions[..., None] - np.arange(1, config.gpt.n_inputs + 1)  # (R, T, C)
    return torch.from_numpy(history.at(before)), torch.from_numpy(history.at(positions))
