"""A child process of test_mixing, interpreted; test_mixing also loads it, compiled. Prints the mixer's results for a text.

If it is interpreted (NUMBA_DISABLE_JIT=1), every integer is one of numpy, and an overflow is an error. The exception is the carry
of the coder's window, which must wrap.
"""

import numpy as np
from prequential_codecs.bit_coder import ENCODE, SCORE, BitCoder
from prequential_corpora.sources import sample_path

from prequential.exact.arrays import digest
from prequential.model.config import CONTEXTS, CURVES, WEIGHT_SETS, MixerConfig
from prequential.model.mixer import mixing
from prequential.model.mixer import past as at
from prequential.model.mixer import past_advance as records
from prequential.model.mixer.mixer import Mixer


def drawn_frequencies(n: int, seed: int) -> np.ndarray:
    """(n, 256) int32 rows with a sum of 2**24: some uniform, some nearly certain."""
    random = np.random.default_rng(seed)
    weights = random.random((n, 256)) ** random.integers(0, 60, (n, 1))
    rows = 1 + np.floor(weights / weights.sum(1, keepdims=True) * ((1 << 24) - 256)).astype(np.int64)
    rows[np.arange(n), rows.argmax(1)] += (1 << 24) - rows.sum(1)
    return rows.astype(np.int32)


def fingerprint() -> str:
    """Payload and mixer state after a text, noise, and a part of the text, and costs under the frozen mixer.

    With all contexts, with all sets, and with few. The last of them begins in records of binary data.
    """
    text = np.fromfile(sample_path("christmas_carol"), np.uint8, 600)
    noise = np.random.default_rng(1).integers(0, 256, 60, dtype=np.uint8)
    few = ("2", "4", "above", "match")
    outcomes = []
    for contexts, sets, curves, n, gpt, record in (
        (CONTEXTS, ("states", "words,gpt"), ("1",), 30, True, 0),
        (few, WEIGHT_SETS, CURVES, 60, True, 0),
        (few, ("bits",), ("2",), 200, False, 0),
        (CONTEXTS, ("bits", "column,above"), ("2",), 30, False, 7),
    ):
        data = np.concatenate((text[:n], noise[: n // 4], text[: n // 3], np.zeros(20, np.uint8))).astype(np.int64)
        config = MixerConfig(contexts=contexts, sets=sets, curves=curves, table_bits=7, match_bits=6)
        mixer, coder = Mixer(config, np.zeros(1 << 9, np.uint8)), BitCoder(ENCODE)
        if record:
            mixer.restart(records.STEADY)
            mixer.arrays.past[[at.RECORD, at.CONTROLS]] = record, records.N_CONTROLS
            data = data % 32
        coder.reserve(len(data))
        mixer.code(data, drawn_frequencies(len(data), 2) if gpt else None, coder)
        frozen = mixer.frozen(mixer.arrays.ring.copy())
        frozen.restart(len(data) + 32)
        costs = frozen.code(data[::-1].copy(), None, BitCoder(SCORE)).tobytes()
        outcomes += [digest(mixer.state()).hex(), coder.payload().hex(), costs.hex()]
    return " ".join(outcomes)


def _wrapping(*arguments: object) -> int:
    with np.errstate(over="ignore"):
        return _code_bit(*arguments)


if __name__ == "__main__":
    _code_bit, mixing.code_bit = mixing.code_bit, _wrapping
    np.seterr(all="raise")
    print(fingerprint())
