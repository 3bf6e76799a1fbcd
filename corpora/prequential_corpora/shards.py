"""A folder of shards as one corpus, `shards:FOLDER[?OPTIONS]`: its documents in a fixed order (docs/DATA.md)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import fsencode
from pathlib import Path

from prequential.errors import CorpusError
from prequential_corpora.corpus import Corpus, Kind, RowDocuments, read_file, reading, spooled, unicode_name
from prequential_corpora.rows import OPTIONS, RowOptions, parse_options
from prequential_corpora.shard_files import ShardKind, read_rows, read_text, shard_kind
from prequential_corpora.tree import Tree, scan_tree
from prequential_corpora.tree_restore import TreeFile, host_path


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Shards of one kind in reading order. tree: the shards as its entries. name: of what holds them, for messages."""

    name: str
    tree: Tree
    kind: ShardKind
    options: RowOptions
    n_skipped: int

    def open(self, kind: Kind, name: str, about: dict[str, str | int | None]) -> Corpus:
        """All documents in a temporary file. about: JSON values that say where the shards come from. Raises CorpusError."""
        files, is_text, n_opened = self.tree.files, self.kind == "text", 0

        def documents() -> Iterator[Iterable[bytes]]:
            nonlocal n_opened
            rows = self._texts(files[: self.options.rows]) if is_text else self.options.chosen(self._rows(files))
            for shard, document in rows:
                n_opened = max(n_opened, shard + 1)
                yield document

        places = RowDocuments(self.options.separator.encode())
        corpus = spooled(places.stream(documents()), kind, name, mode=self.tree.mode, documents=places)
        opened = files if self.options.rows is None else files[:n_opened]
        about |= {"n_shards": len(opened), "n_skipped": self.n_skipped, "shards_blake2b": self._list_digest(opened)}
        origin = about | self.options.describe(len(places), is_text=is_text)
        named = (
            [d._replace(name=unicode_name(f.path)) for d, f in zip(places, files, strict=False)] if is_text else places
        )
        return replace(corpus, documents=named, origin=origin)

    def _texts(self, files: Sequence[TreeFile]) -> Iterator[tuple[int, Iterable[bytes]]]:
        for number, file in enumerate(files):
            yield number, read_text(host_path(self.tree.root, file.path), unicode_name(file.path))

    def _rows(self, files: Sequence[TreeFile]) -> Iterator[tuple[int, Iterable[bytes]]]:
        for number, file in enumerate(files):
            path, name = host_path(self.tree.root, file.path), unicode_name(file.path)
            yield from ((number, (text,)) for text in read_rows(path, name, self.kind, self.options.column))

    def _list_digest(self, files: Sequence[TreeFile]) -> str:
        """BLAKE2b, 32 bytes, of one line for each shard in reading order: name NUL length NUL BLAKE2b of its bytes in hex LF."""
        digest = hashlib.blake2b(digest_size=32)
        for file in files:
            contents = hashlib.blake2b(digest_size=32)
            for chunk in read_file(host_path(self.tree.root, file.path), file.n_bytes):
                contents.update(chunk)
            digest.update(b"%s\0%d\0%s\n" % (file.path, file.n_bytes, contents.hexdigest().encode()))
        return digest.hexdigest()


def find_shards(text: str) -> Shards:
    """The shards that `text` names, the part after `shards:`. Opens none. Raises CorpusError for none or several kinds."""
    folder, _, query = text.partition("?")
    options, path = RowOptions.of(parse_options(query, OPTIONS)), Path(folder)
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
    return shards_of(replace(tree, entries=files), folder, options, n_skipped)


def is_hidden(path: bytes) -> bool:
    """Whether a part of the path begins with a dot."""
    return any(part.startswith(b".") for part in path.split(b"/"))


def shards_of(tree: Tree, name: str, options: RowOptions, n_skipped: int) -> Shards:
    """All files of the tree as shards, in reading order. Raises CorpusError if there are none or several kinds."""
    kinds = {shard_kind(file.name): unicode_name(file.path) for file in reversed(tree.files)}
    if not kinds:
        known = ".parquet, .jsonl, .txt, .gz, .zst (links and hidden files are skipped)"
        raise CorpusError(f"{name!r} contains no shard; known are {known}")
    if len(kinds) > 1:
        examples = " and ".join(f"{file!r} ({kind})" for kind, file in reversed(kinds.items()))
        raise CorpusError(f"{name!r} contains shards of several kinds: {examples}; name a folder of one kind")
    (kind,) = kinds
    assert kind
    if kind == "text" and options.column is not None:
        raise CorpusError(
            f"the shards of {name!r} are text: they have no column {options.column!r}; leave out ?column="
        )
    if key := options.key:
        order = lambda file: (hashlib.blake2b(file.path, key=key, digest_size=16).digest(), file.path)  # noqa: E731
        tree = replace(tree, entries=sorted(tree.files, key=order))
    return Shards(name=name, tree=tree, kind=kind, options=options, n_skipped=n_skipped)
