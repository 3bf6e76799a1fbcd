"""A folder of shards as one corpus, `shards:FOLDER[?OPTIONS]`: its documents in a fixed order, read as a stream.

docs/DATA.md defines the options. The corpus is read twice: the first pass finds length and digest for the archive's header, and
refuses damaged shards; the second one is coded, and finds a change at its end.

**Shuffling.** key is the seed as 8 bytes, little-endian. Shards are sorted by BLAKE2b(name, key, 16 bytes), ascending. Then the
rows of tables and lines pass through a buffer of B documents. The first B documents fill it. For each later document, numbered
i = 0, 1, 2 and so on, the document at place w_i mod B leaves and the new one takes its place. At the end of the rows, while n
documents are left, the document at place w_i mod n leaves and the last one takes its place; i continues to count.
w_i = BLAKE2b(i as 8 bytes, key, 8 bytes), all little-endian. So a document comes at most B - 1 places earlier than without
shuffling, and possibly much later. A text shard is one document, so only the order of shards is shuffled.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from os import fsencode
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import parse_qsl

from prequential.errors import CorpusError
from prequential_corpora.corpus import DOCUMENT_END, Document, FirstPass, RowDocuments, read_file, reading, unicode_name
from prequential_corpora.shard_files import ShardKind, read_rows, read_text, shard_kind
from prequential_corpora.tree import Tree, scan_tree
from prequential_corpora.tree_restore import TreeFile, host_path

DEFAULT_COLUMN, DEFAULT_BUFFER = "text", 1024
OPTIONS = {"column", "separator", "seed", "buffer", "rows"}
MAX_SEED, MAX_BUFFER, MAX_ROWS = (1 << 63) - 1, 1 << 24, (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class ShardsSpec:
    """The documents of a corpus of shards, and their order.

    folder: a folder of shards, a single shard, or the name of a data set on the hub. column: of the texts; None is `text`.
    separator: follows each document, as UTF-8; may be empty. seed: of the shuffling; None keeps the order. buffer: in documents,
    only with a seed. rows: number of documents; None is all.
    """

    folder: str
    column: str | None = None
    separator: str = DOCUMENT_END.decode()
    seed: int | None = None
    buffer: int = DEFAULT_BUFFER
    rows: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shards that `text` names, the part after `shards:`. Raises CorpusError."""
        folder, _, query = text.partition("?")
        return cls.of(folder, parse_options(query, OPTIONS))

    @classmethod
    def of(cls, folder: str, options: dict[str, str]) -> Self:
        """The shards of a folder with these OPTIONS. Raises CorpusError for an impossible value."""
        if "buffer" in options and "seed" not in options:
            raise CorpusError("a shuffle buffer needs a seed: add seed=N to the options")
        limits = {"seed": (0, MAX_SEED), "buffer": (1, MAX_BUFFER), "rows": (1, MAX_ROWS)}
        numbers = {name: _number(name, options.pop(name), *limits[name]) for name in limits if name in options}
        return cls(folder=folder, **options, **numbers)  # type: ignore[arg-type]


def parse_options(query: str, known: Set[str]) -> dict[str, str]:
    """The options of a query string. Raises CorpusError for an unknown option and for one that occurs twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as error:
        raise CorpusError(f"cannot read the options {query!r} of a data set: {error}") from error
    options = dict(pairs)
    if len(options) != len(pairs) or not options.keys() <= known:
        raise CorpusError(f"cannot read the options {query!r} of a data set: give each of {sorted(known)} at most once")
    return options


def _number(name: str, text: str, least: int, most: int) -> int:
    if not re.fullmatch("[0-9]{1,20}", text) or not least <= int(text) <= most:
        raise CorpusError(f"{name}={text[:50]} is not a number from {least} to {most}")
    return int(text)


class Piece(NamedTuple):
    """A part of a document. shard: its number in reading order. ends: whether it is the last part, which may be empty."""

    shard: int
    data: bytes
    ends: bool


@dataclass(frozen=True, kw_only=True)
class Shards:
    """The shards of a folder in reading order. files: paths relative to `root`. mode: the permissions that all of them have."""

    spec: ShardsSpec
    root: Path
    files: Sequence[TreeFile]
    kind: ShardKind
    n_skipped: int
    mode: int = 0o777

    def chunks(self) -> Iterator[bytes]:
        """The corpus: each document and its separator. Each call starts at the first document. Raises CorpusError."""
        separator = self.spec.separator.encode()
        for piece in self._pieces():
            yield piece.data + separator if piece.ends else piece.data

    def first_pass(self) -> FirstPass:
        """Reads everything once. Raises CorpusError for bad shards."""
        separator, digest = self.spec.separator.encode(), hashlib.blake2b(digest_size=32)
        documents, n_open, n_opened = RowDocuments(len(separator)), 0, 0
        for piece in self._pieces():
            digest.update(piece.data)
            n_open, n_opened = n_open + len(piece.data), max(n_opened, piece.shard + 1)
            if piece.ends:
                digest.update(separator)
                documents.append(n_open)
                n_open = 0
        opened = self.files if self.spec.rows is None else self.files[:n_opened]
        named: Sequence[Document] = documents
        if self.kind == "text":
            named = [d._replace(name=unicode_name(f.path)) for d, f in zip(documents, self.files, strict=False)]
        return FirstPass(documents.n_bytes, digest.hexdigest(), named, self._origin(opened, len(documents)))

    def _origin(self, opened: Sequence[TreeFile], n_rows: int) -> dict[str, str | int | None]:
        """The JSON values that identify the corpus: the shards that were read, in reading order, and the options."""
        is_text, seed = self.kind == "text", self.spec.seed
        return {
            "n_shards": len(opened),
            "n_skipped": self.n_skipped,
            "shards_blake2b": self._list_digest(opened),
            "column": None if is_text else self.spec.column or DEFAULT_COLUMN,
            "separator": self.spec.separator,
            "shuffle_seed": seed,
            "shuffle_buffer": None if seed is None or is_text else self.spec.buffer,
            "n_rows": n_rows,
        }

    def _list_digest(self, files: Sequence[TreeFile]) -> str:
        """BLAKE2b, 32 bytes, of one line for each shard in reading order: name NUL length NUL BLAKE2b of its bytes in hex LF."""
        digest = hashlib.blake2b(digest_size=32)
        for file in files:
            contents = hashlib.blake2b(digest_size=32)
            for chunk in read_file(host_path(self.root, file.path), file.n_bytes):
                contents.update(chunk)
            digest.update(b"%s\0%d\0%s\n" % (file.path, file.n_bytes, contents.hexdigest().encode()))
        return digest.hexdigest()

    def _pieces(self) -> Iterator[Piece]:
        if self.kind == "text":
            return self._read(self.files[: self.spec.rows])
        rows = self._read(self.files)
        return islice(
            rows if self.spec.seed is None else shuffled(rows, self.spec.seed, self.spec.buffer), self.spec.rows
        )

    def _read(self, files: Sequence[TreeFile]) -> Iterator[Piece]:
        for number, file in enumerate(files):
            path, name = host_path(self.root, file.path), unicode_name(file.path)
            if self.kind == "text":
                yield from (Piece(number, chunk, False) for chunk in read_text(path, name))
                yield Piece(number, b"", True)
            else:
                rows = read_rows(path, name, self.kind, self.spec.column or DEFAULT_COLUMN)
                yield from (Piece(number, text, True) for text in rows)


def find_shards(spec: ShardsSpec) -> Shards:
    """The shards that `spec` names, in reading order. Opens none. Raises CorpusError if there are none or several kinds."""
    path = Path(spec.folder)
    with reading(path):
        status = path.stat()
    if path.is_dir():
        tree = scan_tree(path)  # notebooks and other systems keep copies in hidden files
        files = [file for file in tree.files if shard_kind(file.name) and not is_hidden(file.path)]
    else:
        entry = TreeFile(fsencode(path.name), status.st_size, False)
        tree = Tree(path.parent, [entry], (), status.st_mode & 0o777 | 0o600)
        files = [entry] if shard_kind(entry.name) else []
    n_skipped = len(tree.skipped) + len(tree.entries) - len(files)
    return shards_of(replace(tree, entries=files), spec, n_skipped=n_skipped)


def is_hidden(path: bytes) -> bool:
    """Whether a part of the path begins with a dot."""
    return any(part.startswith(b".") for part in path.split(b"/"))


def shards_of(tree: Tree, spec: ShardsSpec, *, n_skipped: int) -> Shards:
    """All files of the tree as shards, in reading order. Raises CorpusError if there are none or several kinds."""
    files, folder = tree.files, repr(spec.folder)
    if not files:
        known = ".parquet, .jsonl, .txt, .gz, .zst (links and hidden files are skipped)"
        raise CorpusError(f"{folder} contains no shard; known are {known}")
    kinds = {shard_kind(file.name): unicode_name(file.path) for file in reversed(files)}
    if len(kinds) > 1:
        examples = " and ".join(f"{name!r} ({kind})" for kind, name in reversed(kinds.items()))
        raise CorpusError(f"{folder} contains shards of several kinds: {examples}; name a folder of one kind")
    kind = shard_kind(files[0].name)
    assert kind
    if kind == "text" and spec.column is not None:
        raise CorpusError(f"the shards of {folder} are text: they have no column {spec.column!r}; leave out ?column=")
    if spec.seed is not None:
        key = _key(spec.seed)
        files.sort(key=lambda file: (hashlib.blake2b(file.path, key=key, digest_size=16).digest(), file.path))
    return Shards(spec=spec, root=tree.root, files=files, kind=kind, n_skipped=n_skipped, mode=tree.mode)


def shuffled(documents: Iterator[Piece], seed: int, n_places: int) -> Iterator[Piece]:
    """The documents in the order that the seed defines (see the module's docstring), with n_places of them in memory."""
    key, drawn, held = _key(seed), 0, list(islice(documents, n_places))

    def draw(n: int) -> int:
        nonlocal drawn
        word = hashlib.blake2b(drawn.to_bytes(8, "little"), key=key, digest_size=8).digest()
        drawn += 1
        return int.from_bytes(word, "little") % n

    for document in documents:
        place = draw(n_places)
        yield held[place]
        held[place] = document
    while held:
        place = draw(len(held))
        yield held[place]
        held[place] = held[-1]
        held.pop()


def _key(seed: int) -> bytes:
    return seed.to_bytes(8, "little")
