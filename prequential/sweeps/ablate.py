"""Ablations: how many bits each feature of a configuration saves, at two sizes or more, to find features that help only if small.

    ablation = plan_ablation(preset(5, pure=True), sizes=[(64, 1), (128, 2)])
    summary = ablation.summarise(run_plan("book.txt", ablation.plan, "runs"))

`base` is a good configuration without any of the chosen features. Each feature alone, and finally all of them, are added to it.

All figures are differences of ideal code lengths over the same bytes. Each is a contrast, a weighted sum over runs. For example
(base) - (base + feature) is what the feature saves. The same at the largest size minus that at the smallest is its growth.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.comparison.intervals import Bootstrap, block_length, bounds, cell_deviations, cell_grid
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import Run
from prequential.model.config import Config
from prequential.online.costs import replay_factor
from prequential.online.runtime import Runtime
from prequential.printable import format_table
from prequential.sweeps.features import FEATURES, without
from prequential.sweeps.ladder import Size
from prequential.sweeps.plan_runs import RunOutcome, Study, runs_by_variant
from prequential.sweeps.plans import Plan, Variant, plan_of, seeded, varied

BASE, ALL = "base", "all"  # without and with all features
CONFIDENCE = 0.9
DESCRIPTION_COLUMNS = 60  # so that the descriptions are aligned to the left


# ---- the plan


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """The runs of an ablation. sizes: names, ascending by operations. variants: by size and BASE, the feature added, or ALL."""

    sizes: tuple[str, ...]
    features: tuple[str, ...]
    variants: Mapping[tuple[str, str], Variant]
    plan: Plan
    bootstrap: Bootstrap

    @property
    def added(self) -> tuple[str, ...]:
        """What is added to the base: the features, and ALL of several."""
        return (*self.features, ALL) if len(self.features) > 1 else self.features

    @property
    def study(self) -> Study:
        """As `run_plan` and the command line take it."""
        rows = [(name, FEATURES[name].description.ljust(DESCRIPTION_COLUMNS)) for name in self.features]
        notes = format_table(("feature", "description".ljust(DESCRIPTION_COLUMNS)), rows)
        return Study(kind="ablation", plan=self.plan, summarise=self.summarise, notes=notes)

    def summarise(self, outcomes: Iterable[RunOutcome]) -> "AblationSummary":
        """Effects and growth of the finished runs. Results that lack a run are left out.

        Raises CorpusError if no run is finished.
        """
        runs = runs_by_variant(outcomes)
        several = len(self.plan.variants[0].configs) > 1
        results = [_feature_result(self, feature, runs) for feature in self.added]
        return AblationSummary(
            sizes=self.sizes,
            results=tuple(result for result in results if result.effects),
            population=f"other text of this length and kind, {'and other seeds' if several else 'under this seed'}",
            confidence=self.bootstrap.confidence,
            n_runs=len(self.plan.configs),
        )


def plan_ablation(
    full: Config,
    *,
    sizes: Sequence[tuple[int, int]],
    features: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    runtime: Runtime | None = None,
    bootstrap: Bootstrap | None = None,
) -> Ablation:
    """The base, and every variant that adds one feature or all of them, at each size.

    sizes: (width, layers) of the GPT. Heads keep the width that they have in `full`. features: by default all that `full` has,
    except mlp and mixer. A size that is out of range, or exceeds the limits of the runtime, is refused by name. Raises
    ConfigError without a GPT or without a size that is left, for an unknown feature, and for one that makes no difference.
    """
    if full.gpt is None:
        raise ConfigError("an ablation varies the size of the GPT, and this configuration has none: choose -5 to -9")
    chosen = _chosen(full, features)
    points = {BASE: (), **{name: (name,) for name in chosen}, **({ALL: chosen} if len(chosen) > 1 else {})}
    variants: dict[tuple[str, str], Variant] = {}

    def at(size: Size) -> list[Variant]:
        sized = varied(full, replay_factor(full), *size, full.schedule.segment_symbols)
        (runtime or Runtime()).check(sized)
        made = {
            (str(size), added): Variant(
                name=f"{size}, " + (added if added in (BASE, ALL) else f"base + {added}"),
                configs=seeded(without(sized, [name for name in chosen if name not in on]), seeds),
            )
            for added, on in points.items()
        }
        variants.update(made)
        return list(made.values())

    plan = plan_of((str(size), partial(at, size)) for size in dict.fromkeys(Size(*each) for each in sizes))
    largest = next(reversed(points))
    return Ablation(
        sizes=tuple(
            sorted({size for size, _ in variants}, key=lambda n: (variants[n, largest].flops(1 << 20) or 0, n))
        ),
        features=chosen,
        variants=variants,
        plan=plan,
        bootstrap=bootstrap or Bootstrap(confidence=CONFIDENCE),
    )


def _chosen(full: Config, names: Sequence[str] | None) -> tuple[str, ...]:
    """The features in the order of FEATURES. Raises ConfigError if one makes no difference with the others off."""
    if unknown := [name for name in names or () if name not in FEATURES]:
        raise ConfigError(f"there is no feature {unknown[0]!r}; the features are {', '.join(FEATURES)}")
    wanted = [name for name, f in FEATURES.items() if (f.by_default if names is None else name in names)]
    has = [name for name in wanted if without(full, [name]) != full]
    for missing in wanted if names is not None else ():
        if missing not in has:
            what = FEATURES[missing].description
            raise ConfigError(f"the configuration has no {missing!r} ({what}) that could be removed")
    if not has:
        raise ConfigError("the configuration has no feature that could be removed")
    for name in has:
        others = [other for other in has if other != name]
        if without(full, others) == without(full, has):
            raise ConfigError(f"{name!r} makes no difference without {', '.join(others)}: leave one of them out")
    return tuple(has)


# ---- contrasts


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A weighted sum of mean code lengths over the same n_bytes, in bits. It is exact for one seed.

    low_bits, high_bits: its interval, for the population that `AblationSummary.population` names; None for a short corpus.
    """

    bits: float
    low_bits: float | None
    high_bits: float | None
    n_bytes: int

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.n_bytes

    @property
    def sign(self) -> int:
        """1 or -1 if the interval is above or below 0; 0 if it contains 0 or there is none."""
        if self.low_bits is None or self.high_bits is None:
            return 0
        return int(self.low_bits > 0) - int(self.high_bits < 0)

    @property
    def cells(self) -> tuple[str, str]:
        """Bits per byte and their interval, for a table."""
        if self.low_bits is None or self.high_bits is None:
            return f"{self.bits_per_byte:+.4f}", "-"
        low, high = self.low_bits / self.n_bytes, self.high_bits / self.n_bytes
        return f"{self.bits_per_byte:+.4f}", f"[{low:+.4f}, {high:+.4f}]"


def contrast(terms: Sequence[tuple[float, Sequence[Run]]], bootstrap: Bootstrap) -> Contrast:
    """The sum of weight * mean code length of runs, over the seeds that all terms have.

    The interval is the confidence interval of comparison/intervals.py: blocks of text are resampled together for all
    runs, and seeds too if there are several. For two terms with weights 1 and -1 it is that of `compare`. Raises CorpusError
    without a common seed.
    """
    seeds, weighted = _common_seeds(terms)
    curves = [curve for _, group in weighted for curve in group]
    n_bytes = int(curves[0].n_bytes[-1])
    bits = math.fsum(_stretch_bits(weighted, np.array([0, n_bytes]))[:, 0]) / len(seeds)
    grid = cell_grid(curves)
    if grid is None:
        return Contrast(bits=bits, low_bits=None, high_bits=None, n_bytes=n_bytes)
    cells = _stretch_bits(weighted, grid)
    block = block_length(cells.mean(0))
    deviations = cell_deviations((np.zeros_like(cells), seeds), (cells, seeds), block, bootstrap)
    low, high = bounds(deviations * n_bytes / int(grid[1]), bootstrap)
    return Contrast(bits=bits, low_bits=bits + low, high_bits=bits + high, n_bytes=n_bytes)


Weighted = Sequence[tuple[float, Sequence[Curve]]]  # the weight and the S curves of each term


def _common_seeds(terms: Sequence[tuple[float, Sequence[Run]]]) -> tuple[list[int], Weighted]:
    """The S seeds that all terms have, and the curves with these seeds. Raises CorpusError if there are none."""
    by_seed = [(weight, {run.record["config"]["seed"]: run.curves[MODEL] for run in runs}) for weight, runs in terms]
    seeds = sorted(set.intersection(*(set(curves) for _, curves in by_seed)))
    if not seeds:
        raise CorpusError("these runs have no seed in common, so they cannot be compared")
    return seeds, [(weight, [curves[seed] for seed in seeds]) for weight, curves in by_seed]


def _stretch_bits(weighted: Weighted, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weighted sum of bits in each stretch between positions (n,), by seed: (S, n - 1)."""
    return np.sum([weight * np.diff([curve.at(positions) for curve in curves]) for weight, curves in weighted], 0)


# ---- the results


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a feature saves at one size: the code length without it minus the code length with it, above 0 if it helps.

    percent: of the code length without it. flops_ratio, wall_ratio: operations and time with it, divided by those without it.
    """

    size: str
    saved: Contrast
    percent: float
    flops_ratio: float
    wall_ratio: float

    @property
    def cells(self) -> tuple[str, ...]:
        """For a table."""
        return self.size, *self.saved.cells, f"{self.percent:+.2f}", f"{self.flops_ratio:.2f}", f"{self.wall_ratio:.2f}"


@dataclass(frozen=True, kw_only=True)
class FeatureResult:
    """A feature, or ALL of them.

    effects: ascending by size. growth: what it saves at the largest size minus what it saves at the smallest.
    """

    feature: str
    effects: tuple[Effect, ...]
    growth: Contrast | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class AblationSummary:
    """The results of an ablation. population: what the intervals refer to. n_runs: of the plan."""

    sizes: tuple[str, ...]
    results: tuple[FeatureResult, ...]
    population: str
    confidence: float
    n_runs: int

    @property
    def choice_bits(self) -> float:
        """The bits that it costs to state which run is the best, if it is chosen by the result on this corpus."""
        return math.log2(self.n_runs)

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self) | {"choice_bits": self.choice_bits}

    def to_text(self) -> str:
        """Effects and verdicts."""
        percent = f"{100 * self.confidence:g} %"
        effects = [(result.feature, *effect.cells) for result in self.results for effect in result.effects]
        growth = [
            (each.feature, *(each.growth.cells if each.growth else ("-", "-")), each.verdict) for each in self.results
        ]
        return "\n\n".join(
            [
                format_table(("added to base", "size", "saved", percent, "%", "FLOPs x", "time x"), effects),
                format_table(("added to base", "more saved at the largest", percent, "verdict"), growth),
                "Saved: bits/byte without the feature minus bits/byte with it; above 0 where the feature helps.\n"
                f"{percent} intervals, each for one figure: of {self.population}.\n"
                f"If this ablation is used to choose the best of these {self.n_runs} runs, the choice costs "
                f"log2 {self.n_runs} = {self.choice_bits:.2f} bits more.",
            ]
        )


Runs = Mapping[Variant, Sequence[Run]]


def _feature_result(ablation: Ablation, feature: str, runs: Runs) -> FeatureResult:
    pairs = {size: (ablation.variants[size, BASE], ablation.variants[size, feature]) for size in ablation.sizes}
    finished = {size: pair for size, pair in pairs.items() if all(variant in runs for variant in pair)}
    effects = tuple(_effect(size, pair, runs, ablation.bootstrap) for size, pair in finished.items())
    growth = None
    if len(finished) > 1:
        (small_off, small_on), *_, (large_off, large_on) = finished.values()
        weights = ((1, large_off), (-1, large_on), (-1, small_off), (1, small_on))
        growth = contrast([(weight, runs[variant]) for weight, variant in weights], ablation.bootstrap)
    return FeatureResult(
        feature=feature,
        effects=effects,
        growth=growth,
        verdict=verdict([effect.saved.sign for effect in effects], growth.sign if growth else 0),
    )


def _effect(size: str, pair: tuple[Variant, Variant], runs: Runs, bootstrap: Bootstrap) -> Effect:
    off, on = (runs[variant] for variant in pair)
    flops_off, flops_on = (variant.flops(off[0].record["corpus"]["n_bytes"]) or math.nan for variant in pair)
    saved = contrast([(1, off), (-1, on)], bootstrap)
    return Effect(
        size=size,
        saved=saved,
        percent=100 * saved.bits / _mean(off, "code_bits"),
        flops_ratio=flops_on / flops_off,
        wall_ratio=_mean(on, "wall_s") / _mean(off, "wall_s"),
    )


def verdict(signs: Sequence[int], growth: int) -> str:
    """What the intervals of a feature show. The point values do not count.

    signs: of what it saves at each size (`Contrast.sign`), ascending. growth: the sign of the difference between the largest and
    the smallest size. "only small" and "only large": the difference is shown, and help is shown at one end but not at the other.
    "hurts more" and "hurts less": the difference is shown, and harm is shown at the end where the feature saves less.
    """
    if not signs:
        return "no run"
    if all(sign < 0 for sign in signs):
        return "hurts"
    if growth < 0:
        return "only small" if signs[0] > 0 >= signs[-1] else "hurts more" if signs[-1] < 0 else "fades"
    if growth > 0:
        return "only large" if signs[-1] > 0 >= signs[0] else "hurts less" if signs[0] < 0 else "grows"
    return "helps" if all(sign > 0 for sign in signs) else "unclear"


def _mean(runs: Sequence[Run], name: str) -> float:
    return math.fsum(run.record[name] for run in runs) / len(runs)
