"""Sweeps: a grid of configurations over one corpus, and its results: bits against operations."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prequential.arguments import byte_count, check_arguments
from prequential.comparison.compare import compare_runs
from prequential.comparison.data_multiple import LEVEL, DataMultiple, data_multiple
from prequential.comparison.differences import sentence
from prequential.errors import CorpusError, wrong_argument
from prequential.evaluation.curves import MODEL, data_frame, mean_curve
from prequential.evaluation.runs import PathLike, Run
from prequential.evaluation.summary import without_common_arguments
from prequential.machine.jobs import Executor
from prequential.machine.process import process_kept
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike
from prequential.printable import format_table
from prequential.sweeps.plans import Plan, RunOutcome, Variant, run_plan

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True)
class Result:
    """A variant over its seeds.

    bits_per_byte: mean description length. spread: the largest minus the smallest; None for a single seed. flops_per_byte: as in
    online/costs.py. bytes_per_s: of all its runs. data_multiple: against the variant with the fewest operations; None for that
    one. on_front: no other variant has fewer bits for at most the same operations, or fewer operations for at most as many bits.
    """

    name: str
    n_seeds: int
    bits_per_byte: float
    spread: float | None
    flops_per_byte: float
    bytes_per_s: float
    data_multiple: DataMultiple | None = None
    on_front: bool = False


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of every variant with a finished run, in the order of the plan. verdict: on the two best of them."""

    results: tuple[Result, ...]
    verdict: str = ""

    def to_frame(self) -> pandas.DataFrame:
        """A row for each result, the cheapest in operations first; the interval of the data multiple has columns of its own."""
        ends = {"data_multiple": "point", "low": "low", "high": "high"}  # columns, and fields of a data multiple
        rows = [
            vars(each) | {name: each.data_multiple and getattr(each.data_multiple, end) for name, end in ends.items()}
            for each in sorted(self.results, key=lambda result: result.flops_per_byte)
        ]
        return data_frame(rows)

    def to_text(self) -> str:
        """The table of configurations, and the best of them."""
        least = min(self.results, key=lambda result: result.bits_per_byte)
        best = f"best: {least.name}, {least.bits_per_byte:.4f} bits/byte. {self.verdict}".rstrip()
        cheapest = min(self.results, key=lambda result: result.flops_per_byte)
        names = without_common_arguments(result.name for result in self.results)
        titles, rows = ("", "seeds", "bits/byte", "spread", "FLOPs/byte", "kB/s", "data", "front"), []
        for name, result in zip(names, self.results, strict=True):
            spread = "-" if result.spread is None else f"{result.spread:.4f}"
            row = (name, result.n_seeds, f"{result.bits_per_byte:.4f}", spread, f"{result.flops_per_byte:,.0f}")
            front = "*" * result.on_front
            rows.append([*map(str, row), f"{result.bytes_per_s / 1e3:,.2f}", str(result.data_multiple or "-"), front])
        return (
            f"{format_table(titles, rows)}\n\n{best}\n"
            "front: no other configuration has fewer bits for as few operations; spread: largest minus smallest over seeds\n"
            f"data: those that {cheapest.name} needs, as a multiple of those needed here to learn as much "
            f"({LEVEL:.0%} interval over texts); -: not known"
        )


def summarise(plan: Plan, outcomes: Iterable[RunOutcome]) -> Summary:
    """Means over seeds, the Pareto front, and data multiples. Raises CorpusError if no run is finished."""
    runs = {(outcome.variant, outcome.config): outcome.run for outcome in outcomes if outcome.run}
    finished: dict[Variant, list[Run]] = {}
    for key in filter(runs.__contains__, plan.runs):
        finished.setdefault(key[0], []).append(runs[key])
    if not finished:
        raise CorpusError("no run of the plan is finished")
    results = [_result(variant, [run.record for run in each]) for variant, each in finished.items()]
    curves = [mean_curve([run.curves[MODEL] for run in each]) for each in finished.values()]
    cheapest = curves[min(range(len(results)), key=lambda i: results[i].flops_per_byte)]
    multiples = [None if curve is cheapest else data_multiple(curve, cheapest) for curve in curves]
    front = pareto_front([(result.flops_per_byte, result.bits_per_byte) for result in results])
    every = zip(results, multiples, front, strict=True)
    ranked = sorted(finished, key=lambda each: statistics.fmean(run.curves[MODEL].bits[-1] for run in finished[each]))
    names = dict(zip(finished, without_common_arguments(variant.name for variant in finished), strict=True))
    opened = [(names[variant], run) for variant in ranked for run in finished[variant]]
    compared = compare_runs([run for _, run in opened], [name for name, _ in opened]) if len(ranked) > 1 else None
    made = tuple(replace(each, data_multiple=data, on_front=on) for each, data, on in every)
    return Summary(results=made, verdict=sentence(compared.differences[0]) if compared else "")


def _result(variant: Variant, records: Sequence[Mapping[str, Any]]) -> Result:
    bits_per_byte, n_bytes = [record["bits_per_byte"] for record in records], records[0]["corpus"]["n_bytes"]
    return Result(
        name=variant.name,
        n_seeds=len(records),
        bits_per_byte=statistics.fmean(bits_per_byte),
        spread=max(bits_per_byte) - min(bits_per_byte) if len(records) > 1 else None,
        flops_per_byte=variant.flops(n_bytes) / n_bytes,
        bytes_per_s=n_bytes * len(records) / sum(record["wall_s"] for record in records),
    )


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each point whether no other point is at most as large in both numbers and smaller in one."""
    return [not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points) for p in points]


# ---- the sweep


@process_kept()
def sweep(
    source: CorpusLike,
    plan: Plan,
    folder: PathLike,
    *,
    limit: int | str | None = None,
    runtime: Runtime | None = None,
    executor: Executor | None = None,
    on_outcome: Callable[[RunOutcome], object] = lambda outcome: None,
) -> Summary:
    """Evaluates every configuration of the plan that `folder` holds no run of yet, and summarises the results over seeds.

    executor: makes the runs in parallel, also on other machines (docs/MACHINES.md); only its `submit` and the tasks' `result` are
    called. Equal sweeps at the same time share the runs. on_outcome: called with each run, or with the error that it failed with.
    Raises CorpusError if no run succeeds, and for a finished run that is not to be trusted.

    Examples:
        >>> import tempfile, prequential
        >>> gpt = prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16)
        >>> plain = prequential.Runtime(kernels="plain")
        >>> plan = prequential.sweep_plan(prequential.Config(gpt=gpt, mixer=None), widths=[16, 32])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     summary = prequential.sweep("sample:christmas_carol", plan, folder, limit=500, runtime=plain)
        >>> [result.n_seeds for result in summary.results]
        [1, 1]
    """
    check_arguments(source=source, folder=folder, limit=limit, runtime=runtime)
    check_arguments(executor=executor, on_outcome=on_outcome)
    if not isinstance(plan, Plan):
        raise wrong_argument("plan", plan, "a Plan of prequential.sweep_plan")
    outcomes = []
    for outcome in run_plan(source, plan, folder, limit_bytes=byte_count(limit), runtime=runtime, executor=executor):
        on_outcome(outcome)
        outcomes.append(outcome)
    if outcomes and not any(outcome.run for outcome in outcomes):
        raise CorpusError(f"no run of the sweep succeeded; the first error: {outcomes[0].error}")
    return summarise(plan, outcomes)
