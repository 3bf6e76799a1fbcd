"""The prequential law, checked on a live learner: its code length is one only if each symbol was predicted from those before it.

A `Witness` stands in the learner's place in an ordinary run and looks on; at drawn places it experiments with a twin, another
learner that is given the same state. So a corpus is encoded under its eyes and decoded without, an archive the other way round.
The checks, with the names they are reported under:

    DISTRIBUTION  the GPT's frequencies of the 256 bytes are integers, at least 1, and sum to 2**24
    CODE          of the 256 bytes that may come next, each costs what the bits cost that lead to it: from one state of the
                  mixer, the 256 products of the decisions' probabilities sum to exactly 1; the byte that came cost its share
    FUTURE        with all later symbols replaced by drawn ones, frequencies and costs up to here are the same, to the bit
    STILL         the weights that predict a segment are the same after it as before it
    STEP          the step beside a segment ends in the same weights if that segment's symbols are others: it uses those before
    ONCE          symbols coded, decisions learned and the bytes of the original are the same count; the payload is as long as
                  the decisions cost, so that nothing else is in it
    ROUND_TRIP    what was encoded decodes to the same bytes; what was decoded encodes to the same payloads and digests
"""

import hashlib
import io
import mmap
import os
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive import ArchiveReader, ArchiveWriter
from prequential.codecs.archive_block import Block
from prequential.codecs.archive_header import Header
from prequential.codecs.bit_coder import FOLLOW, BitCoder, ideal_bits
from prequential.errors import ConfigError, CorpusError, CorruptArchiveError
from prequential.exact.digest import digest
from prequential.exact.random import random_words
from prequential.model.config import N_SYMBOLS, Config
from prequential.model.learner import Learner, code_under
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.mixing import N_BITS
from prequential.online import coding
from prequential.online.coding import Progress
from prequential.online.flops import check_work
from prequential.online.limits import check_memory
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks, segments

OnProgress = Callable[[Progress, int], None]

DISTRIBUTION = "the GPT's frequencies are whole distributions"
CODE = "the 256 bytes' probabilities sum to 1, and are what is paid"
FUTURE = "later symbols change nothing before them"
STILL = "weights stand still while a segment is coded"
STEP = "a step uses only symbols before its segment"
ONCE = "each symbol is coded once, and nothing else"
ROUND_TRIP = "bytes out are bytes in"

N_LEARNERS = 3  # held at a time: the one that runs, its twin, and the state that the twin is put back to


@dataclass(frozen=True, kw_only=True)
class Finding:
    """How often a check was made, and what the first failure was: empty if there was none."""

    check: str
    times: int
    failure: str = ""


class Findings:
    """What has been checked so far, in the order of the first time."""

    def __init__(self) -> None:
        self._all: dict[str, Finding] = {}

    def add(self, check: str, holds: bool, failure: str, times: int = 1) -> None:
        """Notes a check made so many times, and `failure` unless it `holds`."""
        old = self._all.get(check, Finding(check=check, times=0))
        self._all[check] = replace(old, times=old.times + times, failure=old.failure or ("" if holds else failure))

    def list(self) -> list[Finding]:
        """All of them."""
        return list(self._all.values())


def audit_corpus(
    source: NDArray[np.uint8], config: Config, runtime: Runtime, samples: int, on_progress: OnProgress
) -> list[Finding]:
    """Encodes `source` (n,) uint8 under a Witness, decodes it, and compares. samples: of CODE and of FUTURE each.

    Costs two runs of the learner, the samples (about a second each at the default preset), and thrice the learner's memory.
    Raises CorpusError for an empty corpus.
    """
    if not len(source):
        raise CorpusError("nothing to audit: the corpus is empty")
    header = Header(n_bytes=len(source), blake2b=_blake2b(source.tobytes()), config=config.to_dict())
    findings, archive = Findings(), io.BytesIO()
    witnessed = _Witnessed(runtime, len(source), samples, findings)
    for done in coding.compress(source, header, archive, cast(Runtime, witnessed)):
        on_progress(done, len(source))
    witnessed.close(done)
    archive.seek(0)
    sink, failure = io.BytesIO(), "other bytes come out"
    try:
        for done in coding.decompress(ArchiveReader(archive), cast(BinaryIO, sink), runtime):
            on_progress(done, len(source))
    except CorruptArchiveError as error:
        failure = str(error)
    findings.add(ROUND_TRIP, sink.getvalue() == source.tobytes(), failure, len(source))
    return findings.list()


def audit_archive(
    archive: BinaryIO,
    runtime: Runtime,
    samples: int,
    limit_bytes: int,
    max_memory_bytes: int,
    on_progress: OnProgress,
) -> list[Finding]:
    """Decodes an archive under a Witness, up to the end of the block that reaches the limit, encodes it, and compares.

    Costs are those of `audit_corpus`. Raises CorruptArchiveError, ConfigError for a learner above max_memory_bytes, and
    CorpusError for an empty original.
    """
    reader, taken = ArchiveReader(archive), []
    try:
        config = Config.from_dict(reader.header.config)
    except ConfigError as error:
        raise CorruptArchiveError(f"header: {error}") from error
    check_memory(config, max_memory_bytes, runtime, n_learners=N_LEARNERS)
    check_work(config)
    for block in reader.blocks():
        taken.append(block)
        if reader.n_bytes_covered >= limit_bytes:
            break
    n_bytes = sum(block.n_bytes for block in taken)
    if not n_bytes:
        raise CorpusError("nothing to audit: the original is empty")
    header = replace(reader.header, n_bytes=n_bytes)
    findings, sink = Findings(), io.BytesIO()
    witnessed = _Witnessed(runtime, n_bytes, samples, findings)
    for done in coding.decompress(ArchiveReader(_archive_of(header, taken)), sink, cast(Runtime, witnessed)):
        on_progress(done, n_bytes)
    witnessed.close(done)
    whole = n_bytes < reader.header.n_bytes or _blake2b(sink.getvalue()) == header.blake2b
    again = io.BytesIO()
    for done in coding.compress(np.frombuffer(sink.getvalue(), np.uint8), header, again, runtime):
        on_progress(done, n_bytes)
    again.seek(0)
    failure = "what was decoded encodes to another archive" if whole else "the original's digest differs"
    findings.add(ROUND_TRIP, whole and list(ArchiveReader(again).blocks()) == taken, failure, n_bytes)
    return findings.list()


def _archive_of(header: Header, taken: list[Block]) -> BinaryIO:
    archive = io.BytesIO()
    writer = ArchiveWriter(archive, header)
    for block in taken:
        writer.write_block(block)
    writer.close()
    archive.seek(0)
    return archive


def _blake2b(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


class _Witnessed:
    """In place of a Runtime: its learner is a Witness of the real one's."""

    def __init__(self, runtime: Runtime, n_bytes: int, samples: int, findings: Findings) -> None:
        self._runtime, self._n_bytes, self._samples, self._findings = runtime, n_bytes, samples, findings

    def learner(self, config: Config) -> Learner:
        """A Witness, which is a learner in all that a run asks of one."""
        twin = replace(self._runtime, audit_every=0).learner(config)
        self._witness = Witness(self._runtime.learner(config), twin, self._n_bytes, self._samples, self._findings)
        return cast(Learner, self._witness)

    def close(self, done: Progress) -> None:
        """The run has come to its end, with these totals."""
        self._witness.close(done)


class Witness:
    """A learner that is looked at; `twin` is another, for experiments."""

    def __init__(self, learner: Learner, twin: Learner, n_bytes: int, samples: int, findings: Findings) -> None:
        self._learner, self._twin, self._findings = learner, twin, findings
        self._n_symbols = 0
        schedule = learner.config.schedule
        starts = [s.start for block in blocks(n_bytes, schedule) for s in segments(block, schedule)]
        self._codes, self._futures = (self._drawn(starts, check, samples) for check in ("code", "future"))
        self._now: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def _drawn(self, starts: list[int], check: str, samples: int) -> set[int]:
        """The starts of so many different segments."""
        words = random_words(self._learner.config.seed, f"law/{check}", len(starts))
        return {starts[i] for i in np.argsort(words)[:samples]}

    def _word(self, name: str) -> np.uint64:
        return np.uint64(random_words(self._learner.config.seed, f"law/{name}/{self._start}", 1)[0])

    def begin(self, n_symbols: int) -> None:
        """As a Learner's; the twin gets the state that was before it."""
        self._start = self._learner.history.n_symbols
        if self._start in self._codes | self._futures:
            state = {name: tensor.clone() for name, tensor in self._learner.state().items()}
            self._now = state if self._start in self._codes & self._futures else {}
            self._twin.load_state(state)
        self._learner.begin(n_symbols)

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """As a Learner's, between two looks at the weights."""
        before = self._weights()
        bits = self._learner.code(symbols, coder)
        self._n_symbols += len(symbols)
        if before:
            self._findings.add(STILL, self._weights() == before, f"in the segment from byte {self._start} they changed")
        at = int(self._word("position") % np.uint64(len(symbols)))
        if self._start in self._codes:
            self._check_code(symbols, bits, at)
            if self._now:
                self._twin.load_state(self._now)
        if self._start in self._futures:
            self._check_future(symbols, bits, at)
        return bits

    def end(self, n_symbols: int) -> None:
        """As a Learner's."""
        self._learner.end(n_symbols)
        if self._start in self._futures and self._learner.gpt:
            same = _learned(self._learner) == _learned(self._twin)
            self._findings.add(STEP, same, f"beside the segment from byte {self._start} it does not")

    def close(self, done: Progress) -> None:
        """Counts, at the end of the run with these totals."""
        n, counts = done.n_bytes, [self._n_symbols, self._learner.history.n_symbols]
        if self._learner.mixer:
            counts.append(int(self._learner.mixer.state()["past"][N_BITS]) / 8)  # type: ignore[arg-type]
        self._findings.add(ONCE, set(counts) == {n}, f"of {n} bytes, counts are {counts}", n)
        longest = done.code_bits * 1.0001 + 64 * done.n_blocks
        fits = 8 * done.payload_bytes <= longest and (done.n_raw_blocks > 0 or done.code_bits <= 8 * done.payload_bytes)
        text = f"decisions cost {done.code_bits:.0f} bits, the payload has {8 * done.payload_bytes}"
        self._findings.add(ONCE, fits, text, 0)

    def _weights(self) -> bytes:
        return digest(self._learner.gpt.weights_read()) if self._learner.gpt else b""

    def _check_code(self, symbols: np.ndarray, bits: np.ndarray, at: int) -> None:
        """All 256 bytes at one position of the segment, from the twin's state there."""
        twin, where = self._twin, f"at byte {self._start + at}"
        rows = None
        if twin.gpt:
            twin.gpt.begin(len(symbols))
            rows = self._expected(symbols)
            whole = bool((rows.sum(1, dtype=np.int64) == 1 << 24).all() and rows.min() >= 1)
            self._findings.add(DISTRIBUTION, whole, f"in the segment from byte {self._start}", len(rows))
        coder = BitCoder(FOLLOW)
        code_under(None if rows is None else rows[:at], twin.mixer, symbols[:at].copy(), coder)
        row = None if rows is None else rows[at : at + 1]
        coded = [code_under(row, mixer, np.array([v]), coder)[0] for v, mixer in enumerate(_copies(twin.mixer))]
        total = sum(int(np.prod(frequencies.astype(object))) for frequencies in coded)
        self._findings.add(CODE, total == 1 << 128, f"{where} they sum to {total / 2**128:.9f}")
        own = ideal_bits(coded[int(symbols[at])][None])[0]
        self._findings.add(CODE, own == bits[at], f"{where} the byte cost {bits[at]:.6f} bits, not {own:.6f}", 0)

    def _expected(self, symbols: np.ndarray) -> np.ndarray:
        """The twin's frequencies (n, 256) of the open segment, were it these symbols."""
        return self._twin.expected(self._twin.inputs(symbols), 0)

    def _check_future(self, symbols: np.ndarray, bits: np.ndarray, at: int) -> None:
        """The segment once more, by the twin, with other symbols from one position on."""
        twin, where = self._twin, f"before byte {self._start + at}"
        words = random_words(self._learner.config.seed, f"law/other/{self._start}", len(symbols) - at)
        changed = np.concatenate((symbols[:at], (words >> np.uint64(56)).astype(np.int64)))
        twin.begin(len(symbols))
        if twin.gpt:
            rows, other_rows = self._expected(symbols)[: at + 1], self._expected(changed)[: at + 1]
            self._findings.add(FUTURE, np.array_equal(rows, other_rows), f"{where} frequencies change", 0)
        other = twin.code(changed, BitCoder(FOLLOW))
        twin.end(len(symbols))
        self._findings.add(FUTURE, np.array_equal(bits[:at], other[:at]), f"{where} costs change")


def _learned(learner: Learner) -> bytes:
    """Digest of what steps write."""
    assert learner.gpt
    skipped = ("carried.", "counters")
    return digest({name: t for name, t in learner.gpt.state().items() if not name.startswith(skipped)})


def _copies(mixer: Mixer | None) -> Iterator[Mixer | None]:
    """The mixer as it stands, once for each of the 256 bytes: what is done to one copy the next does not know.

    Where the system can, a copy is a private mapping whose changed pages are dropped: hundreds of megabytes need not be copied.
    """
    if mixer is None:
        yield from [None] * N_SYMBOLS
        return
    arrays, other = cast(tuple[np.ndarray, ...], mixer.arrays), copy(mixer)
    if not (hasattr(os, "memfd_create") and hasattr(mmap, "MADV_DONTNEED")):
        for _ in range(N_SYMBOLS):
            other.arrays = tuple(array.copy() for array in arrays)  # type: ignore[assignment]
            yield other
        return
    sizes = [-(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE for array in arrays]
    file = os.memfd_create("mixer")
    try:
        os.truncate(file, sum(sizes))
        for shared in (True, False):
            flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
            memory = mmap.mmap(file, sum(sizes), flags)
            starts = np.cumsum([0, *sizes])[:-1]
            views = tuple(
                np.frombuffer(memory, a.dtype, a.size, int(start)).reshape(a.shape)
                for a, start in zip(arrays, starts, strict=True)
            )
            if shared:
                for view, array in zip(views, arrays, strict=True):
                    view[...] = array
        other.arrays = views  # type: ignore[assignment]
        for _ in range(N_SYMBOLS):
            yield other
            memory.madvise(mmap.MADV_DONTNEED)
    finally:
        os.close(file)
