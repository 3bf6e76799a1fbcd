"""Options that several commands share, and what they mean: a Config, a Runtime, a number of bytes.

The presets are known to the package of the learner, which is slow to import. A level is therefore checked when the command runs.
"""

from __future__ import annotations

import argparse
import codecs
import difflib
import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from prequential.cli.failures import in_options
from prequential.cli.streams import foreign_code
from prequential.errors import ConfigError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.learners.subject import Subject
    from prequential.model.config import Config, ReplicaConfig
    from prequential.online.runtime import Runtime

Number = TypeVar("Number", int, float)

EXIT_USAGE = 2
MAX_CONFIG_BYTES = 1 << 20
CORPUS = "file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or -"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Parser(argparse.ArgumentParser):
    """Options and files in any order. Reports a usage error in one line, like every other error, with the nearest command."""

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

    def print_help(self, file: Any = None) -> None:
        """As of argparse; a help text that cannot be written is an error."""
        print(self.format_help(), end="", file=file, flush=True)

    def _check_options(self, args: Sequence[str]) -> None:
        """Ends the program with a usage error for an unknown long option or level; argparse would report other things first."""
        known = self._option_string_actions
        names = [name.removeprefix("--") for name in known if name.startswith("--")]
        for arg in args:
            option = arg.partition("=")[0]
            if option.startswith("--") and option not in known:
                if near := difflib.get_close_matches(option.removeprefix("--"), names, 1, 0.7):
                    self.error(f"unrecognized arguments: {option}; did you mean --{near[0]}?")
            elif re.fullmatch(r"-\d+", arg) and arg not in known and "-1" in known:
                self.error(f"{arg} is not a level: give -1 to -9")

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"prequential: {printable(message)}; see {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.nargs == argparse.PARSER and action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(None, no_command(str(value), action.choices))
        super()._check_value(action, value)


def no_command(name: str, commands: Iterable[str]) -> str:
    """The message about an unknown command, with the nearest known one."""
    near = difflib.get_close_matches(name, list(commands), 1)
    return f"unknown command {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


# ---- types of arguments


def byte_count(text: str) -> int:
    """A number of bytes, such as 65536, 64K, 10M or 4G; units are powers of 1024."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 65536, 64K, 10M or 4G")
    return int(number) * _UNITS[unit]


def duration_s(text: str) -> float:
    """A number of seconds from a text such as 90, 10m, 2h or 1d."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    if not (found := re.fullmatch(r"(\d+)([smhd]?)", text, re.ASCII)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 10m, 2h or 1d")
    return float(int(found[1]) * units[found[2] or "s"])


def positive_integer(text: str) -> int:
    """An integer of 1 or more."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 1 or more")
    return int(text)


def _numbers(text: str, number: Callable[[str], Number], lowest: Number, kind: str) -> list[Number]:
    try:
        values = [number(part) for part in text.split(",")]
        if not all(lowest <= value < math.inf for value in values):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {kind}, such as 1,2,4") from None
    return values


positive_numbers = partial(_numbers, number=float, lowest=1e-6, kind="numbers above 0")
positive_integers = partial(_numbers, number=int, lowest=1, kind="integers of 1 or more")
non_negative_integers = partial(_numbers, number=int, lowest=0, kind="integers of 0 or more")


def gpt_sizes(text: str) -> list[tuple[int, int]]:
    """A list of (width, layers), such as 64x1,128x2."""
    sizes = []
    for part in text.split(","):
        width, _, layers = part.partition("x")
        if not all(number.isascii() and number.isdigit() and int(number) for number in (width, layers)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes WIDTHxLAYERS, such as 64x1,128x2")
        sizes.append((int(width), int(layers)))
    return sizes


def _device_preset(text: str) -> str:
    """The name of a preset; a level is refused with the option that gives it."""
    if re.fullmatch(r"[1-9]", text):
        raise argparse.ArgumentTypeError(f"a level is an option of its own: give -{text}")
    return text


class _Level(argparse.Action):
    """-1 to -9: the number."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *rest: Any) -> None:
        setattr(namespace, self.dest, int(str(rest[-1])[1:]))


# ---- groups of options


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Adds -q and -v."""
    parser.set_defaults(parser=parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress and no summary")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print a summary of each file, and tracebacks of unexpected errors"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the output file."""
    group = parser.add_argument_group("output")
    target = group.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", metavar="PATH", help="name of the output; - is standard output")
    target.add_argument("-c", "--stdout", action="store_true", help="write to standard output")
    group.add_argument("-f", "--force", action="store_true", help="overwrite an existing output; write to a terminal")
    group.add_argument(
        "--resume",
        action="store_true",
        help="resume an interrupted run, if it left a checkpoint next to its output (docs/RELIABILITY.md)",
    )
    group.add_argument(
        "-k", "--keep", action="store_true", help="no effect: the source is always kept (accepted as gzip accepts it)"
    )


def add_decoding_limits(parser: argparse.ArgumentParser) -> None:
    """Adds the limits of an original's length and of the time to decode it."""
    parser.add_argument(
        "--max-output",
        type=byte_count,
        metavar="BYTES",
        help="refuse archives whose original is longer, such as 10G (default: no limit; 1 kB may hold terabytes of zeros)",
    )
    parser.add_argument(
        "--max-time",
        type=duration_s,
        metavar="TIME",
        help="refuse archives that take longer to decode, such as 10m or 2h, by a rough estimate from the learner and the length "
        "(default: no limit; above 5m a line says so)",
    )


def add_context(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, default: str | None) -> None:
    """Adds the options that choose the context of a frozen symbol."""
    parser.add_argument(
        "--context",
        choices=("carried", "isolated", "strided"),
        default=default,
        help="what the frozen learner sees before a byte: everything, across documents (carried, default), its document "
        "(isolated), or a sliding window of its document (strided)",
    )
    parser.add_argument(
        "--stride", type=int, metavar="N", help="for --context strided (default: half the window of the GPT)"
    )


def add_learner(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose the learner."""
    group = parser.add_argument_group("learner (an archive stores all of these: decompress needs none of them)")
    level = group.add_mutually_exclusive_group()
    level.add_argument(
        *(f"-{number}" for number in range(1, 10)),
        dest="preset",
        action=_Level,
        nargs=0,
        help="preset, from the fastest (-1) to the smallest archive (-9); -1 to -4 have no GPT (default: -5; "
        "compress takes -4 below 256 KiB)",
    )
    level.add_argument("--fast", dest="preset", action="store_const", const="fast", help="the lowest preset")
    level.add_argument("--best", dest="preset", action="store_const", const="best", help="the highest preset")
    level.add_argument(
        "--preset",
        type=_device_preset,
        choices=("gpu-small",),
        help="a learner for --device cuda, with a GPT of 7 million weights (docs/MACHINES.md)",
    )
    level.add_argument(
        "--config",
        metavar="FILE",
        help="a complete configuration as JSON (the `config` of `list --json`), instead of a preset",
    )
    group.add_argument(
        "--pure", action="store_true", help="the GPT without the context mixer; -5 to -9 all give the same one"
    )
    group.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of the initial weights and of the rows drawn for replay (default: 0)",
    )
    group.add_argument(
        "--sync-every",
        type=positive_integer,
        metavar="K",
        help="for workers with slow links: train separate GPTs and average them every K steps (docs/MACHINES.md)",
    )
    group.add_argument(
        "--replicas",
        type=positive_integer,
        metavar="N",
        help="with --sync-every: number of GPTs (default: the number of workers that torchrun started)",
    )


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose how to compute."""
    group = parser.add_argument_group("computation (changes the speed, never a byte of the result)")
    group.add_argument(
        "--threads", type=int, metavar="N", help="number of threads (default: the number of cores, at most 8)"
    )
    group.add_argument(
        "--backend",
        choices=("int8", "float32", "float64"),
        help="type of numbers in the matrix products of the GPT (default: the fastest one that is exact here)",
    )
    group.add_argument(
        "--kernels",
        choices=("fused", "plain"),
        help="fused: compiled by numba; plain: operations of torch, slower, as a check (default: fused)",
    )
    group.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="cpu",
        help="where the GPT learns; auto: on a GPU if there is one that passes its tests; no effect without a GPT, "
        "as at -1 to -4 (default: %(default)s)",
    )
    group.add_argument(
        "--audit-every",
        type=int,
        default=0,
        metavar="N",
        help="check computation and memory during the run: recompute one of N segments in another way "
        "(default: 0, no audit; docs/RELIABILITY.md)",
    )
    group.add_argument(
        "--max-memory",
        type=byte_count,
        metavar="BYTES",
        help="refuse a learner that needs more memory than this (default: 6G, or what this process may use if that is less)",
    )


# ---- what the options mean


def runtime(args: argparse.Namespace) -> Runtime:
    """The Runtime of the options of `add_runtime`; a value out of range ends the program with a usage error."""
    from prequential.online.runtime import Runtime
    from prequential.online.workers.environment import launched

    try:
        if launched() and args.device == "auto":
            raise ConfigError("with torchrun all processes use the same device: give --device cuda or --device cpu")
        return Runtime(
            threads=args.threads,
            backend=args.backend,
            kernels=args.kernels,
            device=args.device,
            audit_every=args.audit_every,
            max_memory_bytes=args.max_memory,
        )
    except ConfigError as error:
        usage_error(args, error)


def learner_config(args: argparse.Namespace) -> Config:
    """The Config of the options of `add_learner`; a wrong or contradictory value ends the program with a usage error."""
    from prequential.model.presets import DEFAULT_PRESET, PRESETS, preset

    levels = {None: DEFAULT_PRESET, "fast": min(PRESETS), "best": max(PRESETS)}
    try:
        if args.config is not None:
            if args.pure or args.seed is not None or args.sync_every or args.replicas:
                raise ConfigError(
                    "--config gives the complete learner: leave out --pure, --seed, --sync-every and --replicas"
                )
            return _read_config(args.config)
        config = preset(levels.get(args.preset, args.preset), pure=args.pure, seed=args.seed or 0)
        if args.pure and (args.sync_every or args.replicas):
            raise ConfigError(
                "--pure reads contexts from a table, which replicas cannot share: leave out --sync-every or --pure"
            )
        if not (args.sync_every or args.replicas):
            return config
        # Replicas do not share a table of contexts.
        return replace(config, gpt=config.gpt and replace(config.gpt, contexts=()), replicas=_replicas(args))
    except ConfigError as error:
        usage_error(args, error)


def add_given(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds --given."""
    parser.add_argument("--given", metavar="CORPUS|MODEL", help=what)


def add_other_learner(parser: argparse.ArgumentParser, several: str = "repeatable") -> None:
    """Adds --learner and --learner-arg, for learners of the user's own. several: the help on an argument that is repeated."""
    group = parser.add_argument_group("a learner of your own (docs/LEARNERS.md)")
    group.add_argument(
        "--learner",
        metavar="MODULE:FACTORY",
        help="measure the learner that this function or class makes; MODULE is a module or a file.py, whose code is run",
    )
    group.add_argument(
        "--learner-arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"an argument of the factory; {several}",
    )


def other_learner(args: argparse.Namespace) -> Subject | None:
    """The learner of --learner, or None. A contradiction is a usage error. Raises ConfigError if it cannot be made."""
    if not _names_other_learner(args):
        return None
    from prequential.learners.loading import load_subject, parse_arguments

    try:
        arguments = parse_arguments(args.learner_arg)
    except ConfigError as error:
        usage_error(args, error)
    with foreign_code():
        return load_subject(args.learner, arguments)


def other_learner_grid(args: argparse.Namespace) -> dict[str, list[Any]] | None:
    """The values of each --learner-arg; None without --learner. Raises ConfigError; a contradiction is a usage error."""
    if not _names_other_learner(args):
        return None
    from prequential.learners.loading import parse_grid

    return parse_grid(args.learner_arg)


def _names_other_learner(args: argparse.Namespace) -> bool:
    if args.learner is None and args.learner_arg:
        usage_error(args, "--learner-arg needs --learner")
    if args.learner is not None and (given := given_learner_options(args)):
        usage_error(args, f"--learner gives the complete learner: leave out {', '.join(given)}")
    return args.learner is not None


def given_learner_options(args: argparse.Namespace) -> list[str]:
    """Names of the options of `add_learner` that the command line contains."""
    values = {
        "-1..-9 or --config": args.preset or args.config,
        "--pure": args.pure,
        "--seed": args.seed is not None,
        "--sync-every": args.sync_every,
        "--replicas": args.replicas,
    }
    return [name for name, value in values.items() if value]


def usage_error(args: argparse.Namespace, reason: ConfigError | str) -> NoReturn:
    """Ends the program with a usage error."""
    parser: Parser = args.parser
    parser.error(in_options(str(reason)))


def _replicas(args: argparse.Namespace) -> ReplicaConfig:
    from prequential.model.config import ReplicaConfig
    from prequential.online.workers.environment import workers

    if not args.sync_every:
        raise ConfigError("--replicas needs --sync-every K, the number of steps between two averages")
    n_workers = workers()[0] if getattr(args, "shared", None) == "steps" else 1
    if not args.replicas and n_workers == 1:
        raise ConfigError("--sync-every needs --replicas N, unless torchrun started several workers of one run")
    return ReplicaConfig(n_replicas=args.replicas or n_workers, sync_every=args.sync_every)


def _read_file_or_pipe(path: str) -> bytes:
    """At most MAX_CONFIG_BYTES bytes, also of a pipe without a name, as in `--config <(command)`. Raises OSError for others."""
    from prequential.files import read_regular

    if not Path(path).is_fifo() or os.path.lexists(os.path.realpath(path)):  # it might wait for a writer
        return read_regular(path, MAX_CONFIG_BYTES)
    with Path(path).open("rb") as pipe:
        data = pipe.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise OSError(errno.EFBIG, f"longer than {MAX_CONFIG_BYTES:,} bytes", path)
    return data


def _read_config(path: str) -> Config:
    from prequential.files.strict_json import parse_json
    from prequential.model.config import Config

    try:
        return Config.from_dict(parse_json(_read_file_or_pipe(path).removeprefix(codecs.BOM_UTF8)))
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path!r}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--config: {path!r} is not JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path!r}: {error}") from error
