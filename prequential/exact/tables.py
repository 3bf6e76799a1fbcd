"""Tables of exponentials and rotary phases, made of integers and of `decimal`, without a maths library.

The last bit of `exp` in a maths library differs between machines. A table of integers does not. The `exp` of `decimal` is
correctly rounded by its specification, so each table is the same list of integers everywhere.
"""

from decimal import Decimal, localcontext
from functools import cache

import torch

HOST = torch.device("cpu")
# Logits -> frequencies: steps of 1/64 nat down to e^-20. Below that, a frequency is its minimum, 1 of 2**24.
LOGIT_STEPS_PER_NAT = 64
FREQUENCY_TABLE_SIZE = 64 * 20
# Attention scores -> weights: steps of 1/32 nat. 255 * e^-6.3 rounds to 0, so 256 entries include every entry above 0.
SCORE_STEPS_PER_NAT = 32
ATTENTION_TABLE_SIZE = 256
ATTENTION_PEAK = 255
# Rotary phases are integer multiples of one turn / ROTARY_PERIOD. Positions count modulo the period, so they need no bound.
ROTARY_PERIOD = 4096
PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def _exp_table(peak: int, steps_per_nat: int, size: int, floor: int) -> list[int]:
    """round(peak * exp(-i / steps_per_nat)) for i < size, each at least `floor`."""
    with localcontext() as context:
        context.prec = 40
        return [
            max(floor, int((peak * (Decimal(-i) / steps_per_nat).exp()).to_integral_value()))  # half to even
            for i in range(size)
        ]


@cache
def frequency_table(device: torch.device = HOST) -> torch.Tensor:
    """(1280,) float64 integers: round(2**24 * exp(-i/64)), at least 1."""
    table = _exp_table(1 << 24, LOGIT_STEPS_PER_NAT, FREQUENCY_TABLE_SIZE, floor=1)
    return torch.tensor(table, dtype=torch.float64, device=device)


@cache
def attention_table(device: torch.device = HOST) -> torch.Tensor:
    """(256,) float32 integers: round(255 * exp(-i/32)); the last is 0."""
    table = _exp_table(ATTENTION_PEAK, SCORE_STEPS_PER_NAT, ATTENTION_TABLE_SIZE, floor=0)
    assert table[-1] == 0
    return torch.tensor(table, dtype=torch.float32, device=device)


@cache
def rotary_table() -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of 2*pi*j / 4096 for j = 0..4095: two (4096,) float32 tensors of multiples of 2**-20, so exact."""
    # quarter[j] = round(2**20 * sin(2*pi*j / ROTARY_PERIOD)) for j = 0 .. n, by Taylor series in 40 digits.
    n, quarter = ROTARY_PERIOD // 4, list[int]()
    with localcontext() as context:
        context.prec = 40
        step = 2 * PI / ROTARY_PERIOD
        for j in range(n + 1):
            x = step * j
            term, total, k = x, x, 1
            while abs(term) > Decimal(10) ** -35:
                term *= -x * x / ((2 * k) * (2 * k + 1))
                total += term
                k += 1
            quarter.append(int((total * (1 << 20)).to_integral_value()))
    sine = quarter[:n] + quarter[n:0:-1] + [-s for s in quarter[:n]] + [-s for s in quarter[n:0:-1]]
    cosine = sine[n:] + sine[:n]
    scale = 1.0 / (1 << 20)
    return torch.tensor(cosine, dtype=torch.float32) * scale, torch.tensor(sine, dtype=torch.float32) * scale


@cache
def rotary_wave_numbers(n: int) -> torch.Tensor:
    """(n,) int64: turns per ROTARY_PERIOD positions, a geometric sequence from 652 (about 1 radian per position) down to 1.

    wave[i] = floor(652**((n-1-i) / (n-1))) is an integer root, computed with integers only.
    """
    top = 652  # ROTARY_PERIOD / (2 pi)
    return torch.tensor([next(r for r in range(top, 0, -1) if r ** (n - 1) <= top ** (n - 1 - i)) for i in range(n)])
