"""Forecasts without a fit, which a forecast must beat. They may use what the forecast uses: the proxy over the target's bytes."""

import numpy as np

from prequential.evaluation.curves import Curve
from prequential.forecasting.backtest import Quantity, loss_bits_per_byte
from prequential.forecasting.scaling import line_in_logs
from prequential.online.flops import total_flops
from prequential.sweeps.ladder import Ladder, Size

WITH_PROXY = "_with_proxy"  # at the end of the name of a naive forecast


def last_rung_loss(ladder: Ladder, quantity: Quantity) -> float:
    """Loss of the largest size at the end of the ladder, in bits per byte, for the first seed."""
    return _end_loss(ladder, ladder.sizes[-1], quantity)


def _end_loss(ladder: Ladder, size: Size, quantity: Quantity) -> float:
    curve = ladder.first_rung(size).curve
    return float(loss_bits_per_byte(curve, np.array([ladder.corpus.n_bytes]), quantity)[0])


def naive_losses(
    ladder: Ladder, target_flops: float, n_bytes: int, quantity: Quantity, proxy: Curve | None = None
) -> dict[str, float]:
    """Forecasts of the loss after n_bytes, in bits per byte, by name.

    last_rung: the loss of the largest rung, carried over. line: the straight line through the last two rungs, over the
    logarithms of operations and loss, at target_flops. With a proxy also both `_with_proxy`: the same for the ratio of the loss
    to the proxy's, times the proxy's loss on the target.
    """
    end = ladder.corpus.n_bytes
    points = [
        (total_flops(ladder.first_rung(size).config, end).total, _end_loss(ladder, size, quantity))
        for size in ladder.sizes[-2:]
    ]
    found = {"last_rung": points[-1][1], "line": line_in_logs(points, target_flops)}
    if proxy:
        there, here = loss_bits_per_byte(proxy, np.array([end, n_bytes]), quantity)
        # dividing both points by a constant moves a line in logarithms as a whole
        found |= {name + WITH_PROXY: float(loss * here / there) for name, loss in found.items()}
    return found
