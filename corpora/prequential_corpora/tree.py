"""From a folder to one stream of bytes, from which tree_restore.py restores the folder.

    prequential-tree 1 LF
    {"path":"docs/a.txt","n_bytes":12,"executable":false} LF    one line per entry, ascending by the bytes of the path: a file,
    {"path":"docs/b.txt","link":"a.txt"} LF                     a symbolic link,
    {"path":"docs/c/","empty":true} LF                          or an empty folder
    LF                                                          an empty line ends the list
    contents NUL contents NUL ...                               each file's bytes, then one NUL

The same tree gives the same bytes on every machine. Stored: regular files, including hidden ones, with their relative POSIX path
and whether the owner may execute them; empty folders; links that stay inside the folder (`stays_inside`). Not stored: other
links, special files and everything called `.git` (these are skipped and named), times and owners.

The NUL shows a learner the end of a document. It must be present when the tree is restored. A path is in the list with its own
bytes, UTF-8 or not (surrogateescape). Only the characters that JSON must escape are escaped.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prequential.errors import CorpusError
from prequential_corpora.corpus import NamedParts, read_file, reading
from prequential_corpora.tree_restore import MAGIC, MAX_DEPTH, TreeEntry, host_path, is_git, stays_inside


@dataclass(frozen=True)
class Tree:
    """A scanned folder: entries in stream order, names that are not stored, the permissions that all its files have."""

    root: Path
    entries: Sequence[TreeEntry]
    skipped: Sequence[str]
    mode: int

    @property
    def files(self) -> list[TreeEntry]:
        """The entries that have contents."""
        return [entry for entry in self.entries if entry.is_file]

    def header(self) -> bytes:
        """The beginning of the stream: the list."""
        return MAGIC + b"".join(entry.line() for entry in self.entries) + b"\n"

    def contents(self) -> Iterator[NamedParts]:
        """The files. Raises CorpusError for a file that cannot be read or whose length changed after the scan."""
        for file in self.files:
            yield file.name, read_file(host_path(self.root, file.path), file.n_bytes, follow_links=False)


def scan_tree(root: Path) -> Tree:
    """The entries below the folder `root`, ascending by path. Raises CorpusError for one that is unreadable or too deep."""
    entries: list[TreeEntry] = []
    skipped: list[bytes] = []
    with reading(root):
        mode = root.stat().st_mode & 0o666
    folders = [b""]  # relative to the root, each with its slash
    while folders:
        folder = folders.pop()
        if folder.count(b"/") >= MAX_DEPTH:
            raise CorpusError(f"{os.fsdecode(folder)!r} is more than {MAX_DEPTH - 1} folders deep; move it up")
        host_folder = host_path(root, folder)
        with reading(host_folder), os.scandir(os.fsencode(host_folder)) as listed:
            inside = list(listed)
            entries += [TreeEntry(folder)] if folder and not inside else []
            for entry in inside:
                path = folder + entry.name
                status = entry.stat(follow_symlinks=False)
                link = os.readlink(entry.path) if entry.is_symlink() else None  # noqa: PTH115  # bytes
                if is_git(entry.name) or (link is not None and not stays_inside(path, link)):
                    skipped.append(path)
                elif link is not None:
                    entries.append(TreeEntry(path, link=link))
                elif stat.S_ISDIR(status.st_mode):
                    mode &= (status.st_mode & 0o111) << 2 | 0o222  # who may enter it
                    folders.append(path + b"/")
                elif stat.S_ISREG(status.st_mode):
                    mode &= status.st_mode
                    entries.append(TreeEntry(path, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
                else:
                    skipped.append(path)
    entries.sort(key=lambda entry: entry.path)
    return Tree(root, entries, [os.fsdecode(path) for path in sorted(skipped)], mode | 0o600)


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` of the library `datasets` has made the folder."""
    marks = ("dataset_dict.json",), ("dataset_info.json", "state.json")
    return any(all((folder / name).is_file() for name in names) for names in marks)
