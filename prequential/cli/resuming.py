"""Commands that resume an interrupted run, to be pasted into a shell."""

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prequential.files import RESUMABLE


@contextmanager
def resumable(args: argparse.Namespace, **changes: Any) -> Iterator[None]:
    """If the body fails and leaves a checkpoint, the error names the command that resumes the run: `args` with these changes."""
    try:
        yield
    except BaseException as error:
        notes, command = getattr(error, "__notes__", []), command_line(args, **changes, resume=True)
        error.__notes__ = [f"`{command}` continues from the last checkpoint" if n == RESUMABLE else n for n in notes]
        raise


def command_line(args: argparse.Namespace, **changes: Any) -> str:
    """The command of these arguments, some of them changed. Options of their default value are left out."""
    values, words, names = {**vars(args), **changes}, args.parser.prog.split(), list[str]()
    for action in args.parser._actions:
        value: Any = values.get(action.dest)
        if not action.option_strings:
            names += value if isinstance(value, list) else [value]
        elif value not in (None, action.default, []):
            words += _option(action, value)
    return shlex.join([*words, *(["--"] if any(name[:1] == "-" != name for name in names) else []), *names])


def _option(action: argparse.Action, value: Any) -> list[str]:
    """The words that give the option this value; none for an option of another value of the same name, such as --fast."""
    name = action.option_strings[0]
    if action.nargs == 0:
        if f"-{value}" in action.option_strings:  # a level
            return [f"-{value}"]
        return [name] if action.const == value else []
    if action.choices is not None and value not in action.choices:
        return []
    return [word for each in (value if isinstance(value, list) else [value]) for word in (name, str(each))]
