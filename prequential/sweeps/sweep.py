"""Sweeps: a grid of configurations over one corpus, and its results: bits against operations.

plan = sweep_plan(preset(5, pure=True), replay=[1, 2, 4], widths=[64, 128], seeds=[0, 1])
summary = sweep("book.txt", plan, "runs")
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation.curves import MODEL, mean_curve
from prequential.evaluation.frames import result_frame
from prequential.evaluation.runs import PathLike, Run
from prequential.learners.loading import load_subject
from prequential.machine.process import process_kept
from prequential.model.config import Config
from prequential.online.flops import replay_factor
from prequential.online.runtime import Runtime
from prequential.records.table import format_table
from prequential.sweeps.data_multiple import data_multiple
from prequential.sweeps.plan_runs import RunOutcome, Study, run_plan, runs_by_variant
from prequential.sweeps.plans import Plan, Variant, format_flops, plan_of

if TYPE_CHECKING:
    import pandas

# ---- the plan


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

    replay: positions learned from for each symbol read; it sets n_rows. update_symbols: symbols between two optimiser steps, the
    length of a segment. Heads keep the width that they have in `base` where it fits. Combinations that are out of range, or
    exceed the limits of the runtime, are refused by name. Raises ConfigError if `base` has no GPT or no combination is left.

    Examples:
        >>> import prequential
        >>> plan = prequential.sweep_plan(prequential.preset(5, pure=True), replay=(1, 2), widths=(64,))
        >>> [variant.name for variant in plan.variants]
        ['replay 1, width 64, layers 2, update 512', 'replay 2, width 64, layers 2, update 512']
    """
    _check_axes(base, replay=(replay, float), widths=(widths, int), layers=(layers, int), seeds=(seeds, int))
    _check_axes(base, update_symbols=(update_symbols, int))
    check_arguments(runtime=runtime)
    if base.gpt is None:
        raise ConfigError("a sweep varies the GPT, which this configuration lacks: choose a preset from 5 to 9")
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
    """The configuration with each seed; without seeds, with its own."""
    return tuple(replace(config, seed=seed) for seed in dict.fromkeys(seeds or [config.seed]))


def _check_axes(base: Any, **axes: tuple[Any, type]) -> None:
    """Raises ConfigError unless the base is a Config, and the values of each axis are a list of numbers of its kind."""
    if not isinstance(base, Config):
        raise wrong_argument("base", base, "a Config, such as prequential.preset(5)")
    for name, (values, kind) in axes.items():
        if values is None:
            continue
        is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes)
        kinds = int | float if kind is float else int
        if not is_list or not all(isinstance(each, kinds) and not isinstance(each, bool) for each in values):
            raise wrong_argument(name, values, f"a list of {'numbers' if kind is float else 'integers'}, or None")


def learner_plan(name: str, grid: Mapping[str, Sequence[Any]], seeds: Sequence[int] | None = None) -> Plan:
    """The plan of every combination of arguments of a learner of the user's own, by name as `load_subject` takes it.

    seeds: values of its argument `seed`; results are averaged over them. Combinations that the factory refuses are refused by
    name. Raises ConfigError if none is left.
    """
    varied_names = [key for key, values in grid.items() if len(values) > 1]

    def variants(title: str, arguments: Mapping[str, Any]) -> list[Variant]:
        of_each = [{**arguments, "seed": seed} for seed in dict.fromkeys(seeds)] if seeds else [arguments]
        return [Variant(name=title, configs=tuple(load_subject(name, each) for each in of_each))]

    parts = []
    for point in product(*grid.values()):
        arguments = dict(zip(grid, point, strict=True))
        title = ", ".join(f"{key} {arguments[key]}" for key in varied_names) or name
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


# ---- the results


@dataclass(frozen=True, kw_only=True)
class Result:
    """A variant over its seeds.

    bits_per_byte: mean description length. spread: the largest minus the smallest; None for a single seed. flops_per_byte: as in
    online/flops.py; None for a learner of the user's own. bytes_per_s: of all its runs. data_multiple: against the variant of
    the lowest cost, or None with the reason. on_front: no other variant has fewer bits for at most the same cost, or a lower
    cost for at most as many bits. The cost is operations, or, where they are not known, time.
    """

    name: str
    n_seeds: int
    bits_per_byte: float
    spread: float | None
    flops_per_byte: float | None
    bytes_per_s: float
    data_multiple: float | None = None
    reason: str = ""
    on_front: bool = False

    @property
    def cost(self) -> float:
        """Operations, or else seconds, for each byte."""
        return 1 / self.bytes_per_s if self.flops_per_byte is None else self.flops_per_byte

    @property
    def cells(self) -> list[str]:
        """The row of a table."""
        return [
            self.name,
            str(self.n_seeds),
            f"{self.bits_per_byte:.4f}",
            "-" if self.spread is None else f"{self.spread:.4f}",
            format_flops(self.flops_per_byte),
            f"{self.bytes_per_s / 1e3:,.2f}",
            "-" if self.data_multiple is None else f"{self.data_multiple:.3f}",
            "*" if self.on_front else "",
        ]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of every variant with a finished run, in the order of the plan. n_configs, n_runs: of the plan."""

    results: tuple[Result, ...]
    n_configs: int
    n_runs: int

    @property
    def best(self) -> Result:
        """The result with the fewest bits per byte."""
        return min(self.results, key=lambda result: result.bits_per_byte)

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each result, the cheapest in operations first. Raises MissingDependencyError without pandas."""
        return result_frame([asdict(result) for result in sorted(self.results, key=lambda result: result.cost)])

    @property
    def choice_bits(self) -> float:
        """The bits that it costs to state which configuration is the best."""
        return math.log2(self.n_configs)

    @property
    def run_choice_bits(self) -> float:
        """The bits that it costs to state which run is the best: configuration and seed."""
        return math.log2(self.n_runs)

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self) | {"choice_bits": self.choice_bits, "run_choice_bits": self.run_choice_bits}

    def to_text(self) -> str:
        """The table of configurations, and the cost of a choice among them."""
        best, cheapest = self.best, min(self.results, key=lambda result: result.cost)
        titles = ("", "seeds", "bits/byte", "spread", "FLOPs/byte", "kB/s", "data multiple", "front")
        cheap = "little time" if best.flops_per_byte is None else "few operations"
        return "\n".join(
            [
                format_table(titles, [result.cells for result in self.results]),
                "",
                f"best: {best.name}, {best.bits_per_byte:.4f} bits/byte",
                f"the choice among {self.n_configs} configurations costs {self.choice_bits:.2f} bits, of a single run among "
                f"{self.n_runs} {self.run_choice_bits:.2f} bits",
                f"front: no other configuration has fewer bits for as {cheap}; spread: largest minus smallest over seeds",
                f"data multiple: bytes that {cheapest.name} needs for the same loss, divided by the bytes needed here",
                *(f"data multiple of {r.name}: none, {r.reason}" for r in self.results if r.reason),
            ]
        )


def sweep_study(plan: Plan) -> Study:
    """The study of a grid."""
    return Study(kind="sweep", plan=plan, summarise=partial(summarise, plan))


def summarise(plan: Plan, outcomes: Iterable[RunOutcome]) -> Summary:
    """Means over seeds, the Pareto front, and data multiples. Raises CorpusError if no run is finished."""
    runs = runs_by_variant(outcomes)
    results = [_result(variant, runs[variant]) for variant in plan.variants if variant in runs]
    curves = [mean_curve([run.curves[MODEL] for run in runs[v]]) for v in plan.variants if v in runs]
    cheapest = min(range(len(results)), key=lambda i: results[i].cost)
    front = pareto_front([(result.cost, result.bits_per_byte) for result in results])
    multiples = [data_multiple(each, curves[cheapest]) for each in curves]
    return Summary(
        results=tuple(
            replace(result, on_front=on_front, data_multiple=multiple, reason=reason)
            for result, on_front, (multiple, reason) in zip(results, front, multiples, strict=True)
        ),
        n_configs=len(plan.variants),
        n_runs=len(plan.configs),
    )


def _result(variant: Variant, runs: Sequence[Run]) -> Result:
    """The means over the runs of a variant, which are not compared with others yet."""
    records = [run.record for run in runs]
    bits_per_byte = [record["bits_per_byte"] for record in records]
    n_bytes = records[0]["corpus"]["n_bytes"]
    flops = variant.flops(n_bytes)
    return Result(
        name=variant.name,
        n_seeds=len(runs),
        bits_per_byte=statistics.fmean(bits_per_byte),
        spread=max(bits_per_byte) - min(bits_per_byte) if len(runs) > 1 else None,
        flops_per_byte=None if flops is None else flops / n_bytes,
        bytes_per_s=n_bytes * len(runs) / sum(record["wall_s"] for record in records),
    )


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each point whether it is on the front: no other point is at most as large in both numbers and smaller in one.

    Equal points are on the front together. The cost is O(n log n).
    """
    front = [False] * len(points)
    lowest = corner = math.inf  # the smallest second number so far, and the first number of its point
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        first, second = points[i]
        if second < lowest:
            lowest, corner = second, first
            front[i] = True
        else:
            front[i] = second == lowest and first == corner
    return front


@process_kept()
def sweep(
    source: str | Path,
    plan: Plan,
    folder: PathLike,
    *,
    limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    trust_runs: bool = False,
    on_outcome: Callable[[RunOutcome], object] = lambda outcome: None,
) -> Summary:
    """Evaluates every configuration of the plan that `folder` holds no run of yet, and summarises the results over seeds.

    on_outcome: called with each run, or with the error that it failed with. trust_runs: also use finished runs of other users,
    and those without their archives. Raises CorpusError if no run succeeds, and for a finished run that is not to be trusted.

    Examples:
        >>> import tempfile, prequential
        >>> from prequential.sweeps.sweep import sweep_plan
        >>> gpt = prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16)
        >>> plain = prequential.Runtime(kernels="plain")
        >>> plan = sweep_plan(prequential.Config(gpt=gpt, mixer=None), widths=[16, 32])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     summary = prequential.sweep("sample:christmas_carol", plan, folder, limit_bytes=500, runtime=plain)
        >>> [result.n_seeds for result in summary.results]
        [1, 1]
    """
    check_arguments(source=source, folder=folder, limit_bytes=limit_bytes, runtime=runtime, on_outcome=on_outcome)
    if not isinstance(plan, Plan):
        raise wrong_argument("plan", plan, "a Plan of prequential.sweep_plan")
    outcomes = []
    for outcome in run_plan(source, plan, folder, limit_bytes=limit_bytes, runtime=runtime, trust_runs=trust_runs):
        on_outcome(outcome)
        outcomes.append(outcome)
    if outcomes and not any(outcome.run for outcome in outcomes):
        raise CorpusError(f"no run of the sweep succeeded; the first error: {outcomes[0].error}")
    return summarise(plan, outcomes)
