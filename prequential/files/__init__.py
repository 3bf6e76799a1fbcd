"""Output files and folders that are either complete or absent (docs/RELIABILITY.md), and safe reading of a stranger's files."""

# ruff: noqa: F401, I001
# fmt: off
from prequential.files.folders import (
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
