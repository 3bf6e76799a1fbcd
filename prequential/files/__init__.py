"""Output files and folders that are either complete or absent (docs/RELIABILITY.md), and safe reading of a stranger's files."""

# fmt: off
from prequential.files.folders import (  # noqa: I001
    check_can_write, check_new_folder, common_mode, delete_incomplete, new_folder, set_mode, share_folder, sync_folder,
    write_bytes,
)
from prequential.files.outputs import RESUMABLE, check_output, is_device, output_file
from prequential.files.streams import (
    PathLike, Sink, open_regular, possible_name, read_regular, reading, stream_output, sync, temporary_folder, writing,
)
from prequential.files.work_folder import (
    check_own_folder, checkpoint_path, delete_checkpoint, hold_work_folder, open_own_file, partial_path, work_folder,
)

__all__ = [
    "RESUMABLE", "PathLike", "Sink", "check_can_write", "check_new_folder", "check_output", "check_own_folder", "checkpoint_path",
    "common_mode", "delete_checkpoint", "delete_incomplete", "hold_work_folder", "is_device", "new_folder",
    "open_own_file", "open_regular", "output_file", "partial_path", "possible_name", "read_regular", "reading", "set_mode",
    "share_folder", "stream_output", "sync", "sync_folder", "temporary_folder", "work_folder", "write_bytes", "writing",
]
