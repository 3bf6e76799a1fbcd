"""How often the 90 % intervals of forecasts hold, on simulated ladders.

    python benchmarks/forecast_coverage.py [REPEATS]

Five sizes read the beginning of a simulated text, three of them with two seeds. The target has twice the width of the largest
size and reads 1.1 MB. The loss of a run is a power law of size and bytes, times the difficulty of the text; so is the proxy's.
The laws are drawn anew for each repeat.

With a ladder of 140 kB, the target takes 33 times the operations:

    homogeneous   equally hard everywhere, and the proxy learns, slowly and steadily
    domains       of 60 kB, with a difficulty of their own, which learner and proxy do not share completely
    usual         the difficulty drifts

With a ladder of 370 kB, 12 times; the difficulty drifts, and

    370 kB        nothing else
    no proxy      there is no proxy
    equal sizes   larger models are no better
    saturation    models beyond the ladder's largest size are no better
    two texts     code and prose take turns, every 90 kB
    harder        the text ahead of the ladder is 15 % harder; the proxy shows it
    half shown    the proxy shows half of it
    not shown     there is no proxy
"""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from results import format_markdown

from prequential import Config, Curve, preset
from prequential.evaluation.runs import Run
from prequential.forecasting.forecast import Target, forecast_record
from prequential.forecasting.law import Floats, interval_score
from prequential.sweeps.ladder import Ladder, Rung, Size, ladder_of, n_weights, scaled

SHORT = ("homogeneous", "domains", "usual")
KINDS = (*SHORT, "370 kB", "no proxy", "equal sizes", "saturation", "two texts", "harder", "half shown", "not shown")
WITHOUT_PROXY = ("no proxy", "not shown")
BASE = preset(5, pure=True)
WIDTHS, SEVERAL_SEEDS = (24, 32, 40, 48, 64), (32, 48, 64)
STEP, SHORT_STEPS, LADDER_STEPS, N_STEPS, DOMAIN_STEPS = 1000, 140, 370, 1100, 60  # STEP in bytes
ENDS = STEP * np.arange(1, N_STEPS + 1)
TARGET = Target(size=Size(128, 2), n_bytes=STEP * N_STEPS)
HARDER = {"harder": (0.15, 0.15), "half shown": (0.15, 0.075), "not shown": (0.15, 0.0)}  # for learner and proxy


class Simulated(NamedTuple):
    """A ladder, a proxy over the target's bytes, and the target's bits."""

    ladder: Ladder
    proxy: Run
    target_bits: float


def drift(random: np.random.Generator, deviation: float, length_bytes: float) -> Floats:
    """Autoregressive noise (N_STEPS,)."""
    keep = math.exp(-STEP / length_bytes)
    levels, shocks = [0.0], random.normal(0, deviation * math.sqrt(1 - keep**2), N_STEPS)
    for shock in shocks:
        levels.append(keep * levels[-1] + shock)
    return np.array(levels[1:])


def domains(random: np.random.Generator, deviation: float) -> Floats:
    """A level for each domain (N_STEPS,)."""
    return np.repeat(random.normal(0, deviation, N_STEPS // DOMAIN_STEPS + 1), DOMAIN_STEPS)[:N_STEPS]


def run_of(config: Config, losses: Floats) -> Run:
    """A run with these losses of its steps, in bits per byte."""
    ends, bits = ENDS[: len(losses)], STEP * np.cumsum(losses)
    corpus = {"n_bytes": int(ends[-1]), "blake2b": "simulated"}
    times = {"time": "2026-01-01T00:00:00+00:00", "code_bits": float(bits[-1])}
    run = Run(Path(f"run-{len(losses)}"), {"config": config.to_dict(), "corpus": corpus, **times}, b"")
    run.__dict__["curves"] = {"model": Curve(n_bytes=ends, bits=bits)}
    return run


def simulate(kind: str, repeat: int) -> Simulated:
    """One text with its runs."""
    random = np.random.default_rng([KINDS.index(kind), repeat])
    difficulty, noise = drift(random, 0.02, 3000), 0.001 if kind == "homogeneous" else 0.003
    of_learner, of_proxy = np.zeros(N_STEPS), drift(random, noise, 5000)
    if kind == "domains":
        difficulty, of_learner = difficulty + domains(random, 0.25), domains(random, 0.08)
        of_proxy += domains(random, 0.05)
    elif kind != "homogeneous":
        difficulty, of_learner = difficulty + drift(random, 0.08, 20_000), drift(random, 0.01, 20_000)
        of_proxy += drift(random, 0.02, 20_000)
    n_ladder = SHORT_STEPS if kind in SHORT else LADDER_STEPS
    ahead = STEP * n_ladder < ENDS
    if kind in HARDER:
        of_learner, of_proxy = (x + y * ahead for x, y in zip((of_learner, of_proxy), HARDER[kind], strict=True))
    if kind == "two texts":
        is_code = ENDS // 90_000 % 2 == 1
        of_learner, of_proxy = of_learner - 0.4 * is_code, of_proxy - 0.3 * is_code
    floor, by_size, a = random.uniform(0.9, 1.5), random.uniform(0.2, 0.6), random.uniform(0.3, 0.6)
    by_bytes, b = random.uniform(0.3, 0.9), random.uniform(0.2, 0.5)
    slowly = kind == "homogeneous"
    of_bytes = random.uniform(*((0.2, 0.5) if slowly else (0.3, 0.9)))
    exponent = random.uniform(*((0.05, 0.15) if slowly else (0.2, 0.5)))
    read = ENDS / 1e5 + 0.02

    def losses(config: Config) -> Floats:
        assert config.gpt
        width = min(config.gpt.width, WIDTHS[-1] if kind == "saturation" else TARGET.size.width)
        n = n_weights(scaled(BASE, Size(WIDTHS[0] if kind == "equal sizes" else width, 2)).gpt or config.gpt)
        law = floor + by_size * (n / 1e5) ** -a + by_bytes * read**-b
        own = random.normal(0, noise) + drift(random, noise, 5000)
        return np.asarray(law * np.exp(difficulty + of_learner + own), np.float64)

    configs = [
        replace(scaled(BASE, Size(width, 2)), seed=seed)
        for width in WIDTHS
        for seed in ((0, 1) if width in SEVERAL_SEEDS else (0,))
    ]
    proxy = (random.uniform(1.2, 1.8) + of_bytes * read**-exponent) * np.exp(difficulty + of_proxy)
    return Simulated(
        ladder_of(Rung(run_of(config, losses(config)[:n_ladder])) for config in configs),
        run_of(preset(2), proxy),
        float(STEP * losses(scaled(BASE, Size(*TARGET.size))).sum()),
    )


class Score(NamedTuple):
    """Of one forecast: whether the interval holds, log(forecast / actual), half its width, and its interval score."""

    holds: bool
    error: float
    half_width: float
    interval_score: float


def scores(kind: str, n_repeats: int) -> list[Score]:
    """Scores of forecasts."""
    results = []
    for ladder, proxy, actual in (simulate(kind, repeat) for repeat in range(n_repeats)):
        proxies = [] if kind in WITHOUT_PROXY else [proxy]
        made = forecast_record(ladder, TARGET, proxies=proxies)["forecasts"]["total_bits"]
        low, point, high = (made[name] / actual for name in ("low", "point", "high"))
        holds, width = low <= 1 <= high, math.log(high / low) / 2
        results.append(Score(holds, math.log(point), width, interval_score(low, high, 1.0)))
    return results


def main() -> None:
    n_repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rows = []
    for kind in KINDS:
        results = scores(kind, n_repeats)
        rms = math.sqrt(float(np.mean([score.error**2 for score in results])))
        width = float(np.median([score.half_width for score in results]))
        holds, mean_score = (
            f"{np.mean(values):.2f}" for values in ([r.holds for r in results], [r.interval_score for r in results])
        )
        rows.append((kind, f"{100 * rms:.1f} %", holds, mean_score, f"{100 * width:.0f} %"))
    print(format_markdown(("text", "rms error", "held", "score", "half width"), rows))


if __name__ == "__main__":
    main()
