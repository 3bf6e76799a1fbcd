"""The description of an archive that `list` prints: a record of JSON values, or one row of a table."""

import os
from typing import Any

from prequential.errors import CorruptArchiveError
from prequential.printable import printable
from prequential_codecs.archive_summary import summarise, survey

TITLES = ("archive bytes", "original bytes", "bits/byte", "blocks", "original", "archive")
_ROW = "{:>14}  {:>14}  {:>9}  {:>6}  {}  {}"


def archive_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Sizes, header and blocks of the archive at `path` as JSON values; of an incomplete archive, the blocks that it holds.

    Raises CorruptArchiveError, UnsupportedVersionError, OSError.
    """
    try:
        summary = summarise(path)
    except CorruptArchiveError:
        found = survey(path)
        if not found.ends_early:
            raise
        summary = found.summary
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


def format_titles() -> str:
    """The title row of the table of archives."""
    return _ROW.format(*TITLES)


def format_archive(record: dict[str, Any]) -> str:
    """The table row of an `archive_record`."""
    n_held = record["n_bytes_held"]
    rate = f"{8 * record['archive_bytes'] / n_held:.4f}" if n_held else "-"
    name = printable(record["archive"])
    if n_held < record["n_bytes"]:
        name += f" (incomplete: the first {n_held} bytes)"
    corpus = record["corpus"]
    original = " ".join(printable(str(corpus[key])) for key in ("kind", "name") if key in corpus) or "bytes"
    return _ROW.format(record["archive_bytes"], record["n_bytes"], rate, len(record["blocks"]), original, name)
