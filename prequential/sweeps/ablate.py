"""Ablations: how many bits each feature of a configuration saves, at two sizes or more, to find features that help only if small.

    ablation = plan_ablation(preset(5, pure=True), sizes=[(64, 1), (128, 2)])
    outcomes = list(run_plan("book.txt", ablation.plan, "runs"))
    summary = summarise_ablation(ablation, outcomes)

`full` is a configuration that is known to be good, at some size. `base` is the same without any of the chosen features. From
base, features are added one at a time. From full, they are removed one at a time. Features set different fields, so the order of
their removal does not matter.

All figures are differences of ideal code lengths over the same bytes. Each is a contrast, a weighted sum over runs. For example
(base) - (base + feature) is what the feature saves. The same at the largest size minus that at the smallest is its growth.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.comparison.intervals import (
    MIN_CELLS,
    Bootstrap,
    block_length,
    bounds,
    cell_deviations,
    choose_cell_bytes,
)
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import Run
from prequential.model.config import HASHED_CONTEXTS, RECALL_CONTEXTS, Config
from prequential.online.flops import replay_factor, total_flops
from prequential.online.runtime import Runtime
from prequential.sweeps.plans import Outcome, Plan, Refusal, Setting, runs_by_setting
from prequential.sweeps.sweep import varied

FROM_BASE, FROM_FULL = "base", "full"
NO_DECAY = 10**9  # updates after which the step size would have shrunk to 1/sqrt(2)
CONFIDENCE = 0.9


# ---- features


class Feature(NamedTuple):
    """A feature that a configuration may have. without: returns the configuration without the feature.

    by_default: whether the feature is chosen if none are named.
    """

    name: str
    description: str
    without: Callable[[Config], Config]
    by_default: bool = True


def _with_gpt(**fields: Any) -> Callable[[Config], Config]:
    return lambda config: replace(config, gpt=replace(config.gpt, **fields)) if config.gpt else config


# Kinds of contexts of the mixer, by name. The first pattern that matches decides.
KINDS = {
    "match": r"match.*",
    "indirect": r"(after|next).*",
    "structure": r"(nest|tag|inside|opened).*",
    "columns": r".*(above|line|indent).*|first.*",
    "classes": r"classes|(groups|collapsed|folded).*",
    "sparse": r"skip.*|halves|nibbles.*",
    "words": r".*(word|letters|vowels|length|gap|phrase|suffix).*",
    "high-orders": r"[5-9]|1\d",
}


def _kind(context: str) -> str | None:
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, context)), None)


def _without_contexts(kind: str) -> Callable[[Config], Config]:
    def without(config: Config) -> Config:
        if config.mixer is None:
            return config
        kept = tuple(name for name in config.mixer.contexts if _kind(name) != kind)
        return replace(config, mixer=replace(config.mixer, contexts=kept))

    return without


def _without_gpt_contexts(names: tuple[str, ...]) -> Callable[[Config], Config]:
    def without(config: Config) -> Config:
        contexts = config.gpt.contexts if config.gpt else ()
        return _with_gpt(contexts=tuple(name for name in contexts if name not in names))(config)

    return without


def _without_replay(config: Config) -> Config:
    schedule = config.schedule
    return replace(config, schedule=replace(schedule, n_rows=-(-schedule.segment_symbols // schedule.row_symbols)))


def _without_short_start(config: Config) -> Config:
    return replace(config, schedule=replace(config.schedule, first_segment_symbols=config.schedule.segment_symbols))


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("embeddings", "several symbols enter the GPT, not only the last one", _with_gpt(n_embeddings=1)),
        Feature(
            "contexts", "several symbols together, and words, enter the GPT", _without_gpt_contexts(HASHED_CONTEXTS)
        ),
        Feature("recall", "what followed these before enters the GPT", _without_gpt_contexts(RECALL_CONTEXTS)),
        Feature("window", "attention reaches further than 16 symbols", _with_gpt(window=16)),
        Feature("replay", "a step learns from more rows than the newest segment", _without_replay),
        Feature("short-start", "early segments are shorter, so there are more early steps", _without_short_start),
        Feature("warmup", "the first steps are shorter, not only the first one", _with_gpt(warmup_updates=1)),
        Feature("decay", "steps become shorter with time", _with_gpt(decay_updates=NO_DECAY)),
        Feature("momentum", "a step continues in the direction of earlier ones", _with_gpt(momentum=0.0)),
        Feature("mlp", "the MLP is wider than the GPT", _with_gpt(mlp_factor=1), by_default=False),
        Feature("high-orders", "the mixer's contexts of 5 bytes and more", _without_contexts("high-orders")),
        Feature("words", "the mixer's contexts of words", _without_contexts("words")),
        Feature("sparse", "the mixer's contexts with gaps", _without_contexts("sparse")),
        Feature("columns", "the mixer's contexts of lines and columns", _without_contexts("columns")),
        Feature("structure", "the mixer's contexts of brackets and tags", _without_contexts("structure")),
        Feature("classes", "the mixer's contexts of kinds of characters", _without_contexts("classes")),
        Feature("indirect", "the mixer's contexts of what followed before", _without_contexts("indirect")),
        Feature("match", "the mixer's contexts of the longest match", _without_contexts("match")),
        Feature("mixer", "the complete context mixer", lambda config: replace(config, mixer=None), by_default=False),
    )
}


def without(config: Config, names: Iterable[str]) -> Config:
    """`config` without these features. Raises ConfigError if the result is not a valid configuration."""
    for name in names:
        config = FEATURES[name].without(config)
    return config


# ---- the plan


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """The runs of an ablation. sizes: names, ascending by operations. settings: by size and the set of features that are on."""

    sizes: tuple[str, ...]
    features: tuple[str, ...]
    directions: tuple[str, ...]
    settings: Mapping[tuple[str, frozenset[str]], Setting]
    plan: Plan

    def pair(self, direction: str, size: str, feature: str) -> tuple[Setting, Setting]:
        """The settings without and with the feature. All other features are off (from base) or on (from full)."""
        every = frozenset(self.features)
        off = frozenset[str]() if direction == FROM_BASE else every - {feature}
        return self.settings[size, off], self.settings[size, off | {feature}]


def plan_ablation(
    full: Config,
    *,
    sizes: Sequence[tuple[int, int]],
    features: Sequence[str] | None = None,
    directions: Sequence[str] = (FROM_BASE,),
    seeds: Sequence[int] | None = None,
    runtime: Runtime | None = None,
) -> Ablation:
    """Base, full, and every setting that differs from one of them by one feature, at each size.

    sizes: (width, layers) of the GPT. Heads keep the width that they have in `full`. features: by default all that `full` has,
    except mlp and mixer. A size that is out of range, or exceeds the limits of the runtime, is refused by name. Raises
    ConfigError without a GPT or without a size that is left, for an unknown feature, and for one that makes no difference.
    """
    if full.gpt is None:
        raise ConfigError("an ablation varies the size of the GPT, and this configuration has none: choose -5 to -9")
    chosen = _chosen(full, features)
    settings: dict[tuple[str, frozenset[str]], Setting] = {}
    refusals, flops = [], {}
    for width, n_layers in dict.fromkeys(sizes):
        size = f"{width}x{n_layers}"
        try:
            sized = varied(full, replay_factor(full), width, n_layers, full.schedule.segment_symbols)
            (runtime or Runtime()).check(sized)
            for on in _points(chosen, directions):
                settings[size, on] = _setting(size, sized, chosen, on, seeds or [full.seed])
            flops[size] = total_flops(sized, 1 << 20).total
        except ConfigError as error:
            refusals.append(Refusal(size, str(error)))
    if not flops:
        raise ConfigError(f"no size is left; {refusals[0].name}: {refusals[0].reason}")
    return Ablation(
        sizes=tuple(sorted(flops, key=lambda size: (flops[size], size))),
        features=chosen,
        directions=tuple(directions),
        settings=settings,
        plan=Plan(settings=tuple(settings.values()), refusals=tuple(refusals)),
    )


def _chosen(full: Config, names: Sequence[str] | None) -> tuple[str, ...]:
    """The features in the order of FEATURES. Raises ConfigError if one makes no difference with the others off."""
    if unknown := [name for name in names or () if name not in FEATURES]:
        raise ConfigError(f"there is no feature {unknown[0]!r}; the features are {', '.join(FEATURES)}")
    wanted = [f.name for f in FEATURES.values() if (f.by_default if names is None else f.name in names)]
    has = [name for name in wanted if without(full, [name]) != full]
    if names is not None and len(has) < len(wanted):
        missing = next(name for name in wanted if name not in has)
        raise ConfigError(
            f"the configuration has no {missing!r} ({FEATURES[missing].description}) that could be removed"
        )
    if not has:
        raise ConfigError("the configuration has no feature that could be removed")
    for name in has:
        others = [other for other in has if other != name]
        if without(full, others) == without(full, has):
            raise ConfigError(f"{name!r} makes no difference without {', '.join(others)}: leave one of them out")
    return tuple(has)


def _points(features: Sequence[str], directions: Sequence[str]) -> list[frozenset[str]]:
    """The sets of features that are on, each once; base is the first and full the last."""
    every, none = frozenset(features), frozenset[str]()
    points = [none]
    if FROM_BASE in directions:
        points += [frozenset([name]) for name in features]
    if FROM_FULL in directions:
        points += [every - {name} for name in features]
    return list(dict.fromkeys([*points, every]))


def _setting(size: str, sized: Config, features: Sequence[str], on: frozenset[str], seeds: Sequence[int]) -> Setting:
    config = without(sized, [name for name in features if name not in on])
    return Setting(
        name=f"{size}, {_title(features, on)}",
        configs=tuple(replace(config, seed=seed) for seed in dict.fromkeys(seeds)),
    )


def _title(features: Sequence[str], on: frozenset[str]) -> str:
    off = [name for name in features if name not in on]
    if not off:
        return "full"
    if len(on) <= len(off):
        return " + ".join(["base", *sorted(on)])
    return " - ".join(["full", *off])


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
    def interval_per_byte(self) -> tuple[float, float] | None:
        """The interval in bits per byte, or None."""
        if self.low_bits is None or self.high_bits is None:
            return None
        return self.low_bits / self.n_bytes, self.high_bits / self.n_bytes

    @property
    def sign(self) -> int:
        """1 or -1 if the interval is above or below 0; 0 if it contains 0 or there is none."""
        if self.low_bits is None or self.high_bits is None:
            return 0
        return int(self.low_bits > 0) - int(self.high_bits < 0)


def contrast(terms: Sequence[tuple[float, Sequence[Run]]], bootstrap: Bootstrap, start_byte: int = 0) -> Contrast:
    """The sum of weight * mean code length of runs, from start_byte to the end, over the seeds that all terms have.

    The interval is the confidence interval of comparison/intervals.py: blocks of text are resampled together for all
    runs, and seeds too if there are several. For two terms with weights 1 and -1 it is that of `compare`. Raises CorpusError
    without a common seed.
    """
    seeds, weighted = _common_seeds(terms)
    curves = [curve for _, group in weighted for curve in group]
    end = int(curves[0].n_bytes[-1])
    n_bytes = end - start_byte
    bits = math.fsum(_stretch_bits(weighted, np.array([start_byte, end]))[:, 0]) / len(seeds)
    cell_bytes = choose_cell_bytes(curves, n_bytes)
    n_cells = n_bytes // cell_bytes
    if n_cells < MIN_CELLS:
        return Contrast(bits=bits, low_bits=None, high_bits=None, n_bytes=n_bytes)
    cells = _stretch_bits(weighted, start_byte + cell_bytes * np.arange(n_cells + 1))
    block = block_length(cells.mean(0))
    deviations = cell_deviations((np.zeros_like(cells), seeds), (cells, seeds), block, bootstrap)
    low, high = bounds(deviations * n_bytes / cell_bytes, bootstrap)
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

    late: only for the second half of the corpus. percent: of the code length without it. flops_ratio, wall_ratio: operations
    and time with it, divided by those without it.
    """

    size: str
    saved: Contrast
    late: Contrast
    percent: float
    flops_ratio: float
    wall_ratio: float


@dataclass(frozen=True, kw_only=True)
class FeatureResult:
    """A feature in one direction.

    effects: ascending by size. growth: what it saves at the largest size minus what it saves at the smallest.
    """

    feature: str
    direction: str
    effects: tuple[Effect, ...]
    growth: Contrast | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Together:
    """All features together at one size.

    saved: base minus full. singles: the sum of what each feature saves if it alone is added to base. interaction: saved minus
    singles; below 0, the features partly save the same bits. The last two are None if not all of their runs are finished.
    """

    size: str
    saved: Contrast
    singles: Contrast | None
    interaction: Contrast | None


@dataclass(frozen=True, kw_only=True)
class AblationSummary:
    """The results of an ablation. bits_per_byte: mean ideal code length of each setting with a finished run, by name.

    population: what the intervals refer to. n_runs: of the plan.
    """

    results: tuple[FeatureResult, ...]
    together: tuple[Together, ...]
    bits_per_byte: Mapping[str, float]
    population: str
    confidence: float
    n_runs: int

    @property
    def choice_bits(self) -> float:
        """The bits that it costs to state which run is the best, if it is chosen by the result on this corpus."""
        return math.log2(self.n_runs)


def summarise_ablation(
    ablation: Ablation, outcomes: Iterable[Outcome], bootstrap: Bootstrap | None = None
) -> AblationSummary:
    """Effects, growth and interactions of the finished runs. Results that lack a run are left out.

    Raises CorpusError if no run is finished.
    """
    runs = runs_by_setting(outcomes)
    if not runs:
        raise CorpusError("no run of the ablation is finished")
    bootstrap = bootstrap or Bootstrap(confidence=CONFIDENCE)
    results = [
        _feature_result(ablation, direction, feature, runs, bootstrap)
        for direction in ablation.directions
        for feature in ablation.features
    ]
    several = len(ablation.plan.settings[0].configs) > 1
    return AblationSummary(
        results=tuple(result for result in results if result.effects),
        together=tuple(t for size in ablation.sizes if (t := _together(ablation, size, runs, bootstrap))),
        bits_per_byte={setting.name: _mean_bits(group) / _n_bytes(group) for setting, group in runs.items()},
        population=f"other text of this length and kind, {'and other seeds' if several else 'under this seed'}",
        confidence=bootstrap.confidence,
        n_runs=len(ablation.plan.configs),
    )


Runs = Mapping[Setting, Sequence[Run]]


def _feature_result(
    ablation: Ablation, direction: str, feature: str, runs: Runs, bootstrap: Bootstrap
) -> FeatureResult:
    pairs = {size: ablation.pair(direction, size, feature) for size in ablation.sizes}
    finished = [size for size, pair in pairs.items() if all(setting in runs for setting in pair)]
    effects = tuple(_effect(size, pairs[size], runs, bootstrap) for size in finished)
    growth = None
    if len(finished) > 1:
        (small_off, small_on), (large_off, large_on) = pairs[finished[0]], pairs[finished[-1]]
        weights = ((1, large_off), (-1, large_on), (-1, small_off), (1, small_on))
        growth = contrast([(weight, runs[setting]) for weight, setting in weights], bootstrap)
    return FeatureResult(
        feature=feature,
        direction=direction,
        effects=effects,
        growth=growth,
        verdict=verdict([effect.saved.sign for effect in effects], growth.sign if growth else 0),
    )


def _effect(size: str, pair: tuple[Setting, Setting], runs: Runs, bootstrap: Bootstrap) -> Effect:
    off, on = (runs[setting] for setting in pair)
    n_bytes = _n_bytes(off)
    flops_off, flops_on = (total_flops(setting.own[0], n_bytes).total for setting in pair)
    saved = contrast([(1, off), (-1, on)], bootstrap)
    return Effect(
        size=size,
        saved=saved,
        late=contrast([(1, off), (-1, on)], bootstrap, n_bytes // 2),
        percent=100 * saved.bits / _mean_bits(off),
        flops_ratio=flops_on / flops_off,
        wall_ratio=_mean_wall_s(on) / _mean_wall_s(off),
    )


def _together(ablation: Ablation, size: str, runs: Runs, bootstrap: Bootstrap) -> Together | None:
    def finished(features: Iterable[str]) -> Sequence[Run] | None:
        setting = ablation.settings.get((size, frozenset(features)))
        return runs.get(setting) if setting else None

    base, full = finished([]), finished(ablation.features)
    if base is None or full is None:
        return None
    added = [group for feature in ablation.features if (group := finished([feature]))]
    singles = interaction = None
    if len(added) == len(ablation.features):
        singles = contrast([(len(added), base), *((-1, group) for group in added)], bootstrap)
        interaction = contrast([(1 - len(added), base), (-1, full), *((1, group) for group in added)], bootstrap)
    return Together(
        size=size,
        saved=contrast([(1, base), (-1, full)], bootstrap),
        singles=singles,
        interaction=interaction,
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


def _mean_bits(runs: Sequence[Run]) -> float:
    return math.fsum(run.record["code_bits"] for run in runs) / len(runs)


def _n_bytes(runs: Sequence[Run]) -> int:
    n_bytes: int = runs[0].record["corpus"]["n_bytes"]
    return n_bytes


def _mean_wall_s(runs: Sequence[Run]) -> float:
    return math.fsum(run.record["wall_s"] for run in runs) / len(runs)
