"""Output files and folders that are either complete or absent.

This holds after an error, a full disk, Ctrl-C, SIGTERM, `kill -9` and a power cut. A file grows in TARGET.partial, in the same
folder. It is synchronised and then renamed, so nothing half-written ever has the target's name. A new folder is filled under a
temporary name. Devices and pipes are written directly.
"""

from prequential.files.folders import check_new_folder, new_folder, sync_file, sync_folder, write_text
from prequential.files.locks import hold_lock, open_regular_file
from prequential.files.outputs import (
    check_output,
    checkpoint_draft,
    checkpoint_path,
    delete_checkpoint,
    delete_checkpoint_draft,
    output_file,
    partial_path,
)
from prequential.files.sink import PathLike, Sink, stream_output, writing

__all__ = [
    "PathLike",
    "Sink",
    "check_new_folder",
    "check_output",
    "checkpoint_draft",
    "checkpoint_path",
    "delete_checkpoint",
    "delete_checkpoint_draft",
    "hold_lock",
    "new_folder",
    "open_regular_file",
    "output_file",
    "partial_path",
    "stream_output",
    "sync_file",
    "sync_folder",
    "write_text",
    "writing",
]
