"""The command line: which subcommands there are, and the one border where exceptions become lines and exit codes.

Exit codes: 0 done, 1 failure, 2 usage, 130 Ctrl-C, 143 SIGTERM. Only payload and results go to stdout. Subcommands
import what they need when they run, so that --help and `list` start at once.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from prequential.cli.commands.archives import compress, decompress, list, test
from prequential.cli.commands.machine import audit, doctor, estimate
from prequential.cli.commands.measure import compare, evaluate, heldout, references, runs
from prequential.cli.commands.measure import report as report_command
from prequential.cli.commands.models import export, train
from prequential.cli.commands.study import ablate, forecast, ladder, score, select, sweep
from prequential.cli.failures import EXIT_FAILURE, report, with_notes
from prequential.cli.options import Parser

SUBCOMMANDS = (
    compress,
    decompress,
    test,
    list,
    estimate,
    evaluate,
    compare,
    sweep,
    ladder,
    forecast,
    score,
    ablate,
    select,
    runs,
    report_command,
    references,
    train,
    heldout,
    export,
    audit,
    doctor,
)
DESCRIPTION = """Compress with a GPT and a context mixer that learn the data online. The archive decodes bit-exactly on
any machine, so its length is the number of bits that the data cost that learner."""


def parser() -> Parser:
    """The whole command line."""
    top = Parser(prog="prequential", description=DESCRIPTION, epilog="prequential COMMAND --help explains a command.")
    top.add_argument("--version", action=_Version)
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for subcommand in SUBCOMMANDS:
        subcommand.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    n_workers, number = _workers()
    if number:
        _be_silent()
    args = parser().parse_args(argv)
    shared = getattr(args, "shared", None)  # among workers: the steps of one run, or the runs of a plan
    if n_workers > 1 and not shared:
        args.parser.error(
            "several workers share a compression, a decompression, a sweep, a ladder or an ablation; leave torchrun out"
        )
    if number == 0 or shared == "runs":  # of a step, the others have nothing to leave in order
        _unwind_on_signals()
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has gone. What is still buffered must not fail again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except KeyboardInterrupt as interruption:
        print(with_notes("prequential: interrupted", interruption), file=sys.stderr)
        return 130
    except SystemExit as end:
        if getattr(end, "__notes__", None):
            print(with_notes("prequential: ended", end), file=sys.stderr)
        raise
    except OSError as error:  # of the flush above: stdout is a full disk
        report("standard output", error, verbose=args.verbose)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except Exception as error:
        report(None, error, verbose=args.verbose)
        return EXIT_FAILURE


def _workers() -> tuple[int, int]:
    """How many processes torchrun started of this command (online/workers/shared.py), and which of them this is."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return 1, 0
    return int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])


def _be_silent() -> None:
    """Nothing that this process or its libraries say is seen: the first worker speaks for all."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


class _Version(argparse.Action):
    """--version, which looks the number up only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the program's version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from prequential import __version__

        print(f"prequential {__version__}")
        parser.exit()


def _unwind_on_signals() -> None:
    """SIGTERM and SIGHUP end the program as an exception does, so that temporary files go; and no signal is lost.

    Python drops an exception that is raised within a callback from C, such as those by which compiled kernels are loaded. If
    that was a signal's, the signal is sent again a moment later.
    """

    def unwind(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def send_again(dropped: Any) -> None:
        error = dropped.exc_value
        if isinstance(error, KeyboardInterrupt):
            number = int(signal.SIGINT)
        elif isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > 128:
            number = error.code - 128
        else:
            report_dropped(dropped)
            return
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number))
        timer.daemon = True
        timer.start()

    report_dropped, sys.unraisablehook = sys.unraisablehook, send_again

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP: so do we
            signal.signal(number, unwind)
