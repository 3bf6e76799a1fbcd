"""Training runs that scored different rows of one text: under two tokenizers, or packed in two ways.

Each run declares its text (`Recorder(text=...)`), and its bits per byte of what it scored stand for all of it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prequential.evaluation.curves import MODEL, Curve, curve_table
from prequential.evaluation.runs import Run

MIN_SAMPLES, MAX_UNKNOWN = 8, 0.1  # share of samples; rows that hold two documents without an id between them have some
MAX_UNSCORED = 0.01  # share of the bytes: first tokens of rows, dropped tails


def text_of(run: Run) -> dict[str, Any]:
    """The declared text of a training run; {} if there is none."""
    return run.record.get("reported", {}).get("text") or {}


def of_one_text(opened: Sequence[Run]) -> Sequence[Run]:
    """Training runs that scored different rows of one declared text, as runs of this text: bits per byte of what they scored."""
    texts = list(map(text_of, opened))
    if len({run.record["corpus"]["blake2b"] for run in opened}) == 1 or len({text.get("digest") for text in texts}) > 1:
        return opened
    if any(map(why_unequal, texts)):
        return opened
    made = []
    for run, text in zip(opened, texts, strict=True):
        scale = max(1.0, text["n_bytes"] / text["n_scored_bytes"])  # a space that a tokenizer adds is paid
        curve = run.curves[MODEL]
        ends = np.rint(curve.n_bytes * scale).astype(np.int64)
        corpus = run.record["corpus"] | {"kind": "text", "n_bytes": text["n_bytes"], "blake2b": text["digest"]}
        curves = curve_table({MODEL: Curve(n_bytes=ends, bits=curve.bits * scale)})
        made.append(Run(run.path, run.record | {"corpus": corpus}, curves))
    return made


def why_no_text(runs: Sequence[Run]) -> str:
    """Why `of_one_text` did not help."""
    reasons = [f"{run.name}: {why}" for run in runs if (why := why_unequal(text_of(run)))]
    return "; ".join(reasons) or "the texts that they declare differ"


def why_unequal(text: dict[str, Any]) -> str:
    """Why the text of a run's record does not stand for what it scored; "" if it does."""
    if not text:
        return "it declares no text (Recorder(text=...))"
    share = 1 - text["n_scored_bytes"] / max(1, text["n_bytes"])
    if abs(share) > MAX_UNSCORED:
        what = "were never scored (first tokens of rows, dropped tails)" if share > 0 else "too many were scored"
        return f"{abs(share):.1%} of the bytes of its text {what}"
    if text["n_samples"] < MIN_SAMPLES:
        return f"only {text['n_samples']} samples of its scored text were looked up"
    unknown = text["n_unknown"] / text["n_samples"]
    if unknown > MAX_UNKNOWN:
        return f"{unknown:.0%} of the samples of its scored text are not in the declared one"
    return ""
