"""The learner: GPT and context mixer as one predictor of the next byte.

During a segment the GPT predicts with constant weights. At the same time, optionally in a separate thread, it takes one optimiser
step on symbols that were coded before the segment, so the thread changes no bit. The mixer learns from each bit as soon as it is
coded.

Letters: n symbols, t of them at a time, R rows, T columns, C inputs of a prediction of the GPT, V = 256.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from prequential_codecs.bit_coder import BitCoder, ideal_bits, symbol_bits

from prequential.exact.arrays import digest, random_words, to_array, to_tensor
from prequential.model.config import Config, ScheduleConfig
from prequential.model.history import History
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import code_plain

# A mixer alone needs no torch, whose import takes a second.
if TYPE_CHECKING:
    from prequential.model.gpt.gpt import GPT


class OnlineLearner:
    """GPT and mixer, or one of them. For each segment of n symbols: `begin(n)`, `code(symbols, coder)` and `end(n)`."""

    _update: Callable[[], None] | None = None  # the step on the symbols before the open segment, until it starts

    def __init__(
        self, config: Config, gpt: "GPT | None" = None, *, step_thread: bool = False, mixer_threads: int = 1
    ) -> None:
        """gpt: the GPT of `config`, on any device; None if config.gpt is None. step_thread: take the GPT's steps in a thread.

        mixer_threads: at most so many threads mix beside it. With that one, they read known symbols for the GPT before the step.
        """
        self.config, self.gpt = config, gpt
        self.history: History = History.of(config)
        self.mixer = Mixer(config.mixer, self.history.ring, most_threads=mixer_threads) if config.mixer else None
        self._last_segment_size = 0  # symbols of the last segment
        self.gpt_bits: np.ndarray | None = None
        self._step_thread: ThreadPoolExecutor | None = None
        self._step: Future[None] | None = None
        if gpt and step_thread:
            import torch

            self._step_thread = ThreadPoolExecutor(1, "prequential-learner", torch.set_num_threads, (1,))
        if gpt and mixer_threads + step_thread > 1:
            from prequential.exact.pool import Pool

            gpt._reader.pool = Pool(mixer_threads + step_thread)

    @property
    def schedule(self) -> ScheduleConfig:
        """How the stream is divided into blocks and segments."""
        return self.config.schedule

    @property
    def n_symbols(self) -> int:
        """The number of symbols coded so far."""
        return self.history.n_symbols

    def begin(self, n_symbols: int) -> None:
        """Opens a segment of n_symbols symbols: fixes the weights for it and chooses the rows of the step beside it."""
        if self.gpt:
            self.gpt.begin(n_symbols)
            if self._last_segment_size:
                rows = training_rows(self.config, self.history, self._last_segment_size)
                self._update = partial(self.gpt.update, *map(to_tensor, rows))

    def _start_step(self) -> None:
        """Starts the step on the symbols before the open segment, once."""
        update, self._update = self._update, None
        if update and self._step_thread:
            self._step = self._step_thread.submit(update)
        elif update:
            update()

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """Codes the symbols (n,) int64 of the segment. A decoder fills them in. Returns their ideal code lengths in bits, (n,).

        The GPT reads known symbols all at once, before its step starts, and symbols to decode one by one, beside the step. The
        bits are the same.
        """
        coder.reserve(len(symbols))
        frequencies = self.gpt_bits = None
        if self.gpt and not coder.decodes:
            frequencies = self.gpt_frequencies(self.inputs(symbols), 0)
        self._start_step()
        if self.gpt is None:
            coded = code_symbols(None, self.mixer, symbols, coder)
        elif frequencies is not None:
            self.gpt_bits = symbol_bits(frequencies, symbols)
            coded = code_symbols(frequencies, self.mixer, symbols, coder)
        elif column := self.gpt.column_decoder():
            from prequential.model.gpt.column import decode_segment
            from prequential.model.gpt.recall import NOTHING

            recall = self.history.recall.arrays if self.history.recall else NOTHING
            coded = decode_segment(self.inputs(symbols[:1])[0], symbols, recall, column, self.mixer, coder)
        else:
            coded = np.empty((len(symbols), 8), np.uint16)
            for t in range(len(symbols)):
                row = self.gpt_frequencies(self.inputs(symbols[: t + 1])[t:], t)
                coded[t] = code_symbols(row, self.mixer, symbols[t : t + 1], coder)
        self.history.append(symbols)
        return ideal_bits(coded)

    def inputs(self, symbols: np.ndarray) -> np.ndarray:
        """The GPT's inputs (t, C) int64 that predict the first symbols (t,) of the open segment. The last may be unknown.

        They are the symbols before each, the newest first, and the values that are recalled there. A GPT that recalls reads the
        others. The segment must then have them: other symbols later raise ValueError.
        """
        assert self.config.gpt
        n, history = self.config.gpt.n_last, self.history
        history.look_ahead(symbols[:-1])
        known = np.concatenate((history.at(history.n_symbols - np.arange(n, 0, -1)), symbols[:-1]))
        last = sliding_window_view(known, n)[:, ::-1]
        return np.concatenate((last, history.recalled(history.n_symbols + np.arange(len(symbols)))), 1)

    def gpt_frequencies(self, inputs: np.ndarray, first: int) -> np.ndarray:
        """The frequencies (t, V) int32 of the GPT for inputs (t, C) int64 at the columns first .. first + t - 1."""
        assert self.gpt
        return to_array(self.gpt.frequencies(to_tensor(inputs), first))

    def end(self, n_symbols: int) -> None:
        """Closes the segment and waits for the step. Raises the step's error, if there was one."""
        if self.gpt:
            self._start_step()  # if nothing was coded
            if self._step:
                self.gpt.backend.pool.wait_for(self._step)  # whose helper works meanwhile
                self._step = None
            self.gpt.end()
        self._last_segment_size = n_symbols

    @property
    def update_size(self) -> float | None:
        """Norm of the last change of the GPT's head / norm of the head; None without a GPT or before a step. For reports."""
        return self.gpt.update_size if self.gpt else None

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copies the `state` of another learner of this configuration. Then both continue identically. Call it between segments.

        Raises ValueError for values that no learner can have.
        """
        n_symbols, n_new = arrays["counters"].tolist()
        if not (0 <= n_symbols < 1 << 48 and 0 <= n_new <= min(n_symbols, self.config.schedule.segment_symbols)):
            raise ValueError("counters are out of range")
        self._last_segment_size = n_new
        self.history.load_state(arrays, n_symbols)
        if self.gpt:
            self.gpt.load_state({name: to_tensor(array) for name, array in _part("gpt.", arrays).items()})
        if self.mixer:
            self.mixer.load_state(_part("mixer.", arrays))

    def state(self) -> dict[str, np.ndarray]:
        """Every array that later predictions depend on, by name. Call it between segments."""
        arrays = {f"gpt.{name}": to_array(tensor) for name, tensor in self.gpt.state().items()} if self.gpt else {}
        arrays |= {f"mixer.{name}": array for name, array in self.mixer.state().items()} if self.mixer else {}
        counters = np.array([self.history.n_symbols, self._last_segment_size], np.int64)
        return arrays | self.history.state() | {"counters": counters}

    def digest(self) -> bytes:
        """8 bytes that are equal for learners with equal state and, except by chance, different for all others."""
        return digest(self.state())


def _part(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def code_symbols(
    frequencies: np.ndarray | None, mixer: Mixer | None, symbols: np.ndarray, coder: BitCoder
) -> np.ndarray:
    """Codes symbols (n,) int64 with the GPT's frequencies (n, V) int32, the mixer, or both. A decoder fills the symbols in.

    The mixer learns from the symbols. Returns the frequency of each coded bit, (n, 8) uint16 of a total of 2**16.
    """
    if mixer:
        return mixer.code(symbols, frequencies, coder)
    coded = np.empty((len(symbols), 8), np.uint16)
    code_plain(symbols, frequencies, coded, coder.state, coder.words)
    return coded


def training_rows(config: Config, history: History, n_new_symbols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of a step: inputs (R, T, C), targets (R, T) and places (R, T), all int64; arguments of `GPT.update`.

    The first rows contain the newest segment, of n_new_symbols symbols. The others are drawn at random from the history; if the
    GPT has a memory, from the symbols before the first rows, as far as it reaches.
    """
    assert config.gpt
    schedule, n_places, end = config.schedule, config.gpt.n_places, history.n_symbols
    length = min(schedule.row_symbols, end - history.oldest)
    n_new = -(-n_new_symbols // length)
    newest = np.maximum(end - length * np.arange(n_new, 0, -1), history.oldest)
    # Rows are drawn from `first` to `stop`. Symbols before `learned` are replayed.
    learned, first, stop = 0, history.oldest, end
    n_rows = min(schedule.n_rows, end // length)
    if n_places:
        learned, stop = end - n_new_symbols, int(newest[0])
        first = max(0, end - len(history.ring), learned - n_places)
    words = random_words(config.seed, f"replay/{end}", max(0, n_rows - n_new))
    drawn = first + (words % np.uint64(max(1, stop - length + 1 - first))).astype(np.int64)
    positions = np.concatenate((newest, drawn))[:, None] + np.arange(length)
    places = positions % max(1, n_places)
    before = positions[..., None] - np.arange(1, config.gpt.n_last + 1)
    inputs = np.concatenate((history.at(before), history.recalled(positions)), -1)
    return inputs, history.at(positions), np.where(positions < learned, places, ~places)
