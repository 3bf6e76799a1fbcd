"""The lines that a patch adds, read from the output of `git diff-tree -p -U0`.

Hunks are read by the line counts that git gives, so the contents of a file can never be taken for git's own lines.
"""

import re
from collections.abc import Iterator

from prequential.corpora.git.process import PIPE_N_BYTES, GitProcess

PATCH_OPTIONS = ("-p", "-U0", "--full-index", "--text", "--no-ext-diff", "--no-textconv", "--diff-algorithm=myers")
HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")

Pair = tuple[bytes, bytes]  # object ids of the old and the new version, in hexadecimal
NO_PAIR: Pair = (b"", b"")


def read_added_lines(process: GitProcess, wanted: set[Pair], max_n_bytes: int) -> Iterator[tuple[Pair, bytes]]:
    """(pair, added lines) of each file whose pair is wanted, up to the line `end`.

    Lines keep their line ends. Of added lines longer than `max_n_bytes`, slightly more than that are kept.
    """
    pair, added, sign = NO_PAIR, bytearray(), b" "
    while (line := process.read_until(b"\n")) != b"end\n":  # git quotes names here, so a name cannot break a line
        if line.startswith(b"diff --git "):
            if pair in wanted:
                yield pair, bytes(added)
            pair, added = NO_PAIR, bytearray()
        elif line.startswith(b"index "):
            old_id, _, new_id = line.split()[1].partition(b"..")
            pair = (old_id, new_id)
        elif hunk := HUNK.match(line):
            sign = _read_hunk(process, hunk, added if pair in wanted else None, max_n_bytes)
        elif line.startswith(b"\\") and sign == b"+":  # "No newline at end of file"
            del added[-1:]
    if pair in wanted:
        yield pair, bytes(added)


def _read_hunk(process: GitProcess, hunk: re.Match[bytes], added: bytearray | None, max_n_bytes: int) -> bytes:
    """Reads one hunk by its line counts and returns the sign of its last line, + or -.

    Appends the added lines to `added`, if given, until it is longer than `max_n_bytes`.
    """
    n_left = {b"-": int(hunk[1] or 1), b"+": int(hunk[2] or 1)}
    sign = b" "
    while any(n_left.values()):
        part = process.read_until(b"\n", PIPE_N_BYTES)
        if part.startswith(b"\\"):  # "No newline at end of file" of the old version: more lines follow
            continue
        sign, start = part[:1], 1
        n_left[sign] -= 1
        while True:
            if sign == b"+" and added is not None and len(added) <= max_n_bytes:
                added += part[start:]
            if part.endswith(b"\n"):
                break
            part, start = process.read_until(b"\n", PIPE_N_BYTES), 0
    return sign
