"""prequential audit: checks that a learner keeps the prequential law, on a corpus or while it decodes an archive."""

import argparse
import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import for_each
from prequential.cli.progress import progress_bar
from prequential.errors import LawError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime
    from prequential.proof.findings import Finding

SUMMARY = "check that a learner predicts each symbol from earlier ones alone"
LIMIT_BYTES = 1 << 17  # about a minute at the default preset
N_SAMPLES = 8


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "audit",
        description="Check on a running learner the conditions of a prequential code: it predicts each symbol from earlier "
        "symbols with complete distributions, learns only afterwards, and codes each symbol once. A corpus is encoded and then "
        "decoded. An archive, which is recognised by its first bytes, is decoded and then encoded (docs/RELIABILITY.md).",
    )
    parser.add_argument("names", nargs="+", metavar="ARCHIVE|CORPUS", help=f"archive; or {options.CORPUS}")
    parser.add_argument(
        "--limit",
        type=options.byte_count,
        default=LIMIT_BYTES,
        metavar="BYTES",
        help="use only the beginning of the original; of an archive, up to the end of a block (default: 128K)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=N_SAMPLES,
        metavar="N",
        help="number of random positions for experiments (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of a table")
    options.add_learner(parser)
    options.add_runtime(parser)
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("names",))


def run(args: argparse.Namespace) -> int:
    """Audits every input; returns the exit code."""
    if args.samples < 0 or args.limit < 1:
        args.parser.error("--samples must be at least 0, and --limit at least 1")
    config, runtime = options.learner_config(args), options.runtime(args)
    return for_each(args.names, partial(_audit, args, config, runtime), verbose=args.verbose)


def _audit(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    """Prints the findings. Raises LawError for the first check that failed."""
    from prequential.proof.proof_text import format_findings

    findings = _findings(args, config, runtime, name)
    if args.json:
        print(json.dumps({"name": name, "checks": [dataclasses.asdict(finding) for finding in findings]}), flush=True)
    else:
        print(f"{printable(name)}\n{format_findings(findings)}", flush=True)
    for finding in findings:
        if finding.failure:
            raise LawError(f"this check failed: {finding.check}: {finding.failure}")


def _findings(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> "list[Finding]":
    from prequential_codecs.archive_header import MAGIC

    from prequential.online.source import open_source
    from prequential.proof import law

    with progress_bar(name, quiet=args.quiet) as show:
        if _begins_with(name, MAGIC):
            with Path(name).open("rb") as archive:
                return law.audit_archive(archive, runtime, args.samples, args.limit, show)
        runtime.check(config, n_learners=law.N_LEARNERS)
        with open_source(name, args.limit) as source:
            return law.audit_corpus(source.symbols[:], config, runtime, args.samples, show)


def _begins_with(name: str, magic: bytes) -> bool:
    """Whether `name` is a file that begins with these bytes."""
    if not Path(name).is_file():
        return False
    with Path(name).open("rb") as file:
        return file.read(len(magic)) == magic
