"""Check that this machine is exact, or that a learner keeps the law.

Describes the machine, tests its arithmetic, and runs a small fixed model whose digest is the same on every machine. With --law,
checks on a running learner the conditions of a prequential code (docs/RELIABILITY.md).
"""

import argparse
import dataclasses
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prequential_codecs.archive_header import MAGIC

from prequential.cli import options
from prequential.cli.decompress import beginning_of
from prequential.cli.streams import EXIT_FAILURE, fitted, for_each, progress_bar
from prequential.errors import LawError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

VERDICTS: dict[bool | None, str] = {True: "ok", False: "FAILED", None: "skipped"}  # of a check
OF_BOTH = {"law", "json", "quiet", "verbose"}  # the other options are of the check of the law


def add_options(parser: argparse.ArgumentParser) -> None:
    law = "check the law: an archive is decoded and then encoded, a corpus is encoded and then decoded"
    parser.add_argument("--law", nargs="+", action="extend", metavar="ARCHIVE|CORPUS", help=law)
    limit = "with --law: use only the beginning of the original; of an archive, up to the end of a block"
    samples = "with --law: number of random positions for experiments"
    options.add(parser, {"--limit BYTES [128K]": limit, "--samples N [8]": samples} | options.JSON)
    options.add_learner(parser)
    parser.set_defaults(inputs=("law",))


def run(args: argparse.Namespace) -> int:
    if not args.law:
        if options.given_of(args, *(vars(args).keys() - OF_BOTH)):
            args.parser.error("the test of the machine has no options but --json: name files with --law")
        return _check_machine(as_json=args.json)
    config, runtime = options.learner_config(args), options.runtime(args)
    return for_each(args.law, partial(_check_law, args, config, runtime), verbose=args.verbose)


def _check_machine(*, as_json: bool) -> int:
    """Prints each check when it is done; returns the exit code."""
    from prequential.exact.pool import available_threads
    from prequential.machine.facts import machine, versions
    from prequential.machine.kernel_cache import kernel_folder
    from prequential.model.mixer.board import exchange_ns
    from prequential.proof.selftest import checks
    from prequential.version import VERSION

    folder = kernel_folder()
    facts = {**machine(), "prequential": VERSION, **versions(), "kernels": str(folder or "compiled in each run")}
    if (n_threads := available_threads()) > 1:
        facts["exchange of two threads"] = f"{exchange_ns():.0f} ns (mixing on several threads pays below about 500)"
        facts["threads"] = f"{n_threads}"
    if not as_json:
        for name, value in facts.items():
            print(fitted(f"{name:<26}{value}"))
    done = []
    for check in checks():
        done.append(check)
        if not as_json:
            print(fitted(f"{check.name:<26}{VERDICTS[check.passed]}: {check.text}"), flush=True)
    if as_json:
        print(json.dumps({"machine": facts, "checks": [dataclasses.asdict(check) for check in done]}))
    # A matmul backend that is not exact is not a failure, because it is not used.
    failed = [check for check in done if check.passed is False and not check.name.startswith("matmul ")]
    if failed and folder:
        print(
            f"prequential: if its kernels are damaged, this helps: delete the folder {str(folder)!r}", file=sys.stderr
        )
    return EXIT_FAILURE if failed else 0


def _check_law(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    """Prints the verdicts. Raises LawError for the first check that failed."""
    from prequential.online.source import open_source
    from prequential.proof import law

    with progress_bar(name, quiet=args.quiet) as show:
        if beginning_of(name) == MAGIC:
            with Path(name).open("rb") as archive:
                verdicts = law.check_archive(archive, runtime, args.samples, args.limit, show)
        else:
            runtime.check(config, n_learners=law.N_LEARNERS)
            with open_source(name, args.limit) as source:
                verdicts = law.check_corpus(source.symbols[:], config, runtime, args.samples, show)
    if args.json:
        print(json.dumps({"name": name, "checks": [dataclasses.asdict(verdict) for verdict in verdicts]}), flush=True)
    else:
        print(fitted(f"{printable(name)}\n{law.format_verdicts(verdicts)}"), flush=True)
    for verdict in verdicts:
        if verdict.failure:
            raise LawError(f"this check failed: {verdict.check}: {verdict.failure}")
