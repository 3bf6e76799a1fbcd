"""Plans: what to run over one corpus. sweeps and ladders."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, wrong_argument
from prequential.learners.loading import load_subject
from prequential.learners.spec import Subject
from prequential.model.config import Config
from prequential.online.costs import replay_factor, total_flops
from prequential.online.runtime import Runtime
from prequential.printable import format_table
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
    """The plan of every combination of arguments of a learner of the user's own, by name as `load_subject` takes it.

    seeds: values of its argument `seed`. Combinations that the factory refuses are refused by name. Raises ConfigError if none
    is left.
    """
    varied_names = [key for key, values in grid.items() if len(values) > 1]

    def variants(title: str, arguments: Mapping[str, Any]) -> list[Variant]:
        of_each = [{**arguments, "seed": seed} for seed in dict.fromkeys(seeds)] if seeds else [arguments]
        return [Variant(name=title, configs=tuple(load_subject(name, each) for each in of_each))]

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
