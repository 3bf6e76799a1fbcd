"""`decompress`: from an archive to the original. With its imports it is the decoder that evaluation/ledger.py counts."""

from __future__ import annotations

import io
import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast, overload

from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_corpora.tree_restore import restore_tree

from prequential import files
from prequential.arguments import check_arguments
from prequential.errors import CorruptArchiveError, OutputError
from prequential.files import PathLike, Sink
from prequential.machine.process import engine_call
from prequential.online import coding
from prequential.online.checkpoint import Checkpoints
from prequential.online.coding import OnProgress, ignore
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime

if TYPE_CHECKING:
    from prequential.learners.given import Given

Archive: TypeAlias = bytes | bytearray | memoryview | PathLike | BinaryIO


@dataclass(frozen=True, kw_only=True)
class DecompressionResult:
    """A decoded archive whose digest was compared. n_bytes: of the original. wall_s: wall time of coding alone, in seconds.

    Examples:
        >>> import io, prequential
        >>> archive = prequential.compress(b"text" * 100, config=prequential.preset(1))
        >>> original = io.BytesIO()
        >>> prequential.decompress(archive, original).n_bytes
        400
    """

    header: Header
    n_bytes: int
    wall_s: float


@overload
def decompress(
    archive: Archive, output: None = None, *, given: Given | None = None, runtime: Runtime | None = None,
    max_output_bytes: int | None = None, on_progress: OnProgress = ignore,
) -> bytes: ...  # fmt: skip


@overload
def decompress(
    archive: Archive, output: PathLike | BinaryIO, *, given: Given | None = None, runtime: Runtime | None = None,
    overwrite: bool = False, resume: bool = False, max_output_bytes: int | None = None, on_progress: OnProgress = ignore,
) -> DecompressionResult: ...  # fmt: skip


@engine_call()
def decompress(
    archive: Archive,
    output: PathLike | BinaryIO | None = None,
    *,
    given: Given | None = None,
    runtime: Runtime | None = None,
    overwrite: bool = False,
    resume: bool = False,
    max_output_bytes: int | None = None,
    on_progress: OnProgress = ignore,
) -> bytes | DecompressionResult:
    """The original as bytes; with an `output`, it is written there.

    output: a path or an open binary file. A path appears when the complete original is verified; it is a folder if the archive
    holds one. Until then the folder .OUTPUT.prequential holds the verified beginning. A binary file receives each block once it
    is verified (a folder as a stream), so also the beginning of a damaged archive.
    resume: as for `compress`. given: the text or stored model that the archive was given.
    max_output_bytes: a longer original is refused before anything is built or written; None: a small archive may have a long one.

    Raises CorpusError for an archive that cannot be read, CorruptArchiveError, UnsupportedVersionError, OutputError,
    InexactMachineError, and ConfigError for a model above the memory limit of the runtime.

    Examples:
        >>> import prequential
        >>> archive = prequential.compress(b"one line\\n", config=prequential.preset(1))
        >>> prequential.decompress(archive)
        b'one line\\n'
    """
    check_arguments(archive=archive, output=output, given=given, runtime=runtime, overwrite=overwrite, resume=resume)
    check_arguments(max_output_bytes=max_output_bytes, on_progress=on_progress)
    memory, runtime = io.BytesIO(), runtime or Runtime()
    target = memory if output is None else output
    with _opened(archive) as file:
        reader = ArchiveReader(file)
        n_bytes = reader.header.n_bytes  # no block goes beyond it
        if max_output_bytes is not None and n_bytes > max_output_bytes:
            long = f"the original has {n_bytes:,} bytes, more than the limit of {max_output_bytes:,} bytes"
            raise OutputError(f"{long}; raise max_output_bytes= if you trust the source")
        learner = _learner(reader.header, given, runtime)  # before anything is written
        like = Path(archive) if isinstance(archive, str | os.PathLike) and Path(archive).is_file() else None
        with _original(reader.header, target, overwrite=overwrite, resume=resume, like=like) as sink:
            start_s = time.perf_counter()
            try:
                checkpoints = checkpoints_of(output, resume=resume)
                for done in coding.decompress(reader, sink, learner, checkpoints):
                    on_progress(done, n_bytes)
                if sink.blake2b != reader.header.blake2b:
                    raise CorruptArchiveError("the original's digest differs from the header's")
            except CorruptArchiveError as error:
                raise CorruptArchiveError(f"{error}; {sink.n_bytes} bytes before it are good") from error
            wall_s = time.perf_counter() - start_s
    if output is None:
        return memory.getvalue()
    return DecompressionResult(header=reader.header, n_bytes=sink.n_bytes, wall_s=wall_s)


def _learner(header: Header, given: Given | None, runtime: Runtime) -> Learner:
    if given is None:
        return runtime.learner(coding.config_of(header))
    from prequential.learners.given import learner_of

    return learner_of(header, given, runtime)


def _original(
    header: Header, output: PathLike | BinaryIO, *, overwrite: bool, resume: bool, like: Path | None
) -> AbstractContextManager[Sink]:
    """The sink of the original: a file, an open stream, or a file that is unpacked to a folder at the end."""
    if header.corpus.get("kind") != "tree" or not isinstance(output, str | os.PathLike):
        return open_sink(output, overwrite=overwrite, resume=resume, like=like)
    folder, mode = Path(output), like.stat().st_mode if like else 0o777
    return files.output_file(
        output,
        overwrite=overwrite,
        resume=resume,
        check=partial(files.check_new_folder, output),
        publish=lambda stream, _: restore_tree(stream, folder, mode=mode),
    )


def _opened(archive: Archive) -> AbstractContextManager[BinaryIO]:
    if isinstance(archive, str | os.PathLike):
        with files.reading(archive), files.possible_name(archive):
            return Path(archive).open("rb")
    if hasattr(archive, "read"):
        return nullcontext(cast(BinaryIO, archive))
    data = cast(bytes, archive)
    return io.BytesIO(data if isinstance(data, bytes) else memoryview(data).tobytes())  # which need not be in one piece


def open_sink(
    output: PathLike | BinaryIO, *, overwrite: bool, resume: bool = False, like: Path | None = None, mode: int = 0o777
) -> AbstractContextManager[Sink]:
    """A sink for a path, as `files.output_file` makes it, or for an open binary file, which is flushed at the end."""
    if isinstance(output, str | os.PathLike):
        return files.output_file(output, overwrite=overwrite, resume=resume, like=like, mode=mode)
    return files.stream_output(output, overwrite=overwrite)


def checkpoints_of(output: PathLike | BinaryIO | None, *, resume: bool) -> Checkpoints | None:
    """The checkpoints of a run that makes a file or folder; None for streams and devices, which cannot be continued."""
    if not isinstance(output, str | os.PathLike) or files.is_device(output):
        return None
    return Checkpoints(files.checkpoint_path(output), files.partial_path(output), resume=resume)
