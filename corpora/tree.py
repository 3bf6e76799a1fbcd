"""A folder as one stream of bytes, and back: the stream alone restores the folder.

    prequential-tree 1 LF
    {"path":"docs/a.txt","n_bytes":12,"executable":false} LF    one line per file, ascending by the bytes of the path
    LF                                                          an empty line ends the list
    contents NUL contents NUL ...                               each file's bytes, then one NUL

The same tree gives the same bytes on every machine. Stored: regular files, hidden ones too, with their POSIX relative
path and whether the owner may execute them. Not stored: symbolic links, special files and anything called `.git`
(skipped and counted), empty folders, times and owners.

The NUL is no delimiter (the list has the lengths): it tells a learner that a document is over, and it must be there
when the tree is restored, so lengths that do not match the contents are noticed.
A path stands in the list as its own bytes, UTF-8 or not (surrogateescape); only what JSON must escape is escaped.
Memory: the list of files, never their contents.
"""

import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from prequential.corpora.chunks import CHUNK_N_BYTES, read_chunks, reading
from prequential.corpora.corpus import DOCUMENT_END, Document
from prequential.errors import CorpusError, CorruptArchiveError, OutputError

MAGIC = b"prequential-tree 1\n"
# A path that a system call accepts has at most 4096 bytes, each at most 6 characters in JSON; 64 KiB leaves room.
MAX_LINE_N_BYTES = 1 << 16
MAX_DEPTH = 256  # parts of a path; pathlib and shutil recurse once per folder, and Python stops them near 1000


class TreeFile(NamedTuple):
    """One file of a tree: POSIX path relative to the root, length, and whether its owner may execute it."""

    path: bytes
    n_bytes: int
    executable: bool

    @property
    def name(self) -> str:
        """The path as text; bytes that are not UTF-8 become surrogates, as in os.fsdecode."""
        return self.path.decode("utf-8", "surrogateescape")

    def line(self) -> bytes:
        """The file's line in the list: canonical JSON without spaces, LF included."""
        entry = {"path": self.name, "n_bytes": self.n_bytes, "executable": self.executable}
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogateescape") + b"\n"


@dataclass(frozen=True)
class Tree:
    """What a scan of a folder found: its files in stream order, and how many entries it left out."""

    root: Path
    files: Sequence[TreeFile]
    n_skipped: int

    def documents(self) -> list[Document]:
        """Where each file's contents lie in the stream."""
        documents, offset = [], len(_header(self.files))
        for file in self.files:
            documents.append(Document(file.name, offset, file.n_bytes))
            offset += file.n_bytes + len(DOCUMENT_END)
        return documents

    @property
    def n_bytes(self) -> int:
        """Length of the stream."""
        return len(_header(self.files)) + sum(file.n_bytes + len(DOCUMENT_END) for file in self.files)

    def stream(self) -> Iterator[bytes]:
        """The tree's stream in chunks. Raises CorpusError for a file that cannot be read or changed since the scan."""
        yield _header(self.files)
        for file in self.files:
            yield from self._contents(file)
            yield DOCUMENT_END

    def _contents(self, file: TreeFile) -> Iterator[bytes]:
        path = host_path(self.root, file.path)
        n_bytes = 0
        with reading(path), path.open("rb") as stream:
            for chunk in read_chunks(stream, path):
                n_bytes += len(chunk)
                yield chunk
        if n_bytes != file.n_bytes:
            raise CorpusError(f"{str(path)!r} changed while it was read: {file.n_bytes} bytes before, {n_bytes} now")


def scan_tree(root: Path) -> Tree:
    """The files under the folder `root`, ascending by path; links are not followed. Contents are not read.

    Raises CorpusError where a folder cannot be listed (it is not left out silently) or is too deep to be restored.
    """
    files: list[TreeFile] = []
    n_skipped = 0
    folders = [b""]  # relative to the root, each with its slash
    while folders:
        folder = folders.pop()
        if folder.count(b"/") >= MAX_DEPTH:
            raise CorpusError(f"{os.fsdecode(folder)!r} lies more than {MAX_DEPTH - 1} folders deep")
        host_folder = host_path(root, folder)
        with reading(host_folder), os.scandir(os.fsencode(host_folder)) as entries:
            for entry in entries:
                path = folder + entry.name
                if _is_git(entry.name):
                    n_skipped += 1
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(path + b"/")
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    files.append(TreeFile(path, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
                else:
                    n_skipped += 1
    return Tree(root, sorted(files), n_skipped)


def restore_tree(stream_path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Makes the folder `target` from the tree stream in the file `stream_path`, whoever made that file.

    `target` must not exist or be an empty folder. Everything is checked before a byte is written, then written to a
    temporary folder beside `target`, and renamed at the end: a tree that looks whole is whole.
    Raises CorruptArchiveError for bytes that `Tree.stream` cannot have made (a path that leaves the folder, one listed
    twice, lengths that do not add up), OutputError where the target exists or cannot be written, CorpusError where the
    stream cannot be read.
    """
    with reading(stream_path), Path(stream_path).open("rb") as stream:
        files = _read_list(stream)
        _check_total(files, stream)
        with _new_folder(Path(os.path.abspath(target))) as folder:  # noqa: PTH100  # resolve() would follow a link
            for file in files:
                _restore_file(stream, file, folder)


def _header(files: Sequence[TreeFile]) -> bytes:
    return MAGIC + b"".join(file.line() for file in files) + b"\n"


def host_path(root: Path, path: bytes) -> Path:
    """`path`, relative with slashes, below `root`; joined as bytes, so that names which are not UTF-8 survive any locale."""
    return Path(os.fsdecode(os.fsencode(root) + b"/" + path))


def _read_list(stream: IO[bytes]) -> list[TreeFile]:
    if stream.readline(len(MAGIC)) != MAGIC:
        raise CorruptArchiveError(f"not a folder: the bytes do not start with {MAGIC.decode().strip()!r}")
    files: list[TreeFile] = []
    while (line := stream.readline(MAX_LINE_N_BYTES)) != b"\n":
        file = _parse(line)
        if not _is_safe(file.path):
            raise CorruptArchiveError(f"the file list has a path that cannot be restored: {file.name[:200]!r}")
        if files and file.path <= files[-1].path:  # strictly ascending, so no path comes twice
            raise CorruptArchiveError(f"the file list is out of order or repeats itself at {file.name!r}")
        files.append(file)
    return files


def _parse(line: bytes) -> TreeFile:
    """The file of one line. Only what `TreeFile.line` writes is accepted: no other spelling, key or type."""
    try:
        entry = json.loads(line.decode("utf-8", "surrogateescape"))
        path, n_bytes, executable = entry["path"], entry["n_bytes"], entry["executable"]
        file = TreeFile(path.encode("utf-8", "surrogateescape"), n_bytes, executable)
        if type(n_bytes) is int and n_bytes >= 0 and type(executable) is bool and file.line() == line:
            return file
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise CorruptArchiveError(f"the file list has a line that is not a file: {line[:200]!r}")


def _is_safe(path: bytes) -> bool:
    """Whether `path` names something strictly inside the folder it is joined to, not too deep, and not git's own."""
    parts = path.split(b"/")
    return (
        len(parts) <= MAX_DEPTH
        and b"\0" not in path
        and not any(part in (b"", b".", b"..") or _is_git(part) for part in parts)
        # On Windows a part can hold a drive or a backslash; there, basename is what remains of it.
        and all(os.path.basename(part) == part for part in parts)  # noqa: PTH119
    )


def _is_git(name: bytes) -> bool:
    """Whether git would read `name` as a repository. From a stranger, one could run commands; case as on any system."""
    return name.lower() == b".git"


def _check_total(files: Sequence[TreeFile], stream: IO[bytes]) -> None:
    claimed_n_bytes = stream.tell() + sum(file.n_bytes + len(DOCUMENT_END) for file in files)
    n_bytes = os.fstat(stream.fileno()).st_size
    if claimed_n_bytes != n_bytes:
        raise CorruptArchiveError(f"the file list accounts for {claimed_n_bytes} bytes, but there are {n_bytes}")


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its place if the body succeeds, and is removed if it does not."""
    try:
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise OutputError(f"{str(target)!r} exists; choose another folder, or empty it")
        with tempfile.TemporaryDirectory(
            dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".partial"
        ) as outer:
            folder = Path(outer) / "tree"  # made by mkdir, so with the user's default permissions; `outer` is private
            folder.mkdir()
            yield folder
            folder.replace(target)  # an empty folder is replaced, anything else refused
    except OSError as error:
        raise OutputError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


def _restore_file(stream: IO[bytes], file: TreeFile, folder: Path) -> None:
    path = host_path(folder, file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    n_left = file.n_bytes
    with path.open("xb") as output:
        while n_left:
            chunk = stream.read(min(n_left, CHUNK_N_BYTES))
            if not chunk:
                raise CorruptArchiveError(f"the stream ends inside {file.name!r}")
            output.write(chunk)
            n_left -= len(chunk)
        output.flush()
        os.fsync(output.fileno())
    if file.executable:
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)  # whoever may read it may execute it
    if stream.read(1) != DOCUMENT_END:
        raise CorruptArchiveError(f"{file.name!r} is not followed by NUL; its length in the file list is wrong")
