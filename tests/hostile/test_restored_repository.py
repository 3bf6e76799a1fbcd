"""A restored folder may be a git repository, whose configuration names programs: it is refused."""

from pathlib import Path

import pytest
from prequential_corpora.tree import scan_tree
from prequential_corpora.tree_restore import MAGIC, TreeEntry, is_git, restore_tree

from prequential.errors import CorruptArchiveError

GIT = [
    ".git", ".GIT", ".giT", ".git.", ".git ", ".git. . ", ".git:x", ".git::$INDEX_ALLOCATION", ".git .:x", ".g\u200cit",
    "\ufeff.git", ".gi\u206ft", ".G\u202aIt\u200f",
]  # fmt: skip
NOT_GIT = [
    ".gitignore", ".gitattributes", "git", ".gi", ".git1", "a.git", ".github", "x:.git", "git~1", ".g\u00eft", "..git",
]  # fmt: skip


@pytest.mark.parametrize("name", GIT)
def test_names_that_git_reads_as_a_repository_are_refused_and_not_stored(name: str, tmp_path: Path) -> None:
    for path in (f"a/{name}/config", name):
        stream = MAGIC + TreeEntry(path.encode(), 0, False).line() + b"\n\0"
        (tmp_path / "stream").write_bytes(stream)
        with pytest.raises(CorruptArchiveError, match="cannot be restored"):
            restore_tree(tmp_path / "stream", tmp_path / "out")
    (tmp_path / "in" / name).mkdir(parents=True)
    (tmp_path / "in" / name / "config").touch()
    assert (scan_tree(tmp_path / "in").files, len(scan_tree(tmp_path / "in").skipped)) == ([], 1)


def test_other_names_are_stored() -> None:
    assert not any(map(is_git, [*map(str.encode, NOT_GIT), b".git\xff", b"\xff.git"]))
