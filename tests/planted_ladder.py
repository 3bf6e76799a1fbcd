"""Ladders whose curves follow a known law of size and length."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prequential import Config, Curve, GPTConfig, ScheduleConfig
from prequential.evaluation.curves import curve_table
from prequential.evaluation.runs import Run, read_run
from prequential.forecasting.forecast import Target
from prequential.sweeps.ladder import Ladder, Rung, Size, n_weights, scaled
from prequential.sweeps.plans import CorpusKey

BASE = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=512, segment_symbols=1024, row_symbols=32, n_rows=32, history_bits=14
    ),
)
SIZES = [Size(width, 1) for width in (16, 24, 32, 48, 64)]
N_BYTES, WIDE = 65536, Size(128, 1)
TARGET = Target(size=WIDE, n_bytes=300_000)


def planted_mean(width: int, n_bytes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean loss over n_bytes, in bits per byte, by a crossed law."""
    config = scaled(BASE, Size(width, 1))
    assert config.gpt
    n = (n_weights(config.gpt) / 1e4) ** -0.4
    d = (n_bytes / 1e4) ** -0.3
    return np.asarray(1.1 + 0.5 * n + 0.8 * d + 0.4 * n * d, np.float64)


def make_run(
    folder: Path, size: Size, n_bytes: int = N_BYTES, *, seed: int = 0, text: float = 0.0, noise: float = 0.0
) -> Run:
    """A run folder whose curve follows the law. text: amplitude of the text's changing difficulty, which all runs share."""
    ends = np.unique(np.append(np.arange(1024, n_bytes + 1, 512), n_bytes)).astype(np.int64)
    difficulty = 1 + text * np.sin(ends / 9000)
    bits = planted_mean(size.width, ends) * ends * difficulty * math.exp(noise * math.sin(7.0 * seed + size.width))
    path = folder / f"run-{size}-{n_bytes}-{seed}"
    path.mkdir(parents=True)
    record = {
        "schema": 1, "kind": "evaluation", "time": datetime.now(UTC).isoformat(timespec="seconds"), "wall_s": 0.1,
        "corpus": {"kind": "file", "name": "text", "n_bytes": n_bytes, "blake2b": f"digest of {n_bytes}"},
        "config": replace(scaled(BASE, size), seed=seed).to_dict(), "code_bits": float(bits[-1]),
    }  # fmt: skip
    (path / "record.jsonl").write_text(json.dumps(record))
    (path / "curve.parquet").write_bytes(curve_table({"model": Curve(n_bytes=ends, bits=bits)}))
    return read_run(path)


def make_ladder(folder: Path, *, text: float = 0.0, noise: float = 0.0) -> Ladder:
    """Every size with seed 0, and the second size with seeds 1 and 2 too."""
    runs = [make_run(folder, size, text=text, noise=noise) for size in SIZES]
    runs += [make_run(folder, SIZES[1], seed=seed, text=text, noise=noise) for seed in (1, 2)]
    rungs = sorted((Rung(run) for run in runs), key=lambda rung: (rung.n_weights, rung.config.seed))
    return Ladder(tuple(rungs), CorpusKey(N_BYTES, f"digest of {N_BYTES}"))
