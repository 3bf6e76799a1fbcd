"""The data multiple: how many times more bytes one learner needs than another for the same loss, from their learning curves."""

import numpy as np
from numpy.typing import NDArray

from prequential.evaluation.curves import Curve

N_WINDOWS = 32  # windows of a learning curve, in which losses are compared


def data_multiple(curve: Curve, baseline: Curve) -> tuple[float | None, str]:
    """The bytes that the baseline needs for a loss, divided by the bytes that `curve` needs, and ""; or None and the reason.

    Both curves are cumulative bits over the same bytes. The loss is the lowest that both reach. So the multiple is above 1 if
    `curve` is the more efficient one, and exchanging the two inverts it.

    The loss after n bytes is the loss of the window that ends there. The curve is cut into N_WINDOWS windows, and their losses
    are made non-increasing by isotonic regression: a stretch that is easy for every learner does not count as learning. Between
    the ends of windows the loss is interpolated linearly.
    """
    losses, baseline_losses = _falling_losses(curve), _falling_losses(baseline)
    loss_bits_per_byte = max(float(losses.bits[-1]), float(baseline_losses.bits[-1]))
    needed_bytes = _first_reach(losses, loss_bits_per_byte)
    baseline_bytes = _first_reach(baseline_losses, loss_bits_per_byte)
    if needed_bytes is None or baseline_bytes is None:
        who, n_bytes = (
            ("it", losses.n_bytes[0]) if needed_bytes is None else ("the baseline", baseline_losses.n_bytes[0])
        )
        return None, (
            f"{who} reaches {loss_bits_per_byte:.4f} bits/byte, the lowest loss of both, within its first {n_bytes} bytes"
        )
    return baseline_bytes / needed_bytes, ""


def _falling_losses(curve: Curve) -> Curve:
    windows = curve.windows(N_WINDOWS)
    return Curve(n_bytes=windows.n_bytes, bits=falling(windows.bits))


def falling(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sequence (n,) that never rises and is nearest to `values` (n,) in squares, by pooling adjacent violators."""
    pools: list[tuple[float, int]] = []  # sum and length
    for value in values:
        total, n = float(value), 1
        while pools and pools[-1][0] * n <= total * pools[-1][1]:
            total, n = total + pools[-1][0], n + pools[-1][1]
            pools.pop()
        pools.append((total, n))
    return np.repeat([total / n for total, n in pools], [n for _, n in pools])


def _first_reach(losses: Curve, loss_bits_per_byte: float) -> float | None:
    """The bytes after which falling losses of windows reach a loss that they do reach; None if the first window reaches it."""
    i = int(np.argmax(losses.bits <= loss_bits_per_byte))
    if i == 0:
        return None
    (x0, x1), (y0, y1) = losses.n_bytes[i - 1 : i + 1], losses.bits[i - 1 : i + 1]
    return float(x0 + (y0 - loss_bits_per_byte) / (y0 - y1) * (x1 - x0))
