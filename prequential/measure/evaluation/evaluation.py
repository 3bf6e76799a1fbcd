"""Evaluation of a learner on a corpus: its prequential description length, how it came about, and what others reach.

The archive is really written, to a file (measure/evaluation/draft.py); every figure is of that file. With `verify` it is decoded again and
compared byte for byte.
"""

import io
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive import ArchiveReader
from prequential.codecs.archive_header import Header
from prequential.codecs.baselines.registry import BaselineResult
from prequential.codecs.bit_coder import FOLLOW, BitCoder
from prequential.corpora.corpus import Document
from prequential.errors import CorpusError, CorruptArchiveError
from prequential.measure.evaluation.baselines import measure_baselines
from prequential.measure.evaluation.breakdown import breakdown
from prequential.measure.evaluation.curves import Curve, Curves
from prequential.measure.evaluation.draft import Draft
from prequential.measure.evaluation.ledger import Ledger
from prequential.measure.evaluation.trace import MIXER, MODEL, Trace
from prequential.measure.machine import peak_memory_bytes
from prequential.model.config import Config, GPTConfig, MixerConfig
from prequential.online import coding
from prequential.online.coding import OnProgress
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured. Wall times in seconds; verify_wall_s is None unless the archive was decoded and compared.

    header: corpus, its length and digest, and the full configuration. curves: cumulative bits against bytes, of "model" (ideal
    code length), of its parts "gpt" and "mixer" where it has both, and of each baseline by name (sizes). tables: where the
    bits went (measure/evaluation/breakdown.py). trace: the cost of each byte. peak_memory_bytes: resident, of the whole process up to the
    end of coding. notes: baselines that were skipped, and why. limit_bytes: if only the beginning was to be read, of how many.
    """

    header: Header
    ledger: Ledger
    curves: Curves
    tables: dict[str, Any]
    wall_s: float
    peak_memory_bytes: int
    verify_wall_s: float | None
    baselines: tuple[BaselineResult, ...]
    notes: tuple[str, ...]
    trace: Trace = field(repr=False, compare=False)
    limit_bytes: int | None = None

    @property
    def curve(self) -> Curve:
        """The learning curve of the learner: after each segment, bytes seen and ideal code length so far."""
        return self.curves[MODEL]


def evaluate(
    source: NDArray[np.uint8],
    header: Header,
    runtime: Runtime,
    *,
    baselines: Sequence[str],
    verify: bool,
    on_progress: OnProgress,
    documents: Sequence[Document] = (),
    folder: Path | None = None,
    keep: bool = False,
    resume: bool = False,
) -> Evaluation:
    """Codes `source` (n,) uint8 as `header` describes it, and measures.

    documents: where the corpus is of several. folder: where the archive goes; else it is a temporary one. keep: what an
    interrupted evaluation needs to go on stays there. resume: goes on with that. Costs one run of the learner, another with
    `verify`, one of its mixer alone if it has both parts; baselines hold `source` in memory. Raises CorpusError for an empty
    corpus, CorruptArchiveError if the archive does not give `source` back, CheckpointError for a folder of something else.
    """
    if not len(source):
        raise CorpusError("nothing to evaluate: the corpus is empty")
    config = Config.from_dict(header.config)
    warm_up(runtime, config)
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="prequential-") as name:
        draft = Draft(Path(name), header, resume=resume)
        ledger, wall_s = draft.encode(source, runtime, on_progress, keep=keep)
        peak_bytes = peak_memory_bytes()
        verify_wall_s = _verify(source, draft.archive, runtime, on_progress) if verify else None
    trace, ends = draft.trace, draft.ends
    if MIXER in trace.parts:
        _score_mixer(source, replace(config, gpt=None, replicas=None), runtime, trace)
    results, baseline_curves, notes = measure_baselines(source, baselines)
    return Evaluation(
        header=header,
        ledger=ledger,
        curves={part: Curve(n_bytes=ends, bits=trace.sums(part, ends)) for part in trace.parts} | baseline_curves,
        tables=breakdown(source, trace, documents),
        wall_s=wall_s,
        peak_memory_bytes=peak_bytes,
        verify_wall_s=verify_wall_s,
        baselines=tuple(results),
        notes=tuple(notes),
        trace=trace,
    )


def warm_up(runtime: Runtime, learner: Config | None = None) -> None:
    """Self-tests and compilation of kernels, which happen once and are no part of a learner's speed.

    learner: what will be run, for which a device is tested.
    """
    if learner:
        runtime.accelerator(learner)
    runtime = replace(runtime, device="cpu")
    config = Config(gpt=GPTConfig(n_layers=1, width=64, n_heads=2, window=16), mixer=MixerConfig(table_bits=8))
    source = np.zeros(64, np.uint8)
    header = Header(n_bytes=len(source), blake2b=bytes(32), config=config.to_dict())
    archive = io.BytesIO()
    for _ in coding.compress(source, header, archive, runtime):
        pass
    archive.seek(0)
    for _ in coding.decompress(ArchiveReader(archive), io.BytesIO(), runtime):
        pass


def _score_mixer(source: NDArray[np.uint8], config: Config, runtime: Runtime, trace: Trace) -> None:
    """What the context mixer would cost without the GPT; nothing is coded."""
    learner = runtime.learner(config)
    for block in blocks(len(source), config.schedule):
        for _, bits in run(learner, BitCoder(FOLLOW), block, np.array(source[block])):
            trace.append(MIXER, bits)


def _verify(source: NDArray[np.uint8], archive: Path, runtime: Runtime, on_progress: OnProgress) -> float:
    """Wall time of decoding the archive, every byte of which was compared. Raises CorruptArchiveError."""
    comparison = _Comparison(source)
    start_s = time.perf_counter()
    with archive.open("rb") as file:
        for done in coding.decompress(ArchiveReader(file), cast(BinaryIO, comparison), runtime):
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
