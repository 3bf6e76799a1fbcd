"""The paths of a command line are looked at before anything large is imported, so that a wrong one is refused at once.

A command declares them with `set_defaults`: `inputs`, the names of its arguments that are corpora, archives or folders, or a
function of all arguments that gives these names; and `output_of`, a function of its arguments and of one input that gives the
path of the output. The work itself checks everything again, because files may change.
"""

import argparse
import re
import sys
from pathlib import Path

from prequential_corpora import is_path

from prequential.cli.failures import report_failure
from prequential.errors import CorpusError, PrequentialError
from prequential.files import check_output, reading


def are_refused(args: argparse.Namespace) -> bool:
    """Whether the command has nothing to do, because of missing inputs or existing outputs. Prints a line for each of them.

    A command with a list of inputs goes on with the others, and reports those later.
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
    if given is not None and (reason := _missing(given)) is not None:
        report_failure(None, reason, verbose=args.verbose)
        return True
    reasons = [(name, reason) for name in names if (reason := _refusal(args, name)) is not None]
    if not reasons or (is_list and len(reasons) < len(names)):
        return False
    for name, reason in reasons if is_list else reasons[:1]:
        report_failure(name if is_list else None, reason, verbose=args.verbose)
    return True


def _missing(name: str) -> Exception | None:
    if name == "-" and sys.stdin.isatty():
        return CorpusError(
            "standard input is a terminal: name a file, or pipe data into the command (--help explains it)"
        )
    try:
        with reading(name):
            if is_path(name) and not Path(name).parent.is_file():  # FILE/NAME is a packed run
                Path(name).stat()
    except CorpusError as error:
        return error
    return None


def _refusal(args: argparse.Namespace, name: str) -> Exception | None:
    """Why this input cannot be worked on, as far as the file system shows it."""
    if reason := _missing(name):
        return reason
    try:
        output_of = getattr(args, "output_of", None)
        if output_of and (output := output_of(args, name)) is not None:
            check_output(output, overwrite=args.force)
    except PrequentialError as error:
        return error
    return None
