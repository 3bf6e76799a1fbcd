"""From the stream of a folder (tree.py describes it) back to the folder. The stream may be hostile."""

import json
import os
import re
from pathlib import Path
from typing import IO, NamedTuple

from prequential.errors import CorruptArchiveError
from prequential.files import new_folder, set_mode, sync
from prequential.files.work_folder import NEW_FOLDER
from prequential_corpora.corpus import CHUNK_N_BYTES, DOCUMENT_END, reading

MAGIC = b"prequential-tree 1\n"
# System calls accept paths of at most 4096 bytes, each at most 6 characters in JSON. 64 KiB is more than enough.
MAX_LINE_N_BYTES = 1 << 16
MAX_DEPTH = 256  # parts of a path; pathlib and shutil recurse once per folder, and Python's limit is near 1000
# Code points that HFS+ ignores in names, as in git's utf8.c.
IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
# Windows removes dots and spaces at the end, and reads `:x` as a stream
GIT = re.compile(r"\.git[ .]*(?::.*)?", re.DOTALL)


class TreeEntry(NamedTuple):
    """An entry of a tree. path: POSIX, relative to the root; that of an empty folder ends with a slash.

    n_bytes, executable: of a file, its length, and whether its owner may execute it. link: where a link leads from its folder.
    """

    path: bytes
    n_bytes: int = 0
    executable: bool = False
    link: bytes | None = None

    @property
    def is_file(self) -> bool:
        return self.link is None and not self.path.endswith(b"/")

    @property
    def name(self) -> str:
        """The path as text. Bytes that are not UTF-8 become surrogates, as in os.fsdecode."""
        return _text(self.path)

    def line(self) -> bytes:
        """The entry's line in the list: canonical JSON without spaces, including the LF."""
        about: dict[str, object] = {"n_bytes": self.n_bytes, "executable": self.executable}
        if not self.is_file:
            about = {"empty": True} if self.link is None else {"link": _text(self.link)}
        text = json.dumps({"path": self.name, **about}, ensure_ascii=False, separators=(",", ":"))
        return _bytes(text) + b"\n"


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def stays_inside(path: bytes, link: bytes) -> bool:
    """Whether a link at `path` leads to a place inside the tree, whatever the other links are: no entry lies below a link.

    Its target begins with at most as many `..` as its path has folders; after them come only names of files and folders.
    """
    parts = [part for part in link.split(b"/") if part not in (b"", b".")]
    n_up = next((i for i, part in enumerate(parts) if part != b".."), len(parts))
    is_relative = link != b"" and not link.startswith(b"/")
    return is_relative and n_up <= path.count(b"/") and (n_up == len(parts) or _is_safe(b"/".join(parts[n_up:])))


def restore_tree(stream_path: str | os.PathLike[str], target: str | os.PathLike[str], *, mode: int = 0o777) -> None:
    """Makes the folder `target` (missing or empty) from the tree stream in the file `stream_path`, which may be hostile.

    The list is checked before anything is written, to the folder new.folder next to the stream. It is renamed at the end, so the
    target is complete or absent. mode: permissions that files and folders have at most, in addition to the user's umask.
    Raises CorruptArchiveError for bytes that `Tree.stream` never makes, OutputError if the target exists or cannot be written,
    CorpusError if the stream cannot be read.
    """
    with reading(stream_path), Path(stream_path).open("rb") as stream:
        entries = _read_list(stream)
        files = [entry for entry in entries if entry.is_file]
        claimed_n_bytes = stream.tell() + sum(file.n_bytes + len(DOCUMENT_END) for file in files)
        if claimed_n_bytes != (n_bytes := os.fstat(stream.fileno()).st_size):
            raise CorruptArchiveError(f"the file list declares {claimed_n_bytes} bytes, but the stream has {n_bytes}")
        with new_folder(target, mode=mode, draft=Path(stream_path).with_name(NEW_FOLDER)) as folder:
            for entry in sorted(entries, key=lambda entry: not entry.is_file):  # none is written through a link
                _restore(stream, entry, host_path(folder, entry.path))


def host_path(root: Path, path: bytes) -> Path:
    """`path` below `root`. path: relative, with slashes. Joined as bytes, so names that are not UTF-8 work in every locale."""
    return Path(os.fsdecode(os.fsencode(root) + b"/" + path))


def _read_list(stream: IO[bytes]) -> list[TreeEntry]:
    if stream.readline(len(MAGIC)) != MAGIC:
        raise CorruptArchiveError("the archive contains no folder: its bytes do not start with 'prequential-tree 1'")
    entries: list[TreeEntry] = []
    links: set[bytes] = set()
    while (line := stream.readline(MAX_LINE_N_BYTES)) != b"\n":
        entry = _parse(line)
        path = entry.path if entry.link is not None else entry.path.removesuffix(b"/")
        is_below_link = bool(links) and any(path[: slash.start()] in links for slash in re.finditer(b"/", path))
        if not _is_safe(path) or is_below_link or (entry.link is not None and not stays_inside(path, entry.link)):
            raise CorruptArchiveError(f"the file list contains a path that cannot be restored: {_text(path)[:200]!r}")
        if entries and entry.path <= entries[-1].path:  # strictly ascending, so no path occurs twice
            raise CorruptArchiveError(f"the file list is not in ascending order at {_text(entry.path)!r}")
        entries.append(entry)
        links |= set() if entry.link is None else {path}
    return entries


def _parse(line: bytes) -> TreeEntry:
    """The entry of one line. Accepts only lines that `line` of an entry writes: no other spelling, key or type."""
    try:
        read = json.loads(_text(line))
        n_bytes, executable, link = read.get("n_bytes", 0), read.get("executable", False), read.get("link")
        entry = TreeEntry(_bytes(read["path"]), n_bytes, executable, None if link is None else _bytes(link))
        if type(n_bytes) is int and n_bytes >= 0 and type(executable) is bool and entry.line() == line:
            return entry
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise CorruptArchiveError(f"the file list contains a line that does not describe a file: {line[:200]!r}")


def _is_safe(path: bytes) -> bool:
    """Whether `path` stays inside the folder that it is joined to, is not too deep, and does not name git's own files."""
    parts = path.split(b"/")
    return (
        len(parts) <= MAX_DEPTH
        and b"\0" not in path
        and not any(part in (b"", b".", b"..") or is_git(part) for part in parts)
    )


def is_git(name: bytes) -> bool:
    """Whether git would read `name` as a repository on some file system, in any case. A hostile repository could run commands.

    `git~1` is not one of these names: it is a short name of a `.git` that exists, and no restored folder has one.
    """
    return GIT.fullmatch(name.decode("utf-8", "surrogateescape").translate(IGNORED).lower()) is not None


def _restore(stream: IO[bytes], entry: TreeEntry, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.link is not None:
        path.symlink_to(os.fsdecode(entry.link))
        return
    if not entry.is_file:
        path.mkdir()
        return
    n_left = entry.n_bytes
    with path.open("xb") as output:
        while n_left:
            chunk = stream.read(min(n_left, CHUNK_N_BYTES))
            if not chunk:
                raise CorruptArchiveError(f"the stream ends inside {entry.name!r}")
            output.write(chunk)
            n_left -= len(chunk)
        output.flush()
        sync(output.fileno())
    if entry.executable:
        set_mode(path, 0o700)  # until the folder is complete
    if stream.read(1) != DOCUMENT_END:
        raise CorruptArchiveError(f"{entry.name!r} is not followed by NUL; its length in the file list is wrong")
