"""Check that this machine is exact.

Describes the machine, tests its arithmetic, and runs a small fixed model whose digest is the same on every machine.
"""

import argparse
import dataclasses
import json
import sys

from prequential.cli import options
from prequential.cli.streams import EXIT_FAILURE, fitted, is_text

VERDICTS: dict[bool | None, str] = {True: "ok", False: "FAILED", None: "skipped"}  # of a check


def run(args: argparse.Namespace) -> int:
    from prequential.machine.facts import available_threads, machine, versions
    from prequential.machine.kernel_cache import kernel_folder
    from prequential.online.selftest import checks
    from prequential.version import VERSION

    folder = kernel_folder()
    facts = {**machine(), "prequential": VERSION, **versions(), "kernels": str(folder or "compiled in each run")}
    facts["threads"] = str(available_threads())
    for name, value in facts.items() if is_text(args) else ():
        print(fitted(f"{name:<26}{value}"))
    done = []
    for check in checks():
        done.append(check)
        if is_text(args):
            print(fitted(f"{check.name:<26}{VERDICTS[check.passed]}: {check.text}"), flush=True)
    if args.json:
        print(json.dumps({"machine": facts, "checks": [dataclasses.asdict(check) for check in done]}))
    # A matmul backend that is not exact is not a failure, because it is not used.
    failed = [check for check in done if check.passed is False and not check.name.startswith("matmul ")]
    for check in failed if args.quiet else ():
        print(f"prequential: {check.name} failed: {check.text}", file=sys.stderr)
    if failed and folder:
        print(f"prequential: if its kernels are damaged, delete the folder {str(folder)!r}", file=sys.stderr)
    return EXIT_FAILURE if failed else 0


COMMAND = options.Command("doctor", __doc__, "", options=(options.Group(options.JSON),), run=run)
