"""Show the contents of archives.

Checks the checksums of each. `prequential test` also decodes it.
"""

import argparse
import json
import sys
from typing import Any

from prequential.cli import options
from prequential.cli.streams import for_each
from prequential.printable import printable

ROW = "{:>14}  {:>14}  {:>9}  {:>6}  {}  {}"
TITLES = ROW.format("archive bytes", "original bytes", "bits/byte", "blocks", "original", "archive")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="FILE.pq", help="archive, or -")
    options.add(parser, {"--json": "print one JSON object a line, with configuration and blocks"})
    parser.set_defaults(inputs=("names",))


def run(args: argparse.Namespace) -> int:
    needs_titles = not args.json and not args.quiet

    def show(name: str) -> None:
        record = _record(name)
        nonlocal needs_titles
        if needs_titles:
            print(TITLES)
            needs_titles = False
        print(json.dumps(record) if args.json else _format_archive(record))

    return for_each(args.names, show, verbose=args.verbose)


def _record(name: str) -> dict[str, Any]:
    """The description of an archive; of standard input a copy is read."""
    from prequential_corpora.corpus import read_chunks, spool

    from prequential.files import reading

    with reading(name):
        if name != "-":
            return _archive_record(name)
        with spool(read_chunks(sys.stdin.buffer, "standard input")) as copy:
            return _archive_record(copy.name) | {"archive": name}


def _archive_record(path: str) -> dict[str, Any]:
    """Sizes, header and blocks of the archive at `path` as JSON values; of an incomplete archive, the blocks that it holds."""
    from prequential_codecs.archive import summarise

    summary = summarise(path, may_end_early=True)
    return {
        "archive": path,
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


def _format_archive(record: dict[str, Any]) -> str:
    """The table row of an `_archive_record`, below TITLES."""
    n_held = record["n_bytes_held"]
    rate = f"{8 * record['archive_bytes'] / n_held:.4f}" if n_held else "-"
    name = printable(record["archive"])
    if n_held < record["n_bytes"]:
        name += f" (incomplete: the first {n_held} bytes)"
    corpus = record["corpus"]
    original = " ".join(printable(str(corpus[key])) for key in ("kind", "name") if key in corpus) or "bytes"
    return ROW.format(record["archive_bytes"], record["n_bytes"], rate, len(record["blocks"]), original, name)
