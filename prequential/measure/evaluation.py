"""Evaluation of a learner on a corpus: its prequential description length, how it came about, and what others reach.

The archive is really written, to a temporary file; every figure is of that file. With `verify` it is decoded again and
compared byte for byte.
"""

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from prequential.codecs import ArchiveReader, BaselineResult, Header, measure_installed
from prequential.errors import CorpusError, CorruptArchiveError
from prequential.measure.ledger import Ledger
from prequential.measure.machine import peak_memory_bytes
from prequential.model.config import Config, GPTConfig, MixerConfig
from prequential.online import coding
from prequential.online.coding import Progress
from prequential.online.runtime import Runtime

OnProgress = Callable[[Progress, int], object]  # called with the totals so far and the bytes of the original


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The learning curve: after each segment, bytes seen (n,) int64 and ideal code length so far (n,) float64, in bits.

    Both ascend; the last point is the whole corpus.
    """

    n_bytes: NDArray[np.int64]
    code_bits: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured. Wall times in seconds; verify_wall_s is None unless the archive was decoded and compared.

    header: corpus, its length and digest, and the full configuration. peak_memory_bytes: resident, of the whole process
    up to the end of coding. notes: baselines that were skipped, and why.
    """

    header: Header
    ledger: Ledger
    curve: Curve
    wall_s: float
    peak_memory_bytes: int
    verify_wall_s: float | None
    baselines: tuple[BaselineResult, ...]
    notes: tuple[str, ...]


def evaluate(
    source: NDArray[np.uint8],
    header: Header,
    runtime: Runtime,
    *,
    baselines: Sequence[str],
    verify: bool,
    on_progress: OnProgress,
) -> Evaluation:
    """Codes `source` (n,) uint8 as `header` describes it, and measures.

    Costs one run of the learner, another with `verify`; baselines hold `source` in memory. Raises CorpusError for an
    empty corpus, CorruptArchiveError if the archive does not give `source` back.
    """
    if not len(source):
        raise CorpusError("nothing to evaluate: the corpus is empty")
    _warm_up(runtime)
    with tempfile.TemporaryFile(prefix="prequential-") as archive:
        start_s = time.perf_counter()
        ledger, curve = _encode(source, header, archive, runtime, on_progress)
        evaluation = Evaluation(
            header=header,
            ledger=ledger,
            curve=curve,
            wall_s=time.perf_counter() - start_s,
            peak_memory_bytes=peak_memory_bytes(),
            verify_wall_s=_verify(source, archive, runtime, on_progress) if verify else None,
            baselines=(),
            notes=(),
        )
    results, notes = measure_installed(source.tobytes(), baselines) if baselines else ([], [])
    return replace(evaluation, baselines=tuple(results), notes=tuple(notes))


def _warm_up(runtime: Runtime) -> None:
    """Self-test and compilation of kernels, which happen once and are no part of a learner's speed."""
    config = Config(gpt=GPTConfig(n_layers=1, width=64, n_heads=2, window=16), mixer=MixerConfig(table_bits=8))
    source = np.zeros(64, np.uint8)
    header = Header(n_bytes=len(source), blake2b=bytes(32), config=config.to_dict())
    archive = io.BytesIO()
    for _ in coding.compress(source, header, archive, runtime):
        pass
    archive.seek(0)
    for _ in coding.decompress(ArchiveReader(archive), io.BytesIO(), runtime):
        pass


def _encode(
    source: NDArray[np.uint8], header: Header, archive: BinaryIO, runtime: Runtime, on_progress: OnProgress
) -> tuple[Ledger, Curve]:
    points: dict[int, float] = {}
    for done in coding.compress(source, header, archive, runtime):
        points[done.n_bytes] = done.code_bits
        on_progress(done, len(source))
    curve = Curve(n_bytes=np.array(list(points), np.int64), code_bits=np.array(list(points.values()), np.float64))
    return Ledger.from_progress(done), curve


def _verify(source: NDArray[np.uint8], archive: BinaryIO, runtime: Runtime, on_progress: OnProgress) -> float:
    """Wall time of decoding the archive, every byte of which was compared. Raises CorruptArchiveError."""
    archive.seek(0)
    comparison = _Comparison(source)
    start_s = time.perf_counter()
    for done in coding.decompress(ArchiveReader(archive), cast(BinaryIO, comparison), runtime):
        on_progress(done, len(source))
    if comparison.n_bytes != len(source):
        raise CorruptArchiveError(f"verification: {comparison.n_bytes} of {len(source)} bytes came back")
    return time.perf_counter() - start_s


class _Comparison:
    """A sink that compares what it takes with the original."""

    def __init__(self, source: NDArray[np.uint8]) -> None:
        self._source = source
        self.n_bytes = 0

    def write(self, data: bytes) -> int:
        expected = self._source[self.n_bytes : self.n_bytes + len(data)].tobytes()
        if data != expected:
            raise CorruptArchiveError(
                f"verification: bytes {self.n_bytes}-{self.n_bytes + len(data)} came back changed"
            )
        self.n_bytes += len(data)
        return len(data)
