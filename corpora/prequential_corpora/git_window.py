"""A git repository as a corpus: the files at a commit (`read_tree`), and the changes after it (`read_window`), read through git.

docs/MEASURES.md defines windows and documents. Git detects renames: half of the content is the same. If files in a tree are
equal, the first path in order is kept.

The repository cannot run or configure anything. Only revisions are looked up in it. All other reading happens in an empty
repository that borrows its objects: configuration, hooks, filters, replaced objects and info/attributes have no effect. The
.gitattributes files come from the commit; for a window, from its last commit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import Literal, NamedTuple

from prequential.errors import CorpusError
from prequential.files import PathLike
from prequential_corpora import git_repository as git
from prequential_corpora.corpus import Corpus, Documents, NamedParts, copied
from prequential_corpora.git_rules import MAX_FILE_BYTES, Rules, is_safe

DocumentKind = Literal["tree", "new", "added"]
LISTED = 2_000  # changes whose attributes are asked for at once


class GitDocument(NamedTuple):
    """One document with its bytes, the commit that brought it, and the committer date (UTC, ISO 8601)."""

    name: str  # the path; bytes that are not UTF-8 become surrogates, as in os.fsdecode
    kind: DocumentKind
    commit: str
    date: str
    data: bytes


@dataclass(frozen=True)
class GitDocuments:
    """Documents of a repository. Each iteration reads them again, and raises CorpusError if an object is missing or git fails.

    base: the commit before the window, None for one that starts with the history. steps: the commits of the window. tree: the
    commit of a tree, None for a window. excluded: skipped files by reason (docs/MEASURES.md); complete after an iteration.
    """

    repository: git.Repository
    rules: Rules
    base: git.Commit | None = None
    steps: Sequence[git.Commit] = ()
    tree: git.Commit | None = None
    excluded: Counter[str] = field(default_factory=Counter)
    _seen: set[bytes] = field(default_factory=set)  # object ids; equal ids mean equal bytes

    @property
    def end(self) -> git.Commit | None:
        """The commit of the tree, or the last one of the window."""
        return self.tree or (self.steps[-1] if self.steps else self.base)

    def __iter__(self) -> Iterator[GitDocument]:
        self.excluded.clear()
        self._seen.clear()
        if self.end is None or not (self.tree or self.steps):
            return
        with self.repository.session() as session:
            session.load_attributes(self.end.tree)
            changes = self._window(session)
            if self.tree:
                changes = ((self.tree, file) for file in session.files(self.tree.tree))
            while some := list(islice(changes, LISTED)):
                paths = [change.path for _, change in some if is_safe(change.path)]
                attributes = dict(zip(paths, session.attributes(paths), strict=True))
                for commit, change in some:
                    data = self._decide(session, change, attributes.get(change.path))
                    if isinstance(data, str):
                        self.excluded[data] += 1
                        continue
                    kind: DocumentKind = "tree" if self.tree else "new" if change.added is None else "added"
                    name = change.path.decode("utf-8", "surrogateescape")
                    yield GitDocument(name, kind, commit.id, commit.date, data)

    def _window(self, session: git.Session) -> Iterator[tuple[git.Commit, git.Change]]:
        before = self.base.tree if self.base else self.repository.empty_id("tree")
        self._seen.update(bytes.fromhex(file.after.decode()) for file in session.files(before))
        for commit in self.steps:
            yield from ((commit, change) for change in session.changes(before, commit.tree))
            before = commit.tree

    def _decide(self, session: git.Session, change: git.Change, attributes: git.Attributes | None) -> bytes | str:
        """The document's bytes, or the reason why it is skipped. attributes: None for a path that is not safe."""
        if change.mode in (b"160000", b"120000"):
            return "submodule" if change.mode == b"160000" else "symlink"
        if change.before == change.after:
            return "unchanged"
        is_duplicate = (blob := bytes.fromhex(change.after.decode())) in self._seen
        self._seen.add(blob)  # also of skipped files: their bytes are in the repository
        if attributes is None:
            return "name"
        generated, vendored, is_lfs = attributes
        if reason := self.rules.refuse_path(change.path, generated=generated, vendored=vendored):
            return reason
        if is_lfs:
            return "lfs"
        if is_duplicate and change.after != self.repository.empty_id("blob").encode():
            return "duplicate"
        data = session.blob(change.after, MAX_FILE_BYTES)
        if data is None:
            return "size"
        if reason := self.rules.refuse_bytes(data, generated=generated):
            return reason
        if change.added is None:
            return data
        lines = BytesIO(data).readlines()
        return b"".join(line for part in change.added for line in lines[part]) or "nothing added"

    def origin(self) -> dict[str, str | int | None]:
        """The JSON values that identify these documents. They count what the last iteration excluded."""
        return {
            "repository": self.repository.name,
            "read": "tree" if self.tree else "window",
            "since": self.base and self.base.id,
            "until": self.end and self.end.id,
            "until_date": self.end and self.end.date,
            "n_commits": len(self.steps),
            "n_excluded": self.excluded.total(),
            "excluded": ", ".join(f"{n} {reason}" for reason, n in self.excluded.most_common()),
            "rules": self.rules.digest(),
        }


def read_tree(repo: PathLike, commit: str = "HEAD", rules: Rules | None = None) -> GitDocuments:
    """The files of `commit` that the rules keep, ascending by path; kind `tree`.

    repo: the repository's root, or a bare repository. commit: a revision, or a date on HEAD's first-parent line.
    Raises CorpusError if there is no repository, no such commit or no commit that old; MissingDependencyError without git.
    """
    repository = git.find_repository(repo)
    with repository.session() as session:
        end = next(session.line_to(commit), None)
    if end is None:
        raise CorpusError(f"{repository.name!r} has no commit as old as {commit}; its history begins later")
    return GitDocuments(repository, rules or Rules(), tree=end)


def read_window(repo: PathLike, since: str, until: str = "HEAD", rules: Rules | None = None) -> GitDocuments:
    """The changes after `since`, up to and including `until`; kinds `new` and `added`.

    since, until: a revision, or an ISO 8601 date (UTC if it has no zone; a day means its first moment). A date as `until` is
    looked up on HEAD's first-parent line. `since` must be on the first-parent line of `until`; a date before the first commit
    takes all history. Raises CorpusError, also for a shallow clone that lacks the window; MissingDependencyError without git.
    """
    repository = git.find_repository(repo)
    since_s, until_s = git.parse_date(since), git.parse_date(until)
    if since_s is not None and until_s is not None and since_s > until_s:
        raise CorpusError(f"the window begins after its end: {since} is later than {until}; swap them")
    base_id = None if since_s is not None else repository.resolve(since)
    steps: list[git.Commit] = []
    with repository.session() as session:
        for commit in session.line_to(until):
            if commit.id == base_id or (since_s is not None and commit.date_s <= since_s):
                return GitDocuments(repository, rules or Rules(), commit, steps[::-1])
            steps.append(commit)
    if base_id is not None:
        remedy = "give the merge that brought it, or a date"
        raise CorpusError(f"{since!r} is not on the first-parent history of {until!r}; {remedy}")
    if repository.is_shallow:
        raise CorpusError(f"{repository.name!r} is a shallow clone that begins after {since}: git fetch --unshallow")
    return GitDocuments(repository, rules or Rules(), None, steps[::-1])


def open_documents(documents: GitDocuments, mode: int = 0o777) -> Corpus:
    """The documents, each followed by DOCUMENT_END; those of a window are named new/PATH and added/PATH.

    Raises CorpusError, and OutputError for a temporary file.
    """
    places, commits = Documents(), list[tuple[str, str]]()

    def contents() -> Iterator[NamedParts]:
        for d in documents:
            if not documents.tree:
                commits.append((d.commit, d.date))
            yield d.name if documents.tree else f"{d.kind}/{d.name}", (d.data,)

    data = copied(places.stream(contents()))
    return Corpus("git", documents.repository.name, data, places, documents.origin(), mode, commits=commits)
