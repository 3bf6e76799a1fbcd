"""Sweeps: a grid of configurations over one corpus, run one after another, and what comes of it: bits against operations.

    a_plan = plan(preset(5, pure=True), replay=[1, 2, 4], widths=[64, 128], seeds=[0, 1])
    outcomes = list(sweep("book.txt", a_plan, "runs", evaluate=prequential.evaluate, program_version=prequential.__version__))
    summary = summarise(a_plan, outcomes)

Every run leaves a run folder (measure/evaluation/runs.py). A run that is there already, of the same configuration over the same bytes, is
not made again: a sweep that was interrupted goes on when it is started again.
"""

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.sources import open_corpus
from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.curves import Curve
from prequential.measure.evaluation.evaluation import Evaluation
from prequential.measure.evaluation.runs import PathLike, Run, new_run_folder, read_run, read_runs
from prequential.measure.evaluation.trace import MODEL
from prequential.measure.record import evaluation_record
from prequential.measure.study.plan_workers import Spread
from prequential.measure.watch.progress import Watch
from prequential.model.config import Config
from prequential.online.flops import flops_per_byte, replay_factor, total_flops
from prequential.online.limits import MAX_MEMORY_BYTES, check_memory
from prequential.online.runtime import Runtime

N_WINDOWS = 32  # of a learning curve, where two are compared at equal loss

T = TypeVar("T")
Watching = Callable[[str], AbstractContextManager[Watch]]  # from a run's name to its `on_progress`


# ---- the plan


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A point of the grid: configurations that differ in their seed alone."""

    name: str
    configs: tuple[Config, ...]


class Refusal(NamedTuple):
    """A point of the grid that is no configuration, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a sweep is going to run, in order, and what it is not."""

    settings: tuple[Setting, ...]
    refusals: tuple[Refusal, ...]
    max_memory_bytes: int  # no model of it takes more

    @property
    def runs(self) -> list[tuple[Setting, Config]]:
        """Every run, in order."""
        return [(setting, config) for setting in self.settings for config in setting.configs]

    @property
    def configs(self) -> list[Config]:
        """Of every run."""
        return [config for _, config in self.runs]

    def flops(self, n_bytes: int) -> float:
        """Operations of all runs over n_bytes."""
        return sum(len(setting.configs) * total_flops(setting.configs[0], n_bytes).total for setting in self.settings)


def plan(
    base: Config,
    *,
    replay: Sequence[float] | None = None,
    widths: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
    update_symbols: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    runtime: Runtime | None = None,
) -> Plan:
    """Every combination of the values; what is None stays as in `base`. Costs nothing but the grid.

    replay: positions learned from for each symbol read; it sets n_rows. update_symbols: symbols between two steps, the length of
    a segment. Heads keep the width they have in `base`, as far as it goes into the new one. Combinations out of range, or above
    max_memory_bytes, are refused by name. Raises ConfigError if `base` has no GPT or nothing is left.
    """
    if base.gpt is None:
        raise ConfigError("a sweep varies the GPT, and this configuration has none: choose another preset or --config")
    axes = (
        _distinct(replay, replay_factor(base)),
        _distinct(widths, base.gpt.width),
        _distinct(layers, base.gpt.n_layers),
        _distinct(update_symbols, base.schedule.segment_symbols),
    )
    settings, refusals = [], []
    for point in product(*axes):
        name = "replay {:g}, width {}, layers {}, update {}".format(*point)
        try:
            config = varied(base, *point)
            check_memory(config, max_memory_bytes, runtime or Runtime())
            configs = tuple(replace(config, seed=seed) for seed in _distinct(seeds, base.seed))
            settings.append(Setting(name=name, configs=configs))
        except ConfigError as error:
            refusals.append(Refusal(name, str(error)))
    if not settings:
        raise ConfigError(f"no combination is left; of {refusals[0].name}: {refusals[0].reason}")
    return Plan(settings=tuple(settings), refusals=tuple(refusals), max_memory_bytes=max_memory_bytes)


def varied(base: Config, replay: float, width: int, n_layers: int, update_symbols: int) -> Config:
    """`base` at another point of the grid, as `plan` says. Raises ConfigError."""
    assert base.gpt
    head_width = base.gpt.width // base.gpt.n_heads
    gpt = replace(base.gpt, width=width, n_layers=n_layers, n_heads=max(1, width // head_width))
    n_rows = replay * update_symbols / base.schedule.row_symbols
    if not (math.isfinite(n_rows) and abs(n_rows - round(n_rows)) < 1e-9):
        raise ConfigError(
            f"replay {replay:g} of {update_symbols} symbols makes no whole number of rows of "
            f"{base.schedule.row_symbols}"
        )
    schedule = replace(
        base.schedule,
        # a first segment above the full size never comes to be, and would be refused
        first_segment_symbols=min(base.schedule.first_segment_symbols, update_symbols),
        segment_symbols=update_symbols,
        n_rows=round(n_rows),
    )
    return replace(base, gpt=gpt, schedule=schedule)


def _distinct(values: Sequence[T] | None, default: T) -> list[T]:
    return [default] if values is None else list(dict.fromkeys(values))


# ---- the runs


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one run: a run folder, or the error it failed with. is_new: False for a run that was there before."""

    setting: Setting
    config: Config
    run: Run | None = None
    error: Exception | None = None
    is_new: bool = True

    @property
    def name(self) -> str:
        return run_title(self.setting, self.config)


class Subject(NamedTuple):
    """The bytes that a sweep is about: how many, and their BLAKE2b-256 in hexadecimal digits."""

    n_bytes: int
    blake2b: str


def subject(source: str | PathLike, limit_bytes: int | None = None) -> Subject:
    """Length and digest of the corpus or its beginning. Raises CorpusError, also for standard input, read but once."""
    if source == "-":
        raise CorpusError("a sweep reads its corpus again for each run: save standard input to a file first")
    with open_corpus(source) as corpus:
        symbols = corpus.bytes()[:limit_bytes]
        if not len(symbols):
            raise CorpusError("nothing to sweep over: the corpus is empty")
        return Subject(len(symbols), hashlib.blake2b(np.ascontiguousarray(symbols).data, digest_size=32).hexdigest())


def sweep(
    source: str | PathLike,
    plan: Plan,
    folder: PathLike,
    *,
    evaluate: Callable[..., Evaluation],
    program_version: str,
    limit_bytes: int | None = None,
    baselines: Sequence[str] = (),
    runtime: Runtime | None = None,
    watching: Watching | None = None,
    spread: Spread | None = None,
) -> Iterator[Outcome]:
    """Runs the plan over `source`, yielding each outcome as it is known; a run that fails keeps none of the others back.

    evaluate: `prequential.evaluate`. folder: where run folders are looked for and left. spread: of several processes that share
    the plan; each yields what it made or found, and the first, in the end, what the others made. Others as for `evaluate`.
    Raises CorpusError for a corpus or a run folder that cannot be read.
    """
    about, runtime = subject(source, limit_bytes), runtime or Runtime()
    finished = finished_runs(folder, about, program_version)

    def measured(name: str, config: Config) -> Run:
        with new_run_folder(folder) as new:
            with (watching or _unseen)(name) as show:
                evaluation = evaluate(
                    source,
                    config=config,
                    limit_bytes=limit_bytes,
                    baselines=baselines,
                    folder=new.draft,
                    runtime=runtime,
                    max_memory_bytes=plan.max_memory_bytes,
                    on_progress=show,
                )
            record = evaluation_record(evaluation, runtime, program_version, show.health.findings)
            if (got := record["corpus"]["blake2b"]) != about.blake2b:
                raise CorpusError(f"the corpus has changed during the sweep: its digest was {about.blake2b}, now {got}")
            return read_run(new.finish(Path(folder), record, evaluation.curves))

    elsewhere: dict[str, tuple[Setting, Config]] = {}
    for setting, config in plan.runs:
        key = config_key(config.to_dict())
        if old := finished.get(key):
            yield Outcome(setting=setting, config=config, run=old, is_new=False)
            continue
        if spread and not spread.claim(key):
            elsewhere[key] = setting, config
            continue
        try:
            outcome = Outcome(setting=setting, config=config, run=measured(run_title(setting, config), config))
        except Exception as error:  # reported by whoever runs the sweep
            outcome = Outcome(setting=setting, config=config, error=error)
            if spread:
                spread.fail(key, str(error) or type(error).__name__)
        yield outcome
    if spread:
        spread.leave()
    if spread and spread.first:
        failures = spread.failures(elsewhere)
        finished = finished_runs(folder, about, program_version)
        for key, (setting, config) in elsewhere.items():
            run = None if key in failures else finished.get(key)
            reason = failures.get(key, f"another worker's run is not in {folder}, which all workers must share")
            yield Outcome(setting=setting, config=config, run=run, error=None if run else CorpusError(reason))


def run_title(setting: Setting, config: Config) -> str:
    return f"{setting.name}, seed {config.seed}"


@contextmanager
def _unseen(name: str) -> Iterator[Watch]:
    yield Watch(name)


def finished_runs(folder: PathLike, about: Subject, program_version: str) -> dict[str, Run]:
    """The newest run of each configuration in `folder`, by `config_key`, over the same bytes by the same version of the program.

    Raises CorpusError.
    """
    return {
        config_key(run.record["config"]): run
        for run in read_runs(folder)
        if (run.record["corpus"]["n_bytes"], run.record["corpus"]["blake2b"]) == about
        and run.record["environment"]["versions"]["prequential"] == program_version
    }


def config_key(config: Mapping[str, Any]) -> str:
    """Equal for a Config's dict and what JSON has made of it."""
    return json.dumps(config, sort_keys=True)


# ---- what came of it


@dataclass(frozen=True, kw_only=True)
class Result:
    """A setting over its seeds. bits_per_byte: mean description length; spread: largest less smallest, None of a single seed.

    flops_per_byte: operations (online/flops.py). bytes_per_s: of all its runs. data_multiple: against the baseline; None with
    the reason. on_front: no other setting has fewer bits for as few operations.
    """

    name: str
    n_seeds: int
    bits_per_byte: float
    spread: float | None
    flops_per_byte: float
    bytes_per_s: float
    data_multiple: float | None = None
    reason: str = ""
    on_front: bool = False


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Every setting with a finished run, in the plan's order.

    n_configs, n_runs: of the plan, among which a best one is chosen. baseline: what data multiples are against.
    """

    results: tuple[Result, ...]
    baseline: str
    n_configs: int
    n_runs: int

    @property
    def best(self) -> Result:
        """The fewest bits per byte."""
        return min(self.results, key=lambda result: result.bits_per_byte)

    @property
    def choice_bits(self) -> float:
        """What it costs to say which configuration is the best."""
        return math.log2(self.n_configs)

    @property
    def run_choice_bits(self) -> float:
        """What it costs to say which run is, configuration and seed."""
        return math.log2(self.n_runs)


def summarise(plan: Plan, outcomes: Iterable[Outcome], baseline: Run | None = None) -> Summary:
    """Averages over seeds, the Pareto front, and data multiples against `baseline`, or the setting with fewest operations.

    Raises CorpusError if no run is finished, or if the baseline is of other bytes.
    """
    runs: dict[Setting, list[Run]] = {}
    for outcome in outcomes:
        if outcome.run:
            runs.setdefault(outcome.setting, []).append(outcome.run)
    if not runs:
        raise CorpusError("no run of the sweep is finished")
    settings = [setting for setting in plan.settings if setting in runs]
    results = [_average(setting, runs[setting]) for setting in settings]
    curves = [mean_curve([run.curves[MODEL] for run in runs[setting]]) for setting in settings]
    if baseline:
        corpus = runs[settings[0]][0].record["corpus"]
        check_baseline(baseline, Subject(corpus["n_bytes"], corpus["blake2b"]))
        name, against = baseline.name, baseline.curves[MODEL]
    else:
        cheapest = min(range(len(results)), key=lambda i: results[i].flops_per_byte)
        name, against = results[cheapest].name, curves[cheapest]
    front = pareto_front([(result.flops_per_byte, result.bits_per_byte) for result in results])
    compared = [compare_data(curve, against) for curve in curves]
    return Summary(
        results=tuple(
            replace(result, on_front=on_front, data_multiple=multiple, reason=reason)
            for result, on_front, (multiple, reason) in zip(results, front, compared, strict=True)
        ),
        baseline=name,
        n_configs=len(plan.settings),
        n_runs=len(plan.configs),
    )


def check_baseline(baseline: Run, about: Subject) -> None:
    """Raises CorpusError if the run is of other bytes: their windows would differ in more than the learner."""
    corpus = baseline.record["corpus"]
    if (corpus["n_bytes"], corpus["blake2b"]) != about:
        raise CorpusError(
            f"the baseline {str(baseline.path)!r} is of other bytes ({corpus['n_bytes']} of digest "
            f"{corpus['blake2b'][:16]}) than the sweep ({about.n_bytes} of {about.blake2b[:16]})"
        )


def _average(setting: Setting, runs: Sequence[Run]) -> Result:
    records = [run.record for run in runs]
    bits = [record["bits_per_byte"] for record in records]
    n_bytes = records[0]["corpus"]["n_bytes"]
    return Result(
        name=setting.name,
        n_seeds=len(runs),
        bits_per_byte=statistics.fmean(bits),
        spread=max(bits) - min(bits) if len(bits) > 1 else None,
        flops_per_byte=flops_per_byte(setting.configs[0], n_bytes).total,
        bytes_per_s=n_bytes * len(runs) / sum(record["wall_s"] for record in records),
    )


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each point whether it lies on the front: no other is at most as large in both numbers and smaller in one.

    Equal points are on it together. Cost n log n.
    """
    front = [False] * len(points)
    lowest = corner = math.inf  # the smallest second number so far, and the first number it came with
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        first, second = points[i]
        if second < lowest:
            lowest, corner = second, first
            front[i] = True
        else:
            front[i] = second == lowest and first == corner
    return front


# ---- the data-efficiency multiple


def data_multiple(curve: Curve, baseline: Curve) -> float | None:
    """How many bytes the baseline needs for the same loss, over those that `curve` needs; None if that cannot be said.

    Both: cumulative bits against bytes, over the same bytes. The loss is the lowest that both reach, so that above 1 `curve` is
    the more efficient, below 1 the baseline, and exchanged they give the inverse. `compare_data` says why there is none.
    """
    return compare_data(curve, baseline)[0]


def compare_data(curve: Curve, baseline: Curve) -> tuple[float | None, str]:
    """The data multiple, and, where there is none, the reason.

    A curve's loss after n bytes is that of its window there, the curve cut into N_WINDOWS, and made to fall (least squares): a
    stretch that is easy for every learner is not taken for learning. Between windows it is taken to be straight.
    """
    learned, other = _loss_windows(curve), _loss_windows(baseline)
    loss = max(float(learned.bits[-1]), float(other.bits[-1]))
    needed, baseline_needs = _first_reach(learned, loss), _first_reach(other, loss)
    if needed is None or baseline_needs is None:
        who, n_bytes = ("it", learned.n_bytes[0]) if needed is None else ("the baseline", other.n_bytes[0])
        return None, f"{who} reaches {loss:.4f} bits/byte, the lowest loss of both, within its first {n_bytes} bytes"
    return baseline_needs / needed, ""


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean of curves over the same bytes, at the positions of the first."""
    n_bytes = curves[0].n_bytes
    return Curve(n_bytes=n_bytes, bits=np.mean([curve.at(n_bytes) for curve in curves], axis=0))


def _loss_windows(curve: Curve) -> Curve:
    windows = curve.windows(N_WINDOWS)
    return Curve(n_bytes=windows.n_bytes, bits=falling(windows.bits))


def falling(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sequence (n,) that nowhere rises and lies nearest to `values` (n,) in squares: pool adjacent violators."""
    pools: list[tuple[float, int]] = []  # sum and length
    for value in values:
        total, n = float(value), 1
        while pools and pools[-1][0] * n <= total * pools[-1][1]:
            total, n = total + pools[-1][0], n + pools[-1][1]
            pools.pop()
        pools.append((total, n))
    return np.repeat([total / n for total, n in pools], [n for _, n in pools])


def _first_reach(windows: Curve, loss: float) -> float | None:
    """After how many bytes a falling curve of windows is at `loss`, which it reaches; None if in the first window already."""
    i = int(np.argmax(windows.bits <= loss))
    if i == 0:
        return None
    (x0, x1), (y0, y1) = windows.n_bytes[i - 1 : i + 1], windows.bits[i - 1 : i + 1]
    return float(x0 + (y0 - loss) / (y0 - y1) * (x1 - x0))
