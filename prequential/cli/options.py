"""Options: how a command declares them, those that several share, and what they mean: a Config, a Runtime, a learner.

What owns the presets is slow to import, so a level is checked when the command runs.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from prequential.cli.streams import foreign_code, in_options
from prequential.errors import ConfigError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.learners.spec import LearnerSpec
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

EXIT_USAGE = 2
MAX_CONFIG_BYTES = 1 << 20
LEVELS = range(1, 7)  # those of model/presets.py
ENDS = {"--fast": LEVELS[0], "--best": LEVELS[-1]}
CORPUS = "file, folder, sample:NAME, hf:NAME, shards:FOLDER, git:REPO or -"
RUN = "run folder; latest, or the beginning of a name, in runs/; or FILE/NAME of a packed run"
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Parser(argparse.ArgumentParser):
    """Options and files in any order. A usage error is one line, with the nearest option or command."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(allow_abbrev=False, **kwargs)  # type: ignore[arg-type]
        self._is_intermixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of argparse; positional arguments may also stand between options."""
        has_commands = any(action.nargs == argparse.PARSER for action in self._actions)
        has_end = args is not None and "--" in args  # of options; argparse loses it between positional arguments
        if args is not None and not has_commands:
            self._check_options(args[: args.index("--")] if has_end else args)
        if has_commands or has_end or self._is_intermixed:
            found, rest = super().parse_known_args(args, namespace)
            if has_end:
                found.after_end = args[args.index("--") + 1 :]
            return found, rest
        self._is_intermixed = True  # the method below calls this one
        try:
            return super().parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def _print_message(self, message: str, file: Any = None) -> None:
        """As of argparse; a help text or version that cannot be written is an error."""
        print(message, end="", file=file or sys.stderr, flush=True)

    def _check_options(self, args: Sequence[str]) -> None:
        """Ends the program with a usage error for an unknown long option or level; argparse would report other things first."""
        known = self._option_string_actions
        names = [name.removeprefix("--") for name in known if name.startswith("--")]
        for arg in args:
            option = arg.partition("=")[0]
            if option.startswith("--") and option not in known:
                if near := difflib.get_close_matches(option.removeprefix("--"), names, 1, 0.7):
                    self.error(f"unrecognized arguments: {option}; did you mean --{near[0]}?")
            elif "-1" in known and (found := re.match("-[0-9]+", arg)) and found[0] not in known:
                is_higher = found[0].strip("-0")
                end = (
                    f"highest is -{LEVELS[-1]}, the smallest archive"
                    if is_higher
                    else f"lowest is -{LEVELS[0]}, the fastest"
                )
                self.error(f"{found[0]} is not a level: the {end}")

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"prequential: {printable(message)}; see {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.nargs == argparse.PARSER and action.choices is not None and value not in action.choices:
            near = difflib.get_close_matches(value, list(action.choices), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise argparse.ArgumentError(None, f"unknown command {value!r}{hint}")
        super()._check_value(action, value)


# ---- types of values


def _number(text: str, number: Callable[[str], float], lowest: float, kind: str) -> Any:
    try:
        value = number(text)
        if not lowest <= value < math.inf:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {kind}") from None
    return value


_positive = partial(_number, number=int, lowest=1, kind="an integer of 1 or more")


def _n_bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmg]?)", text.lower(), re.ASCII)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 65536, 64K, 10M or 4G")
    return int(found[1]) * _BYTES[found[2]]


def _gpt_size(text: str) -> tuple[int, int]:
    if not (found := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text, re.ASCII)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size WIDTHxLAYERS such as 64x1")
    return int(found[1]), int(found[2])


def _list(item: Callable[[str], Any], text: str) -> list[Any]:
    return [item(part) for part in text.split(",")]


# By the name of a value in the help text. Others are texts.
_TYPES: Mapping[str, Callable[[str], Any]] = {
    "BITS": partial(_number, number=float, lowest=0, kind="a number of 0 or more"),
    "BYTES": _n_bytes,
    "INTEGER": int,
    "INTEGERS": partial(_list, _positive),
    "K": _positive,
    "N": _positive,
    "NAMES": partial(_list, str.strip),
    "NUMBERS": partial(_list, partial(_number, number=float, lowest=1e-6, kind="a number above 0")),
    "P": float,
    "S": _positive,
    "SEEDS": partial(_list, partial(_number, number=int, lowest=0, kind="an integer of 0 or more")),
    "SIZES": partial(_list, _gpt_size),
}


def add(group: argparse._ActionsContainer, table: Mapping[str, str]) -> None:
    """Adds options. table: the help text of each option, by what a user writes: `-f, --force`; `--limit BYTES`, whose value has a
    type; `--runs FOLDER [runs]` with a default; `--form {a,b}` with choices; `--static MODEL ...`, repeatable.
    """
    for option, text in table.items():
        words = option.split()
        names = [word.rstrip(",") for word in words if word.startswith("-")]
        if len(words) == len(names):
            group.add_argument(*names, action="store_true", help=text)
            continue
        value, default = words[len(names)], words[-1][1:-1] if words[-1].startswith("[") else None
        kind = _TYPES.get(value, str)
        keywords: dict[str, Any] = {"type": kind, "metavar": value}
        if value.startswith("{"):
            keywords = {"choices": tuple(value[1:-1].split(","))}
        if default:
            text = f"{text} (default: {default})"
            keywords["default"] = kind(default)
        elif words[-1] == "...":
            keywords |= {"action": "append", "default": []}
        group.add_argument(*names, help=text, **keywords)


# ---- options of several commands

LIMIT = {"--limit BYTES": "use only the beginning of the corpus"}
JSON = {"--json": "print JSON, one object a line, instead of text"}
FORCE = {"-f, --force": "overwrite existing outputs; write to a terminal"}
CONTEXT = {
    "--context {carried,isolated,strided}": "what the frozen learner sees before a byte: everything, across documents "
    "(carried; default of a learner that is trained here), its document (isolated; default of static models), or a sliding "
    "window of its document (strided)",
    "--stride N": "for --context strided (default: half the window of the GPT); of static models in tokens",
}
MODELS = {
    "--static hf:MODEL ...": "score this trained model of transformers, which learns nothing: a folder, or NAME@REVISION on the "
    "hub; repeatable: each one is compared with the first, document by document",
    "--scores FILE ...": "a model that a cluster scored: lines with the id, nats and bytes of each document; repeatable",
    "--documents FILE": "write the documents with their ids, for a cluster to score, and stop",
}
DECODING = {
    "--given CORPUS|MODEL": "the corpus or model that the archive was given",
    "--max-output BYTES": "refuse archives whose original is longer, such as 10G (default: no limit; 1 kB may hold terabytes of "
    "zeros)",
}
VERBOSITY = {
    "-q, --quiet": "print no progress and no summary",
    "-v, --verbose": "print a summary of each file, and tracebacks of unexpected errors",
}
LEVEL = {
    "--preset {gpu-small}": "a learner for --device cuda, with a GPT of 7 million weights (docs/MACHINES.md)",
    "--config FILE": "a complete configuration as JSON (the `config` of `list --json`), instead of a preset",
}
LEARNER = {
    "--pure": "the GPT of -5 without the context mixer",
    "--seed INTEGER": "seed of the initial weights and of the rows drawn for replay (default: 0)",
}
RUNTIME = {
    "--threads INTEGER": "number of threads (default: the number of cores, at most 8)",
    "--backend {int8,float32,float64}": "numbers in the matrix products of the GPT (default: the fastest that are exact here)",
    "--kernels {fused,plain}": "fused: compiled by numba (default); plain: operations of torch, slower, as a check",
    "--device {cpu,cuda,auto} [cpu]": "where the GPT learns; auto: on a GPU if there is one that passes its tests",
    "--audit-every INTEGER [0]": "check computation and memory: a replica reads along, and all arrays are compared after so "
    "many segments; 0: none (docs/RELIABILITY.md)",
    "--max-memory BYTES": "refuse a learner that needs more memory (default: 6G, or what this process may use if that is less)",
}
OTHER_LEARNER = {
    "--learner MODULE:FACTORY": "measure the learner that this function or class makes; MODULE is a module or a file.py, whose "
    "code is run",
    "--learner-arg NAME=VALUE ...": "an argument of the factory; repeatable",
}


def add_corpora(parser: argparse.ArgumentParser) -> None:
    """Adds the names of corpora."""
    parser.add_argument("names", nargs="+", metavar="CORPUS", help=CORPUS)
    parser.set_defaults(inputs=("names",))


def add_models(parser: argparse.ArgumentParser) -> None:
    """Adds the options of models that are scored document by document."""
    group = parser.add_argument_group("trained models, instead of a learner that is trained here")
    add(group, MODELS)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the output file."""
    group = parser.add_argument_group("output")
    path = "name of the output; - is standard output"
    add(group.add_mutually_exclusive_group(), {"-o, --output PATH": path, "-c, --stdout": "write to standard output"})
    resume = "resume an interrupted run, if it left a checkpoint next to its output (docs/RELIABILITY.md)"
    add(group, FORCE | {"-k, --keep": "no effect: the source is always kept, as with gzip -k", "--resume": resume})


def add_learner(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose the learner, and how to compute."""
    group = parser.add_argument_group("learner (an archive stores all of these: decompress needs none of them)")
    level = group.add_mutually_exclusive_group()
    level.add_argument(
        *(f"-{number}" for number in LEVELS),
        *ENDS,
        dest="preset",
        action=_Level,
        nargs=0,
        help="preset, from -1 or --fast to -6 or --best, the smallest archive; -1 to -4 have no GPT (default: -5; "
        "compress and evaluate take -4 below 256 KiB)",
    )
    add(level, LEVEL)
    add(group, LEARNER)
    add_runtime(parser)


class _Level(argparse.Action):  # -1 to -6, --fast, --best
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *rest: Any) -> None:
        setattr(namespace, self.dest, ENDS.get(rest[-1]) or int(rest[-1][1:]))


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose how to compute."""
    add(parser.add_argument_group("computation (changes the speed, never a byte of the result)"), RUNTIME)


def add_other_learner(parser: argparse.ArgumentParser) -> None:
    """Adds --learner and --learner-arg, for learners of the user's own."""
    add(parser.add_argument_group("a learner of your own (docs/LEARNERS.md)"), OTHER_LEARNER)


# ---- what the options mean


@contextmanager
def usage_errors(args: argparse.Namespace) -> Iterator[None]:
    """Makes a ConfigError of the body the end of the program, with a usage error."""
    try:
        yield
    except ConfigError as error:
        args.parser.error(in_options(str(error)))


def runtime(args: argparse.Namespace) -> Runtime:
    """The Runtime of the options; a value out of range ends the program with a usage error."""
    from prequential.online.runtime import Runtime

    with usage_errors(args):
        names = ("threads", "backend", "kernels", "device", "audit_every")
        return Runtime(**{name: getattr(args, name) for name in names}, max_memory_bytes=args.max_memory)


def learner_config(args: argparse.Namespace) -> Config:
    """The Config of the options of `add_learner`; a wrong or contradictory value ends the program with a usage error."""
    from prequential.model.presets import DEFAULT_PRESET, preset

    with usage_errors(args):
        if args.config is not None:
            refuse(args, given_learner_options(args)[1:], "--config gives the complete learner")
            return _read_config(args.config)
        return preset(args.preset or DEFAULT_PRESET, pure=args.pure, seed=args.seed or 0)


def given_config(args: argparse.Namespace) -> Config | None:
    """The same; None if the command line has none of these options: then the length of each input decides."""
    return learner_config(args) if given_learner_options(args) else None


def level_by_size(n_bytes: int) -> str:
    """The level that an input of this length gets where none was chosen, and why, in a few words."""
    from prequential.model.presets import DEFAULT_PRESET, SMALL_N_BYTES, SMALL_PRESET

    limit = f"{SMALL_N_BYTES >> 10} KiB"
    if n_bytes < SMALL_N_BYTES:
        return f"level -{SMALL_PRESET} by its size (-{DEFAULT_PRESET} from {limit} on)"
    return f"level -{DEFAULT_PRESET} by its size (-{SMALL_PRESET} below {limit})"


def other_learner(args: argparse.Namespace) -> LearnerSpec | None:
    """The learner of --learner, or None. Raises ConfigError if it cannot be made; a contradiction is a usage error."""
    if args.learner is None and args.learner_arg:
        args.parser.error("--learner-arg needs --learner")
    if args.learner is None:
        return None
    refuse(args, given_learner_options(args), "--learner gives the complete learner")
    from prequential.learners.loading import load_spec, parse_arguments

    with usage_errors(args):
        arguments = parse_arguments(args.learner_arg)
    with foreign_code():
        return load_spec(args.learner, arguments)


def given_learner_options(args: argparse.Namespace) -> list[str]:
    """Names of the options of `add_learner` that the command line contains."""
    level = ["-1..-6 or --config"] if args.preset or args.config else []
    return level + given_of(args, "pure", "seed")


def refuse(args: argparse.Namespace, given: Iterable[str], reason: str) -> None:
    """Ends the program with a usage error if any of these options is given."""
    if names := ", ".join(given):
        args.parser.error(f"{reason}: leave out {names}")


def given_of(args: argparse.Namespace, *names: str) -> list[str]:
    """Which of these options have another value than by default."""
    default = args.parser.get_default
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) != default(name)]


def _read_config(path: str) -> Config:
    from prequential.files import open_regular
    from prequential.files.strict_json import parse_json
    from prequential.model.config import Config

    # the pipe of `--config <(command)` has no name; one with a name might wait for a writer
    is_pipe = Path(path).is_fifo() and not os.path.lexists(os.path.realpath(path))
    try:
        with Path(path).open("rb") if is_pipe else open_regular(path) as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
        if len(data) > MAX_CONFIG_BYTES:
            raise OSError(errno.EFBIG, f"longer than {MAX_CONFIG_BYTES:,} bytes")
        return Config.from_dict(parse_json(data.decode(json.detect_encoding(data)).encode()))
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path!r}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--config: {path!r} is not JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path!r}: {error}") from error
