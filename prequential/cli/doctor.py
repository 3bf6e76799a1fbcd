"""prequential doctor: describes this machine, tests its arithmetic, and compares a fixed run with its expected digest."""

import argparse
import dataclasses
import json

from prequential.cli import options
from prequential.cli.failures import EXIT_FAILURE

SUMMARY = "check that this machine computes exactly"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "doctor",
        description="Describe the machine, test its arithmetic, and run a small fixed model whose digest is the same on every "
        "machine. This takes some seconds, or up to a minute if kernels must be compiled first.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints each check when it is done; returns the exit code."""
    from prequential.machine.facts import machine, versions
    from prequential.machine.kernel_cache import kernel_folder
    from prequential.proof.proof_text import format_check, format_fact
    from prequential.proof.selftest import checks
    from prequential.version import VERSION

    facts = {
        **machine(),
        "prequential": VERSION,
        **versions(),
        "kernels": str(kernel_folder() or "compiled in each run"),
    }
    if not args.json:
        for name, value in facts.items():
            print(format_fact(name, value))
    done = []
    for check in checks():
        done.append(check)
        if not args.json:
            print(format_check(check), flush=True)
    if args.json:
        print(json.dumps({"machine": facts, "checks": [dataclasses.asdict(check) for check in done]}))
    # A matmul backend that is not exact is not a failure, because it is not used.
    failed = [check for check in done if check.passed is False and not check.name.startswith("matmul ")]
    return EXIT_FAILURE if failed else 0
