r"""A git repository as a corpus: what was there at a commit, and what came after it, read through git itself.

    read_tree(repo, commit)            every tracked file that the rules keep, ascending by the bytes of its path
    read_window(repo, since, until)    what the window (since, until] brought, in the order of the commits
    open_documents(documents)          either of them as one file, a `Corpus`

The window follows *first parents* only: the states that the main line really went through. One step is one commit of
that line, compared with its first parent; a merge is one step, and brings in what the merged branch changed. So each
change counts once, at the time it reached the main line. A date T stands for the newest commit of that line whose
committer date is not after T, looked for from the tip backwards; clocks that disagree cannot tear the window apart.

    new      a path that its parent does not have and that is no rename: the whole file
    added    the lines that git's diff (Myers, no context) adds to a file, also to a renamed one: these lines alone

Renames are git's: half of the content alike, at most 1000 candidates a commit beyond those that are exactly alike.
A version is a duplicate, and left out, where the same bytes lay in the tree at `since` or came earlier in the window;
in a tree, the first path in order has them. What is left out, and why, is counted: `file_rules.REASONS`.

Nothing of the repository is obeyed. Only its revisions are looked up where it lies (`rev-parse`, which runs nothing).
Everything else happens in an empty repository of our own that borrows its objects, so its configuration, hooks,
filters, external diffs, replaced objects and info/attributes, which would also differ from clone to clone, are never
seen. .gitattributes are those of the commit read, at the window's end for the whole window. No checkout, no network.

Memory: ids of the files of one tree, the commits of the window, the changes of one commit, one file.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from prequential.corpora.chunks import spool
from prequential.corpora.corpus import DOCUMENT_END, Corpus, Document
from prequential.corpora.git.file_rules import Rules, is_safe, language_of
from prequential.corpora.git.session import (
    Change,
    Commit,
    Objects,
    Session,
    find_objects,
    parse_date,
    session_in,
    state_at,
)
from prequential.errors import CorpusError

DocumentKind = Literal["tree", "new", "added"]


class GitDocument(NamedTuple):
    """One document: `data` are its bytes; commit and date (committer's, UTC, ISO 8601) are those that brought it."""

    name: str  # the path; bytes that are not UTF-8 become surrogates, as in os.fsdecode
    language: str
    kind: DocumentKind
    commit: str
    date: str
    data: bytes


class Label(NamedTuple):
    """What is known of a document of a `GitCorpus` beyond its name and place."""

    language: str
    kind: DocumentKind
    commit: str
    date: str


class GitDocuments:
    """Documents of a repository; each iteration reads them anew and gives the same.

    repository: the folder's name. since: the commit before the window; None for a tree, and where the window begins
    with the history. until: the commit that was read, or the window's last. n_commits: steps in the window.
    excluded: files left out, by reason (`file_rules.REASONS`); complete when an iteration has ended.
    Iterating raises CorpusError where an object is missing (a shallow or partial clone) or git fails.
    """

    def __init__(
        self, objects: "Objects", base: Commit | None, steps: Sequence[Commit], rules: Rules, *, whole: bool
    ) -> None:
        self._objects, self._base, self._steps, self._end = objects, base, steps, steps[-1] if steps else base
        self._whole = whole
        self.rules = rules
        self.repository = objects.name
        self.since = base.id if base and not whole else None
        self.until = self._end.id if self._end else None
        self.until_date = self._end.date if self._end else None
        self.n_commits = 0 if whole else len(steps)
        self.excluded: Counter[str] = Counter()

    def __iter__(self) -> Iterator[GitDocument]:
        self.excluded = Counter()
        if self._end is None or not (self._whole or self._steps):
            return
        with session_in(self._objects) as session:
            sieve = _Sieve(session, self._end, self.rules, self.excluded)
            yield from sieve.tree(self._end) if self._whole else sieve.window(self._base, self._steps)

    def origin(self) -> dict[str, str | int | None]:
        """What pins these documents down, as JSON values. `n_excluded` is that of the last iteration."""
        return {
            "repository": self.repository,
            "read": "tree" if self._whole else "window",
            "since": self.since,
            "until": self.until,
            "until_date": self.until_date,
            "n_commits": self.n_commits,
            "n_excluded": self.excluded.total(),
            "rules": self.rules.digest(),
        }


@dataclass(frozen=True, kw_only=True)
class GitCorpus(Corpus):
    """A corpus of git documents: labels[i] belongs to documents[i]; `excluded` counts files left out, by reason."""

    labels: Sequence[Label]
    excluded: Mapping[str, int]


def read_tree(repo: str | os.PathLike[str], commit: str = "HEAD", rules: Rules | None = None) -> GitDocuments:
    """The files of `commit` that the rules keep, ascending by path; kind `tree`.

    repo: the repository's root, or a bare repository. commit: a revision, or a date on HEAD's first-parent line.
    Raises CorpusError for no repository, no such commit or no commit that old; MissingDependencyError without git.
    """
    objects = find_objects(repo)
    with session_in(objects) as session:
        end = state_at(session, objects, commit)
    if end is None:
        raise CorpusError(f"{objects.name!r} has no commit as old as {commit}; its history begins later")
    return GitDocuments(objects, end, (), rules or Rules(), whole=True)


def read_window(
    repo: str | os.PathLike[str], since: str, until: str = "HEAD", rules: Rules | None = None
) -> GitDocuments:
    """What came after `since`, up to and including `until`; kinds `new` and `added`.

    since, until: a revision, or an ISO 8601 date (UTC where it names no zone; a day means its first moment). As `until`,
    a date is looked up on HEAD's first-parent line; `since` must lie on that of `until`. A date before the first commit
    takes the history from its start. The window may be empty: then there are no documents.
    Raises CorpusError for no repository, an unknown commit, `since` after `until`, or a history that is not all there
    (a shallow clone); MissingDependencyError without git.
    """
    objects = find_objects(repo)
    since_s, until_s = parse_date(since), parse_date(until)
    if since_s is not None and until_s is not None and since_s > until_s:
        raise CorpusError(f"the window begins after its end: {since} is later than {until}")
    with session_in(objects) as session:
        end = state_at(session, objects, until)
        base_id = None if since_s is not None else objects.resolve(since)
        steps: list[Commit] = []
        for commit in session.first_parents(end.id) if end else ():
            if commit.id == base_id or (since_s is not None and commit.date_s <= since_s):
                return GitDocuments(objects, commit, steps[::-1], rules or Rules(), whole=False)
            steps.append(commit)
    if base_id is not None:
        raise CorpusError(
            f"{since!r} is not on the first-parent history of {until!r}; give the merge that brought it, or a date"
        )
    return GitDocuments(objects, None, steps[::-1], rules or Rules(), whole=False)


def open_documents(documents: GitDocuments, *, spool_dir: str | os.PathLike[str] | None = None) -> GitCorpus:
    """The documents in one temporary file, each followed by DOCUMENT_END, in their order; use it in a `with` statement.

    Memory: one document, and name and labels of each. Raises CorpusError as iterating does, OutputError where
    `spool_dir` cannot be written.
    """
    places: list[Document] = []
    labels: list[Label] = []

    def chunks() -> Iterator[bytes]:
        offset = 0
        for d in documents:
            places.append(Document(d.name, offset, len(d.data)))
            labels.append(Label(d.language, d.kind, d.commit, d.date))
            yield d.data + DOCUMENT_END
            offset += len(d.data) + len(DOCUMENT_END)

    file = spool(chunks(), spool_dir)
    return GitCorpus(
        kind="git",
        name=documents.repository,
        path=Path(file.name),
        n_bytes=file.tell(),
        documents=places,
        labels=labels,
        excluded=dict(documents.excluded),
        origin=documents.origin(),
        spool=file,
    )


class _Sieve:
    """Rules, attributes and duplicates, applied to the files of trees and of changes."""

    def __init__(self, session: Session, end: Commit, rules: Rules, excluded: Counter[str]) -> None:
        self._session, self._rules, self._excluded = session, rules, excluded
        self._seen: set[bytes] = set()  # object ids: equal ids are equal bytes
        session.load_attributes(end.tree)

    def tree(self, end: Commit) -> Iterator[GitDocument]:
        for mode, blob, path in self._session.files(end.tree):
            yield from self._documents(Change(mode, b"", blob, b"A", path), end, "tree")

    def window(self, base: Commit | None, steps: Sequence[Commit]) -> Iterator[GitDocument]:
        before = self._session.empty_tree
        if base is not None:
            before = base.tree
            self._seen.update(bytes.fromhex(blob.decode()) for _, blob, _ in self._session.files(before))
        for commit in steps:
            changes = self._session.changes(before, commit.tree)
            pairs = {(c.before, c.after) for c in changes if c.status in b"MR" and c.before != c.after}
            # One run of the diff for the commit, in the order of `changes`; read as far as each edit needs it.
            patches = self._session.added_lines(before, commit.tree, pairs, self._rules.max_file_bytes)
            for change in changes:
                if change.status in b"AT":
                    yield from self._documents(change, commit, "new")
                else:
                    yield from self._documents(change, commit, "added", _lines_of(change, patches))
            next(patches, None)
            before = commit.tree

    def _documents(
        self, change: Change, commit: Commit, kind: DocumentKind, added: bytes | None = None
    ) -> Iterator[GitDocument]:
        """The document of a change, or none and a reason counted. added: the lines of an edit."""
        data = self._decide(change, added)
        if isinstance(data, str):
            self._excluded[data] += 1
            return
        name, language = change.path.decode("utf-8", "surrogateescape"), language_of(change.path)
        assert language is not None  # the rules refuse it
        yield GitDocument(name, language, kind, commit.id, commit.date, data)

    def _decide(self, change: Change, added: bytes | None) -> bytes | str:
        """The bytes to keep, or the reason why there are none."""
        if change.mode in (b"160000", b"120000"):
            return "submodule" if change.mode == b"160000" else "symlink"
        if change.before == change.after:
            return "unchanged"
        is_duplicate = (blob := bytes.fromhex(change.after.decode())) in self._seen
        self._seen.add(blob)  # also of files that are left out: their bytes are in the repository
        if not is_safe(change.path):
            return "name"
        generated, vendored = self._session.attributes(change.path)
        if reason := self._rules.refuse_path(change.path, generated=generated, vendored=vendored):
            return reason
        if is_duplicate and change.after != self._session.empty_blob:
            return "duplicate"
        data = self._session.blob(change.after, self._rules.max_file_bytes)
        if data is None:
            return "size"
        if reason := self._rules.refuse_bytes(data, generated=generated):
            return reason
        if added is None:
            return data
        return added or "nothing added"


def _lines_of(change: Change, patches: Iterator[tuple[tuple[bytes, bytes], bytes]]) -> bytes:
    """The added lines of an edit: of the next patch, which must be the edit's own."""
    if change.before == change.after:
        return b""
    pair, lines = next(patches, ((b"", b""), b""))
    if pair != (change.before, change.after):
        raise CorpusError(f"git lists a change of {change.path!r} for which it shows no lines; report its version")
    return lines
