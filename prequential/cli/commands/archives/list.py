"""prequential list: what archives hold, from their headers and indexes alone; needs no learner and decodes nothing."""

import argparse
import json
from typing import Any

from prequential.cli.failures import for_each
from prequential.cli.options import add_verbosity

TITLES = ("archive bytes", "original bytes", "bits/byte", "blocks", "original", "archive")
_ROW = "{:>14}  {:>14}  {:>9}  {:>6}  {}  {}"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "list",
        help="show what archives hold",
        description="Show what each archive holds. Payloads are not read: `prequential test` checks those.",
    )
    parser.add_argument("names", nargs="+", metavar="FILE.pq", help="archive (a file: the index is at its end)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with configuration and blocks")
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Lists every archive; returns the exit code."""
    if not args.json and not args.quiet:
        print(_ROW.format(*TITLES))

    def show(name: str) -> None:
        entry = describe(name)
        print(json.dumps(entry) if args.json else _row(entry))

    return for_each(args.names, show, verbose=args.verbose)


def describe(name: str) -> dict[str, Any]:
    """JSON values of the archive `name`. Raises CorpusError, CorruptArchiveError, UnsupportedVersionError."""
    from prequential.codecs.archive_summary import summarise, survey
    from prequential.corpora.chunks import reading
    from prequential.errors import CorruptArchiveError

    try:
        with reading(name):
            summary = summarise(name)
    except CorruptArchiveError:
        with reading(name):
            found = survey(name)
        if not found.ends_early:
            raise
        summary = found.summary
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


def _row(entry: dict[str, Any]) -> str:
    held = entry["n_bytes_held"]
    rate = f"{8 * entry['archive_bytes'] / held:.4f}" if held else "-"
    name = ascii(entry["archive"])[1:-1]
    if held < entry["n_bytes"]:
        name += f" (incomplete: the first {held} bytes)"
    corpus = entry["corpus"]
    original = " ".join(ascii(str(corpus[key]))[1:-1] for key in ("kind", "name") if key in corpus) or "bytes"
    return _ROW.format(entry["archive_bytes"], entry["n_bytes"], rate, len(entry["blocks"]), original, name)
