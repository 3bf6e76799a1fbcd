"""The command line: its commands, and the one place where exceptions become lines on stderr and exit codes.

A command is a value, COMMAND in the module of its name. It imports what it needs when it runs, so that `--help` and `list`
start at once.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from prequential.cli.options import Command, Parser, listed
from prequential.cli.streams import EXIT_FAILURE, open_missing_streams, printable_streams, report_failure, with_notes
from prequential.errors import ConfigError, CorpusError
from prequential.machine.facts import check_address_space
from prequential.machine.process import SIGNALS
from prequential.version import VERSION

NAMES = {
    "archives": "compress decompress test list",
    "measure": "evaluate heldout monorepo labels compare import_ runs report",  # import alone is a word of Python
    "study": "sweep forecast",
    "models": "train",
    "machine": "doctor",
}
COMMANDS: dict[str, list[Command]] = {
    title: [import_module(f"prequential.cli.{name}").COMMAND for name in names.split()]
    for title, names in NAMES.items()
}
DESCRIPTION = """Compress with a GPT and a context mixer that learn the data online. The archive
decodes to the same bytes on every machine tried, so its length is the number of
bits that the data cost that learner."""
EPILOG = """`prequential COMMAND -h` shows what is used most, `prequential help COMMAND` all of it.
BYTES are 65536, 64K, 10M or 4G (powers of 1024).
Exit codes: 0 success, 1 failure, 2 wrong usage, 130 after Ctrl-C, 143 after SIGTERM, 138 after SIGUSR1."""


def build_parser() -> Parser:
    description = "\n\n".join([DESCRIPTION, *(listed(title, group) for title, group in COMMANDS.items())])
    form = argparse.RawDescriptionHelpFormatter
    top = Parser(prog="prequential", description=description, epilog=EPILOG, formatter_class=form)
    top.add_argument("-V", "--version", action="version", version=f"prequential {VERSION}")
    top.set_defaults(command=None, parser=top)
    commands = top.add_subparsers(metavar="COMMAND", parser_class=Parser, help="one of the commands above")
    for group in COMMANDS.values():
        for command in group:
            command.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    open_missing_streams()  # before any file is opened
    if argv is None:  # this process is the program, and `-c` would put the current folder on a child's path
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    with printable_streams():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    """Runs the command; every exception becomes one line and an exit code."""
    args = argparse.Namespace()
    try:
        args = _parsed(argv)
        if threading.current_thread() is threading.main_thread():
            _unwind_on_signals()
        _check_names(args)
        if "max_memory" in args:  # a command with a learner
            check_address_space()
        code: int = args.command.run(args)
        if code == 0:  # otherwise the reason has been printed
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return EXIT_FAILURE
    except KeyboardInterrupt as interruption:
        print(with_notes("prequential: interrupted", interruption), file=sys.stderr)
        return 130
    except SystemExit as end:
        if getattr(end, "__notes__", None):
            print(with_notes("prequential: ended", end), file=sys.stderr)
        raise
    except Exception as error:
        return report_failure(None, error, verbose=getattr(args, "verbose", False))


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, with paths in place of names of runs. Ends the program after wrong arguments, and after a help text."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions, after register-python-argcomplete
        import argcomplete

        argcomplete.autocomplete(parser)
    args: argparse.Namespace
    words = sys.argv[1:] if argv is None else [*argv]
    args, unknown = parser.parse_known_args([*words[1:], "--help"] if words[:1] == ["help"] else words)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    args.words = words  # another process of --jobs reads them again
    if args.command is None:
        parser.print_help()
        parser.exit()
    if argv is None and getattr(args, "learner", None) is None:
        # Our own work uses no threads of numpy's library. Its import starts them, and each thread takes address space.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in args.command.runs_of:
        value = getattr(args, name)
        setattr(args, name, list(map(_run_path, value)) if isinstance(value, list) else value and _run_path(value))
    return args


def _run_path(name: str) -> str:
    if os.path.lexists(name) and not Path(name).is_file():  # a corpus often stands beside its runs, and names them
        return name
    from prequential.evaluation.runs import find_run

    return find_run(name)


def _check_names(args: argparse.Namespace) -> None:
    """Refuses names of inputs that each file system would understand otherwise."""
    given = [getattr(args, name) for name in args.command.inputs]
    names = [name for value in given for name in (value if isinstance(value, list) else [value])]
    if "" in (*names, getattr(args, "output", None)):  # for pathlib it is the current folder
        raise ConfigError("a name is empty: give the name of a file or folder")
    if names.count("-") > 1:
        raise ConfigError("- is given twice, but standard input can be read only once")
    if "-" in names and sys.stdin.isatty():
        raise CorpusError("standard input is a terminal: name a file, or pipe data into the command")


def _unwind_on_signals() -> None:
    """Signals end the program like an exception, so that temporary files are deleted; also SIGUSR1, which queues send.

    Python drops an exception that is raised in a callback from C, such as a callback that loads compiled kernels. If an exception
    was dropped, its signal is sent again a moment later.
    """

    def unwind(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGXCPU:  # it comes again with each second of CPU time, also while this ends
            signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    def send_again(dropped: Any) -> None:
        error = dropped.exc_value
        if isinstance(error, KeyboardInterrupt):
            number = int(signal.SIGINT)
        elif isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > 128:
            number = error.code - 128
            signal.signal(number, unwind)
        else:
            report_dropped(dropped)
            return
        timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number))
        timer.daemon = True
        timer.start()

    report_dropped, sys.unraisablehook = sys.unraisablehook, send_again
    for number in SIGNALS[1:]:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP: do not change that
            signal.signal(number, unwind)
