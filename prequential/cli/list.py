"""Show the contents of archives.

Checks the checksums of each. `prequential test` also decodes it.
"""

import argparse
import sys
from contextlib import nullcontext
from typing import Any

from prequential.cli import options
from prequential.cli.streams import for_each, print_result
from prequential.printable import format_table

TITLES = ("archive", "archive bytes", "original bytes", "bits/byte", "blocks", "original")


def run(args: argparse.Namespace) -> int:
    records: list[dict[str, Any]] = []
    code = for_each(args.names, lambda name: records.append(_record(name)), verbose=args.verbose)
    if records:
        print_result(args, format_table(TITLES, [_row(record) for record in records]), *records, rows=lambda: records)
    return code


def _record(name: str) -> dict[str, Any]:
    """Sizes, header and blocks of an archive as JSON values; of an incomplete one, the blocks that it holds. - is copied."""
    from prequential_codecs.archive import summarise
    from prequential_corpora.corpus import read_chunks, spool

    from prequential.files import reading

    from_stdin = spool(read_chunks(sys.stdin.buffer, "standard input")) if name == "-" else nullcontext()
    with reading(name), from_stdin as copy:
        summary = summarise(copy.name if copy else name, may_end_early=True)
    return {
        "archive": name,
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


def _row(record: dict[str, Any]) -> list[str]:
    """The row of a `_record`, below TITLES."""
    n_held, corpus = record["n_bytes_held"], record["corpus"]
    note = f" (incomplete: the first {n_held} bytes)" if n_held < record["n_bytes"] else ""
    rate = f"{8 * record['archive_bytes'] / n_held:.4f}" if n_held else "-"
    original = " ".join(str(corpus[key]) for key in ("kind", "name") if key in corpus) or "bytes"
    figures = (record["archive_bytes"], record["n_bytes"], rate, len(record["blocks"]), original)
    return [record["archive"] + note, *map(str, figures)]


OPTIONS = (options.Group({"names: FILE.pq ...": "archive, or -"}), options.FORMATS)
COMMAND = options.Command("list", __doc__, "*.pq", options=OPTIONS, run=run, inputs=("names",))
