"""Small git repositories whose objects are written here, so that they may be wrong: their contents, names, types and lengths."""

import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path

NOON_S = 1767268800  # 2026-01-01T12:00:00Z


def object_id(kind: bytes, data: bytes) -> str:
    """The id of an object."""
    return hashlib.sha1(b"%s %d\0%s" % (kind, len(data), data), usedforsecurity=False).hexdigest()


def tree(entries: Mapping[bytes, tuple[bytes, str]]) -> bytes:
    """The contents of a tree. entries: name to mode and object id, in the order of the tree."""
    return b"".join(mode + b" " + name + b"\0" + bytes.fromhex(to) for name, (mode, to) in entries.items())


def commit(tree_id: str, parent: str | None = None, day: int = 1) -> bytes:
    """The contents of a commit at noon of this day of January 2026."""
    who = b"A <a@b> %d +0000" % (NOON_S + 86400 * (day - 1))
    parents = b"" if parent is None else b"parent %s\n" % parent.encode()
    return b"tree %s\n%sauthor %s\ncommitter %s\n\nx\n" % (tree_id.encode(), parents, who, who)


class Objects:
    """A bare repository of loose objects."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("objects", "refs/heads"):
            (path / folder).mkdir(parents=True)
        (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        (path / "HEAD").write_text("ref: refs/heads/main\n")

    def place(self, name: str) -> Path:
        """The file of an object. Its folder exists."""
        place = self.path / "objects" / name[:2] / name[2:]
        place.parent.mkdir(exist_ok=True)
        return place

    def write(self, kind: bytes, data: bytes, name: str | None = None) -> str:
        """Writes an object and returns its id. name: another id than its own, under which it is stored."""
        name = name or object_id(kind, data)
        self.place(name).write_bytes(zlib.compress(b"%s %d\0%s" % (kind, len(data), data), 1))
        return name

    def file(self, data: bytes, name: bytes = b"a.py") -> str:
        """Writes a tree of one file."""
        return self.write(b"tree", tree({name: (b"100644", self.write(b"blob", data))}))

    def commit(self, tree_id: str, parent: str | None = None, day: int = 1) -> str:
        """Writes a commit, which becomes the tip of the branch."""
        return self.tip(self.write(b"commit", commit(tree_id, parent, day)))

    def tip(self, name: str) -> str:
        """Makes the commit `name` the tip of the branch."""
        (self.path / "refs/heads/main").write_text(name + "\n")
        return name

    def bomb(self, leaf: str, depth: int, width: int = 10) -> str:
        """A tree of width ** depth copies of the tree `leaf`."""
        for _ in range(depth):
            leaf = self.write(b"tree", tree({b"%d" % i: (b"40000", leaf) for i in range(width)}))
        return leaf
