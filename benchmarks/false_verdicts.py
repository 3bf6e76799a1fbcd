"""How often `ablate` gives verdicts: false ones of features without effect, and right ones of a feature that helps.

    python benchmarks/false_verdicts.py

Ablations of five features at two sizes, 100 each. The differences between variants are a trend, as of two learning curves, and
fractional Gaussian noise with this Hurst exponent, independent for each variant. The first feature saves as much as so many
standard deviations of the mean difference, which an oracle would know; the others save nothing. Counted are the ablations with a
verdict about one of these, and the verdicts "helps" of the first.
"""

from pathlib import Path

import numpy as np
from learning_cost import root
from markdown_table import format_markdown

from prequential import Curve, preset
from prequential.evaluation.runs import Run
from prequential.sweeps.ablate import ALL, Ablation, plan_ablation
from prequential.sweeps.plan_runs import RunOutcome

FEATURES = ("embeddings", "window", "warmup", "decay", "momentum")
N_CELLS, CELL_BYTES, N_ABLATIONS = 200, 1000, 100
LEVEL_BITS, TREND_BITS, NOISE_BITS = 2000.0, 200.0, 8.0  # of a cell


def verdicts(ablation: Ablation, hurst: float, effect: float, seed: int) -> list[str]:
    """Of each feature."""
    covariance = root(hurst, N_CELLS) @ root(hurst, N_CELLS).T
    deviation = NOISE_BITS * np.sqrt(2 * covariance.mean())  # of the mean difference of two variants
    noise = root(hurst, N_CELLS) @ np.random.default_rng(seed).standard_normal((N_CELLS, len(ablation.variants)))
    at, outcomes = np.arange(1, N_CELLS + 1), []
    for i, ((_, added), variant) in enumerate(ablation.variants.items()):
        trend = TREND_BITS * (1 + 0.1 * i) / np.sqrt(at)
        saved = effect * deviation * (added in (FEATURES[0], ALL))
        trend -= trend.mean()  # the expected difference is the effect alone
        curve = Curve(n_bytes=CELL_BYTES * at, bits=np.cumsum(LEVEL_BITS + trend + NOISE_BITS * noise[:, i] - saved))
        record = {
            "corpus": {"n_bytes": CELL_BYTES * N_CELLS},
            "config": {"seed": 0},
            "code_bits": float(curve.bits[-1]),
        }
        run = Run(Path(variant.name), record)
        run.__dict__["curves"] = {"model": curve}
        outcomes.append(RunOutcome(variant=variant, config=variant.configs[0], run=run))
    return [result.verdict for result in ablation.summarise(outcomes).results]


def main() -> None:
    """Prints the table as Markdown."""
    ablation, rows = plan_ablation(preset(5, pure=True), sizes=[(64, 1), (128, 2)], features=FEATURES), []
    for hurst in (0.5, 0.7, 0.8, 0.9):
        row = [f"{hurst:g}"]
        for effect in (0, 5, 10):
            found = [verdicts(ablation, hurst, effect, seed) for seed in range(N_ABLATIONS)]
            none = slice(None) if effect == 0 else slice(1, len(FEATURES))
            row.append(f"{np.mean([any(each != 'unclear' for each in one[none]) for one in found]):.2f}")
            row.append(f"{np.mean([one[0] in ('helps', 'grows', 'fades') for one in found]):.2f}")
        rows.append(row)
    titles = ("Hurst exponent", "false, no effect", "helps", "false, effect 5", "helps", "false, effect 10", "helps")
    print(format_markdown(titles, rows))


if __name__ == "__main__":
    main()
