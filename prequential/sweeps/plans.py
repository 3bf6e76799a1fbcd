"""Plans: what to run over one corpus. sweeps and ladders."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from prequential_codecs.archive import summarise

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, PrequentialError, wrong_argument
from prequential.evaluation.runs import ARCHIVE, CURVE, RECORD, PathLike, Run, runs_so_far
from prequential.files import is_foreign, reading
from prequential.learners.loading import load_spec
from prequential.learners.spec import LearnerSpec
from prequential.model.config import Config
from prequential.online.costs import replay_factor, total_flops
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, open_source
from prequential.printable import format_table
from prequential.records import WITHOUT_ARCHIVE
from prequential.version import VERSION

Candidate = Config | LearnerSpec  # what a run measures: a learner of this program, or one of the user's own


class CorpusKey(NamedTuple):
    """What bytes are recognised by; BLAKE2b-256 in hexadecimal digits."""

    n_bytes: int
    blake2b: str


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Candidates that differ only in their seed. Results are averaged over them."""

    name: str
    configs: tuple[Candidate, ...]

    @property
    def own(self) -> Config | None:
        """The configuration with the first seed; None for a learner of the user's own, whose operations are not known."""
        first = self.configs[0]
        return first if isinstance(first, Config) else None

    def flops(self, n_bytes: int) -> float | None:
        """Operations of one run over n_bytes, if they are known."""
        return total_flops(self.own, n_bytes) if self.own else None

    def flops_per_byte(self, n_bytes: int) -> float | None:
        return None if (flops := self.flops(n_bytes)) is None else flops / n_bytes


class Refusal(NamedTuple):
    """A combination of values that is not a valid configuration, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The variants to run, in order, and the refused combinations. keys: the `config_key` of every run."""

    variants: tuple[Variant, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def runs(self) -> list[tuple[Variant, Candidate]]:
        return [(variant, config) for variant in self.variants for config in variant.configs]

    @property
    def configs(self) -> list[Candidate]:
        return [config for _, config in self.runs]

    @property
    def keys(self) -> set[str]:
        return {config_key(config.to_dict()) for config in self.configs}

    def flops(self, n_bytes: int) -> float | None:
        """Operations of all runs over n_bytes, if they are known."""
        known = [len(v.configs) * flops for v in self.variants if (flops := v.flops(n_bytes)) is not None]
        return sum(known) if len(known) == len(self.variants) else None


def plan_of(parts: Iterable[tuple[str, Callable[[], Iterable[Variant]]]]) -> Plan:
    """The variants of every part. Parts that raise ConfigError are refused by name. Raises ConfigError if none is left."""
    variants: list[Variant] = []
    refusals = []
    for name, make in parts:
        try:
            variants += make()
        except ConfigError as error:
            refusals.append(Refusal(name, str(error)))
    if not variants:
        first = [f"; {each.name}: {each.reason}" for each in refusals[:1]]
        raise ConfigError("".join(["no combination is left", *first]))
    return Plan(variants=tuple(variants), refusals=tuple(refusals))


def format_plan(plan: Plan, corpus: CorpusKey, n_finished: int, notes: str) -> str:
    """The plan before it runs, with a final newline."""
    total = plan.flops(corpus.n_bytes)
    rows = []
    for variant in plan.variants:
        seeds = ", ".join(str(config.seed) for config in variant.configs if config.seed is not None)
        rows.append((variant.name, seeds or "-", format_flops(variant.flops_per_byte(corpus.n_bytes))))
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {corpus.n_bytes:,} bytes: {len(plan.variants)} configurations; "
            f"{n_finished} finished already" + ("" if total is None else f"; {total:.3g} FLOPs in all"),
            format_table(("", "seeds", "FLOPs/byte"), rows),
            *(f"refused: {refusal.name}: {refusal.reason}" for refusal in plan.refusals),
            *([notes] if notes else []),
            "",
        ]
    )


def format_flops(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def plan_record(plan: Plan, corpus: CorpusKey) -> dict[str, Any]:
    return {
        "corpus": corpus._asdict(),
        "plan": [
            {"name": variant.name, "configs": [config.to_dict() for config in variant.configs]}
            for variant in plan.variants
        ],
        "refused": [refusal._asdict() for refusal in plan.refusals],
        "flops": plan.flops(corpus.n_bytes),
    }


# ---- the plans of sweeps


def sweep_plan(
    base: Config,
    *,
    replay: Sequence[float] | None = None,
    widths: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
    update_symbols: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
    runtime: Runtime | None = None,
) -> Plan:
    """The plan of every combination of the values. None keeps the value of `base`.

    replay: positions learned from for each symbol read; it sets n_rows. update_symbols: symbols between two optimiser steps.
    Heads keep their width where it fits. Combinations that are out of range, or exceed the limits of the runtime, are refused by
    name. Raises ConfigError if `base` has no GPT or no combination is left.

    Examples:
        >>> import prequential
        >>> plan = prequential.sweep_plan(prequential.preset(5, pure=True), replay=(1, 2), widths=(64,))
        >>> [variant.name for variant in plan.variants]
        ['replay 1, width 64, layers 2, update 512', 'replay 2, width 64, layers 2, update 512']
    """
    _check_axes(base, replay=replay, widths=widths, layers=layers, update_symbols=update_symbols, seeds=seeds)
    check_arguments(runtime=runtime)
    if base.gpt is None:
        raise ConfigError("a sweep varies the GPT, which this configuration lacks: choose -5 or -6")
    axes = (
        [replay_factor(base)] if replay is None else replay,
        [base.gpt.width] if widths is None else widths,
        [base.gpt.n_layers] if layers is None else layers,
        [base.schedule.segment_symbols] if update_symbols is None else update_symbols,
    )

    def variants(name: str, point: tuple[float, int, int, int]) -> list[Variant]:
        config = varied(base, *point)
        (runtime or Runtime()).check(config)
        return [Variant(name=name, configs=seeded(config, seeds))]

    points = {"replay {:g}, width {}, layers {}, update {}".format(*point): point for point in product(*axes)}
    return plan_of((name, partial(variants, name, point)) for name, point in points.items())


def seeded(config: Config, seeds: Sequence[int] | None) -> tuple[Config, ...]:
    return tuple(replace(config, seed=seed) for seed in dict.fromkeys(seeds or [config.seed]))


def _check_axes(base: Any, **axes: Any) -> None:
    """Raises ConfigError unless the base is a Config, and each axis is None or a list of integers, or, of `replay`, numbers."""
    if not isinstance(base, Config):
        raise wrong_argument("base", base, "a Config, such as prequential.preset(5)")
    for name, values in axes.items():
        kinds, give = (int | float, "numbers") if name == "replay" else (int, "integers")
        is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes)
        if values is not None and not (
            is_list and all(isinstance(each, kinds) and not isinstance(each, bool) for each in values)
        ):
            raise wrong_argument(name, values, f"a list of {give}, or None")


def learner_plan(name: str, grid: Mapping[str, Sequence[Any]], seeds: Sequence[int] | None = None) -> Plan:
    """The plan of every combination of arguments of a learner of the user's own, by name as `load_spec` takes it.

    seeds: values of its argument `seed`. Combinations that the factory refuses are refused by name. Raises ConfigError if none
    is left.
    """
    varied_names = [key for key, values in grid.items() if len(values) > 1]

    def variants(title: str, arguments: Mapping[str, Any]) -> list[Variant]:
        of_each = [{**arguments, "seed": seed} for seed in dict.fromkeys(seeds)] if seeds else [arguments]
        return [Variant(name=title, configs=tuple(load_spec(name, each) for each in of_each))]

    parts = []
    for point in product(*grid.values()):
        arguments = dict(zip(grid, point, strict=True))
        title = ", ".join(f"{key}={arguments[key]}" for key in varied_names) or name
        parts.append((title, partial(variants, title, arguments)))
    return plan_of(parts)


def varied(base: Config, replay: float, width: int, n_layers: int, update_symbols: int) -> Config:
    """`base` at another point of the grid of `sweep_plan`. Raises ConfigError."""
    assert base.gpt
    head_width = base.gpt.width // base.gpt.n_heads
    gpt = replace(base.gpt, width=width, n_layers=n_layers, n_heads=max(1, width // head_width))
    n_rows = replay * update_symbols / base.schedule.row_symbols
    if not (math.isfinite(n_rows) and abs(n_rows - round(n_rows)) < 1e-9):
        raise ConfigError(
            f"replay {replay:g} of {update_symbols} symbols does not fill an integer number of rows of "
            f"{base.schedule.row_symbols} symbols"
        )
    schedule = replace(
        base.schedule,
        # a first segment longer than the others would be refused
        first_segment_symbols=min(base.schedule.first_segment_symbols, update_symbols),
        segment_symbols=update_symbols,
        n_rows=round(n_rows),
    )
    return replace(base, gpt=gpt, schedule=schedule)


# ---- finished runs


REMEDY = "move it away, or choose another folder"


def corpus_key(source: CorpusLike, limit_bytes: int | None = None) -> CorpusKey:
    """The key of the corpus, or of its beginning. Raises CorpusError for an empty corpus, and for standard input."""
    if isinstance(source, str) and source == "-":
        raise CorpusError("each run of a plan reads the corpus again: save standard input to a file first")
    with open_source(source, limit_bytes, in_order=True) as opened:
        if not opened.n_bytes:
            raise CorpusError("the corpus is empty: there is nothing to run")
        return CorpusKey(opened.n_bytes, opened.blake2b.hex())


def recorded_corpus(record: Mapping[str, Any]) -> CorpusKey:
    """The key of the bytes that a record names, of a run or of a forecast."""
    return CorpusKey(record["corpus"]["n_bytes"], record["corpus"]["blake2b"])


def config_key(config: Mapping[str, Any]) -> str:
    """A string that is equal for equal configurations, from `Config.to_dict` or read from JSON."""
    return json.dumps(config, sort_keys=True)


def finished_runs(
    folder: PathLike,
    corpus: CorpusKey,
    keys: Iterable[str],
    *,
    on_bad: Callable[[CorpusError], object] = lambda error: None,
) -> dict[str, Run]:
    """The newest run in `folder` of each configuration, by `config_key`, over these bytes and by this version of the program.

    on_bad: called with the error of each run that cannot be read, which is left out. Raises CorpusError for a found run that is
    not this user's or has lost its archive (`check_own_run`).
    """
    wanted = set(keys)
    found = {
        key: run
        for run in runs_so_far(folder, on_bad)
        if recorded_corpus(run.record) == corpus
        and run.record.get("environment", {}).get("versions", {}).get("prequential") == VERSION
        and (key := config_key(run.record["config"])) in wanted
    }
    for run in found.values():
        check_own_run(run)
    return found


# ---- trust


def check_own_run(run: Run) -> None:
    """Raises CorpusError, which names the run, unless this user made it and its archive is the one that its record describes.

    For a packed run, and for a code length without an archive, only the owner is checked.
    """
    is_packed = run.packed_curves is not None
    paths = [run.path.parent] if is_packed else [run.path, *(run.path / name for name in (RECORD, CURVE, ARCHIVE))]
    if any(_belongs_to_another(path) for path in paths):
        raise CorpusError(f"the run {str(run.path)!r} belongs to another user, who chose its figures: {REMEDY}")
    if is_packed or run.record.get("coding") in WITHOUT_ARCHIVE:
        return
    try:
        with reading(run.archive):
            is_described = _described_archive(run) == _found_archive(run)
    except PrequentialError as error:
        reason = f"lacks its archive, the proof of its figures: {error}"
        raise CorpusError(f"the run {str(run.path)!r} {reason}: {REMEDY}") from error
    if not is_described:
        raise CorpusError(f"the run {str(run.path)!r} has another archive than its record describes: {REMEDY}")


def _belongs_to_another(path: Path) -> bool:
    return os.path.lexists(path) and is_foreign(path.lstat())


def _described_archive(run: Run) -> tuple[object, ...]:
    """What the record says about the archive: the entries of its header, and its sizes."""
    record, names = run.record, ("archive_bytes", "header_bytes", "payload_bytes", "n_blocks")
    return dict(record["corpus"]), dict(record["config"]), *(record.get(name) for name in names)


def _found_archive(run: Run) -> tuple[object, ...]:
    """The same of the archive itself. Raises CorruptArchiveError, OSError."""
    found = summarise(run.archive)
    header = found.header
    corpus = {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()}
    return corpus, header.config, found.archive_bytes, found.header_bytes, found.payload_bytes, len(found.blocks)
