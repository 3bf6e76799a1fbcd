"""An ablation as text: its plan before it runs, then the effects and the verdict of each feature."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from prequential.records.table import format_table
from prequential.sweeps.ablate import FEATURES, Ablation, AblationSummary, Contrast, FeatureResult
from prequential.sweeps.plans import Subject, config_key

FEATURE_COLUMNS = 60  # so that the descriptions are aligned to the left
DIRECTION_TITLES = {"base": "Added to base, one at a time", "full": "Taken from full, one at a time"}


def format_plan(ablation: Ablation, subject: Subject, finished: AbstractSet[str]) -> str:
    """The runs of an ablation, with a final newline. finished: the keys (`config_key`) of runs that exist already."""
    plan = ablation.plan
    n_finished = sum(config_key(config.to_dict()) in finished for config in plan.configs)
    rows = [(name, FEATURES[name].description.ljust(FEATURE_COLUMNS)) for name in ablation.features]
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {subject.n_bytes:,} bytes: {len(plan.settings)} configurations, sizes "
            f"{', '.join(ablation.sizes)}, seeds of each: {len(plan.settings[0].configs)}; {n_finished} finished already; "
            f"{plan.flops(subject.n_bytes):.3g} FLOPs in all",
            format_table(("feature", "description".ljust(FEATURE_COLUMNS)), rows),
            *(f"refused: {refusal.name}: {refusal.reason}" for refusal in plan.refusals),
            "",
        ]
    )


def format_summary(ablation: Ablation, summary: AblationSummary) -> str:
    """Effects and verdicts of each direction, then of all features together."""
    percent = f"{100 * summary.confidence:g} %"
    parts = []
    for direction in ablation.directions:
        results = [result for result in summary.results if result.direction == direction]
        if results:
            parts += _direction(direction, results, percent)
    if summary.together:
        parts.append(_together(summary, percent))
    parts.append(
        "Saved: bits/byte without the feature minus bits/byte with it; above 0 where the feature helps.\n"
        f"{percent} intervals, each for one figure: of {summary.population}.\n"
        f"If this ablation is used to choose the best of these {summary.n_runs} runs, the choice costs "
        f"log2 {summary.n_runs} = {summary.choice_bits:.2f} bits more."
    )
    return "\n\n".join(parts)


def _direction(direction: str, results: Sequence[FeatureResult], percent: str) -> list[str]:
    effects = [
        [
            result.feature,
            effect.size,
            f"{effect.saved.bits_per_byte:+.4f}",
            _interval(effect.saved),
            f"{effect.percent:+.2f}",
            f"{effect.late.bits_per_byte:+.4f}",
            _interval(effect.late),
            f"{effect.flops_ratio:.2f}",
            f"{effect.wall_ratio:.2f}",
        ]
        for result in results
        for effect in result.effects
    ]
    titles = ("feature", "size", "saved", percent, "%", "2nd half", percent, "FLOPs x", "time x")
    growth = [[result.feature, *_figure(result.growth), result.verdict] for result in results]
    return [
        f"{DIRECTION_TITLES[direction]}:\n{format_table(titles, effects)}",
        format_table(("feature", "more saved at the largest", percent, "verdict"), growth),
    ]


def _together(summary: AblationSummary, percent: str) -> str:
    rows = [
        [together.size, *_figure(together.saved), *_figure(together.singles), *_figure(together.interaction)]
        for together in summary.together
    ]
    titles = ("size", "all at once", percent, "sum of singles", percent, "interaction", percent)
    return f"All features against base:\n{format_table(titles, rows)}"


def _figure(contrast: Contrast | None) -> tuple[str, str]:
    return ("-", "-") if contrast is None else (f"{contrast.bits_per_byte:+.4f}", _interval(contrast))


def _interval(contrast: Contrast) -> str:
    bounds = contrast.interval_per_byte
    return "-" if bounds is None else f"[{bounds[0]:+.4f}, {bounds[1]:+.4f}]"
