"""Plans: what to run over one corpus. `sweep`, ladders and `ablate` differ in the plan that they make and in its summary.

plan = sweep_plan(preset(5, pure=True), widths=[64, 128], seeds=[0, 1])
outcomes = list(run_plan("book.txt", plan, "runs"))       # plan_runs.py
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from prequential.errors import ConfigError
from prequential.learners.subject import Subject
from prequential.model.config import Config
from prequential.online.flops import total_flops
from prequential.records.table import format_table
from prequential.sweeps.finished import CorpusKey, config_key

Candidate = Config | Subject  # what a run measures: a learner of this program, or one of the user's own


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
        return total_flops(self.own, n_bytes).total if self.own else None


class Refusal(NamedTuple):
    """A combination of values that is not a valid configuration, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The variants to run, in order, and the refused combinations."""

    variants: tuple[Variant, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def runs(self) -> list[tuple[Variant, Candidate]]:
        """Variant and configuration of every run, in order."""
        return [(variant, config) for variant in self.variants for config in variant.configs]

    @property
    def configs(self) -> list[Candidate]:
        """The configuration of every run, in order."""
        return [config for _, config in self.runs]

    @property
    def keys(self) -> set[str]:
        """The `config_key` of every run."""
        return {config_key(config.to_dict()) for config in self.configs}

    def flops(self, n_bytes: int) -> float | None:
        """Operations of all runs over n_bytes, if they are known."""
        of_each = [(len(variant.configs), variant.flops(n_bytes)) for variant in self.variants]
        known = [n * flops for n, flops in of_each if flops is not None]
        return sum(known) if len(known) == len(of_each) else None


def plan_of(parts: Iterable[tuple[str, Callable[[], Iterable[Variant]]]]) -> Plan:
    """The variants of every part that can be made; a part that raises ConfigError is refused by its name.

    Raises ConfigError if none is left.
    """
    variants: list[Variant] = []
    refusals = []
    for name, make in parts:
        try:
            variants += make()
        except ConfigError as error:
            refusals.append(Refusal(name, str(error)))
    if not variants:
        raise ConfigError(
            "; ".join(["no combination is left", *(f"{each.name}: {each.reason}" for each in refusals[:1])])
        )
    return Plan(variants=tuple(variants), refusals=tuple(refusals))


def format_plan(plan: Plan, corpus: CorpusKey, n_finished: int, notes: str) -> str:
    """The plan before it runs, with a final newline."""
    total = plan.flops(corpus.n_bytes)
    rows = []
    for variant in plan.variants:
        flops = variant.flops(corpus.n_bytes)
        seeds = ", ".join(str(config.seed) for config in variant.configs if config.seed is not None)
        rows.append((variant.name, seeds or "-", format_flops(None if flops is None else flops / corpus.n_bytes)))
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
    """A number of operations; "-" if it is not known."""
    return "-" if value is None else f"{value:,.0f}"


def plan_record(plan: Plan, corpus: CorpusKey) -> dict[str, Any]:
    """The plan as JSON values."""
    return {
        "corpus": corpus._asdict(),
        "plan": [
            {"name": variant.name, "configs": [config.to_dict() for config in variant.configs]}
            for variant in plan.variants
        ],
        "refused": [refusal._asdict() for refusal in plan.refusals],
        "flops": plan.flops(corpus.n_bytes),
    }
