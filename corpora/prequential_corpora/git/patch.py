"""The lines that a patch adds, read from the output of `git diff-tree -p -U0`.

Hunks are read by the line counts that git gives, so the contents of a file can never be taken for git's own lines.
"""

import re

from prequential.errors import CorpusError
from prequential_corpora.git.process import MAX_FIELD_N_BYTES, PIPE_N_BYTES, GitProcess, wrong_answer

PATCH_OPTIONS = ("-p", "-U0", "--full-index", "--text", "--no-ext-diff", "--no-textconv", "--diff-algorithm=myers")
FILE = b"diff --git "
END = b"end\n"
HUNK = re.compile(rb"@@ -\d{1,10}(?:,(\d{1,10}))? \+\d{1,10}(?:,(\d{1,10}))? @@")
INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: [0-7]+)?\n")
HEADER = re.compile(
    rb"(?:old mode|new mode|deleted file mode|new file mode|rename from|rename to|(?:dis)?similarity index|---|\+\+\+) "
)

Pair = tuple[bytes, bytes]  # object ids of the old and the new version, in hexadecimal


class Patch:
    """The files of one patch, in git's order, as far as they are requested. Memory: the added lines of one file."""

    def __init__(self, process: GitProcess, max_n_bytes: int) -> None:
        """max_n_bytes: of the added lines of a file; of more, slightly more than that are kept."""
        self._process, self._max_n_bytes = process, max_n_bytes
        self._line = self._next_line()  # the last line that was read: END, or the first one of a file
        if self._line != END and not self._line.startswith(FILE):
            raise wrong_answer("an unknown line in a patch")

    def added_lines(self, pair: Pair) -> bytes:
        """The added lines of the next file with these versions, with their line ends. Skips the files before it."""
        while self._line != END:
            found, added = self._read_file(pair)
            if found:
                return added
        raise CorpusError(f"git lists a change to {pair[1].decode()} but shows no lines of it; try git fsck")

    def skip_rest(self) -> None:
        """Reads to the end of the patch."""
        while self._line != END:
            self._read_file(None)

    def _read_file(self, wanted: Pair | None) -> tuple[bool, bytes]:
        """Whether the next file has the wanted versions, and then its added lines. Reads up to the line after the file."""
        found, added, sign = False, bytearray(), b" "
        while (line := self._next_line()) != END and not line.startswith(FILE):
            if index := INDEX.fullmatch(line):
                found = (index[1], index[2]) == wanted
            elif hunk := HUNK.match(line):
                sign = self._read_hunk(hunk, added if found else None)
            elif line.startswith(b"\\"):  # "No newline at end of file"
                if sign == b"+":
                    del added[-1:]
            elif not HEADER.match(line):
                raise wrong_answer("an unknown line in a patch")
        self._line = line
        return found, bytes(added)

    def _read_hunk(self, hunk: re.Match[bytes], added: bytearray | None) -> bytes:
        """Reads one hunk by its line counts and returns the sign of its last line, + or -. Appends the added lines to `added`."""
        n_left = {b"-": int(hunk[1] or 1), b"+": int(hunk[2] or 1)}
        sign = b" "
        while any(n_left.values()):
            part = self._process.read_part(b"\n", PIPE_N_BYTES)
            # "No newline at end of file" of the old version: more lines follow
            if sign == b"-" and part.startswith(b"\\"):
                continue
            sign, start = part[:1], 1
            if not n_left.get(sign):
                raise wrong_answer("another number of lines in a patch than it declares")
            n_left[sign] -= 1
            while True:
                if sign == b"+" and added is not None and len(added) <= self._max_n_bytes:
                    added += part[start:]
                if part.endswith(b"\n"):
                    break
                part, start = self._process.read_part(b"\n", PIPE_N_BYTES), 0
        return sign

    def _next_line(self) -> bytes:
        """The next line outside a hunk. Git quotes names here, so a name cannot break a line."""
        return self._process.read_until(b"\n", MAX_FIELD_N_BYTES)
