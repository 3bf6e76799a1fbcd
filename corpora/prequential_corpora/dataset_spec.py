"""Names of data sets, `hf:SOURCE[@REVISION][?OPTIONS]`, and what a data set may say of itself: checked before it is opened.

SOURCE is a local file (json, jsonl, csv, txt or parquet), a local folder, or a name on the hub. The latter means the version that
was pushed last; so without a revision it is refused.

The `datasets` package follows what a data set says about itself. The metadata in README.md can name any path, any address and
chains of them (`zip://x::https://...`) as data files, and its version becomes a part of a path in the cache. Links are followed,
archives are unpacked, and some formats name further files. So metadata are checked before the package reads them, and the list
of files before it reads the files: nothing outside the folder or the repository is read or written.
"""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

from prequential.errors import CorpusError
from prequential.files import open_regular, read_regular
from prequential.files.strict_json import parse_row
from prequential_corpora.chunks import DOCUMENT_END, reading

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
MOVING_REVISION = re.compile(r"main|master|HEAD|refs/.*")
CARDS = ("README.md", ".huggingface.yaml")  # the files with metadata; the first one has other text around them
MAX_CARD_N_BYTES = 1 << 24
MAX_ARRAY_N_BYTES = 1 << 28
# name no other files
FORMATS = ("arrow", "conll", "csv", "fasta", "fastq", "genbank", "json", "parquet", "text", "xml")
COMPRESSED = ("gzip", "bz2", "xz", "zstd", "lz4")  # one file; all others are archives of files
PATTERN = re.compile(r"[*?\[\]$]|::")  # the package reads more than a name in it


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """The rows of a data set that form a corpus.

    source: path of a local file or folder (then `revision` is None), or a name on the hub; revision: full commit hash, or a tag.
    column: the text column. None: the only string column. separator: follows the text of every row, as UTF-8; may be empty.
    """

    source: str
    revision: str | None = None
    config: str | None = None
    split: str = "train"
    column: str | None = None
    separator: str = DOCUMENT_END.decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The data set that `text` names, the part after `hf:`; a file or folder of that name goes first. Raises CorpusError."""
        name, _, query = text.partition("?")
        options = parse_options(query, {field.name for field in fields(cls)} - {"source", "revision"})
        if name and Path(name).exists():
            return cls(source=name, **options)
        source, _, revision = name.partition("@")
        if not HUB_NAME.fullmatch(source):
            raise CorpusError(
                f"there is no such data set: {source!r} is neither a file, a folder nor a name on the hub"
            )
        if not revision or MOVING_REVISION.fullmatch(revision):
            raise CorpusError(
                f"there is no file or folder {source!r}; for a data set on the hub, pin a revision that cannot change: "
                f"hf:{source}@COMMIT (the commit hash in its History) or @TAG"
            )
        return cls(source=source, revision=revision, **options)


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


# ---- refusals


def check_folder(folder: Path) -> None:
    """Raises CorpusError if the metadata or a link of the folder lead out of it."""
    check_path(folder)
    with reading(folder):
        for parent, folders, files in os.walk(folder, onerror=_refuse):
            for path in (Path(parent, name) for name in (*folders, *files)):
                if path.is_symlink() and not (path.is_file() and _is_inside(path, folder)):
                    raise CorpusError(
                        f"{str(path)!r} is a link that does not name a file in the folder of the data set; copy the file there"
                    )
    for name in CARDS:
        if os.path.lexists(folder / name):
            check_card(folder / name)


def check_path(path: Path) -> None:
    """Raises CorpusError if the package would not read the path as a name."""
    if PATTERN.search(str(path)):
        raise CorpusError(f"{str(path)!r} has characters that the `datasets` package reads as a pattern; rename it")


def check_card(path: Path) -> None:
    """Raises CorpusError if the metadata file names anything outside the folder or the repository, or cannot be read."""
    import huggingface_hub.repocard
    import yaml  # type: ignore[import-untyped]

    with reading(path):
        text = read_regular(path, MAX_CARD_N_BYTES).decode()
    if path.name == CARDS[0]:
        found = huggingface_hub.repocard.REGEX_YAML_BLOCK.search(text)
        text = found[2] if found else ""
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        raise CorpusError(
            f"{str(path)!r} has aliases in its metadata, which can stand for very much text; write it out"
        )
    card = yaml.safe_load(text)
    configs = card.get("configs") if isinstance(card, dict) else None
    for config in configs if isinstance(configs, list) else ():
        if isinstance(config, dict):
            _check_config(config, path)


def check_data_files(builder: Any, folder: Path) -> None:
    """Raises CorpusError unless all data files of the package's builder are plain files in `folder`, in a format of text."""
    if builder.name not in FORMATS:
        raise CorpusError(
            f"{str(folder)!r} is a data set of the format {builder.name!r}; known are {', '.join(FORMATS)}"
        )
    for split in (builder.config.data_files or {}).values():
        for name in split:
            if PATTERN.search(str(name)) or not _is_inside(Path(name), folder):
                raise CorpusError(f"the data set {str(folder)!r} has a data file outside its folder: {str(name)!r}")
            check_contents(Path(name))


def check_contents(path: Path) -> None:
    """Raises CorpusError for anything but a regular file, and for an archive of files, which the package would unpack."""
    from datasets.utils.extract import Extractor

    if not path.is_file():
        raise CorpusError(f"{str(path)!r} is not a regular file")
    if (found := Extractor.infer_extractor_format(path)) and found not in COMPRESSED:
        raise CorpusError(f"{str(path)!r} is an archive of files ({found}); unpack it")


def check_array(path: Path) -> None:
    """Raises CorpusError for a JSON array that is very large (it is read at once) or has an object with a key twice."""
    with reading(path):
        with open_regular(path) as file:
            start = file.read(len(BOM_UTF8) + 1)
        if not start.removeprefix(BOM_UTF8).startswith(b"["):
            return
        data = read_regular(path, MAX_ARRAY_N_BYTES)
    try:
        parse_row(data)
    except ValueError as error:
        raise CorpusError(f"{str(path)!r} cannot be read as a JSON array: {error}; JSON lines may be longer") from error


def _check_config(config: dict[Any, Any], path: Path) -> None:
    """config: one configuration of the metadata."""
    for value in _texts([config.get("data_files"), config.get("data_dir")]):
        if ":" in value or value.startswith(("/", "\\", "~")) or ".." in re.split(r"[/\\]", value):
            raise CorpusError(f"{str(path)!r} names data files outside the data set: {value[:200]!r}")
    for key in ("config_name", "version"):  # of folders in the cache
        value = str(config.get(key))
        if value in ("", ".", "..") or re.search(r"[<>:/\\|?*\0-\x1f]", value):
            raise CorpusError(f"{str(path)!r} has a {key} that cannot be the name of a folder: {value[:200]!r}")


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested lists and dictionaries."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _refuse(error: OSError) -> None:
    """For a folder that cannot be listed."""
    raise error


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())
