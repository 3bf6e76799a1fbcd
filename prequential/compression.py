"""`compress`: from bytes or a named corpus to an archive. The command line is a thin layer over this."""

from __future__ import annotations

import io
import os
import time
from dataclasses import dataclass
from typing import Any, BinaryIO, overload

from prequential_codecs.archive_header import Header

from prequential.arguments import check_arguments
from prequential.decompression import checkpoints_of, open_sink
from prequential.evaluation.ledger import Ledger
from prequential.files import check_output
from prequential.learners.given import Given, conditioned_learner, is_model
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import default_for
from prequential.online import coding
from prequential.online.coding import OnProgress, ignore
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, PathLike, check_outside, mode_of, open_source


@dataclass(frozen=True, kw_only=True)
class CompressionResult(Ledger):
    """The cost of an archive. wall_s: wall time of coding alone, in seconds.

    Examples:
        >>> import io, prequential
        >>> archive = io.BytesIO()
        >>> result = prequential.compress(b"text" * 100, archive, config=prequential.preset(1))
        >>> result.archive_bytes == len(archive.getvalue())
        True
    """

    header: Header
    wall_s: float


@overload
def compress(
    source: CorpusLike, output: None = None, *, config: Config | None = None, given: Given | None = None,
    runtime: Runtime | None = None, on_progress: OnProgress = ignore,
) -> bytes: ...  # fmt: skip


@overload
def compress(
    source: CorpusLike, output: PathLike | BinaryIO, *, config: Config | None = None, given: Given | None = None,
    runtime: Runtime | None = None, overwrite: bool = False, resume: bool = False, on_progress: OnProgress = ignore,
) -> CompressionResult: ...  # fmt: skip


@engine_call()
def compress(
    source: CorpusLike,
    output: PathLike | BinaryIO | None = None,
    *,
    config: Config | None = None,
    given: Given | None = None,
    runtime: Runtime | None = None,
    overwrite: bool = False,
    resume: bool = False,
    on_progress: OnProgress = ignore,
) -> bytes | CompressionResult:
    """The archive of `source` as bytes; with an `output`, the archive is written there and its cost returned.

    source: a str or a path, which names a corpus as on the command line (`sample:NAME`, a folder, ...), and is never the text
    itself; or the corpus: bytes, an array (n,) of uint8, a file open for bytes, a data set of `datasets`, or documents: a list,
    an iterator or a column of a data frame. Each document is a text or bytes, and an end of document follows it.
    output: a path or an open binary file. A path appears when the archive is complete, with the mode and time of a source file.
    Until then the folder .OUTPUT.prequential holds a valid prefix (`partial`) and the state of the run (`run.checkpoint`).
    resume: continue from those two, if an interrupted run left them; the archive is the same, byte for byte.
    config: the learner, for instance `prequential.preset(6)`. If None: preset 5, and 4 for inputs below 256 KiB. given: another
    text that the learner reads before, or the folder of a stored model; `decompress` then needs the same. runtime: how to
    compute; it changes the speed only. on_progress: called after each segment with (totals so far, bytes of the original).
    Equal bytes and configs give equal blocks on every machine; with the same name, `given` and build of zlib, equal archives.

    Raises CorpusError, OutputError, InexactMachineError, ConfigError (also for a model above the memory limit of the runtime),
    and CheckpointError if the interrupted run was a different one.

    Examples:
        >>> import prequential
        >>> text = b"It was the best of times, it was the worst of times. " * 20
        >>> archive = prequential.compress(text, config=prequential.preset(1))
        >>> len(archive) < len(text)
        True
        >>> prequential.decompress(archive) == text
        True
    """
    check_arguments(source=source, output=output, config=config, given=given, runtime=runtime)
    check_arguments(overwrite=overwrite, resume=resume, on_progress=on_progress)
    runtime, memory, given_mode = runtime or Runtime(), io.BytesIO(), mode_of(given)
    target = memory if output is None else output
    if config:
        runtime.check(config)  # before the source is read
    if isinstance(output, str | os.PathLike):
        check_output(output, overwrite=overwrite)
        check_outside(output, source, given)
    opened = open_source(source)
    mode = opened.mode & given_mode
    with open_sink(target, overwrite=overwrite, resume=resume, like=opened.file, mode=mode) as sink:
        opened.check_complete()
        learner, description = _learner(config, given, opened.n_bytes, runtime)
        header, start_s = opened.header(description), time.perf_counter()
        for done in coding.compress(opened.symbols, header, sink, learner, checkpoints_of(output, resume=resume)):
            on_progress(done, header.n_bytes)
        wall_s = time.perf_counter() - start_s
    if output is None:
        return memory.getvalue()
    return CompressionResult.from_progress(done, header=header, wall_s=wall_s)


def _learner(config: Config | None, given: Given | None, n: int, runtime: Runtime) -> tuple[Learner, dict[str, Any]]:
    """The learner before the first of n bytes, and its description in the header."""
    if given is not None:
        return conditioned_learner(config or (None if is_model(given) else default_for(n)), given, runtime)
    config = config or default_for(n)
    return runtime.learner(config), config.to_dict()
