"""The command line: its commands, and the one place where exceptions become lines on stderr and exit codes.

Exit codes: 0 success, 1 failure, 2 usage error, 130 Ctrl-C, 143 SIGTERM, 152 SIGXCPU. Only data and results go to stdout.
A command is a module with a docstring, which is its help text, with `add_options(parser)`, and with `run(args)`, which gives the
exit code. It imports what it needs when it runs, so that `--help` and `list` start at once.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import Any

from prequential.cli import (
    ablate,
    compare,
    compress,
    decompose,
    decompress,
    doctor,
    estimate,
    evaluate,
    forecast,
    heldout,
    import_,
    labels,
    list,
    matrix,
    monorepo,
    options,
    report,
    runs,
    sweep,
    test,
    train,
)
from prequential.cli.failures import EXIT_FAILURE, are_refused, report_failure, was_interrupted, with_notes
from prequential.cli.options import Parser
from prequential.cli.streams import end_output, open_missing_streams, printable_streams
from prequential.errors import ConfigError
from prequential.machine.usable_memory import check_address_space
from prequential.online.workers.environment import workers
from prequential.version import VERSION

COMMANDS: dict[str, tuple[ModuleType, ...]] = {
    "archives": (compress, decompress, test, list),
    "measure": (evaluate, heldout, monorepo, labels, decompose, compare, import_, runs, report),
    "study": (sweep, ablate, forecast, matrix),
    "models": (train,),
    "machine": (doctor, estimate),
}
DESCRIPTION = """Compress with a GPT and a context mixer that learn the data online. The archive
decodes bit-exactly on any machine, so its length is the number of bits that the
data cost that learner."""


def build_parser() -> Parser:
    """The parser of the complete command line."""
    texts = {_name(command): command.__doc__ or "" for group in COMMANDS.values() for command in group}
    lines = {name: f"  {name:<12}{text.splitlines()[0].rstrip('.')}" for name, text in texts.items()}
    groups = ("\n".join([f"{title}:", *(lines[_name(c)] for c in group)]) for title, group in COMMANDS.items())
    top = Parser(
        prog="prequential",
        description="\n\n".join([DESCRIPTION, *groups]),
        epilog="`prequential COMMAND --help` explains a command. BYTES are 65536, 64K, 10M or 4G (powers of 1024).\n"
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 130 after Ctrl-C, 143 after SIGTERM.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"prequential {VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", parser_class=Parser, help="one of the commands above")
    for group in COMMANDS.values():
        for command in group:
            parser = commands.add_parser(_name(command), description=texts[_name(command)])
            parser.set_defaults(run=getattr(command, "run", None), parser=parser)
            command.add_options(parser)
            if command is not runs:  # whose actions have them
                options.add(parser, options.VERBOSITY)

    def show_help(_: argparse.Namespace) -> int:
        top.print_help()
        return 0

    top.set_defaults(run=show_help, parser=top)  # without a command
    return top


def _name(command: ModuleType) -> str:
    return command.__name__.rpartition(".")[2].rstrip("_")  # import is a word of Python


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    open_missing_streams()  # before any file is opened
    if argv is None:  # this process is the program, and `-c` would put the current folder on a child's path
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        n_workers, rank = workers()
    except ConfigError as error:
        report_failure(None, error, verbose=False)
        return EXIT_FAILURE
    if rank:
        _silence_output()
    with printable_streams():
        try:
            return _run(argv, n_workers, rank)
        finally:
            end_output()


def _parsed(argv: Sequence[str] | None, n_workers: int) -> argparse.Namespace:
    """The arguments. Ends the program after wrong ones, and after a help text."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions (docs/MACHINES.md)
        import argcomplete

        argcomplete.autocomplete(parser)
    args: argparse.Namespace
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if n_workers > 1 and not hasattr(args, "shared"):
        args.parser.error(
            "several workers can share a compression, a decompression, a sweep or an ablation: start this command "
            "without torchrun"
        )
    if argv is None and getattr(args, "learner", None) is None:
        # Our own work uses no threads of numpy's library. It starts them when it is imported, and each one takes address space.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return args


def _run(argv: Sequence[str] | None, n_workers: int, rank: int) -> int:
    """Runs the command; every exception becomes one line and an exit code."""
    args = argparse.Namespace()
    try:
        args = _parsed(argv, n_workers)
        # What workers share: the steps of one run, or the runs of a plan. Who shares steps has nothing to clean up.
        if rank == 0 or getattr(args, "shared", None) == "runs":
            _unwind_on_signals()
        if are_refused(args):
            return EXIT_FAILURE
        if "max_memory" in args:  # a command with a learner
            check_address_space()
        code: int = args.run(args)
        if code == 0:  # otherwise the reason has been printed
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return EXIT_FAILURE
    except KeyboardInterrupt as interruption:
        print(with_notes("prequential: interrupted", interruption), file=sys.stderr)
        return 130
    except SystemExit as end:
        if end.code == 128 + signal.SIGXCPU:
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # at its end, the interpreter would die of the next one
        if getattr(end, "__notes__", None):
            print(with_notes("prequential: ended", end), file=sys.stderr)
        raise
    except Exception as error:
        if was_interrupted(error):
            print("prequential: interrupted", file=sys.stderr)
            return 130
        report_failure(None, error, verbose=getattr(args, "verbose", False))
        return EXIT_FAILURE


def _silence_output() -> None:
    """Discards what this process and its libraries print: only the first worker prints."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(devnull, stream.fileno())


def _unwind_on_signals() -> None:
    """SIGTERM, SIGHUP and SIGXCPU end the program like an exception, so that temporary files are deleted; no signal is lost.

    SIGXCPU comes when the time of `ulimit -S -t` is used up. Python drops an exception that is raised in a callback from C, such
    as the callbacks that load compiled kernels. If that exception came from a signal, the signal is sent again a moment later.
    """
    begun = set[int]()

    def unwind(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGXCPU and number in begun:
            return  # it comes again with each second of CPU time, also while this ends
        begun.add(number)
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
        begun.discard(number)
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number))
        timer.daemon = True
        timer.start()

    report_dropped, sys.unraisablehook = sys.unraisablehook, send_again

    for name in ("SIGTERM", "SIGHUP", "SIGXCPU"):
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP: do not change that
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, unwind)
