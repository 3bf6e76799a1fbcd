"""Fuzzer of git repositories: damaged objects and damaged answers of git give documents or one error, in bounded time and memory.

    python tests/hostile/fuzz_git.py --count 10000 --seed 1

Each mutant is a small repository of loose objects (git_objects.py). Either its objects are damaged: their contents, with names
that still match or that do not, their types, lengths, files and references. Or its objects are intact, and the bytes that this
program reads from git's pipes are damaged. Then `read_tree` and `read_window` read the repository. Every outcome other than
documents or a PrequentialError is kept in the report, as are open files that are left, and this script then exits with 1.
"""

import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import fuzzing
from fuzzing import Report, damaged_bytes, sandbox
from git_objects import Objects, commit, object_id, tree
from limits import bounded
from prequential_corpora.git import process, session
from prequential_corpora.git.file_rules import Rules
from prequential_corpora.git.process import GitProcess
from prequential_corpora.git.window import GitDocuments, read_tree, read_window

from prequential.errors import PrequentialError

SILENCE_S = 0.3
EXTRA_BYTES = 64 << 20
MODES = [b"100644", b"100755", b"120000", b"160000", b"40000", b"040000", b"0", b"777777", b"99999999999", b"x", b""]
NAMES = [
    b"a.py", b".gitattributes", b"..", b".git", b"", b"/", b"a/b.py", b"\n.py", b"git~1", b"d" * 5000 + b".py", b"\t.py",
]  # fmt: skip
IDS = [b"HEAD", b"HEAD^{tree}", b"0" * 40, b"1" * 39, b"1" * 41, b"A" * 40, b":/x", b"--all", b"main\n", b""]
NUMBERS = [b"0", b"1", b"-1", b"39", b"41", b"65536", b"4294967296", b"9" * 30, b"1e3", b"0x10"]
WORDS = [*IDS, *NUMBERS, b"\0", b"\n", b" ", b"\t", b"-", b"+", b":", b"@@ "]
Object = tuple[bytes, bytes]  # type and contents


# ---- repositories


def text(n: int, mark: str = "") -> bytes:
    return b"".join(b"line %d%s\n" % (i, mark.encode()) for i in range(n))


def plain() -> tuple[dict[str, Object], list[str]]:
    """The objects of an intact repository, each after those it names, and its commits."""
    objects: dict[str, Object] = {}

    def add(kind: bytes, data: bytes) -> str:
        objects[name := object_id(kind, data)] = (kind, data)
        return name

    def folder(**files: bytes | str) -> str:
        entries = {}
        for name, data in sorted(files.items()):
            mode, to = (b"40000", data) if isinstance(data, str) else (b"100644", add(b"blob", data))
            entries[name.replace("__", ".").encode()] = (mode, to)
        return add(b"tree", tree(entries))

    attributes = b"made.py linguist-generated\n"
    states = [
        folder(a__py=text(9), sub=folder(b__py=text(5, "b"), c__c=b"int c;\n")),
        folder(__gitattributes=attributes, a__py=text(12), sub=folder(b__py=text(5, "b"), c__c=b"int c;\nint d;")),
        folder(__gitattributes=attributes, a__py=text(8), made__py=b"m\n", moved=folder(b__py=text(6, "b"))),
        folder(__gitattributes=attributes, a__py=text(8, "!"), made__py=b"m\n", n__rs=b"fn main() {}\n" * 50),
    ]
    commits: list[str] = []
    for day, state in enumerate(states, start=1):
        commits.append(add(b"commit", commit(state, commits[-1] if commits else None, day)))
    return objects, commits


PLAIN, COMMITS = plain()


def write_plain(path: Path) -> None:
    """Writes the intact repository."""
    objects = Objects(path)
    for name, (kind, data) in PLAIN.items():
        objects.write(kind, data, name)
    objects.tip(COMMITS[-1])


# ---- damage


def damaged(data: bytes, rng: Random) -> bytes:
    return damaged_bytes(data, rng, WORDS)


def changed(kind: bytes, data: bytes, names: list[str], rng: Random) -> bytes:
    """The contents of an object with a change that fits its type, or with damaged bytes."""
    if kind == b"commit" and rng.random() < 0.7:
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        word = rng.choice((*IDS, *NUMBERS, *(name.encode() for name in names)))
        lines[at] = rng.choice(
            (b"tree " + word, b"parent " + word, b"committer " + word, lines[at] + b" " + word, word)
        )
        return b"\n".join(lines)
    if kind == b"tree" and rng.random() < 0.7:
        entry = rng.choice(MODES) + b" " + rng.choice(NAMES) + b"\0" + bytes.fromhex(rng.choice(names))
        ends = [i + 21 for i in range(len(data)) if data[i : i + 1] == b"\0"]
        at = rng.choice([0, *ends, len(data)])
        return data[:at] + entry * rng.choice((1, 1, 1, 3000)) + data[at:]
    return damaged(data, rng)


def with_damaged_objects(path: Path, rng: Random) -> str:
    """Writes a repository with one to three damaged objects. Returns the kind of the damage."""
    objects, names = Objects(path), list(PLAIN)
    victims = set(rng.sample(names, rng.choice((1, 1, 2, 3))))
    how = rng.choice(
        ("contents, renamed", "contents, renamed", "contents, old name", "contents, old name", "type", "file")
    )
    new_names: dict[bytes, bytes] = {}  # in hexadecimal and in bytes
    tip = ""
    for old, (kind, data) in PLAIN.items():
        for before, after in new_names.items():
            data = data.replace(before, after)
        if old in victims and how.startswith("contents"):
            data = changed(kind, data, names, rng)
        if old in victims and how == "type":
            kind = rng.choice((b"blob", b"tree", b"commit", b"tag", b"x", b""))
        tip = objects.write(kind, data, None if how == "contents, renamed" else old)
        if tip != old:
            new_names |= {old.encode(): tip.encode(), bytes.fromhex(old): bytes.fromhex(tip)}
        if old in victims and how == "file":
            _damage_file(objects.place(tip), objects.place(rng.choice(names)), rng)
    objects.tip(tip)
    if rng.random() < 0.03:
        how = "head"
        head = path / rng.choice(("HEAD", "refs/heads/main", "config", "packed-refs"))
        head.write_bytes(damaged(head.read_bytes() if head.exists() else tip.encode(), rng))
    return how


def _damage_file(place: Path, other: Path, rng: Random) -> None:
    """Replaces or damages the file of an object."""
    compressed = place.read_bytes()
    how = rng.randrange(8)
    if how < 3:
        place.write_bytes(damaged(compressed, rng))
    elif how < 5:
        head, _, data = zlib.decompress(compressed).partition(b"\0")
        head = rng.choice((head.split(b" ")[0] + b" " + rng.choice(NUMBERS), damaged(head, rng)))
        place.write_bytes(zlib.compress(head + b"\0" + data + b"\0" * rng.choice((0, 1, 1 << 20))))
    else:
        place.unlink()
        if how == 5:
            os.mkfifo(place)
        elif how == 6:
            place.symlink_to(other)


@contextmanager
def damaged_answers(rng: Random, probability: float) -> Iterator[None]:
    """Inside the block, each piece that is read from git's output is damaged with this probability, or git is stopped."""

    class Damaged(GitProcess):
        def _fill(self) -> int:
            if rng.random() < probability / 4:
                self._process.kill()
            old = len(self._buffer)
            n_bytes = super()._fill()
            if n_bytes and rng.random() < probability:
                self._buffer[old:] = damaged(bytes(self._buffer[old:]), rng)
            return n_bytes

    def start(*args: Any) -> GitProcess:
        git = process.start_git(*args)
        git.__class__ = Damaged
        return git

    try:
        session.start_git = start
        yield
    finally:
        session.start_git = process.start_git


# ---- checks


def outcome(read: Callable[[], GitDocuments]) -> str:
    """The number of documents, or the beginning of the error."""
    try:
        with bounded(extra_bytes=EXTRA_BYTES):
            return "documents" if list(read()) else "no documents"
    except PrequentialError as error:
        message = str(error)
        assert "\n" not in message and message.isprintable(), message
        return f"{type(error).__name__}: {re.sub('[0-9a-f]{4,}', 'ID', message.partition(': ')[2])[:40]}"


def run(count: int, report: Report, *, seconds: float = float("inf")) -> Report:
    """Reads `count` mutants in two ways each, or as many as fit into the time. They follow from their number; none is kept."""
    before, n_open = process.SILENCE_S, _n_open_files()
    process.SILENCE_S = SILENCE_S
    try:
        with sandbox() as box:
            seed = report.seed * 1_000_003
            report.repeat(count, seconds, lambda: _judge_one(Random(seed + report.n_mutants), box, report))
    finally:
        process.SILENCE_S = before
    if report.n_mutants and (more := _n_open_files() - n_open) > 0:
        report.broken.append(f"{more} files were left open")
    return report


def _judge_one(rng: Random, box: Path, report: Report) -> None:
    path = box / "r"
    if rng.random() < 0.6:
        how, probability = with_damaged_objects(path, rng), 0.0
    else:
        write_plain(path)
        how, probability = "answers", rng.choice((0.02, 0.1, 0.5))
    rules = Rules(max_file_bytes=rng.choice((10, 100, 1 << 20)))
    since = rng.choice((COMMITS[0], "2025-01-01", "2026-01-02"))

    def judged() -> str:
        with damaged_answers(rng, probability):
            tree = outcome(lambda: read_tree(path, "HEAD", rules))
            return f"{tree}; {outcome(lambda: read_window(path, since, 'HEAD', rules))}"

    report.judge(how, judged)
    shutil.rmtree(path)


def _n_open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112, PTH208


if __name__ == "__main__":
    sys.exit(fuzzing.main(run, __doc__ or ""))
