"""Ladders: one learner at several sizes, each over the same bytes, and what its recipe loses at each size.

    a_plan = ladder_plan(preset(5, pure=True), sizes=DEFAULT_SIZES, seeds=[0, 1, 2], seeded=[1, 3])
    outcomes = list(sweep("book.txt", a_plan, "runs", evaluate=prequential.evaluate, program_version=prequential.__version__))
    ladder = read_ladder("runs")

The plan is one of measure/study/sweep.py, which runs it and finds finished runs again. How long a segment is, how large a step, what a
step learns from: all of it depends on what came before, nothing on how much is to come. So a run over n bytes is, up to any
of its bytes, the run over that prefix, and one run per size and seed serves every prefix.

What changes with size: width, layers, heads, which are as wide as in the base or narrower, and the step of embedding and head,
as width**-0.75: Adam moves each entry alike, and a logit is a sum over the width, so that the head's should go with 1 / width and
the embedding's not at all (Yang et al. 2022); the one step of both was measured to want something between (docs/FORECAST.md).
What does not: the step of the matrices (Muon takes steps of one spectral norm, times a factor of shape), segments and rows.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.curves import Curve
from prequential.measure.evaluation.runs import PathLike, Run, read_runs
from prequential.measure.evaluation.trace import MODEL
from prequential.measure.study.sweep import Plan, Setting, Subject
from prequential.model.config import N_SYMBOLS, Config, GPTConfig
from prequential.online.flops import hidden_matrices, total_flops
from prequential.online.limits import MAX_MEMORY_BYTES, check_memory
from prequential.online.runtime import Runtime

MAX_HEAD_WIDTH = 32
VECTOR_STEP_POWER = 0.75  # of 1 / width
N_PREFIXES, PREFIX_RATIO = 7, math.sqrt(0.5)  # from the whole ladder's bytes down to an eighth
N_WINDOWS = 8  # of a curve in which divergence is looked for
MAX_RISE = 1.1  # of a window over an earlier one, beyond what the other runs show on the same text
STEP_FACTORS = (0.5, 1.0, 2.0)
UNIFORM_BITS = 8.0  # a byte costs under the uniform code


class Size(NamedTuple):
    """Width and layers of a GPT."""

    width: int
    n_layers: int

    def __str__(self) -> str:
        return f"{self.width}x{self.n_layers}"


DEFAULT_SIZES = tuple(Size(width, 2) for width in (24, 32, 48, 64, 96))


def parse_size(text: str) -> Size:
    """From WIDTHxLAYERS, such as 64x2. Raises ValueError."""
    width, layers = text.split("x")
    return Size(int(width), int(layers))


def n_weights(gpt: GPTConfig) -> int:
    """N: the weights that each symbol is multiplied with, hidden matrices and head.

    The embedding is out: a symbol looks up a row of each of its tables, and most rows are hardly ever used. Reading costs 2 N
    operations a symbol, without attention (online/flops.py).
    """
    hidden = sum(n_in * n_out * n_parts for n_in, n_out, n_parts in hidden_matrices(gpt))
    return gpt.n_layers * hidden + gpt.width * N_SYMBOLS


def scaled(base: Config, size: Size, *, seed: int | None = None, step_factor: float = 1.0) -> Config:
    """`base` at another size, with as few heads as keep them at MAX_HEAD_WIDTH or below. Raises ConfigError.

    step_factor: of the steps of matrices and vectors, 1 being the rule.
    """
    if base.gpt is None:
        raise ConfigError("a ladder is of the GPT's sizes, and this configuration has none: choose another preset")
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
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    runtime: Runtime | None = None,
) -> Plan:
    """Every size under the first seed, and the sizes `seeded` under all seeds (None: the second and the second to last).

    Raises ConfigError for a size that cannot be: a rung left out would be a law of fewer sizes.
    """
    rungs = sorted(set(sizes), key=lambda size: n_weights(_gpt(scaled(base, size))))
    several = {rungs[min(1, len(rungs) - 1)], rungs[-2:][0]} if seeded is None else set(seeded)
    settings = tuple(
        Setting(
            name=str(size),
            configs=tuple(scaled(base, size, seed=seed) for seed in (seeds if size in several else seeds[:1])),
        )
        for size in rungs
    )
    return _checked(settings, max_memory_bytes, runtime)


def step_plan(
    base: Config,
    sizes: Sequence[Size],
    *,
    factors: Sequence[float] = STEP_FACTORS,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    runtime: Runtime | None = None,
) -> Plan:
    """Every size under steps of every factor. Raises ConfigError."""
    settings = tuple(
        Setting(name=f"{size}, steps x {factor:g}", configs=(scaled(base, size, step_factor=factor),))
        for size in sizes
        for factor in factors
    )
    return _checked(settings, max_memory_bytes, runtime)


def _checked(settings: tuple[Setting, ...], max_memory_bytes: int, runtime: Runtime | None) -> Plan:
    for setting in settings:
        check_memory(setting.configs[0], max_memory_bytes, runtime or Runtime())
    return Plan(settings=settings, refusals=(), max_memory_bytes=max_memory_bytes)


def _gpt(config: Config) -> GPTConfig:
    assert config.gpt
    return config.gpt


def predicted_seconds(plan: Plan, n_bytes: int, probes: Sequence[tuple[Config, int, float]]) -> float:
    """Wall time of the plan over n_bytes, in s, from probes: a configuration, over how many bytes, and how long it took.

    Operations a second differ by size, so that they are taken between probes on a line in the logarithms of N and rate.
    """
    measured = sorted(
        (math.log(n_weights(_gpt(c))), math.log(total_flops(c, n).total / wall_s)) for c, n, wall_s in probes
    )
    places, rates = zip(*measured, strict=True)
    return sum(
        total_flops(config, n_bytes).total
        / math.exp(float(np.interp(math.log(n_weights(_gpt(config))), places, rates)))
        for config in plan.configs
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
        """Ideal code length against bytes."""
        return self.run.curves[MODEL]

    @property
    def name(self) -> str:
        return f"{self.size}, seed {self.config.seed}"


@dataclass(frozen=True)
class Ladder:
    """Runs of one learner at several sizes over the same bytes, ascending by size, then by seed."""

    rungs: tuple[Rung, ...]
    about: Subject

    @property
    def sizes(self) -> list[Size]:
        return list(dict.fromkeys(rung.size for rung in self.rungs))

    @property
    def base(self) -> Config:
        """The learner; its size is that of the largest rung."""
        return replace(self.rungs[-1].config, seed=self.rungs[0].config.seed)

    def prefixes(self, n: int = N_PREFIXES) -> NDArray[np.int64]:
        """(n,) lengths, each sqrt 2 times the one before; the last is the whole."""
        return np.array([round(self.about.n_bytes * PREFIX_RATIO**k) for k in range(n)][::-1], np.int64)


def family(config: Mapping[str, Any]) -> str:
    """Equal for configurations that differ in seed and, by the rule of steps, in size alone."""
    gpt = {k: v for k, v in config["gpt"].items() if k not in ("width", "n_layers", "n_heads", "vector_step")}
    gpt["rule of steps"] = f"{config['gpt']['vector_step'] * config['gpt']['width'] ** VECTOR_STEP_POWER:.9g}"
    return json.dumps({k: v for k, v in config.items() if k != "seed"} | {"gpt": gpt}, sort_keys=True)


def read_ladder(folder: PathLike) -> Ladder:
    """The ladder in `folder`: of runs over equal bytes that differ in size and seed alone, those with the most sizes.

    Of runs of equal configuration the newest. Raises CorpusError where there is none, or several have as many sizes.
    """
    groups: dict[tuple[Subject, str], dict[tuple[Size, int], Rung]] = {}
    for run in read_runs(folder):
        if run.record["config"]["gpt"]:
            corpus, rung = run.record["corpus"], Rung(run)
            key = Subject(corpus["n_bytes"], corpus["blake2b"]), family(run.record["config"])
            groups.setdefault(key, {})[rung.size, rung.config.seed] = rung
    if not groups:
        raise CorpusError(f"{str(folder)!r} holds no runs of a GPT: make some with `prequential ladder`")
    n_sizes = {key: len({size for size, _ in rungs}) for key, rungs in groups.items()}
    most = [key for key, n in n_sizes.items() if n == max(n_sizes.values())]
    if len(most) > 1:
        raise CorpusError(
            f"{str(folder)!r} holds {len(most)} ladders of {n_sizes[most[0]]} sizes each (of other bytes, or other "
            "settings): give each a folder of its own"
        )
    rungs = sorted(groups[most[0]].values(), key=lambda rung: (rung.n_weights, rung.config.seed))
    return Ladder(tuple(rungs), most[0][0])


def anomalies(ladder: Ladder) -> dict[str, str]:
    """Runs that look diverged, by name, and why.

    Above 8 bits/byte, which is the uniform code; or a window that costs more than an earlier one of the same run by MAX_RISE
    times what is usual among the ladder's runs, which all read the same text.
    """
    rates = np.array([rung.curve.windows(N_WINDOWS).bits for rung in ladder.rungs])  # (R, W)
    rises = (rates / np.minimum.accumulate(rates, 1)).max(1)
    usual = float(np.median(rises))
    found = {}
    for rung, rate, rise in zip(ladder.rungs, rates, rises, strict=True):
        if rate[-1] > UNIFORM_BITS or rung.curve.bits[-1] > UNIFORM_BITS * rung.curve.n_bytes[-1]:
            found[rung.name] = f"{rate[-1]:.2f} bits/byte at its end: the uniform code has 8"
        elif rise > MAX_RISE * usual:
            found[rung.name] = f"its loss rises by {rise - 1:.0%} within the run, usual is {usual - 1:.0%}"
    return found


# ---- the rule of steps


@dataclass(frozen=True, kw_only=True)
class StepCheck:
    """Of one size: bits under each factor of the steps, and the factor at the vertex of a parabola in its logarithm.

    Diverged runs, above the uniform code, are kept out of the parabola. best_factor: None where no vertex lies among the
    factors; then `note` says which way it lies. loss_percent: what factor 1 costs over the vertex, or over the best tried.
    """

    size: Size
    n_weights: int
    factors: tuple[float, ...]
    bits_per_byte: tuple[float, ...]
    best_factor: float | None
    loss_percent: float
    note: str = ""


def check_steps(runs: Mapping[tuple[Size, float], float], base: Config) -> list[StepCheck]:
    """From bits per byte by size and factor; sizes ascending by N. Factor 1 and two others are needed of each."""
    sizes = sorted({size for size, _ in runs}, key=lambda size: n_weights(_gpt(scaled(base, size))))
    return [_step_check(size, {f: bits for (s, f), bits in runs.items() if s == size}, base) for size in sizes]


def _step_check(size: Size, bits_of: Mapping[float, float], base: Config) -> StepCheck:
    factors = tuple(sorted(bits_of))
    if 1.0 not in bits_of or len(factors) < 3:
        raise ConfigError(f"the steps of {size} need factor 1 and two others, not {factors}")
    sound = {factor: bits_of[factor] for factor in factors if bits_of[factor] <= UNIFORM_BITS}
    best, least = _vertex(sound) if len(sound) >= 3 else (None, min(bits_of.values()))
    notes = [f"diverged under factor {factor:g}" for factor in factors if factor not in sound]
    if best is None:
        notes.append(f"no optimum among these factors: the fewest bits at {min(bits_of, key=lambda f: bits_of[f]):g}")
    return StepCheck(
        size=size,
        n_weights=n_weights(_gpt(scaled(base, size))),
        factors=factors,
        bits_per_byte=tuple(bits_of[factor] for factor in factors),
        best_factor=best,
        loss_percent=100 * max(0.0, bits_of[1.0] / least - 1),
        note="; ".join(notes),
    )


def _vertex(bits_of: Mapping[float, float]) -> tuple[float | None, float]:
    """Where the parabola in log2 of the factor is lowest, and how low; no place, and the least bits, if that is outside."""
    x = np.log2(list(bits_of))
    curvature, slope, level = map(float, np.polyfit(x, list(bits_of.values()), 2))
    vertex = -slope / (2 * curvature) if curvature > 0 else math.nan
    if not min(x) <= vertex <= max(x):
        return None, min(bits_of.values())
    return 2**vertex, level - slope**2 / (4 * curvature)


def step_drift(checks: Sequence[StepCheck]) -> float | None:
    """How often the best factor doubles for each doubling of N, by least squares; None where fewer than 3 sizes have one."""
    known = [(math.log2(c.n_weights), math.log2(c.best_factor)) for c in checks if c.best_factor is not None]
    if len(known) < 3:
        return None
    sizes, best = zip(*known, strict=True)
    return float(np.polyfit(sizes, best, 1)[0])
