"""A learner under observation: it takes the learner's place in an ordinary run, and checks the law in each segment.

At drawn places the witness experiments with a twin, a second learner that receives the same state. So the run computes the same
as without a witness. A code length is prequential only if each symbol was predicted from the symbols before it, and was learned
from afterwards. The checks:

    DISTRIBUTION  the GPT's frequencies of the 256 bytes are integers, at least 1, and sum to 2**24
    CODE          each of the 256 possible next bytes costs what the bits that lead to it cost: from one state of the mixer, the
                  256 products of the probabilities of the decisions sum to exactly 1. The actual byte costs its share
    FUTURE        if all later symbols are replaced by random ones, frequencies and costs up to here are the same in every bit
    WEIGHTS       the weights that predict a segment are the same before and after it
    STEP          the step that runs in parallel with a segment results in the same weights if the segment has other symbols. So
                  it uses only symbols before the segment
    ONCE          the numbers of symbols coded, of decisions learned and of bytes of the original agree. The payload is as long as
                  the decisions cost, so it contains nothing else
    ROUND_TRIP    what was encoded decodes to the same bytes; what was decoded encodes to the same payloads and digests
"""

import mmap
import tempfile
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from prequential_codecs.bit_coder import FOLLOW, BitCoder, ideal_bits

from prequential.exact.digest import digest
from prequential.exact.random import random_words
from prequential.files import temporary_folder, writing
from prequential.model.config import N_SYMBOLS
from prequential.model.learner import OnlineLearner, code_symbols
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import MixerArrays
from prequential.model.mixer.past import N_BITS
from prequential.model.schedule import blocks, segments
from prequential.online.coding import Progress

DISTRIBUTION = "the GPT's frequencies are complete distributions"
CODE = "the probabilities of the 256 bytes sum to 1, and the code length follows from them"
FUTURE = "later symbols change nothing before them"
WEIGHTS = "weights do not change while a segment is coded"
STEP = "a step uses only symbols before its segment"
ONCE = "each symbol is coded once, and nothing else is coded"
ROUND_TRIP = "the decoded bytes are the original bytes"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How often a check was made, and its first failure, or ""."""

    check: str
    times: int
    failure: str = ""


class Verdicts:
    """The verdicts so far, in the order in which the checks were first made."""

    def __init__(self) -> None:
        self._by_check: dict[str, Verdict] = {}

    def add(self, check: str, holds: bool, failure: str, times: int = 1) -> None:
        """Adds a check that was made so many times. failure: what is wrong unless it `holds`."""
        old = self._by_check.get(check, Verdict(check=check, times=0))
        self._by_check[check] = replace(old, times=old.times + times, failure=old.failure or ("" if holds else failure))

    def list(self) -> list[Verdict]:
        """All verdicts."""
        return list(self._by_check.values())


class Sampling(NamedTuple):
    """The number of bytes that are coded, and the number of segments in which CODE and FUTURE are each checked."""

    n_bytes: int
    n_samples: int


class Witness:
    """A Learner (online/loop.py) that passes every call to another one and observes it. twin: a learner for experiments."""

    def __init__(self, learner: OnlineLearner, twin: OnlineLearner, sampling: Sampling, verdicts: Verdicts) -> None:
        self._learner, self._twin, self._verdicts = learner, twin, verdicts
        self._n_coded = 0
        schedule = learner.schedule
        starts = [s.start for block in blocks(sampling.n_bytes, schedule) for s in segments(block, schedule)]
        words = {check: random_words(learner.config.seed, f"law/{check}", len(starts)) for check in ("code", "future")}
        self._code_starts, self._future_starts = (
            {starts[i] for i in np.argsort(drawn)[: sampling.n_samples]} for drawn in words.values()
        )
        self._start = 0  # of the open segment
        # Of the learner at the open segment's start, if the twin needs it again:
        self._state: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def begin(self, n_symbols: int) -> None:
        """As of the learner. The twin receives the state before it."""
        self._start = self._learner.n_symbols
        if self._start in self._code_starts | self._future_starts:
            self._state = {name: array.copy() for name, array in self._learner.state().items()}
            self._twin.load_state(self._state)
        self._learner.begin(n_symbols)

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """As of the learner. Then makes the checks that are due in this segment."""
        before = self._weights_digest()
        bits = self._learner.code(symbols, coder)
        self._n_coded += len(symbols)
        if before:
            unchanged = self._weights_digest() == before
            self._verdicts.add(WEIGHTS, unchanged, f"in the segment from byte {self._start} they changed")
        word = random_words(self._learner.config.seed, f"law/position/{self._start}", 1)[0]
        position = int(np.uint64(word) % np.uint64(len(symbols)))
        if self._start in self._code_starts:
            self._check_code(symbols, bits, position)
            self._twin.load_state(self._state)
        if self._start in self._future_starts:
            self._check_future(symbols, bits, position)
        return bits

    def end(self, n_symbols: int) -> None:
        """As of the learner. Then compares its weights with those of the twin."""
        self._learner.end(n_symbols)
        if self._start in self._future_starts and self._learner.gpt and self._twin.gpt:
            same = digest(self._learner.gpt.learned_state()) == digest(self._twin.gpt.learned_state())
            self._verdicts.add(STEP, same, f"the step in parallel with the segment from byte {self._start} does not")

    def close(self, done: Progress) -> None:
        """Makes the checks at the end of the run. done: its totals."""
        n, counts = done.n_bytes, [self._n_coded, self._learner.n_symbols]
        if self._learner.mixer:
            counts.append(int(self._learner.mixer.state()["past"][N_BITS]) / 8)  # type: ignore[arg-type]
        self._verdicts.add(ONCE, set(counts) == {n}, f"of {n} bytes, counts are {counts}", n)
        longest = done.code_bits * 1.0001 + 64 * done.n_blocks
        fits = 8 * done.payload_bytes <= longest and (done.n_raw_blocks > 0 or done.code_bits <= 8 * done.payload_bytes)
        text = f"decisions cost {done.code_bits:.0f} bits, the payload has {8 * done.payload_bytes}"
        self._verdicts.add(ONCE, fits, text, 0)

    def _weights_digest(self) -> bytes:
        return digest(self._learner.gpt.inference_tensors()) if self._learner.gpt else b""

    def _check_code(self, symbols: np.ndarray, bits: np.ndarray, position: int) -> None:
        """Checks DISTRIBUTION in the segment, and CODE with all 256 bytes at one position, from the twin's state there."""
        twin, where = self._twin, f"at byte {self._start + position}"
        rows = self._check_distributions(symbols)
        coder = BitCoder(FOLLOW)
        code_symbols(None if rows is None else rows[:position], twin.mixer, symbols[:position].copy(), coder)
        row = None if rows is None else rows[position : position + 1]
        mixers = _mixer_copies(twin.mixer)
        coded = [code_symbols(row, mixer, np.array([value]), coder)[0] for value, mixer in enumerate(mixers)]
        total = sum(int(np.prod(frequencies.astype(object))) for frequencies in coded)
        self._verdicts.add(CODE, total == 1 << 128, f"{where} they sum to {total / 2**128:.9f}")
        own = ideal_bits(coded[int(symbols[position])][None])[0]
        paid = bits[position]
        self._verdicts.add(CODE, own == paid, f"{where} the byte cost {paid:.6f} bits, not {own:.6f}", 0)

    def _check_distributions(self, symbols: np.ndarray) -> np.ndarray | None:
        """The twin's frequencies (n, 256) of the open segment, after the check DISTRIBUTION; None without a GPT."""
        if not self._twin.gpt:
            return None
        self._twin.gpt.begin(len(symbols))
        rows = self._frequencies(symbols)
        complete = bool((rows.sum(1, dtype=np.int64) == 1 << 24).all() and rows.min() >= 1)
        self._verdicts.add(DISTRIBUTION, complete, f"in the segment from byte {self._start}", len(rows))
        return rows

    def _frequencies(self, symbols: np.ndarray) -> np.ndarray:
        """The frequencies (n, 256) of the twin's GPT if the open segment has these symbols."""
        return self._twin.gpt_frequencies(self._twin.inputs(symbols), 0)

    def _check_future(self, symbols: np.ndarray, bits: np.ndarray, position: int) -> None:
        """The twin codes the segment with other symbols from one position on."""
        twin, where = self._twin, f"before byte {self._start + position}"
        words = random_words(self._learner.config.seed, f"law/other/{self._start}", len(symbols) - position)
        changed = np.concatenate((symbols[:position], (words >> np.uint64(56)).astype(np.int64)))
        rows = None
        if twin.gpt:
            twin.gpt.begin(len(symbols))
            rows = self._frequencies(symbols)[: position + 1]
            twin.load_state(self._state)  # it must recall nothing of these symbols
        twin.begin(len(symbols))
        if rows is not None:
            other_rows = self._frequencies(changed)[: position + 1]
            self._verdicts.add(FUTURE, np.array_equal(rows, other_rows), f"{where} frequencies change", 0)
        other_bits = twin.code(changed, BitCoder(FOLLOW))
        twin.end(len(symbols))
        same = np.array_equal(bits[:position], other_bits[:position])
        self._verdicts.add(FUTURE, same, f"{where} costs change")


def _mixer_copies(mixer: Mixer | None) -> Iterator[Mixer | None]:
    """N_SYMBOLS copies of a mixer, each valid until the next one. They map one file: only pages that change are copied."""
    if mixer is None:
        yield from [None] * N_SYMBOLS
        return
    arrays, other = mixer.arrays[:-1], copy(mixer)
    with writing(folder := temporary_folder()), tempfile.TemporaryFile(dir=folder) as file:
        starts = []
        for array in arrays:
            starts.append(file.seek(-(-file.tell() // mmap.PAGESIZE) * mmap.PAGESIZE))
            file.write(array.data)
        file.flush()
        for _ in range(N_SYMBOLS):
            maps = (np.memmap(file, a.dtype, "c", at, a.shape) for a, at in zip(arrays, starts, strict=True))
            other.arrays = MixerArrays._make([*map(np.asarray, maps), mixer.arrays.learns])
            yield other
