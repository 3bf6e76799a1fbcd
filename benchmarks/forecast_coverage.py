"""How often the 90 % intervals of forecasts hold, on simulated ladders.

    python benchmarks/forecast_coverage.py [REPEATS]

Five sizes read the first 140 kB of a simulated text, three of them with two seeds. The target has twice the weights of the
largest size and reads 1.1 MB, in 15 times the operations. The loss of a run is a power law of size and bytes, times the
difficulty of the text; so is the proxy's. Three kinds of text:

    homogeneous   equally hard everywhere, and the proxy learns, slowly and steadily
    domains       of 60 kB, with a difficulty of their own, which learner and proxy do not share completely
    usual         the difficulty drifts

The laws are drawn anew for each repeat.
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
from prequential.forecasting.scaling import Floats
from prequential.sweeps.ladder import Ladder, Rung, Size, ladder_of, n_weights, scaled

KINDS = ("homogeneous", "domains", "usual")
BASE = preset(5, pure=True)
WIDTHS, SEVERAL_SEEDS = (24, 32, 40, 48, 64), (32, 48, 64)
STEP, LADDER_STEPS, N_STEPS, DOMAIN_STEPS = 1000, 140, 1100, 60  # STEP in bytes
ENDS = STEP * np.arange(1, N_STEPS + 1)
TARGET = Target(size=Size(96, 2), n_bytes=STEP * N_STEPS)


class Simulated(NamedTuple):
    """A ladder, a proxy over the target's bytes, and the target's bits."""

    ladder: Ladder
    proxy: Run
    target_bits: float


def drift(random: np.random.Generator, deviation: float, length_bytes: float) -> Floats:
    """Autoregressive noise (N_STEPS,)."""
    keep = math.exp(-STEP / length_bytes)
    found, shocks = [0.0], random.normal(0, deviation * math.sqrt(1 - keep**2), N_STEPS)
    for shock in shocks:
        found.append(keep * found[-1] + shock)
    return np.array(found[1:])


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
    if kind == "usual":
        difficulty, of_learner = difficulty + drift(random, 0.08, 20_000), drift(random, 0.01, 20_000)
        of_proxy += drift(random, 0.02, 20_000)
    floor, by_size, a = random.uniform(0.9, 1.5), random.uniform(0.2, 0.6), random.uniform(0.3, 0.6)
    by_bytes, b = random.uniform(0.3, 0.9), random.uniform(0.2, 0.5)
    slowly = kind == "homogeneous"
    of_bytes = random.uniform(*((0.2, 0.5) if slowly else (0.3, 0.9)))
    exponent = random.uniform(*((0.05, 0.15) if slowly else (0.2, 0.5)))
    read = ENDS / 1e5 + 0.02

    def losses(config: Config) -> Floats:
        assert config.gpt
        law = floor + by_size * (n_weights(config.gpt) / 1e5) ** -a + by_bytes * read**-b
        own = random.normal(0, noise) + drift(random, noise, 5000)
        return np.asarray(law * np.exp(difficulty + of_learner + own), np.float64)

    configs = [
        replace(scaled(BASE, Size(width, 2)), seed=seed)
        for width in WIDTHS
        for seed in ((0, 1) if width in SEVERAL_SEEDS else (0,))
    ]
    proxy = (random.uniform(1.2, 1.8) + of_bytes * read**-exponent) * np.exp(difficulty + of_proxy)
    return Simulated(
        ladder_of(Rung(run_of(config, losses(config)[:LADDER_STEPS])) for config in configs),
        run_of(preset(2), proxy),
        float(STEP * losses(scaled(BASE, Size(96, 2))).sum()),
    )


class Score(NamedTuple):
    """Of one forecast: whether the interval holds, the logarithm of forecast / actual, and how far the interval reaches."""

    holds: bool
    error: float
    reach: float


def scores(kind: str, n_repeats: int) -> list[Score]:
    """Scores of forecasts."""
    found = []
    for ladder, proxy, actual in (simulate(kind, repeat) for repeat in range(n_repeats)):
        made = forecast_record(ladder, TARGET, proxies=[proxy])["forecasts"]["total_bits"]
        error, reach = math.log(made["point"] / actual), math.log(made["high"] / made["point"])
        found.append(Score(abs(error) <= reach, error, reach))
    return found


def main() -> None:
    n_repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rows = []
    for kind in KINDS:
        found = scores(kind, n_repeats)
        rms = math.sqrt(float(np.mean([score.error**2 for score in found])))
        reach = float(np.median([score.reach for score in found]))
        holds = f"{np.mean([score.holds for score in found]):.2f}"
        rows.append((kind, holds, f"{100 * rms:.1f} %", f"{100 * reach:.1f} %"))
    print(format_markdown(("text", "intervals that hold", "rms error", "median reach to either side"), rows))


if __name__ == "__main__":
    main()
