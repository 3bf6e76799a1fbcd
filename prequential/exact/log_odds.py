"""Log-odds of the probability of a bit and back, as tables that are made of `decimal`, like those of tables.py."""

from decimal import Decimal, localcontext
from functools import cache

import numpy as np

# Log-odds <-> probabilities of a bit (model/mixer/mixing.py): steps of 1/256 nat, within +-LOG_ODDS_LIMIT steps.
LOG_ODDS_STEPS_PER_NAT = 256
LOG_ODDS_LIMIT = 3071


@cache
def log_odds_tables() -> tuple[np.ndarray, np.ndarray]:
    """stretch, (4096,) int32: log-odds of the probability (i + 1/2) / 4096. squash, (6143,) int32: its inverse.

    squash[i] is the probability, 1..65535 in units of 2**-16, of the log-odds i - LOG_ODDS_LIMIT.
    """
    with localcontext() as context:
        context.prec = 40
        odds = [(Decimal(i) / LOG_ODDS_STEPS_PER_NAT).exp() for i in range(-LOG_ODDS_LIMIT, LOG_ODDS_LIMIT + 1)]
        exact = [int((odd / (1 + odd) * (1 << 48)).to_integral_value()) for odd in odds]
    squash = np.array([min(65535, max(1, (p + (1 << 31)) >> 32)) for p in exact], np.int32)
    centres = (2 * np.arange(4096, dtype=np.int64) + 1) << 35
    upper = np.searchsorted(np.array(exact, np.int64), centres)  # every centre is strictly inside the table
    nearer = np.where(centres - np.array(exact)[upper - 1] < np.array(exact)[upper] - centres, upper - 1, upper)
    return (nearer - LOG_ODDS_LIMIT).astype(np.int32), squash
