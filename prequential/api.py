"""The library: compress, decompress and evaluate, from bytes or paths; the command line is a thin layer over these.

A corpus in a `str` is named as on the command line (a path, `sample:NAME`, `-`); a path object is a path, and anything
bytes-like is the data itself. An archive is a path, bytes or an open binary file.

A run shares its work between threads of its own and leaves torch's own threading at one thread for the whole process.
"""

import dataclasses
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast, overload

import numpy as np
from numpy.typing import NDArray

from prequential.codecs.archive import ArchiveReader
from prequential.codecs.archive_header import Header
from prequential.codecs.baselines.registry import DEFAULT_BASELINES
from prequential.corpora.chunks import reading
from prequential.corpora.corpus import Document, beginning
from prequential.corpora.sources import open_corpus
from prequential.corpora.tree import restore_tree
from prequential.errors import ConfigError, CorpusError, CorruptArchiveError, OutputError
from prequential.files import Sink, check_output, checkpoint_path, output_file, partial_path, stream_output
from prequential.measure.evaluation.curves import Curve
from prequential.measure.evaluation.evaluation import Evaluation
from prequential.measure.evaluation.evaluation import evaluate as _evaluate
from prequential.measure.evaluation.ledger import Ledger
from prequential.measure.evaluation.runs import Run
from prequential.measure.study.sweep import Outcome, Plan, Summary, summarise
from prequential.measure.study.sweep import sweep as _sweep
from prequential.model import presets
from prequential.model.config import Config, GPTConfig, MixerConfig, ReplicaConfig, ScheduleConfig
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.online import coding
from prequential.online.checkpoint import Checkpoints
from prequential.online.coding import OnProgress, Progress, ignore
from prequential.online.flops import check_work
from prequential.online.limits import MAX_MEMORY_BYTES, check_memory, memory_bytes
from prequential.online.runtime import Runtime
from prequential.version import VERSION

__all__ = [
    "CompressionResult",
    "Config",
    "Curve",
    "DecompressionResult",
    "Evaluation",
    "GPTConfig",
    "Ledger",
    "MixerConfig",
    "Progress",
    "ReplicaConfig",
    "Runtime",
    "ScheduleConfig",
    "compress",
    "decompress",
    "evaluate",
    "memory_bytes",
    "preset",
    "sweep",
]

Data = bytes | bytearray | memoryview | NDArray[np.uint8]
Path_ = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class CompressionResult:
    """What an archive cost; wall_s is coding alone."""

    header: Header
    ledger: Ledger
    wall_s: float


@dataclass(frozen=True, kw_only=True)
class DecompressionResult:
    """What an archive held: every byte decoded, and its digest compared. wall_s in seconds."""

    header: Header
    n_bytes: int
    wall_s: float


@overload
def compress(
    source: Data | Path_,
    output: None = None,
    *,
    config: Config | None = None,
    preset: int = DEFAULT_PRESET,
    pure: bool = False,
    seed: int = 0,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    on_progress: OnProgress = ignore,
) -> bytes: ...


@overload
def compress(
    source: Data | Path_,
    output: Path_ | BinaryIO,
    *,
    config: Config | None = None,
    preset: int = DEFAULT_PRESET,
    pure: bool = False,
    seed: int = 0,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: OnProgress = ignore,
) -> CompressionResult: ...


def compress(
    source: Data | Path_,
    output: Path_ | BinaryIO | None = None,
    *,
    config: Config | None = None,
    preset: int = DEFAULT_PRESET,
    pure: bool = False,
    seed: int = 0,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: OnProgress = ignore,
) -> bytes | CompressionResult:
    """The archive of `source` as bytes, or, given an `output`, what it cost.

    output: a path, which appears only once whole, with the mode and time of a source file; or an open binary file. Until then
    what there is grows in OUTPUT.partial, a valid prefix, and from time to time (2.5 % of it) the run is saved in
    OUTPUT.checkpoint. resume: go on from those two, if an interrupted run left them: the archive is the same, byte for byte.
    config: replaces preset, pure and seed. runtime: how to compute; changes the speed only, never a byte.
    on_progress: called after each segment with (totals so far, bytes of the original).
    Equal bytes, name and config give equal archives on every machine.

    Raises CorpusError, OutputError, InexactMachineError, ConfigError, also for a model above max_memory_bytes, and
    CheckpointError where the interrupted run was another one.

    >>> import prequential
    >>> text = b"It was the best of times, it was the worst of times. " * 20
    >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2", "4"), table_bits=10))
    >>> plain = prequential.Runtime(kernels="plain")  # nothing to compile; the default is faster for longer texts
    >>> archive = prequential.compress(text, config=small, runtime=plain)
    >>> len(archive) < len(text)
    True
    >>> prequential.decompress(archive, runtime=plain) == text
    True
    """
    config = config or presets.preset(preset, pure=pure, seed=seed)
    runtime = runtime or Runtime()
    _check_size(config, max_memory_bytes, runtime)
    if isinstance(output, str | os.PathLike):
        check_output(output, overwrite=overwrite)
    memory = io.BytesIO()
    with (
        _opened(source, config, in_order=True) as (symbols, header, _),
        _sink(
            memory if output is None else output, overwrite=overwrite, resume=resume, like=_file(source, header)
        ) as sink,
    ):
        start_s = time.perf_counter()
        for done in coding.compress(symbols, header, sink, runtime, _checkpoints(output, resume=resume)):
            on_progress(done, header.n_bytes)
        wall_s = time.perf_counter() - start_s
    if output is None:
        return memory.getvalue()
    return CompressionResult(header=header, ledger=Ledger.from_progress(done), wall_s=wall_s)


@overload
def decompress(
    archive: Data | Path_ | BinaryIO,
    output: None = None,
    *,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    on_progress: OnProgress = ignore,
) -> bytes: ...


@overload
def decompress(
    archive: Data | Path_ | BinaryIO,
    output: Path_ | BinaryIO,
    *,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: OnProgress = ignore,
) -> DecompressionResult: ...


def decompress(
    archive: Data | Path_ | BinaryIO,
    output: Path_ | BinaryIO | None = None,
    *,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: OnProgress = ignore,
) -> bytes | DecompressionResult:
    """The original as bytes, or, given an `output`, written there.

    output: a path, which appears only once the whole is verified, and which is a folder if the archive holds one; or an
    open binary file, which gets each block once it is verified (of a folder, the stream of corpora/tree.py).
    Until then what there is grows in OUTPUT.partial, and stays there if the archive turns out to be damaged: the verified
    beginning. resume: as for `compress`.

    Raises CorpusError for an archive that cannot be read, CorruptArchiveError, UnsupportedVersionError, OutputError,
    InexactMachineError, and ConfigError for a model above max_memory_bytes.
    """
    memory = io.BytesIO()
    with _archive(archive) as file:
        reader = ArchiveReader(file)
        runtime = runtime or Runtime()
        _check_learner(reader.header, max_memory_bytes, runtime)
        with _original(
            reader.header,
            memory if output is None else output,
            overwrite=overwrite,
            resume=resume,
            like=Path(archive) if isinstance(archive, str | os.PathLike) and Path(archive).is_file() else None,
        ) as sink:
            start_s = time.perf_counter()
            try:
                _decode(reader, sink, runtime, on_progress, _checkpoints(output, resume=resume))
            except CorruptArchiveError as error:
                raise CorruptArchiveError(f"{error}; {sink.n_bytes} bytes before it are good") from error
            wall_s = time.perf_counter() - start_s
    if output is None:
        return memory.getvalue()
    return DecompressionResult(header=reader.header, n_bytes=sink.n_bytes, wall_s=wall_s)


def evaluate(
    source: Data | Path_,
    *,
    config: Config | None = None,
    preset: int = DEFAULT_PRESET,
    pure: bool = False,
    seed: int = 0,
    limit_bytes: int | None = None,
    baselines: Sequence[str] = DEFAULT_BASELINES,
    verify: bool = False,
    folder: Path_ | None = None,
    keep: bool = False,
    resume: bool = False,
    n_configs: int = 1,
    n_seeds: int = 1,
    runtime: Runtime | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    on_progress: OnProgress = ignore,
) -> Evaluation:
    """The prequential description length of `source` under a learner, with its learning curve and the baselines.

    limit_bytes: only the beginning of the corpus. verify: decode the archive and compare every byte. folder: one that exists, for
    the archive (archive.pq); else it is a temporary one. keep: what an interrupted evaluation needs to go on stays there;
    resume: goes on with it. n_configs, n_seeds: how many were tried, of which this is the chosen one: they enter the total
    cost. Others as in `compress`; baselines are names of prequential.codecs.BASELINES.

    Raises what `compress` raises, CorpusError for an empty corpus, CorruptArchiveError if verification fails, CheckpointError
    where `folder` holds what this cannot go on with.

    >>> import prequential
    >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2", "4"), table_bits=10))
    >>> plain = prequential.Runtime(kernels="plain")
    >>> result = prequential.evaluate("sample:christmas_carol", config=small, limit_bytes=4096, runtime=plain)
    >>> result.ledger.archive_bits == 8 * result.ledger.archive_bytes
    True
    >>> int(result.curve.n_bytes[-1])
    4096
    """
    config = config or presets.preset(preset, pure=pure, seed=seed)
    runtime = runtime or Runtime()
    _check_size(config, max_memory_bytes, runtime)
    with _opened(source, config, limit_bytes) as (symbols, header, documents):
        result = _evaluate(
            symbols,
            header,
            runtime,
            baselines=baselines,
            verify=verify,
            on_progress=on_progress,
            documents=documents,
            folder=None if folder is None else Path(folder),
            keep=keep,
            resume=resume,
        )
    ledger = result.ledger.declaring(n_configs=n_configs, n_seeds=n_seeds)
    return dataclasses.replace(result, ledger=ledger, limit_bytes=limit_bytes)


@contextmanager
def _opened(
    source: Data | Path_, config: Config, limit_bytes: int | None = None, *, in_order: bool = False
) -> Iterator[tuple[Any, Header, Sequence[Document]]]:
    """The source's bytes (n,) uint8, mapped where they are a file, the header of its archive, and the documents in it.

    in_order: as Symbols, for one who asks for them from front to back: no spool, and no mapped pages.
    """
    if not isinstance(source, str | os.PathLike):
        symbols: Any = np.frombuffer(source, np.uint8)[:limit_bytes]
        yield symbols, _header(symbols, {}, config), ()
        return
    with open_corpus(source) as corpus:
        symbols = corpus.symbols() if in_order else corpus.bytes()
        if limit_bytes is not None and limit_bytes < len(symbols):
            first = symbols[:limit_bytes]
            yield first, _header(first, corpus.describe(), config), beginning(corpus.documents, limit_bytes)
            return
        digest = bytes.fromhex(corpus.blake2b)
        yield (
            symbols,
            Header(n_bytes=len(symbols), blake2b=digest, config=config.to_dict(), corpus=corpus.describe()),
            corpus.documents,
        )


def _header(symbols: NDArray[np.uint8], corpus: dict[str, str | int | None], config: Config) -> Header:
    digest = hashlib.blake2b(np.ascontiguousarray(symbols).data, digest_size=32).digest()
    return Header(n_bytes=len(symbols), blake2b=digest, config=config.to_dict(), corpus=corpus)


def _file(source: object, header: Header) -> Path | None:
    """The file that `source` names, whose mode and time an output takes over; None if it is anything else."""
    named = isinstance(source, str | os.PathLike) and header.corpus["kind"] == "file"
    return Path(cast(Path_, source)) if named else None


def _sink(
    output: Path_ | BinaryIO, *, overwrite: bool, resume: bool = False, like: Path | None
) -> AbstractContextManager[Sink]:
    if isinstance(output, str | os.PathLike):
        return output_file(output, overwrite=overwrite, resume=resume, like=like)
    return _flushed(stream_output(output, overwrite=overwrite))


def _checkpoints(output: Path_ | BinaryIO | None, *, resume: bool) -> Checkpoints | None:
    """For an output that can be gone on with: a file or folder to be."""
    if not isinstance(output, str | os.PathLike) or (Path(output).exists() and not Path(output).is_file()):
        return None
    return Checkpoints(checkpoint_path(output), partial_path(output), resume=resume)


@contextmanager
def _flushed(sink: Sink) -> Iterator[Sink]:
    yield sink
    sink.flush()


def _archive(archive: Data | Path_ | BinaryIO) -> AbstractContextManager[BinaryIO]:
    if isinstance(archive, str | os.PathLike):
        with reading(archive):
            return Path(archive).open("rb")
    if hasattr(archive, "read"):
        return nullcontext(cast(BinaryIO, archive))
    return io.BytesIO(cast(bytes, archive))


def _check_learner(header: Header, max_memory_bytes: int, runtime: Runtime) -> None:
    """Refuses a learner that is out of range or too large, before anything of it is built."""
    try:
        config = Config.from_dict(header.config)
    except ConfigError as error:
        raise CorruptArchiveError(f"header: {error}") from error
    _check_size(config, max_memory_bytes, runtime)


def _check_size(config: Config, max_memory_bytes: int, runtime: Runtime) -> None:
    """Refuses what takes too much memory or time, when it is compressed as when it is to be decoded."""
    check_memory(config, max_memory_bytes, runtime)
    check_work(config)


def _original(
    header: Header, output: Path_ | BinaryIO, *, overwrite: bool, resume: bool, like: Path | None
) -> AbstractContextManager[Sink]:
    """Where the original goes: a file, an open stream, or by way of a file a folder."""
    if header.corpus.get("kind") != "tree" or not isinstance(output, str | os.PathLike):
        return _sink(output, overwrite=overwrite, resume=resume, like=like)
    folder = Path(output)

    def check() -> None:
        if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
            raise OutputError(f"{str(output)!r} exists; choose another folder, or empty it")

    return output_file(
        output, overwrite=overwrite, resume=resume, check=check, publish=lambda stream, _: restore_tree(stream, folder)
    )


def _decode(
    reader: ArchiveReader,
    sink: Sink,
    runtime: Runtime,
    on_progress: OnProgress,
    checkpoints: Checkpoints | None = None,
) -> None:
    for done in coding.decompress(reader, sink, runtime, checkpoints):
        on_progress(done, reader.header.n_bytes)
    if sink.blake2b != reader.header.blake2b:
        raise CorruptArchiveError("the original's digest differs from the header's")


def sweep(
    source: str | Path,
    plan: Plan,
    folder: Path_,
    *,
    limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    baseline: Run | None = None,
    on_outcome: Callable[[Outcome], object] = lambda outcome: None,
) -> Summary:
    """Evaluates every configuration of the plan (measure/study/sweep.py) that `folder` holds no run of yet; results over seeds.

    on_outcome: called with each run, or the error it failed with. baseline: what data multiples are against, else the cheapest
    setting. Raises CorpusError where no run came about at all.
    """
    outcomes = []
    for outcome in _sweep(
        source,
        plan,
        folder,
        evaluate=evaluate,
        program_version=VERSION,
        limit_bytes=limit_bytes,
        runtime=runtime,
    ):
        on_outcome(outcome)
        outcomes.append(outcome)
    if not any(outcome.run for outcome in outcomes):
        raise CorpusError(f"no run of the sweep succeeded; the first: {outcomes[0].error}")
    return summarise(plan, outcomes, baseline)
