"""Where a run writes: a path that appears when the output is complete, or an open stream; and where the run is saved."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from prequential.files import PathLike, Sink, checkpoint_path, is_device, output_file, partial_path, stream_output
from prequential.online.checkpoint import Checkpoints


def open_sink(
    output: PathLike | BinaryIO, *, overwrite: bool, resume: bool = False, like: Path | None = None, mode: int = 0o777
) -> AbstractContextManager[Sink]:
    """A sink for a path, as `files.output_file` makes it, or for an open binary file, which is flushed at the end."""
    if isinstance(output, str | os.PathLike):
        return output_file(output, overwrite=overwrite, resume=resume, like=like, mode=mode)
    return _flushed(stream_output(output, overwrite=overwrite))


@contextmanager
def _flushed(sink: Sink) -> Iterator[Sink]:
    yield sink
    sink.flush()


def checkpoints_of(output: PathLike | BinaryIO | None, *, resume: bool) -> Checkpoints | None:
    """The checkpoints of a run that makes a file or folder; None for streams and devices, which cannot be continued."""
    if not isinstance(output, str | os.PathLike) or is_device(output):
        return None
    return Checkpoints(checkpoint_path(output), partial_path(output), resume=resume)
