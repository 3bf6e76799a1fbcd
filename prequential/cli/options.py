"""Options that several subcommands share, and what they stand for: a Config, a Runtime, a number of bytes.

Which presets exist is known to the learner's package, slow to import: a level is checked when the command runs.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from prequential.errors import ConfigError

if TYPE_CHECKING:
    from prequential.model.config import Config, ReplicaConfig
    from prequential.online.runtime import Runtime

EXIT_USAGE = 2
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Parser(argparse.ArgumentParser):
    """Errors of usage are one line, like all others."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(allow_abbrev=False, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"prequential: {message}; see {self.prog} --help\n")


def n_bytes(text: str) -> int:
    """A count of bytes, such as 65536, 64K, 10M or 4G; units are powers of 1024."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not (number.isascii() and number.isdigit()) or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 65536, 64K, 10M or 4G")
    return int(number) * _UNITS[unit]


def count(text: str) -> int:
    """A number, 1 or more."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """-q and -v."""
    parser.set_defaults(parser=parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no summary")
    parser.add_argument("-v", "--verbose", action="store_true", help="a summary of each file; tracebacks of failures")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where a result goes."""
    group = parser.add_argument_group("output")
    where = group.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="PATH", help="name of the output; - is standard output")
    where.add_argument("-c", "--stdout", action="store_true", help="write to standard output")
    group.add_argument("-f", "--force", action="store_true", help="overwrite an existing output; write to a terminal")
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on from PATH.partial and PATH.checkpoint, which an interrupted run left",
    )
    group.add_argument("-k", "--keep", action="store_true", help="keep the source: always so, accepted out of habit")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which learner."""
    group = parser.add_argument_group("learner (the archive stores all of it)")
    level = group.add_mutually_exclusive_group()
    for number in range(1, 10):
        level.add_argument(
            f"-{number}",
            dest="preset",
            action="store_const",
            const=number,
            help="preset: from the fastest to the smallest archive" if number == 1 else argparse.SUPPRESS,
        )
    level.add_argument("--fast", dest="preset", action="store_const", const="fast", help="the lowest preset there is")
    level.add_argument("--best", dest="preset", action="store_const", const="best", help="the highest preset there is")
    level.add_argument(
        "--config", metavar="FILE", help="a Config as JSON, as `list --json` shows it, instead of a preset"
    )
    group.add_argument("--pure", action="store_true", help="the GPT alone, without the context mixer")
    group.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed of the initial weights and of the rows drawn for replay (default: 0)",
    )

    group.add_argument(
        "--sync-every",
        type=count,
        metavar="K",
        help="for workers behind slow links: GPTs that learn apart and become their mean every K steps (docs/WORKERS.md)",
    )
    group.add_argument(
        "--replicas", type=count, metavar="N", help="how many GPTs (default: as many as torchrun started workers)"
    )


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """How to compute."""
    group = parser.add_argument_group("computation (changes the speed, never a byte of the result)")
    group.add_argument("--threads", type=int, metavar="N", help="threads (default: as many as there are cores)")
    group.add_argument(
        "--backend", choices=("int8", "float32", "float64"), help="matmul (default: the fastest exact one)"
    )
    group.add_argument("--kernels", choices=("fused", "plain"), help="kernels (default: fused)")
    group.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="cpu",
        help="where the GPT learns; auto: on a GPU that passes its tests, if there is one (default: %(default)s)",
    )
    group.add_argument(
        "--audit-every",
        type=int,
        default=0,
        metavar="N",
        help="compare what is computed and held with a second computation; recompute one of N segments in another way",
    )
    group.add_argument(
        "--max-memory", type=n_bytes, default=4 << 30, metavar="BYTES", help="refuse larger models (default: 4G)"
    )


def _usage_error(args: argparse.Namespace, error: ConfigError) -> NoReturn:
    parser: Parser = args.parser
    parser.error(str(error))


def runtime(args: argparse.Namespace) -> Runtime:
    """The Runtime of the options of `add_runtime`; a value out of range ends the program as an error of usage."""
    from prequential.online.runtime import Runtime
    from prequential.online.workers.team import launched

    try:
        if launched() and args.device == "auto":
            raise ConfigError("all processes that torchrun starts compute alike: say --device cuda, or leave it out")
        return Runtime(
            threads=args.threads,
            backend=args.backend,
            kernels=args.kernels,
            device=args.device,
            audit_every=args.audit_every,
        )
    except ConfigError as error:
        _usage_error(args, error)


def config(args: argparse.Namespace) -> Config:
    """The Config of the options of `add_model`; anything wrong with it ends the program as an error of usage."""
    from prequential.model.presets import DEFAULT_PRESET, PRESETS, preset

    levels = {None: DEFAULT_PRESET, "fast": min(PRESETS), "best": max(PRESETS)}
    try:
        if args.config is not None:
            if args.pure or args.seed is not None or args.sync_every or args.replicas:
                raise ConfigError(
                    "--config says all about the learner: leave out --pure, --seed, --sync-every and --replicas"
                )
            return _read_config(args.config)
        chosen = preset(levels.get(args.preset, args.preset), pure=args.pure, seed=args.seed or 0)
        if args.pure and (args.sync_every or args.replicas):
            raise ConfigError(
                "--pure reads contexts by a table that replicas cannot share: leave out --sync-every, or --pure"
            )
        return replace(chosen, replicas=_replicas(args)) if args.sync_every or args.replicas else chosen
    except ConfigError as error:
        _usage_error(args, error)


def _replicas(args: argparse.Namespace) -> ReplicaConfig:
    from prequential.model.config import ReplicaConfig

    if not args.sync_every:
        raise ConfigError("--replicas needs --sync-every: how many steps they learn apart")
    shared = getattr(args, "shared", None) == "steps" and "TORCHELASTIC_RUN_ID" in os.environ
    n_workers = int(os.environ["WORLD_SIZE"]) if shared else 1
    if not args.replicas and n_workers == 1:
        raise ConfigError("--sync-every needs --replicas, where torchrun did not start several workers of one run")
    return ReplicaConfig(n_replicas=args.replicas or n_workers, sync_every=args.sync_every)


def _read_config(path: str) -> Config:
    from prequential.model.config import Config

    try:
        return Config.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"cannot read {path!r}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path!r} is not JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path!r}: {error}") from error
