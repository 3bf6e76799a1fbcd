"""What an archive holds, without its payloads, also of one that is cut off. Every block is verified."""

import os
from dataclasses import dataclass
from typing import Any

from prequential.errors import CorruptArchiveError
from prequential.files import open_regular
from prequential.printable import printable
from prequential_codecs.archive import ArchiveReader, BlockHead
from prequential_codecs.archive_header import Header

ROW = "{:>14}  {:>14}  {:>9}  {:>6}  {}  {}"
TITLES = ROW.format("archive bytes", "original bytes", "bits/byte", "blocks", "original", "archive")


@dataclass(frozen=True, kw_only=True)
class ArchiveSummary:
    """Header, block heads and sizes of an archive."""

    header: Header
    blocks: tuple[BlockHead, ...]
    header_bytes: int
    payload_bytes: int
    archive_bytes: int


def summarise(path: str | os.PathLike[str], *, may_end_early: bool = False) -> ArchiveSummary:
    """Header and block heads of the archive at `path`; if it ends early and may do so, of the blocks that it holds.

    Raises UnsupportedVersionError, CorruptArchiveError, OSError.
    """
    heads = []
    with open_regular(path) as file:
        reader = ArchiveReader(file)
        try:
            for block in reader.blocks():
                heads.append(block.head)
        except CorruptArchiveError as error:
            if not (may_end_early and str(error).endswith("ends early")):
                raise
        return ArchiveSummary(
            header=reader.header,
            blocks=tuple(heads),
            header_bytes=reader.header_bytes,
            payload_bytes=reader.payload_bytes,
            archive_bytes=file.seek(0, os.SEEK_END),
        )


def archive_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Sizes, header and blocks of the archive at `path` as JSON values; of an incomplete archive, the blocks that it holds.

    Raises CorruptArchiveError, UnsupportedVersionError, OSError.
    """
    summary = summarise(path, may_end_early=True)
    return {
        "archive": os.fspath(path),
        "n_bytes_held": sum(head.n_bytes for head in summary.blocks),
        "archive_bytes": summary.archive_bytes,
        "header_bytes": summary.header_bytes,
        "payload_bytes": summary.payload_bytes,
        "n_bytes": summary.header.n_bytes,
        "blake2b": summary.header.blake2b.hex(),
        "corpus": summary.header.corpus,
        "config": summary.header.config,
        "blocks": [
            {
                "kind": head.kind.name.lower(),
                "n_bytes": head.n_bytes,
                "payload_bytes": head.payload_bytes,
                "state_digest": head.state_digest.hex(),
            }
            for head in summary.blocks
        ],
    }


def format_archive(record: dict[str, Any]) -> str:
    """The table row of an `archive_record`, below TITLES."""
    n_held = record["n_bytes_held"]
    rate = f"{8 * record['archive_bytes'] / n_held:.4f}" if n_held else "-"
    name = printable(record["archive"])
    if n_held < record["n_bytes"]:
        name += f" (incomplete: the first {n_held} bytes)"
    corpus = record["corpus"]
    original = " ".join(printable(str(corpus[key])) for key in ("kind", "name") if key in corpus) or "bytes"
    return ROW.format(record["archive_bytes"], record["n_bytes"], rate, len(record["blocks"]), original, name)
