"""Ablations: what each feature of a configuration buys, at two sizes or more, so that what helps only when small is seen.

    made = plan_ablation(preset(5, pure=True), sizes=[(64, 1), (128, 2)])
    outcomes = list(sweep("book.txt", made.plan, "runs", evaluate=prequential.evaluate, program_version=prequential.__version__))
    summary = summarise_ablation(made, outcomes)

A feature is a function that takes something away from a configuration. `full` is a configuration known to be good, at some size;
`base` is what is left when every chosen feature is taken away. From base, features are added one at a time; from full, they are
removed one at a time; full itself is both "all added" and the reference of what is removed. Features set different fields, so
the order of taking away does not matter.

All figures are of ideal code lengths over the same bytes, hence paired. Every one is a sum of runs with weights, a contrast:
(base) - (base + feature) is what the feature saves, the same at the largest size less that at the smallest how it grows.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.runs import Run
from prequential.measure.evaluation.trace import MODEL
from prequential.measure.study.compare import MAX_CELLS, MIN_CELLS, Bootstrap, block_length, cell_deviations
from prequential.measure.study.sweep import Outcome, Plan, Refusal, Setting, varied
from prequential.model.config import Config
from prequential.online.flops import replay_factor, total_flops
from prequential.online.limits import MAX_MEMORY_BYTES, check_memory
from prequential.online.runtime import Runtime

FROM_BASE, FROM_FULL = "base", "full"
NO_DECAY = 10**9  # updates after which a step would have shrunk to 1/sqrt(2)
CONFIDENCE = 0.9


# ---- features


class Feature(NamedTuple):
    """Something that a configuration may have. without: the configuration as it is without it; equal, if it has it not.

    by_default: whether it is among the features where none are named.
    """

    name: str
    what: str
    without: Callable[[Config], Config]
    by_default: bool = True


def _gpt(**fields: Any) -> Callable[[Config], Config]:
    return lambda config: replace(config, gpt=replace(config.gpt, **fields)) if config.gpt else config


def _contexts(*names: str) -> Callable[[Config], Config]:
    def without(config: Config) -> Config:
        if config.mixer is None:
            return config
        kept = tuple(name for name in config.mixer.contexts if name not in names)
        return replace(config, mixer=replace(config.mixer, contexts=kept))

    return without


def _without_replay(config: Config) -> Config:
    schedule = config.schedule
    return replace(config, schedule=replace(schedule, n_rows=-(-schedule.segment_symbols // schedule.row_symbols)))


def _without_short_start(config: Config) -> Config:
    return replace(config, schedule=replace(config.schedule, first_segment_symbols=config.schedule.segment_symbols))


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("embeddings", "several symbols enter the GPT, not the last one alone", _gpt(n_embeddings=1)),
        Feature("contexts", "several symbols together, and words, enter the GPT", _gpt(contexts=())),
        Feature("window", "attention reaches further than 16 symbols", _gpt(window=16)),
        Feature("replay", "a step learns from more rows than the newest segment", _without_replay),
        Feature("short-start", "early segments are shorter, so early steps are more", _without_short_start),
        Feature("warmup", "the first steps are shorter, not the first one alone", _gpt(warmup_updates=1)),
        Feature("decay", "steps become shorter with time", _gpt(decay_updates=NO_DECAY)),
        Feature("momentum", "a step goes on in the direction of those before", _gpt(momentum=0.0)),
        Feature("mlp", "the MLP is wider than the GPT", _gpt(mlp_factor=1), by_default=False),
        Feature("high-orders", "the mixer's contexts of 5, 6 and 8 bytes", _contexts("5", "6", "8")),
        Feature(
            "words",
            "the mixer's contexts of words",
            _contexts("word", "word,1", "word2", "word,word3", "word3", "word,2", "word,marks"),
        ),
        Feature("sparse", "the mixer's contexts with gaps", _contexts("skip2-3", "skip1,3", "skip3-4")),
        Feature("columns", "the mixer's contexts of lines and columns", _contexts("above", "line,above", "first,word")),
        Feature("classes", "the mixer's context of kinds of characters", _contexts("classes")),
        Feature("match", "the mixer's longest match", _contexts("match")),
        Feature("mixer", "the whole context mixer", lambda config: replace(config, mixer=None), by_default=False),
    )
}


def without(config: Config, names: Iterable[str]) -> Config:
    """`config` without these features. Raises ConfigError where nothing sensible is left."""
    for name in names:
        config = FEATURES[name].without(config)
    return config


# ---- the plan


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """What is going to be run. sizes: names, ascending by operations. settings: by size and the features that are on."""

    sizes: tuple[str, ...]
    features: tuple[str, ...]
    directions: tuple[str, ...]
    settings: Mapping[tuple[str, frozenset[str]], Setting]
    plan: Plan

    def pair(self, direction: str, size: str, feature: str) -> tuple[Setting, Setting]:
        """The settings without the feature and with it, all others being off (from base) or on (from full)."""
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
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    runtime: Runtime | None = None,
) -> Ablation:
    """Base, full and what lies one feature from either, at each size. Costs nothing but the plan.

    sizes: (width, layers) of the GPT, heads keeping the width they have in `full`. features: by default all that `full` has, but
    for mlp and mixer.
    A size that is no configuration, or above max_memory_bytes, is refused by name. Raises ConfigError without a GPT or a size,
    for an unknown feature, and for one that makes no difference.
    """
    if full.gpt is None:
        raise ConfigError("an ablation varies the size of the GPT, and this configuration has none: choose another")
    chosen = _chosen(full, features)
    settings: dict[tuple[str, frozenset[str]], Setting] = {}
    refusals, cost = [], {}
    for width, n_layers in dict.fromkeys(sizes):
        name = f"{width}x{n_layers}"
        try:
            sized = varied(full, replay_factor(full), width, n_layers, full.schedule.segment_symbols)
            check_memory(sized, max_memory_bytes, runtime or Runtime())
            points = _points(chosen, directions)
            settings |= {(name, on): _setting(name, sized, chosen, on, seeds or [full.seed]) for on in points}
            cost[name] = total_flops(sized, 1 << 20).total
        except ConfigError as error:
            refusals.append(Refusal(name, str(error)))
    if not cost:
        raise ConfigError(f"no size is left; of {refusals[0].name}: {refusals[0].reason}")
    plan = Plan(settings=tuple(settings.values()), refusals=tuple(refusals), max_memory_bytes=max_memory_bytes)
    ordered = tuple(sorted(cost, key=lambda name: (cost[name], name)))
    return Ablation(sizes=ordered, features=chosen, directions=tuple(directions), settings=settings, plan=plan)


def _chosen(full: Config, names: Sequence[str] | None) -> tuple[str, ...]:
    """The features, in the order of FEATURES; each makes a difference, whichever of the others are on."""
    if unknown := [name for name in names or () if name not in FEATURES]:
        raise ConfigError(f"no feature {unknown[0]!r}; there are {', '.join(FEATURES)}")
    wanted = [f.name for f in FEATURES.values() if (f.by_default if names is None else f.name in names)]
    has = [name for name in wanted if without(full, [name]) != full]
    if names is not None and len(has) < len(wanted):
        missing = next(name for name in wanted if name not in has)
        raise ConfigError(f"the configuration has no {missing!r} ({FEATURES[missing].what}) to be without")
    if not has:
        raise ConfigError("the configuration has none of the features that could be taken away")
    for name in has:
        others = [other for other in has if other != name]
        if without(full, others) == without(full, has):
            raise ConfigError(f"{name!r} makes no difference where {', '.join(others)} are off: leave one of them out")
    return tuple(has)


def _points(features: Sequence[str], directions: Sequence[str]) -> list[frozenset[str]]:
    """Sets of features that are on, each once, base first and full last."""
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
    """A weighted sum of mean code lengths over the same n_bytes, in bits, and its interval; None where there is none.

    bits is exact for one seed. The interval is of a population: see `population`.
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
        """In bits per byte."""
        if self.low_bits is None or self.high_bits is None:
            return None
        return self.low_bits / self.n_bytes, self.high_bits / self.n_bytes

    @property
    def sign(self) -> int:
        """1 or -1 where the whole interval is above or below 0; 0 where it holds 0, or there is none."""
        if self.low_bits is None or self.high_bits is None:
            return 0
        return int(self.low_bits > 0) - int(self.high_bits < 0)


def contrast(terms: Sequence[tuple[float, Sequence[Run]]], bootstrap: Bootstrap, start_byte: int = 0) -> Contrast:
    """The sum of weight * mean code length of runs, from start_byte to the end, over the seeds that all of them have.

    The interval is that of measure/study/compare.py for a series of cells: blocks of text resampled together for all runs, seeds
    too where there are several; of two terms of weights 1 and -1 it is `compare`'s own. Raises CorpusError without a common
    seed.
    """
    by_seed = [(weight, {run.record["config"]["seed"]: run.curves[MODEL] for run in runs}) for weight, runs in terms]
    seeds = sorted(set.intersection(*(set(curves) for _, curves in by_seed)))
    if not seeds:
        raise CorpusError("these runs have no seed in common: nothing to compare")
    weighted = [(weight, [curves[seed] for seed in seeds]) for weight, curves in by_seed]
    every = [curve for _, curves in weighted for curve in curves]
    end = int(every[0].n_bytes[-1])
    n_bytes = end - start_byte

    def rising(at: np.ndarray) -> np.ndarray:  # (n,) positions to (S, n - 1) bits of each stretch, terms summed
        return np.sum([weight * np.diff([curve.at(at) for curve in curves]) for weight, curves in weighted], 0)

    bits = math.fsum(rising(np.array([start_byte, end]))[:, 0]) / len(seeds)
    widest = max(int(np.diff(curve.n_bytes, prepend=0).max()) for curve in every)
    cell_bytes = widest * math.ceil(n_bytes / (widest * MAX_CELLS))
    n_cells = n_bytes // cell_bytes
    if n_cells < MIN_CELLS:
        return Contrast(bits=bits, low_bits=None, high_bits=None, n_bytes=n_bytes)
    cells = rising(start_byte + cell_bytes * np.arange(n_cells + 1))
    block = block_length(cells.mean(0))
    deviations = cell_deviations((np.zeros_like(cells), seeds), (cells, seeds), block, bootstrap) * n_bytes / cell_bytes
    low, high = np.sort(deviations)[[bootstrap.n_outside - 1, -bootstrap.n_outside]]
    return Contrast(bits=bits, low_bits=bits + float(low), high_bits=bits + float(high), n_bytes=n_bytes)


# ---- what came of it


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a feature saves at one size: code length without it less that with it; positive where it helps.

    late: of the corpus's second half alone. percent: of the code length without it. flops_ratio, wall_ratio: operations and
    time with it over those without.
    """

    size: str
    saved: Contrast
    late: Contrast
    percent: float
    flops_ratio: float
    wall_ratio: float


@dataclass(frozen=True, kw_only=True)
class FeatureResult:
    """A feature in one direction: its effects, ascending by size; growth: saved at the largest less at the smallest size."""

    feature: str
    direction: str
    effects: tuple[Effect, ...]
    growth: Contrast | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Together:
    """All features at once at one size, saved against base; `singles`: the sum of what each saves alone, added to base.

    interaction: together - singles; negative where features buy the same thing twice. Both None where not all were run.
    """

    size: str
    saved: Contrast
    singles: Contrast | None
    interaction: Contrast | None


@dataclass(frozen=True, kw_only=True)
class AblationSummary:
    """All that is known of an ablation. bits_per_byte: mean ideal code length of each setting that has a run, by name."""

    results: tuple[FeatureResult, ...]
    together: tuple[Together, ...]
    bits_per_byte: Mapping[str, float]
    population: str
    confidence: float
    n_runs: int

    @property
    def choice_bits(self) -> float:
        """What it costs to say which run is the best one, where it is chosen by this corpus's own result."""
        return math.log2(self.n_runs)


def summarise_ablation(
    ablation: Ablation, outcomes: Iterable[Outcome], bootstrap: Bootstrap | None = None
) -> AblationSummary:
    """Effects, growth and interactions of what is finished; what lacks a run is left out. Raises CorpusError if nothing is."""
    runs: dict[str, list[Run]] = {}
    for outcome in outcomes:
        if outcome.run:
            runs.setdefault(outcome.setting.name, []).append(outcome.run)
    if not runs:
        raise CorpusError("no run of the ablation is finished")
    bootstrap = bootstrap or Bootstrap(confidence=CONFIDENCE)
    found = [
        _feature_result(ablation, direction, feature, runs, bootstrap)
        for direction in ablation.directions
        for feature in ablation.features
    ]
    several = len(ablation.plan.settings[0].configs) > 1
    return AblationSummary(
        results=tuple(result for result in found if result.effects),
        together=tuple(t for size in ablation.sizes if (t := _together(ablation, size, runs, bootstrap))),
        bits_per_byte={name: _mean_bits(of_it) / of_it[0].record["corpus"]["n_bytes"] for name, of_it in runs.items()},
        population=f"other text of this length and kind, {'and other seeds' if several else 'under this seed'}",
        confidence=bootstrap.confidence,
        n_runs=len(ablation.plan.configs),
    )


Runs = Mapping[str, Sequence[Run]]  # by the name of their setting


def _feature_result(
    ablation: Ablation, direction: str, feature: str, runs: Runs, bootstrap: Bootstrap
) -> FeatureResult:
    pairs = {size: ablation.pair(direction, size, feature) for size in ablation.sizes}
    done = [size for size, pair in pairs.items() if all(setting.name in runs for setting in pair)]
    effects = tuple(_effect(size, pairs[size], runs, bootstrap) for size in done)
    growth = None
    if len(done) > 1:
        (small_off, small_on), (large_off, large_on) = pairs[done[0]], pairs[done[-1]]
        weights = ((1, large_off), (-1, large_on), (-1, small_off), (1, small_on))
        growth = contrast([(weight, runs[setting.name]) for weight, setting in weights], bootstrap)
    return FeatureResult(
        feature=feature,
        direction=direction,
        effects=effects,
        growth=growth,
        verdict=verdict([effect.saved.sign for effect in effects], growth.sign if growth else 0),
    )


def _effect(size: str, pair: tuple[Setting, Setting], runs: Runs, bootstrap: Bootstrap) -> Effect:
    off, on = (runs[setting.name] for setting in pair)
    n_bytes = off[0].record["corpus"]["n_bytes"]
    flops_off, flops_on = (total_flops(setting.configs[0], n_bytes).total for setting in pair)
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
    def named(features: Iterable[str]) -> str | None:
        setting = ablation.settings.get((size, frozenset(features)))
        return setting.name if setting and setting.name in runs else None

    base, full = named([]), named(ablation.features)
    if base is None or full is None:
        return None
    single = [name for feature in ablation.features if (name := named([feature]))]
    singles = interaction = None
    if len(single) == len(ablation.features):
        singles = contrast([(len(single), runs[base]), *((-1, runs[name]) for name in single)], bootstrap)
        against = [(1 - len(single), runs[base]), (-1, runs[full]), *((1, runs[name]) for name in single)]
        interaction = contrast(against, bootstrap)
    saved = contrast([(1, runs[base]), (-1, runs[full])], bootstrap)
    return Together(size=size, saved=saved, singles=singles, interaction=interaction)


def verdict(signs: Sequence[int], growth: int) -> str:
    """What the intervals of a feature show, from the smallest size to the largest; point values have no say.

    signs: of what it saves at each size (`Contrast.sign`); growth: of the difference between the largest and the smallest.
    "only small" and "only large" need both: help shown at one end and not at the other, and a difference that is shown.
    "hurts more" and "hurts less" are "fades" and "grows" of what is shown to hurt at the end where it saves less.
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


def _mean_wall_s(runs: Sequence[Run]) -> float:
    return math.fsum(run.record["wall_s"] for run in runs) / len(runs)
