"""A learner that learns no more: it reads and codes with what another has learned, and takes a Learner's place in the loop.

What goes on is its place in the stream: the GPT's keys and values, the mixer's contexts and longest match, and the ring that both
read the past from. Weights, tables, maps and the index of matches stand still: what the mixer had not met before, it does not
recognise when it comes again. Bits are coded by the same arithmetic as a Learner's: every frozen code decodes.
"""

from copy import copy

import numpy as np

from prequential.codecs.bit_coder import BitCoder, ideal_bits
from prequential.errors import ConfigError
from prequential.model.gpt.gpt import Reader
from prequential.model.history import History
from prequential.model.learner import Learner, code_under, inputs_of_segment
from prequential.model.mixer.mixing import MAX_VERIFIED

NOTHING_BEFORE = History(0)  # of a window that is read afresh


class Frozen(Learner):
    """See the module's text. Begins where `learner` stands between two segments, and goes on by itself.

    The learner is left as it is; what it has learned is shared, not copied: it must stand still meanwhile. Another reader's keys
    and values and another ring are all that is held besides.
    """

    def __init__(self, learner: Learner) -> None:
        self._origin, self.config, self._ops = learner, learner.config, learner._ops
        self.history = History(learner.config.schedule.history_bits)
        self.history.ring[:] = learner.history.ring
        self.history.n_symbols = learner.history.n_symbols
        self.mixer = learner.mixer.frozen(self.history.ring) if learner.mixer else None
        self.gpt = copy(learner.gpt)
        if self.gpt:
            self.gpt._reader = self.gpt._reader.fork()
        self.gpt_bits, self._step, self._n_new = None, None, 0

    def begin(self, n_symbols: int) -> None:
        """Opens a segment, to be read with the weights there are."""
        if self.gpt:
            self.gpt.begin(n_symbols)

    def restart(self) -> None:
        """What comes next begins a stream: the GPT remembers nothing, no byte is a context, matches lead to what was learned.

        What was read since the beginning is forgotten, and MAX_VERIFIED symbols 0 stand before the next one, as before any first
        symbol: later costs do not depend on what was read before.
        """
        old, ring = self._origin.history, self.history.ring
        end = self.history.n_symbols
        written = np.arange(max(old.n_symbols, end - len(ring)), end) % len(ring)
        ring[written] = old.ring[written]
        self.history.n_symbols = old.n_symbols
        self.history.append(np.zeros(MAX_VERIFIED, np.uint8))
        if self.gpt:
            self._forget()
        if self.mixer:
            self.mixer.restart(self.history.n_symbols)

    def code_window(self, known: np.ndarray, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """Codes symbols (n,) int64, or finds them out, in place; of what went before, the GPT sees known (m,) alone, read afresh.

        The mixer's contexts go on as ever. Returns ideal code lengths in bits, (n,). Raises ConfigError without a GPT.
        """
        if self.gpt is None:
            raise ConfigError("there is no GPT whose window could be strided")
        coder.reserve(len(symbols))
        self._forget()
        self.gpt.begin(len(known) + len(symbols))
        window, n_done, coded = np.concatenate((known, symbols)), 0, np.empty((len(symbols), 8), np.uint16)
        for n in range(1, len(symbols) + 1) if coder.decodes else [len(symbols)]:
            inputs = inputs_of_segment(self.config, NOTHING_BEFORE, window[: len(known) + n])
            first = len(known) + n_done if n_done else 0
            rows = self.expected(inputs[first:], first)[-(n - n_done) :]
            coded[n_done:n] = code_under(rows, self.mixer, symbols[n_done:n], coder)
            window[len(known) + n_done : len(known) + n] = symbols[n_done:n]
            n_done = n
        self.history.append(symbols)
        return ideal_bits(coded)

    def _forget(self) -> None:
        """The GPT's next column is its first."""
        assert self.gpt
        self.gpt._reader = Reader(self.gpt.config)
