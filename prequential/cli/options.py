"""Commands and options: how they are declared, the options that several share, and what these mean: a Config, a learner.

What owns the presets is slow to import, so a level is checked when the command runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from prequential.cli.streams import EXIT_USAGE, foreign_code
from prequential.errors import ConfigError, OutputError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.learners.spec import LearnerSpec
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

MOST = 13  # options that the short help shows without a choice
MAX_CONFIG_BYTES = 1 << 20
LEVELS = range(1, 7)  # those of model/presets.py
ENDS = {"--fast": LEVELS[0], "--best": LEVELS[-1]}
CORPUS = "file, folder, sample:NAME, hf:NAME, shards:FOLDER, git:REPO or -"
RUN = "run folder; latest, or the beginning of a name, in runs/; or FILE/NAME of a packed run"
_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Parser(argparse.ArgumentParser):
    """Options and files in any order. A usage error is one line."""

    _is_intermixed = False
    synopsis = ""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, add_help=False, **kwargs)
        self.add_argument(
            "-h", "--help", action=_Help, nargs=0, help="-h: what is used most, with an example; --help: all"
        )

    def format_short_help(self) -> str:
        """Usage, purpose, the arguments and the options marked with * (of few options, all), and an example."""
        form, n, are_few = self._get_formatter(), len(self._actions), len(self._actions) <= MOST
        form.add_usage(self.synopsis, [], [])
        form.add_text((self.description or "").splitlines()[0])
        form.start_section(None)
        form.add_arguments([each for each in self._actions if are_few or getattr(each, "is_common", False)])
        form.end_section()
        form.add_text(self.epilog)
        form.add_text(None if are_few else f"{self.prog} --help shows all {n} arguments and options.")
        return form.format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of argparse; positional arguments may also stand between options."""
        has_commands = any(action.nargs == argparse.PARSER for action in self._actions)
        if has_commands or self._is_intermixed or "--" in args:  # argparse loses a -- between positional arguments
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True  # the method below calls this one
        try:
            return super().parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file or sys.stderr, flush=True)  # argparse would ignore that it cannot be written

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"prequential: {printable(message)}; see {self.prog} --help\n")


class _Help(argparse.Action):
    """-h: the short help of a command. --help, and -h of a parser of commands: all of it."""

    def __call__(self, parser: Any, *rest: Any) -> None:
        is_short = rest[-1] == "-h" and parser.synopsis
        parser._print_message(parser.format_short_help() if is_short else parser.format_help(), sys.stdout)
        parser.exit()


@dataclass(frozen=True)
class Group:
    """Options under a title. table: as of `add`. is_choice: at most one of them may be given."""

    table: Mapping[str, str]
    title: str = ""
    is_choice: bool = False


@dataclass(frozen=True)
class Command:
    """What a user types, and what it does.

    text: its help, whose first line also lists it. example: what may follow its name. run: works, and returns the exit code.
    inputs: its arguments that are corpora, archives or folders. runs_of: those that are runs. actions: the commands below it,
    which have options and work of their own.
    """

    name: str
    text: str
    example: str = ""
    _: KW_ONLY
    options: tuple[Group, ...] = ()
    run: Callable[[argparse.Namespace], int] = lambda args: 0
    inputs: tuple[str, ...] = ()
    runs_of: tuple[str, ...] = ()
    actions: tuple[Command, ...] = ()

    def add_to(self, commands: argparse._SubParsersAction[Parser]) -> None:
        if self.actions:
            text, form = f"{self.text}\n\n{listed('actions', self.actions)}", argparse.RawDescriptionHelpFormatter
            parser = commands.add_parser(self.name, description=text, formatter_class=form)
            actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
            for action in self.actions:
                action.add_to(actions)
            return
        parser = commands.add_parser(self.name, description=self.text)
        parser.epilog = f"Example: {parser.prog} {self.example}".rstrip()
        parser.synopsis = f"{parser.prog} [OPTION ...] {_synopsis(self.options)}"
        parser.set_defaults(command=self, parser=parser)
        groups: dict[str, argparse._ActionsContainer] = {"": parser}
        for options in (*self.options, Group(VERBOSITY)):
            if options.title not in groups:
                groups[options.title] = parser.add_argument_group(options.title)
            group = groups[options.title]
            add(group.add_mutually_exclusive_group() if options.is_choice else group, options.table)


def _synopsis(groups: Iterable[Group]) -> str:
    """What a user must give, and the other arguments that are no options."""
    keys = [key.removesuffix(" *") for group in groups for key in group.table]
    must = [key.removesuffix(" !").rpartition(", ")[2] for key in keys if key.endswith(" !")]
    names = [key.partition(": ")[2].partition(" [") for key in keys if ": " in key]
    return " ".join([*must, *(f"[{name}]" if default else name for name, default, _ in names)])


def listed(title: str, commands: Iterable[Command]) -> str:
    """The commands as a paragraph of a help text, with their first lines."""
    return "\n".join([f"{title}:", *(f"  {each.name:<12}{each.text.splitlines()[0].rstrip('.')}" for each in commands)])


# ---- values


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


def _n_bytes(text: str) -> int:
    unit = _BYTES.get(text[-1:].lower())
    return _positive(text[:-1] if unit else text) * (unit or 1)


def _size(text: str) -> tuple[int, int]:
    width, layers = map(_positive, text.split("x"))
    return width, layers


def _list(item: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    return lambda text: [item(part) for part in text.split(",")]


def _part(text: str) -> tuple[int, int]:
    k, n = map(_positive, text.split("/"))
    if k > n:
        raise ValueError
    return k, n


# By the name of a value in the help text: what makes it from a text, and what it is. Others are texts.
_TYPES: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "BYTES": (_n_bytes, "a number of bytes such as 65536, 64K, 10M or 4G"),
    "INTEGER": (int, "an integer"),
    "INTEGERS": (_list(_positive), "a list of integers of 1 or more"),
    "K/N": (_part, "a part such as 1/4, of 1/4 to 4/4"),
    "N": (_positive, "an integer of 1 or more"),
    "NAMES": (_list(str.strip), "a list of names"),
    "NUMBER": (float, "a number"),
    "NUMBERS": (_list(float), "a list of numbers"),
    "SEEDS": (_list(int), "a list of integers"),
    "SIZES": (_list(_size), "a list of sizes WIDTHxLAYERS such as 64x1"),
}


def _value(kind: str, text: str) -> Any:
    convert, what = _TYPES.get(kind, (str, "a text"))
    try:
        return convert(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None


class _Level(argparse.Action):
    """-1 to -6, --fast, --best."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *rest: Any) -> None:
        setattr(namespace, self.dest, ENDS.get(rest[-1]) or int(rest[-1][1:]))


def add(group: argparse._ActionsContainer, table: Mapping[str, str]) -> None:
    """Adds arguments. table: the help text of each, by what a user writes.

    `-f, --force`: a flag. `--limit BYTES`: its value has a type. `--runs FOLDER [runs]`: with a default. `--label FIELD !`: it
    must be given. `--form {a,b}`: with choices. `--static MODEL ...`: repeatable. `name: CORPUS`: a positional argument, `name`
    in the Namespace; `names: CORPUS ...`: one or more of them; `folder: FOLDER [runs]`, `names: FILE ... [-]`: also none.
    `--verify *`: the short help shows it.
    """
    for marked, text in table.items():
        option = marked.removesuffix(" *")
        names = [word.rstrip(",:") for word in option.split() if word.startswith("-") or word.endswith(":")]
        value, *marks = option.split()[len(names) :] or [""]
        default = next((mark[1:-1] for mark in marks if mark.startswith("[")), None)
        is_list, keywords = "..." in marks, dict[str, Any](metavar=value, type=partial(_value, value))
        if default is not None:
            text = f"{text} (default: {default})"
            keywords["default"] = [default] if is_list else _value(value, default)
        if "-1" in names:
            keywords = {"dest": "preset", "action": _Level, "nargs": 0}
        elif not value:
            keywords = {"action": "store_true"}
        elif value.startswith("{"):
            keywords = {"choices": tuple(value[1:-1].split(",")), "default": default}
        elif not names[0].startswith("-"):
            keywords["nargs"] = ("*" if is_list else "?") if default else ("+" if is_list else None)
        else:
            keywords["required"] = "!" in marks
            keywords |= {"action": "append", "default": []} if is_list else {}
        action: Any = group.add_argument(*names, help=text, **keywords)
        action.is_common = option != marked or not action.option_strings


# ---- options of several commands

LIMIT = {"--limit BYTES *": "use only the beginning of the corpus"}
JSON = {"--json *": "print JSON, one object a line, instead of text"}
TABLES = {"--csv *": "print the table as CSV, with all digits", "--markdown": "print the table in Markdown"}
FORMATS = Group({**JSON, **TABLES}, is_choice=True)
FORCE = {"-f, --force *": "overwrite existing outputs; write to a terminal"}
JOBS = {"--jobs N *": "work on so many at a time, each in a process of its own, which has its share of the cores"}
RUNS = {"--runs FOLDER [runs] *": "folder of the new run folder"}
CONTEXT = {
    "--context {carried,isolated} *": "what the frozen learner sees before a byte: everything, across documents (carried; "
    "default of a learner that is trained here), or its document (isolated; default of static models)",
}
MODELS = {
    "--static hf:MODEL ... *": "score this trained model of transformers, which learns nothing: a folder, or NAME@REVISION on "
    "the hub; repeatable: each one is compared with the first, document by document",
    "--scores FILE ...": "a model that a cluster scored: lines with the id, nats and bytes of each document; repeatable",
    "--documents FILE": "write the documents with their ids, for a cluster to score, and stop",
}
GIVEN = {"--given CORPUS|MODEL *": "what the learner reads first, or a model of `train`; decoding needs the same"}
ARCHIVES = {
    "names: FILE.pq ... [-]": "archive, or -",
    **GIVEN,
    "--max-output BYTES": "refuse archives whose original is longer, such as 10G (default: no limit; 1 kB may hold terabytes of "
    "zeros)",
}
VERBOSITY = {
    "-q, --quiet *": "print nothing but errors, and the one figure if that is the result",
    "-v, --verbose": "print a summary of each file, and tracebacks of unexpected errors",
}
OUTPUT_FILE = {
    "-k, --keep": "no effect: the source is always kept, as with gzip -k",
    "--resume *": "resume an interrupted run, if it left a checkpoint next to its output (docs/RELIABILITY.md)",
    **FORCE,
}
LEVEL = {
    "-1, -2, -3, -4, -5, -6, --fast, --best *": "preset, from -1 or --fast to -6 or --best, the smallest archive; -1 to -4 have "
    "no GPT (default: -5; compress and evaluate take -4 below 256 KiB)",
    "--preset {gpu-small}": "for --device cuda: a GPT of 7 million weights and a table of 403 million (docs/MACHINES.md)",
    "--config FILE": "a complete configuration as JSON (the `config` of `list --json`), instead of a preset",
}
OF_CONFIG = {
    "--pure": "a GPT like that of -6, without a mixer",
    "--seed INTEGER": "seed of the initial weights and of the rows drawn for replay (default: 0)",
}
COMPUTATION = {
    "--threads INTEGER *": "number of threads (default: the usable cores, or OMP_NUM_THREADS if that is less; at most 8)",
    "--backend {int8,float32,float64}": "numbers in the matrix products of the GPT (default: the fastest that are exact here)",
    "--kernels {fused,plain}": "fused: numba, or Triton on a GPU (default); plain: torch, slower, as a check",
    "--device {cpu,cuda,auto} [cpu]": "where the GPT learns; auto: on a GPU if there is one that passes its tests",
    "--audit-every INTEGER [0]": "check computation and memory: a replica reads along, and all arrays are compared after every "
    "INTEGER segments; 0: none (docs/RELIABILITY.md)",
    "--max-memory BYTES": "refuse a learner that needs more memory (default: 6G, or what this process may use if that is less)",
}
OWN = {
    "--learner MODULE:FACTORY *": "measure the learner that this function or class makes; MODULE is a module or a file.py, whose "
    "code is run",
    "--learner-arg NAME=VALUE ...": "an argument of the factory; repeatable",
}
OF_LEARNER = "learner (an archive stores all of these: decompress needs none of them)"
TO = {"-o, --output PATH *": "name of the output; - is standard output", "-c, --stdout *": "write to standard output"}
OUTPUT = (Group(TO, "output", is_choice=True), Group(OUTPUT_FILE, "output"))
SCORED = Group(MODELS, "trained models, instead of a learner that is trained here")
RUNTIME = Group(COMPUTATION, "computation (changes the speed, never a byte of the result)")
LEARNER = (Group(LEVEL, OF_LEARNER, is_choice=True), Group(OF_CONFIG, OF_LEARNER), RUNTIME)
OWN_LEARNER = Group(OWN, "a learner of your own (docs/LEARNERS.md)")


# ---- what the options mean


def runtime(args: argparse.Namespace) -> Runtime:
    """The Runtime of the options. Raises ConfigError for a value out of range."""
    from prequential.machine.facts import available_threads
    from prequential.online.runtime import Runtime

    values = {name: getattr(args, name) for name in ("backend", "kernels", "device", "audit_every")}
    share = available_threads(args.jobs) if getattr(args, "jobs", None) else None
    return Runtime(**values, threads=share if args.threads is None else args.threads, max_memory_bytes=args.max_memory)


def learner_config(args: argparse.Namespace) -> Config:
    """The Config of the options LEARNER. Raises ConfigError for a wrong or contradictory value."""
    from prequential.files import read_regular, reading
    from prequential.files.strict_json import parse_json
    from prequential.model.config import Config
    from prequential.model.presets import DEFAULT_PRESET, preset

    if args.config is None:
        return preset(args.preset or DEFAULT_PRESET, pure=args.pure, seed=args.seed or 0)
    refuse(args, given_of(args, "pure", "seed"), "--config gives the complete learner")
    try:
        with reading(args.config):
            return Config.from_dict(parse_json(read_regular(args.config, MAX_CONFIG_BYTES)))
    except (ValueError, ConfigError) as error:  # ValueError: no JSON
        raise ConfigError(f"--config {args.config!r}: {error}") from error


def given_config(args: argparse.Namespace) -> Config | None:
    """The same; None without such an option: then the length of each input decides."""
    return learner_config(args) if given_learner_options(args) else None


def other_learner(args: argparse.Namespace) -> LearnerSpec | None:
    """The learner of --learner, or None. Raises ConfigError if it cannot be made."""
    if args.learner is None:
        refuse(args, ["--learner-arg"] if args.learner_arg else [], "without --learner nothing is made")
        return None
    refuse(args, given_learner_options(args), "--learner gives the complete learner")
    from prequential.learners.loading import load_spec, parse_arguments

    with foreign_code():
        return load_spec(args.learner, parse_arguments(args.learner_arg))


def given_learner_options(args: argparse.Namespace) -> list[str]:
    """Names of the options LEARNER that the command line contains."""
    level = ["-1..-6 or --config"] if args.preset or args.config else []
    return level + given_of(args, "pure", "seed")


def output_path(args: argparse.Namespace, name: str, default: str | None, nameless: str) -> str | None:
    """The path of the output of input `name`; None for standard output. Raises OutputError(nameless) without -o and a default."""
    if args.stdout or (args.output or name) == "-":
        return None
    if args.output is None and default is None:
        raise OutputError(nameless)
    return default if args.output is None else str(args.output)


def refuse(args: argparse.Namespace, given: Iterable[str], reason: str) -> None:
    """Ends the program with a usage error if any of these options is given."""
    if names := ", ".join(given):
        args.parser.error(f"{reason}: leave out {names}")


def given_of(args: argparse.Namespace, *names: str) -> list[str]:
    """Which of these options have another value than by default."""
    default = args.parser.get_default
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) != default(name)]
