"""prequential doctor: this machine, the arithmetic that is exact on it, and whether it computes what others compute."""

import argparse
import dataclasses
import json
import sys

from prequential.cli.failures import EXIT_FAILURE
from prequential.cli.options import add_verbosity

VERDICTS = {True: "ok", False: "FAILED", None: "skipped"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "doctor",
        help="check that this machine computes exactly",
        description="Show the machine, test its arithmetic, and run a small fixed model whose digest is the same "
        "everywhere. Some seconds; up to a minute when kernels have yet to be compiled.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the findings as they come; fails if no arithmetic is exact, or digests differ."""
    from prequential import __version__
    from prequential.measure.machine import machine, versions
    from prequential.measure.proof.selftest import checks

    facts = {**machine(), "prequential": __version__, **versions()}
    if not args.json:
        for name, value in facts.items():
            print(f"{name:<26}{value}")
    found = []
    for check in checks():
        found.append(check)
        if not args.json:
            print(f"{check.name:<26}{VERDICTS[check.passed]}: {check.text}")
            sys.stdout.flush()
    if args.json:
        print(json.dumps({"machine": facts, "checks": [dataclasses.asdict(check) for check in found]}))
    # A backend that is not exact is no fault: it is not used. Everything else is.
    failed = [check for check in found if check.passed is False and not check.name.startswith("matmul ")]
    return EXIT_FAILURE if failed else 0
