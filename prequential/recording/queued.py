"""What a recorder queued on the device, read at once, and the mistakes that are seen in it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

MOST_NEGATIVE = -1e-3  # nats; float32 may give a little less than 0


def on_host(queued: Sequence[tuple[int, "torch.Tensor"]], names: tuple[str, ...]) -> np.ndarray:
    """Rows queued on the device with their step, as a structured array of int64. One synchronisation."""
    import torch

    form = np.dtype([("step", np.int64), *((name, np.int64) for name in names)])
    found = np.zeros(sum(len(part) for _, part in queued), form)
    if len(found):
        values = torch.cat([part.reshape(len(part), -1) for _, part in queued]).cpu().numpy()
        found["step"] = np.repeat([step for step, _ in queued], [len(part) for _, part in queued])
        for i, name in enumerate(names):
            found[name] = values[:, i]
    return found


def impossible_value(rows: np.ndarray, n_symbols: int) -> str | None:
    """The first value among scored rows that no model gives."""
    for wrong, what in (
        (rows["outside"] > 0, f"a target is no id of the vocabulary of {n_symbols:,}"),
        (~np.isfinite(rows["nats"].view(np.float64)), "the loss is not a finite number"),
        (rows["least"].view(np.float64) < MOST_NEGATIVE, "a loss is negative; give the plain negative log-likelihood"),
    ):
        if wrong.any():
            return f"rec.score() in step {rows['step'][wrong].min() + 1}: {what}"
    return None


def mistakes(called: np.ndarray, rows: np.ndarray) -> list[str]:
    """The steps that trained on rows which no score had, and targets that are the inputs themselves.

    called: the rows that the model was called for in training. Rows are recognised by their first inputs; a step whose scores had
    no inputs is not checked.
    """
    unshifted = np.unique(rows["step"][rows["unshifted"] > 0])
    found = [f"step {step + 1}: the targets are the inputs; shift them by one" for step in unshifted[:1]]
    for step in np.unique(called["step"]):
        calls, scores = (set(each[each["step"] == step]["head"].tolist()) for each in (called, rows))
        if 0 not in scores and (n := len(calls - scores)):
            found.append(f"step {step + 1} trained on {n} rows that were not scored before it")
    return found
