"""A git repository as a corpus: the files at a commit (`read_tree`), and the changes after it (`read_window`), read through git.

docs/MEASURES.md defines windows and documents. Git detects renames: half of the content is the same. If files in a tree are
equal, the first path in order is kept.

The repository cannot run or configure anything. Only revisions are looked up in it. All other reading happens in an empty
repository that borrows its objects: configuration, hooks, filters, replaced objects and info/attributes have no effect. The
.gitattributes files come from the commit; for a window, from its last commit.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from prequential.errors import CorpusError
from prequential_corpora.corpus import DOCUMENT_END, Corpus, Document, spool
from prequential_corpora.git_repository import (
    Change,
    Commit,
    Pair,
    Repository,
    Session,
    find_repository,
    parse_date,
    session_in,
)  # fmt: skip
from prequential_corpora.git_rules import Rules, is_safe

MAX_LOOKED_AT = 10_000  # commits below a window, whose dates may be out of order
DocumentKind = Literal["tree", "new", "added"]


class GitDocument(NamedTuple):
    """One document with its bytes, the commit that brought it, and the committer date (UTC, ISO 8601)."""

    name: str  # the path; bytes that are not UTF-8 become surrogates, as in os.fsdecode
    kind: DocumentKind
    commit: str
    date: str
    data: bytes


class GitDocuments:
    """Documents of a repository. Each iteration reads them again, and raises CorpusError if an object is missing or git fails.

    repository: the folder's name. since: the commit before the window; None for a tree, and for a window that starts with
    the history. until: the commit of a tree, or the last one of the window. n_commits: number of steps in the window.
    excluded: skipped files by reason (docs/MEASURES.md); complete after an iteration. warning: of commits that a date misses.
    """

    def __init__(
        self, repository: Repository, base: Commit | None, steps: Sequence[Commit], rules: Rules, *, is_tree: bool
    ) -> None:
        self._repository, self._base, self._steps, self._end = repository, base, steps, steps[-1] if steps else base
        self._is_tree = is_tree
        self.rules = rules
        self.repository: str = repository.name
        self.since: str | None = base.id if base and not is_tree else None
        self.until: str | None = self._end.id if self._end else None
        self.until_date: str | None = self._end.date if self._end else None
        self.n_commits: int = 0 if is_tree else len(steps)
        self.excluded: Counter[str] = Counter()
        self.warning: str | None = None

    def __iter__(self) -> Iterator[GitDocument]:
        self.excluded = Counter()
        if self._end is None or not (self._is_tree or self._steps):
            return
        with session_in(self._repository) as session:
            reader = _Reader(session, self._end, self.rules, self.excluded)
            yield from reader.tree(self._end) if self._is_tree else reader.window(self._base, self._steps)

    def origin(self) -> dict[str, str | int | None]:
        """The JSON values that identify these documents. `n_excluded` counts the last iteration."""
        return {
            "repository": self.repository,
            "read": "tree" if self._is_tree else "window",
            "since": self.since,
            "until": self.until,
            "until_date": self.until_date,
            "n_commits": self.n_commits,
            "n_excluded": self.excluded.total(),
            "rules": self.rules.digest(),
        }


@dataclass(frozen=True, kw_only=True)
class GitCorpus(Corpus):
    """A corpus of git documents. kinds[i], and commits[i] (id and date), belong to documents[i].

    excluded: number of skipped files by reason.
    """

    kinds: Sequence[DocumentKind]
    commits: Sequence[tuple[str, str]]
    excluded: Mapping[str, int]


def read_tree(repo: str | os.PathLike[str], commit: str = "HEAD", rules: Rules | None = None) -> GitDocuments:
    """The files of `commit` that the rules keep, ascending by path; kind `tree`.

    repo: the repository's root, or a bare repository. commit: a revision, or a date on HEAD's first-parent line.
    Raises CorpusError if there is no repository, no such commit or no commit that old; MissingDependencyError without git.
    """
    repository = find_repository(repo)
    with session_in(repository) as session:
        end = session.state_at(commit)
    if end is None:
        raise CorpusError(f"{repository.name!r} has no commit as old as {commit}; its history begins later")
    return GitDocuments(repository, end, (), rules or Rules(), is_tree=True)


def read_window(
    repo: str | os.PathLike[str], since: str, until: str = "HEAD", rules: Rules | None = None
) -> GitDocuments:
    """The changes after `since`, up to and including `until`; kinds `new` and `added`.

    since, until: a revision, or an ISO 8601 date (UTC if it has no zone; a day means its first moment). A date as `until` is
    looked up on HEAD's first-parent line. `since` must be on the first-parent line of `until`; a date before the first commit
    takes all history.
    Raises CorpusError if there is no repository, for an unknown commit, for `since` after `until`, and for a shallow clone that
    lacks the window; MissingDependencyError without git.
    """
    repository = find_repository(repo)
    since_s, until_s = parse_date(since), parse_date(until)
    if since_s is not None and until_s is not None and since_s > until_s:
        raise CorpusError(f"the window begins after its end: {since} is later than {until}; swap them")
    with session_in(repository) as session:
        end = session.state_at(until)
        base_id = None if since_s is not None else repository.resolve(since)
        steps: list[Commit] = []
        line = session.first_parents(end.id) if end else iter(())
        for commit in line:
            if commit.id == base_id or (since_s is not None and commit.date_s <= since_s):
                found = GitDocuments(repository, commit, steps[::-1], rules or Rules(), is_tree=False)
                found.warning = None if since_s is None else _missed(line, since, since_s)
                return found
            steps.append(commit)
    if base_id is not None:
        raise CorpusError(
            f"{since!r} is not on the first-parent history of {until!r}; give the merge that brought it, or a date"
        )
    return GitDocuments(repository, None, steps[::-1], rules or Rules(), is_tree=False)


def _missed(line: Iterator[Commit], since: str, since_s: int) -> str | None:
    """A warning if commits below the window are later than its beginning."""
    n = 0
    with suppress(CorpusError):  # a shallow clone ends somewhere
        for commit in islice(line, MAX_LOOKED_AT):
            n += commit.date_s > since_s
    wrong = f"dates are out of order: commits before the window with a committer date after {since}: {n:,}"
    return f"{wrong}; they are not read: name a commit, not a date, as since=" if n else None


def open_documents(documents: GitDocuments, warn: Callable[[str], object] | None = None) -> GitCorpus:
    """The documents in one temporary file, each followed by DOCUMENT_END. Raises CorpusError, and OutputError for the file."""
    if warn and documents.warning:
        warn(documents.warning)
    places: list[Document] = []
    kinds: list[DocumentKind] = []
    commits: list[tuple[str, str]] = []

    def chunks() -> Iterator[bytes]:
        offset = 0
        for d in documents:
            places.append(Document(d.name, offset, len(d.data)))
            kinds.append(d.kind)
            commits.append((d.commit, d.date))
            yield d.data + DOCUMENT_END
            offset += len(d.data) + len(DOCUMENT_END)

    file = spool(chunks())
    return GitCorpus(
        kind="git",
        name=documents.repository,
        path=Path(file.name),
        n_bytes=file.tell(),
        documents=places,
        kinds=kinds,
        commits=commits,
        excluded=dict(documents.excluded),
        origin=documents.origin(),
        spool=file,
    )


class _Reader:
    """Reads the files of trees and changes, and applies rules, attributes and the search for duplicates."""

    def __init__(self, session: Session, end: Commit, rules: Rules, excluded: Counter[str]) -> None:
        self._session, self._rules, self._excluded = session, rules, excluded
        self._seen: set[bytes] = set()  # object ids; equal ids mean equal bytes
        session.load_attributes(end.tree)

    def tree(self, end: Commit) -> Iterator[GitDocument]:
        for change in self._session.files(end.tree):
            yield from self._documents(change, end, "tree")

    def window(self, base: Commit | None, steps: Sequence[Commit]) -> Iterator[GitDocument]:
        before = self._session.empty_tree
        if base is not None:
            before = base.tree
            self._seen.update(bytes.fromhex(file.after.decode()) for file in self._session.files(before))
        for commit in steps:
            # one patch for the commit, in the order of `changes`; each edit reads as much as it needs
            patch: Iterator[tuple[Pair, bytes]] | None = None
            for change in self._session.changes(before, commit.tree):
                if change.status in b"AT":
                    yield from self._documents(change, commit, "new")
                    continue
                added = b""
                if change.before != change.after:
                    patch = patch or self._session.patch(before, commit.tree, self._rules.max_file_bytes)
                    versions = change.before, change.after
                    lines = next((lines for pair, lines in patch if pair == versions), None)
                    if lines is None:
                        raise CorpusError(
                            f"git lists a change to {change.path!r} but shows no lines of it; try git fsck"
                        )
                    added = lines
                yield from self._documents(change, commit, "added", added)
            for _ in patch or ():
                pass
            before = commit.tree

    def _documents(
        self, change: Change, commit: Commit, kind: DocumentKind, added: bytes | None = None
    ) -> Iterator[GitDocument]:
        """The document of a change; none if a rule skips the change, which is counted. added: the lines of an edit."""
        data = self._decide(change, added)
        if isinstance(data, str):
            self._excluded[data] += 1
            return
        yield GitDocument(change.path.decode("utf-8", "surrogateescape"), kind, commit.id, commit.date, data)

    def _decide(self, change: Change, added: bytes | None) -> bytes | str:
        """The document's bytes, or the reason why it is skipped."""
        if change.mode in (b"160000", b"120000"):
            return "submodule" if change.mode == b"160000" else "symlink"
        if change.before == change.after:
            return "unchanged"
        is_duplicate = (blob := bytes.fromhex(change.after.decode())) in self._seen
        self._seen.add(blob)  # also of skipped files: their bytes are in the repository
        if not is_safe(change.path):
            return "name"
        generated, vendored, is_lfs = self._session.attributes(change.path)
        if reason := self._rules.refuse_path(change.path, generated=generated, vendored=vendored):
            return reason
        if is_lfs:
            return "lfs"
        if is_duplicate and change.after != self._session.empty_blob:
            return "duplicate"
        data = self._session.contents(change.after, b"blob", self._rules.max_file_bytes)
        if data is None:
            return "size"
        if reason := self._rules.refuse_bytes(data, generated=generated):
            return reason
        if added is None:
            return data
        return added or "nothing added"
