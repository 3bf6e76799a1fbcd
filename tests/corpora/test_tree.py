"""Folders as one stream: the round trip, skipped entries, links, and targets that must be refused.

tests/hostile/make.py has the streams that no folder gives.
"""

import os
import stat
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prequential_corpora.sources import open_corpus
from prequential_corpora.tree import scan_tree
from prequential_corpora.tree_restore import MAGIC, MAX_DEPTH, TreeEntry, restore_tree

from prequential.errors import CorpusError, CorruptArchiveError, OutputError, PrequentialError

Tree = dict[bytes, tuple[bytes, bool]]  # path -> contents, executable

# File systems allow any bytes except NUL and the slash. `.git` has a separate test.
part = st.binary(min_size=1, max_size=12).map(lambda b: b.replace(b"\0", b"0").replace(b"/", b"_"))
part = part.filter(lambda name: name.lower() not in (b".", b"..", b".git"))
tree = st.dictionaries(st.lists(part, min_size=1, max_size=3).map(b"/".join), st.tuples(st.binary(), st.booleans()))


def write_tree(root: Path, files: Tree) -> Tree:
    """Writes all files that can coexist (a name cannot be both a file and a folder) and returns them."""
    root.mkdir()
    written: Tree = {}
    for path, (contents, executable) in files.items():
        host_path = Path(os.fsdecode(os.fsencode(root) + b"/" + path))
        try:
            host_path.parent.mkdir(parents=True, exist_ok=True)
            host_path.write_bytes(contents)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
        host_path.chmod(0o755 if executable else 0o644)
        written[path] = (contents, executable)
    return written


def read_tree(root: Path) -> Tree:
    files: Tree = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = Path(os.fsdecode(os.path.join(folder, name)))  # noqa: PTH118
            relative = os.path.relpath(os.fsencode(path), os.fsencode(root))
            files[relative] = (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
    return files


def stream_of(folder: Path) -> bytes:
    corpus = open_corpus(folder)
    return corpus.bytes().tobytes()


def restore(stream: bytes, folder: Path) -> Path:
    """Restores `stream` to `folder`/out, from a file as a decoder does."""
    (folder / "stream").write_bytes(stream)
    restore_tree(folder / "stream", folder / "out")
    return folder / "out"


@given(files=tree)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(files={})
def test_folders_round_trip_and_documents_have_the_position_of_each_file(
    files: Tree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = tmp_path_factory.mktemp("tree")
    written = write_tree(here / "in", files)
    corpus = open_corpus(here / "in")
    data = corpus.bytes().tobytes()
    texts = {os.fsencode(d.name): data[d.offset : d.offset + d.n_bytes] for d in corpus.documents}
    assert texts == {path: contents for path, (contents, _) in written.items()}
    assert [os.fsencode(d.name) for d in corpus.documents] == sorted(written)
    assert read_tree(restore(data, here)) == written


def test_the_stream_of_a_folder_has_the_documented_bytes(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {b"b/run": (b"#!", True), b"b-a": (b"", False), "é\n".encode(): (b"x\0y", False)})
    assert stream_of(tmp_path / "in") == (
        b"prequential-tree 1\n"
        b'{"path":"b-a","n_bytes":0,"executable":false}\n'
        b'{"path":"b/run","n_bytes":2,"executable":true}\n'
        b'{"path":"\xc3\xa9\\n","n_bytes":3,"executable":false}\n'
        b"\n"
        b"\0#!\0x\0y\0"
    )


def test_links_out_of_the_folder_special_files_and_git_are_skipped_and_named(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {b".hidden": (b"h", False), b".git/config": (b"g", False)})
    (tmp_path / "secret").write_bytes(b"s")
    (tmp_path / "in" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "up").symlink_to("../secret")
    (tmp_path / "in" / "git").symlink_to(".git")
    os.mkfifo(tmp_path / "in" / "pipe")
    corpus = open_corpus(tmp_path / "in")
    assert [document.name for document in corpus.documents] == [".hidden"]
    assert corpus.skipped == [".git", "git", "out", "pipe", "up"]
    assert corpus.describe() == {"kind": "tree", "name": "in", "n_files": 1, "n_skipped": 5}


LINKS = {b"a/loop": ".", b"a/up": "..", b"dangling": "none", b"a/to": "../b/c/", b"b/c/deep": "./../../a/x"}


def test_links_inside_and_empty_folders_round_trip(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {b"a/x": (b"x", False), b"b/c/y": (b"y", True)})
    for path, target in LINKS.items():
        (tmp_path / "in" / os.fsdecode(path)).symlink_to(target)
    (tmp_path / "in" / "b" / "none" / "at all").mkdir(parents=True)
    stream = stream_of(tmp_path / "in")
    assert b'{"path":"a/to","link":"../b/c/"}\n' in stream and b'{"path":"b/none/at all/","empty":true}\n' in stream
    corpus = open_corpus(tmp_path / "in")
    data, first = corpus.bytes().tobytes(), corpus.documents[0]
    assert not corpus.skipped and data[first.offset : first.offset + first.n_bytes] == b"x"
    out = restore(stream, tmp_path)
    links = [path for path in out.rglob("*") if path.is_symlink()]
    assert {os.fsencode(path.relative_to(out)): os.readlink(path) for path in links} == LINKS  # noqa: PTH115  # as written
    assert list((out / "b" / "none" / "at all").iterdir()) == []
    assert (out / "a" / "to" / "y").read_bytes() == b"y" and (out / "b" / "c" / "deep").read_bytes() == b"x"
    assert stream_of(out) == stream


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"a", b""), (b"a", b"/etc"), (b"a", b".."), (b"a/b", b"../.."), (b"a", b"x/../.."), (b"a", b"x/.."), (b"a", b"x\0"),
        (b"a", b".git/config"), (b"../a", b"b"), (b"a/", b"b"),
    ],
)  # fmt: skip
def test_links_that_lead_out_are_refused(path: bytes, target: bytes, tmp_path: Path) -> None:
    with pytest.raises(CorruptArchiveError):
        restore(MAGIC + TreeEntry(path, link=target).line() + b"\n", tmp_path)


@pytest.mark.parametrize("below", [TreeEntry(b"a/b"), TreeEntry(b"a/b", link=b"c"), TreeEntry(b"a/b/")])
def test_nothing_is_restored_below_a_link(below: TreeEntry, tmp_path: Path) -> None:
    lines = TreeEntry(b"a", link=b"p/q").line() + TreeEntry(b"a-").line() + below.line()
    with pytest.raises(CorruptArchiveError, match="cannot be restored"):
        restore(MAGIC + lines + b"\n\0\0", tmp_path)


@pytest.mark.parametrize("now", [b"", b"ab", b"abcd"])
def test_a_file_in_a_folder_that_changes_its_length_is_refused(now: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"abc")
    tree = scan_tree(tmp_path)
    (tmp_path / "log").write_bytes(now)
    with pytest.raises(CorpusError, match=f"it had 3 bytes and now has {len(now)}; if another program"):
        list(chain.from_iterable(parts for _, parts in tree.contents()))


def test_a_folder_too_deep_to_be_restored_is_refused(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath("in", *["d"] * MAX_DEPTH)
    for depth in range(MAX_DEPTH + 1):
        deepest.parents[MAX_DEPTH - depth - 1].mkdir(exist_ok=True) if depth < MAX_DEPTH else deepest.mkdir()
    with pytest.raises(CorpusError, match="folders deep"):
        open_corpus(tmp_path / "in")


def entry(path: bytes, n_bytes: int = 0) -> bytes:
    return TreeEntry(path, n_bytes).line()


def stream(*lines: bytes, contents: bytes) -> bytes:
    return MAGIC + b"".join(lines) + b"\n" + contents


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_stream_raises_only_errors_of_this_package(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good = stream(entry(b"a", 3), entry(b"b/c", 2), contents=b"xyz\0zz\0")
    at = data.draw(st.integers(0, len(good)))
    damaged = good[:at] + data.draw(st.binary(max_size=4)) + good[at + data.draw(st.integers(0, 4)) :]
    here = tmp_path_factory.mktemp("damaged")
    try:
        assert stream_of(restore(damaged, here)) == damaged
    except PrequentialError:
        assert [path.name for path in here.iterdir()] == ["stream"]


def test_only_an_empty_folder_is_replaced_and_paths_must_exist(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert read_tree(restore(stream(entry(b"a", 1), contents=b"x\0"), tmp_path)) == {b"a": (b"x", False)}
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists"):
        restore_tree(tmp_path / "stream", tmp_path / "file")
    with pytest.raises(OutputError, match="does not exist"):
        restore_tree(tmp_path / "stream", tmp_path / "missing" / "out")
    with pytest.raises(CorpusError, match="cannot read"):
        restore_tree(tmp_path / "missing", tmp_path / "other")
    (tmp_path / "out" / "mine").write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists"):
        restore(stream(entry(b"mine", 1), contents=b"x\0"), tmp_path)
    assert (tmp_path / "out" / "mine").read_bytes() == b"mine"


def test_files_below_a_private_folder_are_private(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "text").write_bytes(b"secret")
    for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        path.chmod(0o755)
    assert scan_tree(tmp_path).mode & 0o044 == 0o044
    (tmp_path / "a" / "b").chmod(0o711)  # others may read what they can name
    assert scan_tree(tmp_path).mode & 0o044 == 0o044
    (tmp_path / "a").chmod(0o750)
    assert scan_tree(tmp_path).mode & 0o044 == 0o040
    (tmp_path / "a").chmod(0o700)
    assert scan_tree(tmp_path).mode & 0o044 == 0
