"""Ladders: one learner at several sizes over the same bytes, and the loss that the rule of step sizes has at each size.

    plan = ladder_plan(preset(5, pure=True), sizes=DEFAULT_SIZES, seeds=[0, 1, 2], seeded=[Size(32, 2)])
    outcomes = list(run_plan("book.txt", plan, "runs"))
    ladder = read_ladder("runs")

Segment length, step size and the choice of training rows depend only on the bytes so far. So a run contains the run over every
prefix, and one run per size and seed serves all prefixes.

The sizes differ in width, layers, heads (at most MAX_HEAD_WIDTH wide) and the step size of embedding and head, which is
proportional to width**-0.75. Adam moves every entry by the same amount, and a logit is a sum over the width. In theory the head's
step is therefore proportional to 1 / width, and the embedding's is constant (Yang et al. 2022). Both share one step here, and
measurements favour an exponent in between (docs/STUDIES.md). Segments, rows and the step size of the matrices are the same at
every size (Muon's steps have one spectral norm, times a factor of shape).
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.evaluation import evaluate
from prequential.evaluation.runs import PathLike, Run, read_runs
from prequential.model.config import N_SYMBOLS, Config, GPTConfig
from prequential.online.flops import hidden_matrices, total_flops
from prequential.online.runtime import Runtime
from prequential.sweeps.plans import Outcome, Plan, Setting, Subject, config_key, recorded_subject
from prequential.sweeps.trust import check_own_run

MAX_HEAD_WIDTH = 32
VECTOR_STEP_POWER = 0.75  # of 1 / width
N_PREFIXES, PREFIX_RATIO = 7, math.sqrt(0.5)  # from all bytes of the ladder down to an eighth
N_WINDOWS = 8  # windows of a curve, among which a diverged run is recognised
# of a window over an earlier one, relative to the rise that is usual for the other runs on the same text
MAX_RISE = 1.1
STEP_FACTORS = (0.5, 1.0, 2.0)
STEPS = ", steps x "  # between size and factor in the name of a setting
PROBE_BYTES = 1 << 14  # of the short runs that predict the time of a ladder
UNIFORM_BITS = 8.0  # bits per byte of the uniform code


class Size(NamedTuple):
    """Width and layers of a GPT."""

    width: int
    n_layers: int

    def __str__(self) -> str:
        return f"{self.width}x{self.n_layers}"


DEFAULT_SIZES = tuple(Size(width, 2) for width in (24, 32, 48, 64, 96))


def parse_size(text: str) -> Size:
    """The size in WIDTHxLAYERS, such as 64x2. Raises ValueError."""
    width, layers = text.split("x")
    return Size(int(width), int(layers))


def n_weights(gpt: GPTConfig) -> int:
    """N: the number of weights that each symbol is multiplied with, in the hidden matrices and the head.

    The embedding does not count: a symbol looks up one row of each of its tables, and most rows are hardly ever used. Reading
    takes 2 N operations for each symbol, without attention (online/flops.py).
    """
    hidden = sum(n_in * n_out * n_parts for n_in, n_out, n_parts in hidden_matrices(gpt))
    return gpt.n_layers * hidden + gpt.width * N_SYMBOLS


# ---- the plan


def scaled(base: Config, size: Size, *, seed: int | None = None, step_factor: float = 1.0) -> Config:
    """`base` at another size, with the fewest heads of at most MAX_HEAD_WIDTH. Raises ConfigError.

    step_factor: multiplies the step sizes of matrices and vectors; 1 is the rule.
    """
    if base.gpt is None:
        raise ConfigError("a ladder varies the size of the GPT, and this configuration has none: choose -5 to -9")
    gpt = replace(
        base.gpt,
        width=size.width,
        n_layers=size.n_layers,
        n_heads=math.ceil(size.width / MAX_HEAD_WIDTH),
        matrix_step=base.gpt.matrix_step * step_factor,
        vector_step=base.gpt.vector_step * (base.gpt.width / size.width) ** VECTOR_STEP_POWER * step_factor,
    )
    return replace(base, gpt=gpt, seed=base.seed if seed is None else seed)


def ladder_plan(
    base: Config,
    sizes: Sequence[Size] = DEFAULT_SIZES,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    seeded: Sequence[Size] | None = None,
    runtime: Runtime | None = None,
) -> Plan:
    """Every size with the first seed, and the sizes `seeded` with all seeds (None: the second and the second to last).

    Raises ConfigError for an impossible size: a law of fewer sizes would be another law.
    """
    ascending = sorted(set(sizes), key=lambda size: n_weights(_gpt(scaled(base, size))))
    several = {ascending[min(1, len(ascending) - 1)], ascending[-2:][0]} if seeded is None else set(seeded)
    settings = tuple(
        Setting(
            name=str(size),
            configs=tuple(scaled(base, size, seed=seed) for seed in (seeds if size in several else seeds[:1])),
        )
        for size in ascending
    )
    return _checked_plan(settings, runtime)


def step_plan(
    base: Config,
    sizes: Sequence[Size],
    *,
    factors: Sequence[float] = STEP_FACTORS,
    runtime: Runtime | None = None,
) -> Plan:
    """Every size with its step sizes multiplied by every factor. Raises ConfigError."""
    settings = tuple(
        Setting(name=f"{size}{STEPS}{factor:g}", configs=(scaled(base, size, step_factor=factor),))
        for size in sizes
        for factor in factors
    )
    return _checked_plan(settings, runtime)


def _checked_plan(settings: tuple[Setting, ...], runtime: Runtime | None) -> Plan:
    for setting in settings:
        (runtime or Runtime()).check(setting.own[0])
    return Plan(settings=settings, refusals=())


def _gpt(config: Config) -> GPTConfig:
    assert config.gpt
    return config.gpt


# ---- the time that the plan takes


def predicted_remaining_s(
    source: str, plan: Plan, subject: Subject, finished: AbstractSet[str], runtime: Runtime
) -> float:
    """Wall time of the unfinished runs, in seconds, from short runs of the smallest and of the largest size.

    finished: the keys (`config_key`) of the finished runs.
    """
    remaining, n_bytes, probes = remaining_plan(plan, finished), min(PROBE_BYTES, subject.n_bytes), []
    if not remaining.settings:
        return 0.0
    for config in dict.fromkeys([plan.own[0], plan.settings[-1].own[0]]):
        evaluation = evaluate(source, config=config, limit_bytes=n_bytes, baselines=(), runtime=runtime)
        probes.append((config, n_bytes, evaluation.wall_s))
    return predicted_seconds(remaining, subject.n_bytes, probes)


def remaining_plan(plan: Plan, finished: AbstractSet[str]) -> Plan:
    """The unfinished runs of a plan. finished: the keys (`config_key`) of the finished runs."""
    settings = (
        replace(s, configs=tuple(config for config in s.configs if config_key(config.to_dict()) not in finished))
        for s in plan.settings
    )
    return replace(plan, settings=tuple(setting for setting in settings if setting.configs))


def predicted_seconds(plan: Plan, n_bytes: int, probes: Sequence[tuple[Config, int, float]]) -> float:
    """Wall time of the plan over n_bytes, in seconds, from probes: configuration, bytes and wall time of each.

    Operations per second depend on the size. Between probes, their logarithm is a straight line over the logarithm of N.
    """
    measured = sorted(
        (math.log(n_weights(_gpt(c))), math.log(total_flops(c, n).total / wall_s)) for c, n, wall_s in probes
    )
    log_weights, log_rates = zip(*measured, strict=True)
    return sum(
        total_flops(config, n_bytes).total
        / math.exp(float(np.interp(math.log(n_weights(_gpt(config))), log_weights, log_rates)))
        for config in plan.own
    )


# ---- the runs


@dataclass(frozen=True)
class Rung:
    """A finished run of the ladder."""

    run: Run

    @cached_property
    def config(self) -> Config:
        return Config.from_record(self.run.record["config"])

    @property
    def size(self) -> Size:
        gpt = _gpt(self.config)
        return Size(gpt.width, gpt.n_layers)

    @property
    def n_weights(self) -> int:
        return n_weights(_gpt(self.config))

    @cached_property
    def curve(self) -> Curve:
        """Cumulative ideal code length against bytes."""
        return self.run.curves[MODEL]

    @property
    def name(self) -> str:
        return f"{self.size}, seed {self.config.seed}"


@dataclass(frozen=True)
class Ladder:
    """Runs of one learner at several sizes over the same bytes, ascending by size, then by seed."""

    rungs: tuple[Rung, ...]
    subject: Subject

    @property
    def sizes(self) -> list[Size]:
        """The sizes, ascending."""
        return list(dict.fromkeys(rung.size for rung in self.rungs))

    @property
    def base(self) -> Config:
        """The configuration of the largest rung, with the first rung's seed."""
        return replace(self.rungs[-1].config, seed=self.rungs[0].config.seed)

    def first_rung(self, size: Size) -> Rung:
        """The first rung of this size, which has its smallest seed."""
        return next(rung for rung in self.rungs if rung.size == size)

    def prefixes(self, n: int = N_PREFIXES) -> NDArray[np.int64]:
        """(n,) lengths in bytes, ascending by the factor sqrt 2; the last is the length of the runs."""
        return np.array([round(self.subject.n_bytes * PREFIX_RATIO**k) for k in range(n)][::-1], np.int64)


def family(config: Mapping[str, Any]) -> str:
    """A string that is equal for configurations that differ only in seed and, by the rule of step sizes, in size."""
    gpt = {k: v for k, v in config["gpt"].items() if k not in ("width", "n_layers", "n_heads", "vector_step")}
    gpt["rule of steps"] = f"{config['gpt']['vector_step'] * config['gpt']['width'] ** VECTOR_STEP_POWER:.9g}"
    return json.dumps({k: v for k, v in config.items() if k != "seed"} | {"gpt": gpt}, sort_keys=True)


def read_ladder(path: PathLike, *, trust_runs: bool = False) -> Ladder:
    """The ladder with the most sizes among the runs at `path` (`read_runs`). Of equal configurations the newest run counts.

    The runs of a ladder read the same bytes and differ only in size and seed. Raises CorpusError if there is no ladder, if
    several have the most sizes, and, unless trust_runs, if one of its runs is not to be trusted (`check_own_run`).
    """
    ladders: dict[tuple[Subject, str], dict[tuple[Size, int], Rung]] = {}
    for run in read_runs(path):
        if run.record["config"].get("gpt"):
            rung = Rung(run)
            key = recorded_subject(run.record), family(run.record["config"])
            ladders.setdefault(key, {})[rung.size, rung.config.seed] = rung
    if not ladders:
        raise CorpusError(f"{str(path)!r} has no runs of a GPT: make some with `prequential ladder`")
    n_sizes = {key: len({size for size, _ in rungs}) for key, rungs in ladders.items()}
    largest = [key for key, n in n_sizes.items() if n == max(n_sizes.values())]
    if len(largest) > 1:
        raise CorpusError(
            f"{str(path)!r} has {len(largest)} ladders of {n_sizes[largest[0]]} sizes each, which differ in their bytes or their "
            "settings: keep each ladder in its own folder"
        )
    rungs = sorted(ladders[largest[0]].values(), key=lambda rung: (rung.n_weights, rung.config.seed))
    for rung in () if trust_runs else rungs:
        check_own_run(rung.run)
    return Ladder(tuple(rungs), largest[0][0])


def diverged_runs(ladder: Ladder) -> dict[str, str]:
    """The reason why a run looks diverged, by the name of its rung.

    Either it ends above 8 bits/byte, which is the uniform code. Or one of its windows costs more than an earlier one, by
    MAX_RISE times the rise that is usual in the ladder, whose runs all read the same text.
    """
    rates = np.array([rung.curve.windows(N_WINDOWS).bits for rung in ladder.rungs])  # (R, W) bits per byte
    rises = (rates / np.maximum(np.minimum.accumulate(rates, 1), 1e-9)).max(1)
    usual = float(np.median(rises))
    reasons = {}
    for rung, rate, rise in zip(ladder.rungs, rates, rises, strict=True):
        if rate[-1] > UNIFORM_BITS or rung.curve.bits[-1] > UNIFORM_BITS * rung.curve.n_bytes[-1]:
            reasons[rung.name] = f"{rate[-1]:.2f} bits/byte at its end: the uniform code has 8"
        elif rise > MAX_RISE * usual:
            reasons[rung.name] = f"its loss rises by {rise - 1:.0%} within the run, usual is {usual - 1:.0%}"
    return reasons


# ---- the rule of step sizes


@dataclass(frozen=True, kw_only=True)
class StepCheck:
    """The code lengths of one size with its step sizes multiplied by several factors.

    best_factor: the vertex of a parabola over the logarithm of the factor, or None if the vertex is outside the factors; then
    `note` gives the best of them. Diverged runs, above the uniform code, are not used. loss_percent: how much more factor 1 costs
    than the vertex, or than the best factor.
    """

    size: Size
    n_weights: int
    factors: tuple[float, ...]
    bits_per_byte: tuple[float, ...]
    best_factor: float | None
    loss_percent: float
    note: str = ""


def check_steps(
    bits_per_byte: Mapping[tuple[Size, float], float],
    base: Config,
    on_incomplete: Callable[[ConfigError], object] | None = None,
) -> list[StepCheck]:
    """The check of each size, ascending by N, from bits per byte by size and factor.

    on_incomplete: called with the error of each size without factor 1 and two others, which is left out. None: such an error is
    raised.
    """
    checks = []
    for size in sorted({size for size, _ in bits_per_byte}, key=lambda size: n_weights(_gpt(scaled(base, size)))):
        try:
            checks.append(_step_check(size, {f: bits for (s, f), bits in bits_per_byte.items() if s == size}, base))
        except ConfigError as error:
            if on_incomplete is None:
                raise
            on_incomplete(error)
    return checks


def step_checks_of(
    outcomes: Iterable[Outcome], base: Config, on_incomplete: Callable[[ConfigError], object] | None = None
) -> list[StepCheck]:
    """The checks of the finished runs of a `step_plan`. on_incomplete and errors: as of `check_steps`."""
    bits_per_byte = {}
    for outcome in outcomes:
        if outcome.run:
            size, _, factor = outcome.setting.name.partition(STEPS)
            bits_per_byte[parse_size(size), float(factor)] = outcome.run.record["code_bits_per_byte"]
    return check_steps(bits_per_byte, base, on_incomplete)


def _step_check(size: Size, bits_per_byte: Mapping[float, float], base: Config) -> StepCheck:
    factors = tuple(sorted(bits_per_byte))
    if 1.0 not in bits_per_byte or len(factors) < 3:
        raise ConfigError(f"the check of {size} needs the step factor 1 and two others, not {factors}")
    sound = {factor: bits_per_byte[factor] for factor in factors if bits_per_byte[factor] <= UNIFORM_BITS}
    best_factor, least_bits = _vertex(sound) if len(sound) >= 3 else (None, min(bits_per_byte.values()))
    notes = [f"diverged with factor {factor:g}" for factor in factors if factor not in sound]
    if best_factor is None:
        best_tried = min(bits_per_byte, key=lambda factor: bits_per_byte[factor])
        notes.append(f"no optimum among these factors: the fewest bits at {best_tried:g}")
    return StepCheck(
        size=size,
        n_weights=n_weights(_gpt(scaled(base, size))),
        factors=factors,
        bits_per_byte=tuple(bits_per_byte[factor] for factor in factors),
        best_factor=best_factor,
        loss_percent=100 * max(0.0, bits_per_byte[1.0] / least_bits - 1),
        note="; ".join(notes),
    )


def _vertex(bits_per_byte: Mapping[float, float]) -> tuple[float | None, float]:
    """The factor at the vertex of the parabola in its logarithm, and the bits there.

    If the vertex is outside the factors: None, and the fewest bits.
    """
    log_factors = np.log2(list(bits_per_byte))
    curvature, slope, level = map(float, np.polyfit(log_factors, list(bits_per_byte.values()), 2))
    vertex = -slope / (2 * curvature) if curvature > 0 else math.nan
    if not min(log_factors) <= vertex <= max(log_factors):
        return None, min(bits_per_byte.values())
    return 2**vertex, level - slope**2 / (4 * curvature)


def step_drift(checks: Sequence[StepCheck]) -> float | None:
    """How many times the best factor doubles for each doubling of N, by least squares; None if fewer than 3 sizes have one."""
    known = [(math.log2(c.n_weights), math.log2(c.best_factor)) for c in checks if c.best_factor is not None]
    if len(known) < 3:
        return None
    log_weights, log_factors = zip(*known, strict=True)
    return float(np.polyfit(log_weights, log_factors, 1)[0])
