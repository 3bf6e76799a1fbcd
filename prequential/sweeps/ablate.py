"""Ablations: how many bits each feature of a configuration saves, at two sizes or more, to find features that help only if small.

`base` is a good configuration without any of the chosen features. Each feature alone, and finally all of them, are added to it.
All figures are contrasts: differences of ideal code lengths over the same bytes, (base) - (base + feature), at one size, or at
the largest size minus that at the smallest.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from prequential.comparison.intervals import check_confidence
from prequential.comparison.prediction import mean_variance, sample_variance, text_cells
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import Run
from prequential.model.config import HASHED_CONTEXTS, RECALL_CONTEXTS, Config
from prequential.online.costs import replay_factor
from prequential.online.runtime import Runtime
from prequential.printable import format_table
from prequential.sweeps.ladder import Size
from prequential.sweeps.plan_runs import RunOutcome, Study, runs_by_variant
from prequential.sweeps.plans import Plan, Variant, plan_of, seeded, varied

BASE, ALL = "base", "all"  # without and with all features
CONFIDENCE = 0.9
NO_DECAY = 10**9  # updates after which the step size would have shrunk to 1/sqrt(2)
ONLY_IF_NAMED = ("mlp", "mixer")
ADVICE = {  # by verdict
    **dict.fromkeys(("helps", "grows", "only large"), "keep"),
    **dict.fromkeys(("fades", "only small"), "expect less at a larger size of"),
    **dict.fromkeys(("hurts", "hurts more", "hurts less"), "leave out"),
}


# ---- features


class Feature(NamedTuple):
    """What a configuration may have. without: sets its own fields only, so the order of removals does not matter."""

    description: str
    without: Callable[[Config], Config]


def _gpt(**fields: Any) -> Callable[[Config], Config]:
    return lambda config: replace(config, gpt=replace(config.gpt, **fields)) if config.gpt else config


def _no_gpt_contexts(names: Sequence[str], config: Config) -> Config:
    contexts = config.gpt.contexts if config.gpt else ()
    return _gpt(contexts=tuple(name for name in contexts if name not in names))(config)


def _no_contexts(kind: str, config: Config) -> Config:
    if config.mixer is None:
        return config
    kept = tuple(name for name in config.mixer.contexts if _kind(name) != kind)
    return replace(config, mixer=replace(config.mixer, contexts=kept))


def _no_replay(config: Config) -> Config:
    schedule = config.schedule
    return replace(config, schedule=replace(schedule, n_rows=-(-schedule.segment_symbols // schedule.row_symbols)))


def _no_short_start(config: Config) -> Config:
    return replace(config, schedule=replace(config.schedule, first_segment_symbols=config.schedule.segment_symbols))


# Kinds of contexts of the mixer: what they are, and the pattern of their names. The last pattern that matches decides.
KINDS = {
    "high-orders": ("of 5 bytes and more", r"[5-9]|1\d"),
    "words": ("of words", r".*(word|letters|vowels|length|gap|phrase|suffix).*"),
    "sparse": ("with gaps", r"skip.*|halves|nibbles.*"),
    "columns": ("of lines and columns", r".*(above|line|indent).*|first.*"),
    "structure": ("of brackets and tags", r"(nest|tag|inside|opened).*"),
    "classes": ("of kinds of characters", r"classes|(groups|collapsed|folded).*"),
    "indirect": ("of what followed before", r"(after|next).*"),
    "match": ("of the longest match", r"match.*"),
}


def _kind(context: str) -> str | None:
    return next((kind for kind, (_, name) in reversed(KINDS.items()) if re.fullmatch(name, context)), None)


FEATURES = {
    "embeddings": Feature("several symbols enter the GPT, not only the last one", _gpt(n_embeddings=1)),
    "contexts": Feature(
        "several symbols together, and words, enter the GPT", partial(_no_gpt_contexts, HASHED_CONTEXTS)
    ),
    "recall": Feature("what followed these before enters the GPT", partial(_no_gpt_contexts, RECALL_CONTEXTS)),
    "window": Feature("attention reaches further than 16 symbols", _gpt(window=16)),
    "replay": Feature("a step learns from more rows than the newest segment", _no_replay),
    "short-start": Feature("early segments are shorter, so there are more early steps", _no_short_start),
    "warmup": Feature("the first steps are shorter, not only the first one", _gpt(warmup_updates=1)),
    "decay": Feature("steps become shorter with time", _gpt(decay_updates=NO_DECAY)),
    "momentum": Feature("a step continues in the direction of earlier ones", _gpt(momentum=0.0)),
    "mlp": Feature("the MLP is wider than the GPT", _gpt(mlp_factor=1)),
    **{kind: Feature(f"the mixer's contexts {what}", partial(_no_contexts, kind)) for kind, (what, _) in KINDS.items()},
    "mixer": Feature("the complete context mixer", lambda config: replace(config, mixer=None)),
}


def without(config: Config, names: Iterable[str]) -> Config:
    """`config` without these features. Raises ConfigError if the result is not a valid configuration."""
    for name in names:
        config = FEATURES[name].without(config)
    return config


# ---- the plan


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """The runs of an ablation. sizes: names, ascending by operations. variants: by size and BASE, the feature added, or ALL."""

    sizes: tuple[str, ...]
    features: tuple[str, ...]
    variants: Mapping[tuple[str, str], Variant]
    plan: Plan
    confidence: float

    @property
    def study(self) -> Study:
        notes = [f"{name:<12} {FEATURES[name].description}" for name in self.features]
        return Study(kind="ablation", plan=self.plan, summarise=self.summarise, notes="\n".join(notes))

    def summarise(self, outcomes: Iterable[RunOutcome]) -> "AblationSummary":
        """Effects and growth of the finished runs, without those that lack a run. Raises CorpusError if none is finished."""
        runs = runs_by_variant(outcomes)
        several = len(self.plan.variants[0].configs) > 1
        found = {feature: _contrasts(self, feature, runs) for feature in _points(self.features)}
        return AblationSummary(
            sizes=self.sizes,
            results=judged({feature: each for feature, each in found.items() if each[0]}, 1 - self.confidence),
            population=f"other text of this length and kind, {'and other seeds' if several else 'under this seed'}",
            confidence=self.confidence,
        )


def plan_ablation(
    full: Config,
    *,
    sizes: Sequence[tuple[int, int]],
    features: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    runtime: Runtime | None = None,
    confidence: float = CONFIDENCE,
) -> Ablation:
    """The base, and every variant that adds one feature or all of them, at each size.

    sizes: (width, layers) of the GPT, whose heads keep their width. features: by default all that `full` has, except mlp and
    mixer. A size that is out of range, or exceeds the limits of the runtime, is refused by name. Raises ConfigError without a GPT
    or a size that is left, for an unknown feature, and for one that makes no difference.
    """
    check_confidence(confidence)
    if full.gpt is None:
        raise ConfigError("an ablation varies the size of the GPT, and this configuration has none: choose -5 or -6")
    chosen = _chosen(full, features)
    variants: dict[tuple[str, str], Variant] = {}

    def at(size: Size) -> list[Variant]:
        sized = varied(full, replay_factor(full), *size, full.schedule.segment_symbols)
        (runtime or Runtime()).check(sized)
        made = {}
        for added, on in {BASE: (), **_points(chosen)}.items():
            name = f"{size}, {added}" if added in (BASE, ALL) else f"{size}, base + {added}"
            config = without(sized, [feature for feature in chosen if feature not in on])
            made[str(size), added] = Variant(name=name, configs=seeded(config, seeds))
        variants.update(made)
        return list(made.values())

    plan = plan_of((str(size), partial(at, size)) for size in dict.fromkeys(Size(*each) for each in sizes))
    flops = {
        size: variant.flops(1 << 20) or 0 for (size, _), variant in variants.items()
    }  # of the last: with all features
    return Ablation(
        sizes=tuple(sorted(flops, key=lambda size: (flops[size], size))),
        features=chosen,
        variants=variants,
        plan=plan,
        confidence=confidence,
    )


def _points(features: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """What is added to the base, by name: each feature, and ALL of several."""
    return {**{name: (name,) for name in features}, **({ALL: features} if len(features) > 1 else {})}


def _chosen(full: Config, names: Sequence[str] | None) -> tuple[str, ...]:
    """The features in the order of FEATURES. Raises ConfigError if one makes no difference with the others off."""
    if unknown := [name for name in names or () if name not in FEATURES]:
        raise ConfigError(f"there is no feature {unknown[0]!r}; the features are {', '.join(FEATURES)}")
    wanted = [name for name in FEATURES if (name not in ONLY_IF_NAMED if names is None else name in names)]
    has = [name for name in wanted if without(full, [name]) != full]
    for missing in [name for name in wanted if names is not None and name not in has]:
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

    low_bits, high_bits: its interval, for the population that `AblationSummary.population` names, and p_value, of an expectation
    of 0; None for a short corpus.
    """

    bits: float
    low_bits: float | None
    high_bits: float | None
    p_value: float | None
    n_bytes: int

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.n_bytes

    @property
    def cells(self) -> tuple[str, str]:
        """Bits per byte and their interval, for a table."""
        if self.low_bits is None or self.high_bits is None:
            return f"{self.bits_per_byte:+.4f}", "-"
        low, high = self.low_bits / self.n_bytes, self.high_bits / self.n_bytes
        return f"{self.bits_per_byte:+.4f}", f"[{low:+.4f}, {high:+.4f}]"


def contrast(terms: Sequence[tuple[float, Sequence[Run]]], confidence: float) -> Contrast:
    """The sum of weight * mean code length of runs, over the seeds that all terms have.

    The interval is that of comparison/prediction.py, of the expectation over texts, and over seeds if there are several. For two
    terms with weights 1 and -1 it is that of `compare`. Raises CorpusError without a common seed.
    """
    by_seed = [(weight, {run.record["config"]["seed"]: run.curves[MODEL] for run in runs}) for weight, runs in terms]
    seeds = sorted(set.intersection(*(set(curves) for _, curves in by_seed)))
    if not seeds:
        raise CorpusError("these runs have no seed in common, so they cannot be compared")
    sums = [math.fsum(weight * float(curves[seed].bits[-1]) for weight, curves in by_seed) for seed in seeds]
    bits, n_bytes = math.fsum(sums) / len(seeds), int(by_seed[0][1][seeds[0]].n_bytes[-1])
    cells = text_cells([(weight, [curves[seed] for seed in seeds]) for weight, curves in by_seed])
    if cells is None:
        return Contrast(bits=bits, low_bits=None, high_bits=None, p_value=None, n_bytes=n_bytes)
    variance = mean_variance(cells.bits, sample_variance(sums))
    half = variance.half_width(confidence, n_texts=1)
    return Contrast(
        bits=bits, low_bits=bits - half, high_bits=bits + half, p_value=variance.p_value(bits), n_bytes=n_bytes
    )


# ---- the results


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a feature saves at one size: the code length without it minus the code length with it, above 0 if it helps.

    percent: of the code length without it. flops_ratio: operations with it, divided by those without it.
    """

    size: str
    saved: Contrast
    percent: float
    flops_ratio: float


@dataclass(frozen=True, kw_only=True)
class FeatureResult:
    """A feature, or ALL of them, with its effects, ascending by size. growth: the last effect minus the first."""

    feature: str
    effects: tuple[Effect, ...]
    growth: Contrast | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class AblationSummary:
    """The results of an ablation. population: what the intervals refer to."""

    sizes: tuple[str, ...]
    results: tuple[FeatureResult, ...]
    population: str
    confidence: float

    @property
    def advice(self) -> str:
        """What the verdicts say to do, in a sentence."""
        named: dict[str, list[str]] = {}
        for result in self.results:
            if result.feature != ALL:
                named.setdefault(ADVICE.get(result.verdict, ""), []).append(result.feature)
        unclear = ", ".join(named.pop("", ()))
        parts = [f"{advice} {', '.join(features)}" for advice, features in named.items()]
        parts += [f"of {unclear} nothing is shown: take more text or fewer features"] if unclear else []
        return f"{'; '.join(parts)}."

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        percent = f"{100 * self.confidence:g} %"
        effects = [
            (each.feature, effect.size, *effect.saved.cells, f"{effect.percent:+.2f}", f"{effect.flops_ratio:.2f}")
            for each in self.results
            for effect in each.effects
        ]
        growth = [
            (each.feature, *(each.growth.cells if each.growth else ("-", "-")), each.verdict) for each in self.results
        ]
        return "\n\n".join(
            [
                format_table(("added to base", "size", "saved", percent, "%", "FLOPs x"), effects),
                format_table(("added to base", "more saved at the largest", percent, "verdict"), growth),
                "Saved: bits/byte without the feature minus bits/byte with it; above 0 where the feature helps.\n"
                f"{percent} intervals, each for one figure: of {self.population}. Verdicts count all features together (Holm).",
                self.advice,
            ]
        )


Runs = Mapping[Variant, Sequence[Run]]


Found = tuple[tuple[Effect, ...], Contrast | None]  # of a feature: effects, ascending by size, and growth


def _contrasts(ablation: Ablation, feature: str, runs: Runs) -> Found:
    pairs = {size: (ablation.variants[size, BASE], ablation.variants[size, feature]) for size in ablation.sizes}
    finished = {size: pair for size, pair in pairs.items() if all(variant in runs for variant in pair)}
    effects = tuple(_effect(size, pair, runs, ablation.confidence) for size, pair in finished.items())
    if len(finished) < 2:
        return effects, None
    (small_off, small_on), *_, (large_off, large_on) = finished.values()
    weights = ((1, large_off), (-1, large_on), (-1, small_off), (1, small_on))
    return effects, contrast([(weight, runs[variant]) for weight, variant in weights], ablation.confidence)


def _effect(size: str, pair: tuple[Variant, Variant], runs: Runs, confidence: float) -> Effect:
    off, on = (runs[variant] for variant in pair)
    flops_off, flops_on = (variant.flops(off[0].record["corpus"]["n_bytes"]) or math.nan for variant in pair)
    saved = contrast([(1, off), (-1, on)], confidence)
    percent = 100 * saved.bits / fmean(run.record["code_bits"] for run in off)
    return Effect(size=size, saved=saved, percent=percent, flops_ratio=flops_on / flops_off)


# ---- verdicts


def judged(found: Mapping[str, Found], level: float) -> tuple[FeatureResult, ...]:
    """The results with verdicts.

    At each size, and in what is saved more at the largest, one of the features' figures whose expectation is 0 counts with a
    probability of at most `level`.
    """
    columns: dict[str, dict[str, Contrast]] = {}  # by size, "" for growth: the figures of the features
    for feature, (effects, growth) in found.items():
        for size, each in (*((effect.size, effect.saved) for effect in effects), ("", growth)):
            if each is not None and each.p_value is not None:
                columns.setdefault(size, {})[feature] = each
    signs = {
        (size, feature): int(math.copysign(falls, figures[feature].bits))
        for size, figures in columns.items()
        for feature, falls in zip(figures, holm([each.p_value or 0.0 for each in figures.values()], level), strict=True)
    }
    results = []
    for feature, (effects, growth) in found.items():
        of_sizes = [signs.get((effect.size, feature), 0) for effect in effects]
        what = verdict(of_sizes, signs.get(("", feature), 0))
        results.append(FeatureResult(feature=feature, effects=effects, growth=growth, verdict=what))
    return tuple(results)


def holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses fall, if the probability that a true one is among them is at most `level`. Source: Holm (1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    fallen = [False] * len(p_values)
    for n_before, i in enumerate(order):
        if p_values[i] * (len(order) - n_before) > level:
            break
        fallen[i] = True
    return fallen


def verdict(signs: Sequence[int], growth: int) -> str:
    """What is shown about a feature. The point values do not count.

    signs: of what it saves at each size, ascending; 0 if it may be 0. growth: the sign of the difference between the largest and
    the smallest size. "only small" and "only large": the difference is shown, and help is shown at one end but not at the other.
    "hurts more" and "hurts less": the difference is shown, and harm is shown at the end where the feature saves less.
    """
    if all(sign < 0 for sign in signs):
        return "hurts"
    if growth < 0:
        return "only small" if signs[0] > 0 >= signs[-1] else "hurts more" if signs[-1] < 0 else "fades"
    if growth > 0:
        return "only large" if signs[-1] > 0 >= signs[0] else "hurts less" if signs[0] < 0 else "grows"
    return "helps" if all(sign > 0 for sign in signs) else "unclear"
