"""prequential audit: whether a learner keeps the prequential law, on a corpus or while it decodes an archive."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from prequential.cli.failures import for_each
from prequential.cli.options import add_model, add_runtime, add_verbosity, config, n_bytes, runtime
from prequential.cli.progress import progress_bar

LIMIT_BYTES = 1 << 17  # about a minute at the default preset
SAMPLES = 8
TITLES = ("check", "times", "result")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "audit",
        help="check that each symbol is predicted from those before it",
        description="Check the prequential law on a live learner: that it predicts each symbol from those before it, by whole "
        "distributions, learns only afterwards, and codes each symbol once. A corpus is encoded and decoded again; an archive, "
        "known by its first bytes, is decoded, and encoded again.",
    )
    parser.add_argument("names", nargs="+", metavar="ARCHIVE|CORPUS", help="archive; or file, folder, sample:NAME or -")
    parser.add_argument(
        "--limit",
        type=n_bytes,
        default=LIMIT_BYTES,
        metavar="BYTES",
        help="only the beginning of the original, of an archive up to a block's end (default: 128K)",
    )
    parser.add_argument(
        "--samples", type=int, default=SAMPLES, metavar="N", help="drawn places to experiment at (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, not a table")
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audits every input; returns the exit code."""
    if args.samples < 0 or args.limit < 1:
        args.parser.error("--samples is at least 0, --limit at least 1")
    from prequential.codecs.archive_header import MAGIC
    from prequential.corpora.sources import open_corpus
    from prequential.errors import LawError
    from prequential.measure.proof import law
    from prequential.measure.table import format_table
    from prequential.online.limits import check_memory

    learner, machine = config(args), runtime(args)

    def audit(name: str) -> None:
        with progress_bar(name, quiet=args.quiet) as show:
            if _begins_with(name, MAGIC):
                with Path(name).open("rb") as archive:
                    found = law.audit_archive(archive, machine, args.samples, args.limit, args.max_memory, show)
            else:
                check_memory(learner, args.max_memory, machine, n_learners=law.N_LEARNERS)
                with open_corpus(name) as corpus:
                    found = law.audit_corpus(corpus.bytes()[: args.limit], learner, machine, args.samples, show)
        if args.json:
            print(json.dumps({"name": name, "checks": [dataclasses.asdict(finding) for finding in found]}))
        else:
            rows = [(f.check, f"{f.times}", "FAILED" if f.failure else "ok") for f in found]
            print(f"{name}\n{format_table(TITLES, rows)}")
        sys.stdout.flush()
        for finding in found:
            if finding.failure:
                raise LawError(f"not so: {finding.check}: {finding.failure}")

    return for_each(args.names, audit, verbose=args.verbose)


def _begins_with(name: str, magic: bytes) -> bool:
    """Whether `name` is a file that begins so."""
    if not Path(name).is_file():
        return False
    with Path(name).open("rb") as file:
        return file.read(len(magic)) == magic
