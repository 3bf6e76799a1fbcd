"""The command line: its commands, and the one place where exceptions become lines on stderr and exit codes.

A command is a module. Its docstring is its help text. It has `add_options(parser)`, and `run(args)`, which gives the exit code.
It imports what it needs when it runs, so that `--help` and `list` start at once.
"""

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from prequential_corpora import is_path

from prequential.cli import (
    compare,
    compress,
    decompress,
    doctor,
    evaluate,
    forecast,
    heldout,
    import_,
    labels,
    monorepo,
    options,
    report,
    runs,
    sweep,
    test,
    train,
)
from prequential.cli import list as listing
from prequential.cli.options import Parser
from prequential.cli.streams import (
    EXIT_FAILURE,
    STARTED,
    open_missing_streams,
    printable_streams,
    report_failure,
    was_interrupted,
    with_notes,
)
from prequential.errors import CorpusError, PrequentialError
from prequential.files import check_output, reading
from prequential.machine.facts import check_address_space
from prequential.version import VERSION

COMMANDS: dict[str, tuple[ModuleType, ...]] = {
    "archives": (compress, decompress, test, listing),
    "measure": (evaluate, heldout, monorepo, labels, compare, import_, runs, report),
    "study": (sweep, forecast),
    "models": (train,),
    "machine": (doctor,),
}
DESCRIPTION = """Compress with a GPT and a context mixer that learn the data online. The archive
decodes bit-exactly on any machine, so its length is the number of bits that the
data cost that learner."""
EPILOG = """`prequential COMMAND --help` explains a command. BYTES are 65536, 64K, 10M or 4G (powers of 1024).
Exit codes: 0 success, 1 failure, 2 wrong usage, 130 after Ctrl-C, 143 after SIGTERM."""


def build_parser() -> Parser:
    """The parser of the complete command line."""
    texts = {name_of(command): command.__doc__ or "" for group in COMMANDS.values() for command in group}
    lines = {name: f"  {name:<12}{text.splitlines()[0].rstrip('.')}" for name, text in texts.items()}
    groups = ("\n".join([f"{title}:", *(lines[name_of(c)] for c in group)]) for title, group in COMMANDS.items())
    description, form = "\n\n".join([DESCRIPTION, *groups]), argparse.RawDescriptionHelpFormatter
    top = Parser(prog="prequential", description=description, epilog=EPILOG, formatter_class=form)
    top.add_argument("--version", action="version", version=f"prequential {VERSION}")
    commands = top.add_subparsers(metavar="COMMAND", parser_class=Parser, help="one of the commands above")
    for group in COMMANDS.values():
        for command in group:
            parser = commands.add_parser(name_of(command), description=texts[name_of(command)])
            parser.set_defaults(run=getattr(command, "run", None), parser=parser)
            command.add_options(parser)
            if command is not runs:  # whose actions have them
                options.add(parser, options.VERBOSITY)

    def show_help(_: argparse.Namespace) -> int:
        top.print_help()
        return 0

    top.set_defaults(run=show_help, parser=top)  # without a command
    return top


def name_of(command: ModuleType) -> str:
    """What a user types."""
    return command.__name__.rpartition(".")[2].rstrip("_")  # import is a word of Python


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    open_missing_streams()  # before any file is opened
    if argv is None:  # this process is the program, and `-c` would put the current folder on a child's path
        os.environ.setdefault("PYTHONSAFEPATH", "1")
    with printable_streams():
        return _run(argv)


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments. Ends the program after wrong ones, and after a help text."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions, after register-python-argcomplete
        import argcomplete

        argcomplete.autocomplete(parser)
    args: argparse.Namespace
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if argv is None and getattr(args, "learner", None) is None:
        # Our own work uses no threads of numpy's library. Its import starts them, and each thread takes address space.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return args


def _run(argv: Sequence[str] | None) -> int:
    """Runs the command; every exception becomes one line and an exit code."""
    args = argparse.Namespace()
    try:
        args = _parsed(argv)
        if threading.current_thread() is threading.main_thread():
            _unwind_on_signals()
        _find_runs(args)
        if _are_refused(args):
            return EXIT_FAILURE
        if "max_memory" in args:  # a command with a learner
            check_address_space()
        if not getattr(args, "quiet", True):
            STARTED.show()
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
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # the next one would kill the interpreter at its end
        if getattr(end, "__notes__", None):
            print(with_notes("prequential: ended", end), file=sys.stderr)
        raise
    except Exception as error:
        if was_interrupted(error):
            print("prequential: interrupted", file=sys.stderr)
            return 130
        report_failure(None, error, verbose=getattr(args, "verbose", False))
        return EXIT_FAILURE


def _find_runs(args: argparse.Namespace) -> None:
    """Makes paths of the names of runs, which the arguments `runs_of` of a command may hold: here, for all commands."""

    def path_of(name: str) -> str:
        if os.path.lexists(name):
            return name
        from prequential.evaluation.runs import find_run

        return find_run(name)

    for name in getattr(args, "runs_of", ()):
        if value := getattr(args, name):
            setattr(args, name, list(map(path_of, value)) if isinstance(value, list) else path_of(value))


def _are_refused(args: argparse.Namespace) -> bool:
    """Whether the command has nothing to do, because inputs are missing or outputs exist. Prints a line for each of them.

    The check comes before large imports. It uses what a command declares with `set_defaults`. `inputs`: the names of its
    arguments that are corpora, archives or folders, or a function of all arguments that gives these names. `output_of`: a
    function of the arguments and one input that gives the path of the output. A command with a list of inputs goes on with the
    other inputs and reports the refused inputs later. The work checks everything again, because files may change.
    """
    inputs = getattr(args, "inputs", ())
    attributes = inputs(args) if callable(inputs) else inputs
    values = [value for name in attributes if (value := getattr(args, name)) is not None]
    is_list = len(values) == 1 and isinstance(values[0], list)
    names: list[str] = values[0] if is_list else values
    after_end = getattr(args, "after_end", ())
    # argparse takes -1 for a negative number
    if presets := [name for name in names if re.fullmatch(r"-\d+", name) and name not in after_end]:
        args.parser.error(f"unrecognized arguments: {' '.join(presets)}")
    given = getattr(args, "given", None)
    if "" in (*names, given, getattr(args, "output", None)):  # for pathlib it is the current folder
        args.parser.error("a name is empty: give the name of a file or folder")
    if names.count("-") > 1:
        args.parser.error("- is given twice, but standard input can be read only once")
    if given is not None and (reason := _refusal(args, given, is_input=False)):
        report_failure(None, reason, verbose=args.verbose)
        return True
    reasons = [(name, reason) for name in names if (reason := _refusal(args, name))]
    if not reasons or (is_list and len(reasons) < len(names)):
        return False
    for name, reason in reasons if is_list else reasons[:1]:
        report_failure(name if is_list else None, reason, verbose=args.verbose)
    return True


def _refusal(args: argparse.Namespace, name: str, *, is_input: bool = True) -> Exception | None:
    """Why this source cannot be read, or its output not written, as far as the file system shows; None if nothing is wrong."""
    try:
        if name == "-" and sys.stdin.isatty():
            raise CorpusError("standard input is a terminal: name a file, or pipe data into the command")
        with reading(name):
            if is_path(name) and not Path(name).parent.is_file():  # FILE/NAME is a packed run
                Path(name).stat()
        if is_input and hasattr(args, "output_of") and (output := args.output_of(args, name)) is not None:
            check_output(output, overwrite=args.force)
    except PrequentialError as error:
        return error
    return None


def _unwind_on_signals() -> None:
    """SIGTERM, SIGHUP and SIGXCPU (`ulimit -S -t`) end the program like an exception, so that temporary files are deleted.

    Python drops an exception that is raised in a callback from C, such as a callback that loads compiled kernels. If an exception
    was dropped, its signal is sent again a moment later.
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

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP: do not change that
            signal.signal(number, unwind)
