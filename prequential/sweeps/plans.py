"""Plans: what to run over one corpus, what of it is finished, and the runs of the rest in run folders, here or by an executor."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from prequential_codecs.archive import summarise

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, PrequentialError, wrong_argument
from prequential.evaluation.evaluation import evaluate
from prequential.evaluation.runs import PathLike, Run, new_run_folder, read_run, runs_so_far
from prequential.files import reading
from prequential.files.claims import claimed
from prequential.machine.facts import MAX_DEFAULT_THREADS, PROGRAM_WITH_GPT_BYTES
from prequential.machine.jobs import Executor, results
from prequential.model.config import Config
from prequential.online.coding import OnProgress, ignore
from prequential.online.costs import memory_bytes, total_flops
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, check_outside, corpus_name, in_memory, open_source
from prequential.printable import format_table, printable
from prequential.records import WITHOUT_ARCHIVE
from prequential.version import VERSION

TRACE_BYTES = 14  # of a byte of the corpus: itself, and what the result holds about it


class CorpusKey(NamedTuple):
    """What bytes are recognised by; BLAKE2b-256 in hexadecimal digits."""

    n_bytes: int
    blake2b: str


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Configurations that differ only in their seed. Results are averaged over them."""

    name: str
    configs: tuple[Config, ...]

    def flops(self, n_bytes: int) -> float:
        """Operations of one run over n_bytes."""
        return total_flops(self.configs[0], n_bytes)

    def memory_bytes(self, n_bytes: int, runtime: Runtime) -> int:
        """What the process of a run over n_bytes may need, with the program and a trace: an estimate on the high side."""
        learner = memory_bytes(self.configs[0], n_threads=MAX_DEFAULT_THREADS) * (2 if runtime.audit_every else 1)
        return learner + PROGRAM_WITH_GPT_BYTES + TRACE_BYTES * n_bytes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The variants to run, in order, and why the other combinations of values are refused, by name."""

    variants: tuple[Variant, ...]
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> list[tuple[Variant, Config]]:
        return [(variant, config) for variant in self.variants for config in variant.configs]

    def part(self, k: int, n: int) -> "Plan":
        """The k-th of n parts, 1 to n, whose runs take about equal times: each n-th run."""
        chosen = self.runs[k - 1 :: n]
        parts = {variant: tuple(config for each, config in chosen if each is variant) for variant in self.variants}
        return replace(self, variants=tuple(replace(each, configs=parts[each]) for each in parts if parts[each]))

    @property
    def configs(self) -> list[Config]:
        return [config for _, config in self.runs]

    def flops(self, n_bytes: int) -> float:
        """Operations of all runs over n_bytes."""
        return sum(len(variant.configs) * variant.flops(n_bytes) for variant in self.variants)


def format_plan(plan: Plan, corpus: CorpusKey, n_finished: int, runtime: Runtime) -> str:
    """The plan before it runs, with a final newline."""
    rows = []
    for variant in plan.variants:
        seeds = ", ".join(str(config.seed) for config in variant.configs)
        flops = f"{variant.flops(corpus.n_bytes) / corpus.n_bytes:,.0f}"
        rows.append((variant.name, seeds, flops, f"{variant.memory_bytes(corpus.n_bytes, runtime) >> 20:,}"))
    n, k = len(plan.configs), len(plan.variants)
    head = (
        f"{n} run{'s' * (n != 1)} of {corpus.n_bytes:,} bytes: {k} configuration{'s' * (k != 1)}; "
        f"{n_finished} finished already; {plan.flops(corpus.n_bytes):.3g} FLOPs in all"
    )
    refused = (f"refused: {name}: {reason}" for name, reason in plan.refusals.items())
    return "\n".join([head, format_table(("", "seeds", "FLOPs/byte", "MiB"), rows), *refused, ""])


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
    if not isinstance(base, Config):
        raise wrong_argument("base", base, "a Config, such as prequential.preset(5)")
    given = {"replay": replay, "widths": widths, "layers": layers, "update_symbols": update_symbols, "seeds": seeds}
    for name, values in given.items():
        if not (values is None or (isinstance(values, Sequence) and set(map(type, values)) <= {int, float})):
            raise wrong_argument(name, values, "a list of numbers, or None")
    check_arguments(runtime=runtime)
    if base.gpt is None:
        raise ConfigError("a sweep varies the GPT, which this configuration lacks: choose -5 or -6")
    s = base.schedule
    axes = (
        [s.n_rows * s.row_symbols / s.segment_symbols] if replay is None else replay,
        [base.gpt.width] if widths is None else widths,
        [base.gpt.n_layers] if layers is None else layers,
        [s.segment_symbols] if update_symbols is None else update_symbols,
    )
    variants, refusals = list[Variant](), dict[str, str]()
    for point in dict.fromkeys(product(*axes)):
        name = "replay {:g}, width {}, layers {}, update {}".format(*point)
        try:
            config = varied(base, *point)
            (runtime or Runtime()).check(config)
            variants.append(Variant(name=name, configs=seeded(config, seeds)))
        except ConfigError as error:
            refusals[name] = str(error)
    if not variants:
        first = "".join([f"; {name}: {reason}" for name, reason in refusals.items()][:1])
        raise ConfigError(f"no combination is left{first}")
    return Plan(variants=tuple(variants), refusals=refusals)


def seeded(config: Config, seeds: Sequence[int] | None) -> tuple[Config, ...]:
    return tuple(replace(config, seed=seed) for seed in dict.fromkeys(seeds or [config.seed]))


def varied(base: Config, replay: float, width: int, n_layers: int, update_symbols: int) -> Config:
    """`base` at another point of the grid of `sweep_plan`. Raises ConfigError."""
    assert base.gpt
    head_width = base.gpt.width // base.gpt.n_heads
    gpt = replace(base.gpt, width=width, n_layers=n_layers, n_heads=max(1, width // head_width))
    n_rows = replay * update_symbols / base.schedule.row_symbols
    if not (math.isfinite(n_rows) and abs(n_rows - round(n_rows)) < 1e-9):
        rows = f"an integer number of rows of {base.schedule.row_symbols} symbols"
        raise ConfigError(f"replay {replay:g} of {update_symbols} symbols does not fill {rows}")
    schedule = replace(
        base.schedule,
        # a first segment longer than the others would be refused
        first_segment_symbols=min(base.schedule.first_segment_symbols, update_symbols),
        segment_symbols=update_symbols,
        n_rows=round(n_rows),
    )
    return replace(base, gpt=gpt, schedule=schedule)


# ---- finished runs


def corpus_key(source: CorpusLike, limit_bytes: int | None = None) -> CorpusKey:
    """The key of the corpus, or of its beginning. Raises CorpusError for an empty corpus, and for standard input."""
    if isinstance(source, str) and source == "-":
        raise CorpusError("each run of a plan reads the corpus again: save standard input to a file first")
    opened = open_source(source, limit_bytes)
    opened.check_not_empty("run")
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
    configs: Sequence[Config],
    on_bad: Callable[[CorpusError], object] = lambda error: None,
) -> dict[str, Run]:
    """The newest run in `folder` of each of these configurations, by `config_key`, over these bytes and by this version.

    on_bad: called with the error of each run that cannot be read, which is left out. Raises CorpusError for a run that has lost
    its archive (`check_archive`).
    """
    wanted = {config_key(config.to_dict()) for config in configs}
    finished = {
        key: run
        for run in runs_so_far(folder, on_bad)
        if recorded_corpus(run.record) == corpus
        and run.record.get("environment", {}).get("versions", {}).get("prequential") == VERSION
        and (key := config_key(run.record["config"])) in wanted
    }
    for run in finished.values():
        check_archive(run)
    return finished


def check_archive(run: Run) -> None:
    """Raises CorpusError, which names the run, unless its archive is of the bytes and the size that its record says.

    Packed runs, and code lengths without an archive, have none.
    """
    if run.packed_curves is not None or run.record.get("coding") in WITHOUT_ARCHIVE:
        return
    fault, described = "", (run.record["corpus"]["blake2b"], run.record.get("archive_bytes"))
    try:
        with reading(run.archive):
            archive = summarise(run.archive)
        if (archive.header.blake2b.hex(), archive.archive_bytes) != described:
            fault = "has another archive than its record describes"
    except PrequentialError as error:
        fault = f"lacks its archive, the proof of its figures: {error}"
    if fault:
        raise CorpusError(f"the run {str(run.path)!r} {fault}: move it away, or choose another folder")


# ---- the runs


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """One planned run, and its result: a run folder or an error. is_new: False for one that was finished before the plan."""

    variant: Variant
    config: Config
    run: Run | None = None
    error: Exception | None = None
    is_new: bool = True

    @property
    def name(self) -> str:
        return f"{self.variant.name}, seed {self.config.seed}"

    def to_text(self) -> str:
        """One line about a finished run."""
        assert self.run
        record = self.run.record
        figures = f"archive {record['bits_per_byte']:.4f} bits/byte, {record['bytes_per_s'] / 1e3:,.2f} kB/s"
        return f"{self.name}: {figures}, {'' if self.is_new else 'finished already, '}{printable(str(self.run.path))}"

    def to_record(self) -> dict[str, Any]:
        return {
            "name": self.variant.name,
            "seed": self.config.seed,
            "is_new": self.is_new,
            "path": str(self.run.path) if self.run else None,
            "bits_per_byte": self.run.record["bits_per_byte"] if self.run else None,
            "error": str(self.error) if self.error else None,
        }


def make_run(
    source: CorpusLike,
    corpus: CorpusKey,
    config: Config,
    folder: PathLike,
    limit_bytes: int | None,
    runtime: Runtime | None,
    open_progress: Callable[[], AbstractContextManager[OnProgress]] = lambda: nullcontext(ignore),
) -> str:
    """Makes a run folder of `config` over `source`, unless there is one, and returns its path.

    It is what an executor calls; so it takes and returns little. Raises CorpusError if the bytes are not those of `corpus`,
    ClaimedError, and what `evaluate` raises.
    """
    with new_run_folder(folder):
        pass  # before the work: it can be written
    with claimed(_claim(folder, corpus, config)):
        for run in finished_runs(folder, corpus, [config]).values():  # by another process, since the plan began
            return str(run.path)
        chosen: dict[str, Any] = {"config": config, "limit": limit_bytes, "baselines": (), "runtime": runtime}
        with open_progress() as progress:
            evaluation = evaluate(source, **chosen, on_progress=progress)
        if recorded_corpus(evaluation.record) != corpus:
            raise CorpusError("the corpus changed during the runs: its digest is another one now")
        return str(evaluation.save(folder).path)


def _claim(folder: PathLike, corpus: CorpusKey, config: Config) -> Path:
    digest = blake2b(config_key(config.to_dict()).encode(), digest_size=8).hexdigest()
    return Path(folder) / f".claim-{corpus.blake2b[:16]}-{digest}"


def run_plan(
    source: CorpusLike,
    plan: Plan,
    folder: PathLike,
    *,
    limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    executor: Executor | None = None,
    open_progress: Callable[[str], AbstractContextManager[OnProgress]] = lambda name: nullcontext(ignore),
) -> Iterator[RunOutcome]:
    """Runs the plan over `source` and yields each outcome as soon as it is known. A failed run does not stop the others.

    folder: where finished runs are looked for and new run folders are written. executor: what calls `make_run` for each run, in
    the order of the plan; `source` is then a name. None: this thread, where open_progress opens the `on_progress` of a run, by
    its name. Runs that other processes have claimed come last. The other arguments are those of `evaluate`. Raises CorpusError
    if the corpus cannot be read, and for a finished run that is not to be trusted.
    """
    check_outside(folder, source)
    source = in_memory(source) if executor is None else corpus_name(source)
    corpus = corpus_key(source, limit_bytes)
    finished, planned = finished_runs(folder, corpus, plan.configs), list[RunOutcome]()
    for variant, config in plan.runs:
        run = finished.get(config_key(config.to_dict()))
        planned.append(RunOutcome(variant=variant, config=config, run=run, is_new=not run))
    yield from (each for each in planned if each.run)
    new, where = [each for each in planned if not each.run], Path(folder).absolute()
    tasks = [(source, corpus, each.config, where, limit_bytes, runtime) for each in new]
    for i, made in results(make_run, tasks, executor, lambda i: open_progress(new[i].name)):
        if isinstance(made, Exception):
            yield replace(new[i], error=made)
            continue
        try:
            yield replace(new[i], run=read_run(Path(folder) / Path(made).name))
        except PrequentialError as error:  # of a network: the folder of another machine is not seen here
            yield replace(new[i], error=error)
