"""The check of the prequential law on a running learner: an ordinary run with a witness, and the opposite run without one.

A witness takes the learner's place in a run and observes it. At drawn places it experiments with a twin, a second learner that
receives the same state, so the run computes the same as without a witness. A corpus is encoded under a witness and decoded
without; an archive is decoded under a witness and encoded without. docs/RELIABILITY.md says what each check compares.
"""

import io
import mmap
import tempfile
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader, ArchiveWriter, Block
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import FOLLOW, BitCoder, ideal_bits

from prequential.errors import CorpusError, CorruptArchiveError
from prequential.exact.arrays import digest, random_words
from prequential.files import temporary_folder, writing
from prequential.model.config import N_SYMBOLS, Config
from prequential.model.learner import OnlineLearner, code_symbols
from prequential.model.mixer.arrays import MixerArrays
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.past.entries import N_BITS
from prequential.model.schedule import blocks, segments
from prequential.online import coding
from prequential.online.coding import OnProgress, Progress
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import digest_of
from prequential.printable import format_table

N_LEARNERS = 3  # in memory at a time: the learner, its twin, and the state that the twin is reset to

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


class Witness:
    """A Learner (online/loop.py) that passes every call to another one and observes it. twin: a learner for experiments.

    n_bytes: of the run. n_samples: segments in which CODE and FUTURE are each checked. verdicts: in the order of first checks.
    """

    def __init__(self, learner: OnlineLearner, twin: OnlineLearner, n_bytes: int, n_samples: int) -> None:
        self._learner, self._twin = learner, twin
        self.verdicts: dict[str, Verdict] = {}
        self._n_coded = 0
        schedule = learner.schedule
        starts = [s.start for block in blocks(n_bytes, schedule) for s in segments(block, schedule)]
        words = {check: random_words(learner.config.seed, f"law/{check}", len(starts)) for check in ("code", "future")}
        self._code_starts, self._future_starts = (
            {starts[i] for i in np.argsort(drawn)[:n_samples]} for drawn in words.values()
        )
        self._start = 0  # of the open segment
        # Of the learner at the open segment's start, if the twin needs it again:
        self._state: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def note(self, check: str, holds: bool, failure: str, times: int = 1) -> None:
        """Adds a check that was made so many times to the verdicts. failure: what is wrong unless it `holds`."""
        old = self.verdicts.get(check, Verdict(check=check, times=0))
        failure = old.failure or ("" if holds else failure)
        self.verdicts[check] = replace(old, times=old.times + times, failure=failure)

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
            self.note(WEIGHTS, unchanged, f"in the segment from byte {self._start} they changed")
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
        return digest(self._learner.gpt.inference_tensors()) if self._learner.gpt else b""

    def _check_code(self, symbols: np.ndarray, bits: np.ndarray, position: int) -> None:
        """Checks DISTRIBUTION in the segment, and CODE with all 256 bytes at one position, from the twin's state there."""
        twin, where = self._twin, f"at byte {self._start + position}"
        rows, coder = None, BitCoder(FOLLOW)
        if twin.gpt:
            twin.gpt.begin(len(symbols))
            rows = self._frequencies(symbols)
            complete = bool((rows.sum(1, dtype=np.int64) == 1 << 24).all() and rows.min() >= 1)
            self.note(DISTRIBUTION, complete, f"in the segment from byte {self._start}", len(rows))
        code_symbols(None if rows is None else rows[:position], twin.mixer, symbols[:position].copy(), coder)
        row = None if rows is None else rows[position : position + 1]
        mixers = _mixer_copies(twin.mixer)
        coded = [code_symbols(row, mixer, np.array([value]), coder)[0] for value, mixer in enumerate(mixers)]
        total = sum(int(np.prod(frequencies.astype(object))) for frequencies in coded)
        self.note(CODE, total == 1 << 128, f"{where} they sum to {total / 2**128:.9f}")
        own = ideal_bits(coded[int(symbols[position])][None])[0]
        paid = bits[position]
        self.note(CODE, own == paid, f"{where} the byte cost {paid:.6f} bits, not {own:.6f}", 0)

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
            self.note(FUTURE, np.array_equal(rows, other_rows), f"{where} frequencies change", 0)
        other_bits = twin.code(changed, BitCoder(FOLLOW))
        twin.end(len(symbols))
        same = np.array_equal(bits[:position], other_bits[:position])
        self.note(FUTURE, same, f"{where} costs change")


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


def check_corpus(
    source: NDArray[np.uint8], config: Config, runtime: Runtime, samples: int, on_progress: OnProgress
) -> list[Verdict]:
    """Encodes `source` (n,) uint8 under a witness, decodes it, and compares.

    samples: as of the witness. Takes two runs, the samples (about a second each at the
    default preset), and memory for N_LEARNERS learners. Raises CorpusError for an empty corpus.
    """
    if not len(source):
        raise CorpusError("nothing to check: the corpus is empty")
    header = Header(n_bytes=len(source), blake2b=digest_of(source), config=config.to_dict())
    archive, decoded = io.BytesIO(), io.BytesIO()
    witness = _witness(runtime, config, len(source), samples)
    for done in coding.compress(source, header, archive, cast(Learner, witness)):
        on_progress(done, len(source))
    witness.close(done)
    archive.seek(0)
    failure = "the archive decodes to other bytes"
    try:
        for done in coding.decompress(ArchiveReader(archive), decoded, runtime.learner(config)):
            on_progress(done, len(source))
    except CorruptArchiveError as error:
        failure = str(error)
    witness.note(ROUND_TRIP, decoded.getvalue() == source.tobytes(), failure, len(source))
    return list(witness.verdicts.values())


def check_archive(
    archive: BinaryIO, runtime: Runtime, samples: int, limit_bytes: int, on_progress: OnProgress
) -> list[Verdict]:
    """Decodes an archive under a witness, encodes the result, and compares.

    Only blocks up to the one that reaches limit_bytes of the original are decoded. Time and memory are those of `check_corpus`.
    Raises CorruptArchiveError, ConfigError for a learner above the limits of the runtime, and CorpusError for an empty original.
    """
    reader = ArchiveReader(archive)
    config = coding.config_of(reader.header)
    runtime.check(config, n_learners=N_LEARNERS)
    taken = []
    for block in reader.blocks():
        taken.append(block)
        if reader.n_bytes_covered >= limit_bytes:
            break
    header = replace(reader.header, n_bytes=sum(block.n_bytes for block in taken))
    if not header.n_bytes:
        raise CorpusError("nothing to check: the original is empty")
    decoded, encoded = io.BytesIO(), io.BytesIO()
    witness = _witness(runtime, config, header.n_bytes, samples)
    for done in coding.decompress(ArchiveReader(_archive_of(header, taken)), decoded, cast(Learner, witness)):
        on_progress(done, header.n_bytes)
    witness.close(done)
    original = np.frombuffer(decoded.getvalue(), np.uint8)
    has_digest = header.n_bytes < reader.header.n_bytes or digest_of(original) == header.blake2b
    for done in coding.compress(original, header, encoded, runtime.learner(config)):
        on_progress(done, header.n_bytes)
    encoded.seek(0)
    failure = "what was decoded encodes to another archive" if has_digest else "the original's digest differs"
    same = has_digest and list(ArchiveReader(encoded).blocks()) == taken
    witness.note(ROUND_TRIP, same, failure, header.n_bytes)
    return list(witness.verdicts.values())


def _archive_of(header: Header, blocks: list[Block]) -> BinaryIO:
    archive = io.BytesIO()
    writer = ArchiveWriter(archive, header)
    for block in blocks:
        writer.write_block(block)
    writer.close()
    archive.seek(0)
    return archive


def _witness(runtime: Runtime, config: Config, n_bytes: int, samples: int) -> Witness:
    """A witness of a new learner. Its twin is never audited."""
    return Witness(runtime.learner(config), replace(runtime, audit_every=0).learner(config), n_bytes, samples)


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """The checks of the law as a table."""
    rows = [(v.check, f"{v.times}", "FAILED" if v.failure else "ok") for v in verdicts]
    return format_table(("check", "times", "result"), rows)
