"""What a learner of one's own must offer to be measured: two methods and one number. docs/LEARNERS.md describes everything."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

DEFAULT_RUN_SYMBOLS = 256
MAX_RUN_SYMBOLS = 1 << 13


@runtime_checkable
class OnlineModel(Protocol):
    """A learner of one's own. Symbols are bytes, or the ids of its tokenizer.

    n_symbols: V, the size of the alphabet; 256 without a tokenizer.

    Optional attributes: run_symbols, the length of a run (default 256). deterministic = True: equal calls give equal bits on this
    machine, so an archive can be decoded; its bytes are then coded for real. tokenizer: a `Tokenizer`. state_dict(): everything
    that later predictions depend on, as arrays, tensors, numbers, and dicts and lists of them; the evaluator compares digests.
    load_state_dict(state): continues from it, so that runs can be resumed. nll(context, symbols): the nats (n,) of the true
    symbols, for a learner without an archive; then `predict` is called in checked runs only.

    Examples:
        >>> import numpy as np, prequential
        >>> class Counts:
        ...     "The frequency of each byte so far."
        ...
        ...     n_symbols = 256
        ...
        ...     def __init__(self):
        ...         self.counts = np.ones(256)
        ...
        ...     def predict(self, context, symbols):
        ...         return np.tile(np.log(self.counts / self.counts.sum()), (len(symbols), 1))
        ...
        ...     def update(self, symbols):
        ...         self.counts += np.bincount(symbols, minlength=256)
        >>> isinstance(Counts(), prequential.OnlineModel)
        True
        >>> found = prequential.evaluate(b"text" * 100, learner=Counts, baselines=())
        >>> 0 < found.code_bits < 8 * 400
        True
    """

    n_symbols: int

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> Any:
        """Log-probabilities (n, V) in nats, as an array or tensor: row t is for symbol t, given all symbols before it.

        context (m,) int64: all symbols before the run. symbols (n,) int64: the run itself, so that one call can predict all of
        it. Row t may depend on context and symbols[:t] only. A call must not change later predictions.
        """

    def update(self, symbols: np.ndarray) -> None:
        """Learns from the run (n,) int64 that was just predicted."""


@runtime_checkable
class Tokenizer(Protocol):
    """Turns a text into ids and back. decode(encode(data)) must be data, for every corpus that is measured.

    Optional attribute prefix: bytes that encode puts before every text, so that decode gives prefix + data.
    encodes_pieces = True, which is optional: a long corpus is encoded in pieces, cut at ends of lines where that changes no id.
    """

    def encode(self, data: bytes) -> Any:
        """Ids (n,), each in 0 .. V - 1."""

    def decode(self, ids: Any) -> bytes:
        """The bytes that these ids stand for. decode([i]) must be the part of the text that id i alone stands for."""
