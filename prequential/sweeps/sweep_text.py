"""A sweep as text: its plan before it runs, each run, and the table of configurations."""

from collections.abc import Set as AbstractSet

from prequential.printable import printable
from prequential.records.table import format_table
from prequential.sweeps.plans import Outcome, Plan, Subject, config_key
from prequential.sweeps.sweep import Result, Summary

TITLES = ("", "seeds", "bits/byte", "spread", "FLOPs/byte", "kB/s", "data multiple", "front")

_COSTS = ("few operations", "little time")  # on the front


def format_plan(plan: Plan, subject: Subject, finished: AbstractSet[str]) -> str:
    """The runs of a plan, with a final newline. finished: the keys (`config_key`) of runs that exist already."""
    n_finished = sum(config_key(config.to_dict()) in finished for config in plan.configs)
    n_seeds = len(plan.settings[0].configs)
    rows = [
        (s.name, _flops(None if (n := s.flops(subject.n_bytes)) is None else n / subject.n_bytes))
        for s in plan.settings
    ]
    total = plan.flops(subject.n_bytes)
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {subject.n_bytes:,} bytes: {len(plan.settings)} configurations, seeds of each: "
            f"{n_seeds}; {n_finished} finished already" + ("" if total is None else f"; {total:.3g} FLOPs in all"),
            format_table(("", "FLOPs/byte"), rows),
            *(f"refused: {refusal.name}: {refusal.reason}" for refusal in plan.refusals),
            "",
        ]
    )


def format_outcome(outcome: Outcome) -> str:
    """One line about a finished run."""
    assert outcome.run
    record = outcome.run.record
    figures = f"archive {record['bits_per_byte']:.4f} bits/byte, {record['bytes_per_s'] / 1e3:,.2f} kB/s"
    return (
        f"{outcome.name}: {figures}, {'' if outcome.is_new else 'finished already, '}{printable(str(outcome.run.path))}"
    )


def format_summary(summary: Summary) -> str:
    """The table of configurations, and the cost of a choice among them."""
    best = summary.best
    return "\n".join(
        [
            format_table(TITLES, [_row(result) for result in summary.results]),
            "",
            f"best: {best.name}, {best.bits_per_byte:.4f} bits/byte",
            f"the choice among {summary.n_configs} configurations costs {summary.choice_bits:.2f} bits, of a single run among "
            f"{summary.n_runs} {summary.run_choice_bits:.2f} bits",
            f"front: no other configuration has fewer bits for as {_COSTS[best.flops_per_byte is None]}; spread: largest minus "
            "smallest over seeds",
            f"data multiple: bytes that {printable(summary.baseline)} needs for the same loss, divided by the bytes needed here",
            *(f"data multiple of {r.name}: none, {r.reason}" for r in summary.results if r.reason),
        ]
    )


def _flops(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _row(result: Result) -> list[str]:
    return [
        result.name,
        str(result.n_seeds),
        f"{result.bits_per_byte:.4f}",
        "-" if result.spread is None else f"{result.spread:.4f}",
        _flops(result.flops_per_byte),
        f"{result.bytes_per_s / 1e3:,.2f}",
        "-" if result.data_multiple is None else f"{result.data_multiple:.3f}",
        "*" if result.on_front else "",
    ]
