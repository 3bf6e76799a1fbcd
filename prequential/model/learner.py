"""The learner: GPT and context mixer as one predictor of the next byte.

    begin(n) ; code(..)* ; end()        for each segment of n symbols

Within a segment the GPT predicts with weights that stand still, while beside it, in a thread of its own, they take one step on what
was coded before the segment. `end` waits for that step. The mixer learns from every bit as soon as it is coded.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import ModuleType

import numpy as np
import torch

from prequential.exact.bit_coder import BitCoder
from prequential.exact.digest import digest
from prequential.exact.matmul import Matmul
from prequential.exact.mixing import code_plain
from prequential.exact.pool import Pool
from prequential.exact.random import random_words
from prequential.model.config import Config
from prequential.model.gpt import GPT
from prequential.model.history import History
from prequential.model.mixer import Mixer

Tensor = torch.Tensor


class Learner:
    """See the module's text. Symbols are bytes; V = 256."""

    def __init__(self, config: Config, ops: ModuleType, matmul: Matmul, pool: Pool) -> None:
        self.config, self._ops = config, ops
        self.history = History(config.schedule.history_bits)
        self.gpt = GPT(config.gpt, config.n_symbols, config.seed, ops, matmul, pool) if config.gpt else None
        self.mixer = Mixer(config.mixer, self.history.ring) if config.mixer else None
        self._n_new = 0  # symbols of the last segment
        self._aside = (
            ThreadPoolExecutor(1, "prequential-learner", initializer=torch.set_num_threads, initargs=(1,))
            if self.gpt and pool.n_threads > 1
            else None
        )
        self._step: Future[None] | None = None

    def begin(self, n_symbols: int) -> None:
        """Opens a segment: the GPT's weights for it are fixed, and a step on what came before it begins."""
        self._n_column, self._n_segment = 0, n_symbols
        if self.gpt:
            self.gpt.begin(n_symbols)
            if self.history.n_symbols:
                update = partial(self.gpt.update, *self._rows())
                if self._aside:
                    self._step = self._aside.submit(update)
                else:
                    update()

    def code(self, symbols: np.ndarray, coder: BitCoder) -> float:
        """Codes the segment's next symbols (n,) int64, or finds them out, in place: n = 1 then, if there is a GPT.

        Returns their ideal code length in bits.
        """
        frequencies = None
        if self.gpt:
            previous = self.history.at(np.array([self.history.n_symbols - 1]))
            inputs = torch.from_numpy(np.concatenate((previous, symbols[:-1])))
            frequencies = self._ops.frequencies(self.gpt.forward(inputs, self._n_column)).numpy()
        if self.mixer:
            code_bits = self.mixer.code(symbols, frequencies, coder)
        else:
            coder.reserve(len(symbols))
            code_bits = float(code_plain(symbols, frequencies, coder.state, coder.words))
        self.history.append(symbols)
        self._n_column += len(symbols)
        return code_bits

    def end(self) -> None:
        """Closes the segment: the step on what came before it is done."""
        if self._step:
            self._step.result()
            self._step = None
        self._n_new = self._n_segment

    def _rows(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets (R, T) int64 of the next step: the newest segment in rows, and rows drawn from the whole history."""
        schedule, end = self.config.schedule, self.history.n_symbols
        length = min(schedule.row_symbols, end - self.history.oldest)
        n_new = -(-self._n_new // length)
        n_rows = max(n_new, min(schedule.n_rows, end // length))
        newest = np.maximum(end - length * np.arange(n_new, 0, -1), self.history.oldest)
        words = random_words(self.config.seed, f"replay/{end}", n_rows - n_new)
        drawn = self.history.oldest + (words % np.uint64(end - length + 1 - self.history.oldest)).astype(np.int64)
        positions = np.concatenate((newest, drawn))[:, None] + np.arange(length)
        return torch.from_numpy(self.history.at(positions - 1)), torch.from_numpy(self.history.at(positions))

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
