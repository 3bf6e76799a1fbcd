"""Causality, checked on a running learner: each symbol is predicted before anything learns from it.

A probe takes the learner's place in a run and observes it. At drawn places it experiments with a replica, a second learner that
receives the same state, so the run computes the same as without a probe. A corpus is encoded under a probe and decoded without.
docs/METHOD.md says what each check compares.
"""

import io
import mmap
import tempfile
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import SCORE, BitCoder, ideal_bits

from prequential.errors import CorruptArchiveError
from prequential.exact.arrays import digest, random_words
from prequential.files import temporary_folder, writing
from prequential.model.config import N_SYMBOLS, Config, blocks, segments
from prequential.model.gpt.gpt import GPT
from prequential.model.learner import OnlineLearner, code_symbols
from prequential.model.mixer.arrays import MixerArrays
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.past import N_BITS
from prequential.online import coding
from prequential.online.coding import Progress
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import digest_of

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


class Probe:
    """A Learner (online/loop.py) that passes every call to another one and observes it. replica: a learner for experiments.

    n_bytes: of the run. n_samples: segments in which CODE and FUTURE are each checked. verdicts: in the order of first checks.
    """

    def __init__(self, learner: OnlineLearner, replica: OnlineLearner, n_bytes: int, n_samples: int) -> None:
        self._learner, self._replica = learner, replica
        self.verdicts: dict[str, Verdict] = {}
        self._n_coded = 0
        schedule = learner.schedule
        starts = [s.start for block in blocks(n_bytes, schedule) for s in segments(block, schedule)]
        words = {check: random_words(learner.config.seed, f"law/{check}", len(starts)) for check in ("code", "future")}
        self._code_starts, self._future_starts = (
            {starts[i] for i in np.argsort(drawn)[:n_samples]} for drawn in words.values()
        )
        self._start = 0  # of the open segment
        # Of the learner at the open segment's start, if the replica needs it again:
        self._state: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def note(self, check: str, holds: bool, failure: str, times: int = 1) -> None:
        """Adds a check that was made so many times to the verdicts. failure: what is wrong unless it `holds`."""
        old = self.verdicts.get(check, Verdict(check=check, times=0))
        failure = old.failure or ("" if holds else failure)
        self.verdicts[check] = replace(old, times=old.times + times, failure=failure)

    def begin(self, n_symbols: int) -> None:
        """As of the learner. The replica receives the state before it."""
        self._start = self._learner.n_symbols
        if self._start in self._code_starts | self._future_starts:
            self._state = {name: array.copy() for name, array in self._learner.state().items()}
            self._replica.load_state(self._state)
        self._learner.begin(n_symbols)

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """As of the learner. Then makes the checks that are due in this segment."""
        before = self._weights_digest()
        bits = self._learner.code(symbols, coder)
        self._n_coded += len(symbols)
        if before:
            unchanged = self._weights_digest() == before
            self.note(WEIGHTS, unchanged, f"in the segment from byte {self._start} they changed")
        word = random_words(self._learner.config.seed, f"law/position/{self._start}", 1)[0]
        position = int(np.uint64(word) % np.uint64(len(symbols)))
        if self._start in self._code_starts:
            self._check_code(symbols, bits, position)
            self._replica.load_state(self._state)
        if self._start in self._future_starts:
            self._check_future(symbols, bits, position)
        return bits

    def end(self, n_symbols: int) -> None:
        """As of the learner. Then compares its weights with those of the replica."""
        self._learner.end(n_symbols)
        if self._start in self._future_starts and self._learner.gpt and self._replica.gpt:
            same = _learned(self._learner.gpt) == _learned(self._replica.gpt)
            self.note(STEP, same, f"the step in parallel with the segment from byte {self._start} does not")

    def close(self, done: Progress) -> None:
        """Makes the checks at the end of the run. done: its totals."""
        n, counts = done.n_bytes, [self._n_coded, self._learner.n_symbols]
        if self._learner.mixer:
            counts.append(int(self._learner.mixer.state()["past"][N_BITS]) / 8)  # type: ignore[arg-type]
        self.note(ONCE, set(counts) == {n}, f"of {n} bytes, counts are {counts}", n)
        longest = done.code_bits * 1.0001 + 64 * done.n_blocks
        fits = 8 * done.payload_bytes <= longest and (done.n_raw_blocks > 0 or done.code_bits <= 8 * done.payload_bytes)
        text = f"decisions cost {done.code_bits:.0f} bits, the payload has {8 * done.payload_bytes}"
        self.note(ONCE, fits, text, 0)

    def _weights_digest(self) -> bytes:
        return _read_with(self._learner.gpt) if self._learner.gpt else b""

    def _check_code(self, symbols: np.ndarray, bits: np.ndarray, position: int) -> None:
        """Checks DISTRIBUTION in the segment, and CODE with all 256 bytes at one position, from the replica's state there."""
        replica, where = self._replica, f"at byte {self._start + position}"
        rows, coder = None, BitCoder(SCORE)
        if replica.gpt:
            replica.gpt.begin(len(symbols))
            rows = self._frequencies(symbols)
            complete = bool((rows.sum(1, dtype=np.int64) == 1 << 24).all() and rows.min() >= 1)
            self.note(DISTRIBUTION, complete, f"in the segment from byte {self._start}", len(rows))
        code_symbols(None if rows is None else rows[:position], replica.mixer, symbols[:position].copy(), coder)
        row = None if rows is None else rows[position : position + 1]
        mixers = _mixer_copies(replica.mixer)
        coded = [code_symbols(row, mixer, np.array([value]), coder)[0] for value, mixer in enumerate(mixers)]
        total = sum(int(np.prod(frequencies.astype(object))) for frequencies in coded)
        self.note(CODE, total == 1 << 128, f"{where} they sum to {total / 2**128:.9f}")
        own = ideal_bits(coded[int(symbols[position])][None])[0]
        paid = bits[position]
        self.note(CODE, own == paid, f"{where} the byte cost {paid:.6f} bits, not {own:.6f}", 0)

    def _frequencies(self, symbols: np.ndarray) -> np.ndarray:
        """The frequencies (n, 256) of the replica's GPT if the open segment has these symbols."""
        return self._replica.gpt_frequencies(self._replica.inputs(symbols), 0)

    def _check_future(self, symbols: np.ndarray, bits: np.ndarray, position: int) -> None:
        """The replica codes the segment with other symbols from one position on."""
        replica, where = self._replica, f"before byte {self._start + position}"
        words = random_words(self._learner.config.seed, f"law/other/{self._start}", len(symbols) - position)
        changed = np.concatenate((symbols[:position], (words >> np.uint64(56)).astype(np.int64)))
        rows = None
        if replica.gpt:
            replica.gpt.begin(len(symbols))
            rows = self._frequencies(symbols)[: position + 1]
            replica.load_state(self._state)  # it must recall nothing of these symbols
        replica.begin(len(symbols))
        if rows is not None:
            other_rows = self._frequencies(changed)[: position + 1]
            self.note(FUTURE, np.array_equal(rows, other_rows), f"{where} frequencies change", 0)
        other_bits = replica.code(changed, BitCoder(SCORE))
        replica.end(len(symbols))
        same = np.array_equal(bits[:position], other_bits[:position])
        self.note(FUTURE, same, f"{where} costs change")


def _learned(gpt: GPT) -> bytes:
    """A digest of what steps write: weights and optimiser state."""
    return digest({name: t for name, t in gpt.state().items() if not name.startswith(("carried.", "counters"))})


def _read_with(gpt: GPT) -> bytes:
    """A digest of what the open segment is predicted with."""
    weights = gpt._reader.weights
    linears = [weights.head, *(linear for layer in weights.layers for linear in layer.values())]
    tensors = [weights.embedding, weights.contexts.rows, *(t for each in linears for t in (each.levels, each.scale))]
    return digest({str(i): tensor for i, tensor in enumerate(tensors)})


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


# ---- the two runs


def check_corpus(source: NDArray[np.uint8], config: Config, runtime: Runtime, samples: int) -> list[Verdict]:
    """Encodes `source` (n,) uint8 under a probe, decodes it, and compares. samples: as of the probe."""
    header = Header(n_bytes=len(source), blake2b=digest_of(source), config=config.to_dict())
    archive, decoded = io.BytesIO(), io.BytesIO()
    probe = _probe(runtime, config, len(source), samples)
    *_, done = coding.compress(source, header, archive, cast(Learner, probe))
    probe.close(done)
    archive.seek(0)
    failure = "the archive decodes to other bytes"
    try:
        for _ in coding.decompress(ArchiveReader(archive), decoded, runtime.learner(config)):
            pass
    except CorruptArchiveError as error:
        failure = str(error)
    probe.note(ROUND_TRIP, decoded.getvalue() == source.tobytes(), failure, len(source))
    return list(probe.verdicts.values())


def _probe(runtime: Runtime, config: Config, n_bytes: int, samples: int) -> Probe:
    """A probe of a new learner. Its replica is never audited."""
    return Probe(runtime.learner(config), replace(runtime, audit_every=0).learner(config), n_bytes, samples)
