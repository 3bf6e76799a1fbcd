"""Other widths of the GPT whose matrix products run faster on this machine."""

from dataclasses import dataclass, replace

from prequential.estimation.estimate import Estimate
from prequential.estimation.products import product_rates
from prequential.estimation.segment_work import SegmentWork
from prequential.model.config import Config
from prequential.online.runtime import Runtime

MIN_SPEEDUP = 1.05  # of operations a second


@dataclass(frozen=True, kw_only=True)
class WidthSuggestion:
    """Another width: operations a second of its products, their number over the present number, and seconds to compress."""

    width: int
    n_heads: int
    operations_per_s: float
    operations_factor: float
    compress_s: float


def suggest_widths(config: Config, runtime: Runtime, estimate: Estimate, work: SegmentWork) -> list[WidthSuggestion]:
    """At most one narrower and one wider GPT: those with the most operations a second, at least MIN_SPEEDUP times the present.

    Heads keep their width. Time: products as measured here, the mixer as it is, everything else in proportion to the width.
    The number of bits at another width is not estimated.
    """
    if config.gpt is None or work.products_s <= 0:
        return []
    width, least = config.gpt.width, MIN_SPEEDUP * work.n_operations / work.products_s
    head = width // config.gpt.n_heads
    candidates = [w for w in range(head, 2 * width + 1, head) if 2 * w >= width and w != width]
    found = [_measured_width(w, config, runtime, estimate, work) for w in candidates]
    fast = [suggestion for suggestion in found if suggestion.operations_per_s >= least]
    narrower, wider = [s for s in fast if s.width < width], [s for s in fast if s.width > width]
    return [max(side, key=lambda s: s.operations_per_s) for side in (narrower, wider) if side]


def _measured_width(
    width: int, config: Config, runtime: Runtime, estimate: Estimate, work: SegmentWork
) -> WidthSuggestion:
    assert config.gpt
    n_heads = width * config.gpt.n_heads // config.gpt.width
    rates = product_rates(replace(config, gpt=replace(config.gpt, width=width, n_heads=n_heads)), runtime)
    products_s = sum(rate.wall_s * rate.times for rate in rates)
    n_operations = sum(rate.shape.operations * rate.times for rate in rates)
    busy_s = work.mixer_s + products_s + work.rest_s * width / config.gpt.width
    return WidthSuggestion(
        width=width,
        n_heads=n_heads,
        operations_per_s=n_operations / products_s,
        operations_factor=n_operations / work.n_operations,
        compress_s=estimate.compress_s * busy_s / (work.mixer_s + work.products_s + work.rest_s),
    )
