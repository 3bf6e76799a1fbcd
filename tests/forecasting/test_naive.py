"""Naive forecasts: the last rung, the line through the last two, and both with what the proxy knows about the text."""

import math
from pathlib import Path

import numpy as np
import pytest
from planted_ladder import BASE, N_BYTES, TARGET, make_run

from prequential.forecasting.backtest import loss_bits_per_byte
from prequential.forecasting.naive import naive_losses
from prequential.online.flops import total_flops
from prequential.sweeps.ladder import Ladder, Size, scaled

FLOPS = total_flops(scaled(BASE, TARGET.size), TARGET.n_bytes).total


def test_naive_forecasts_are_the_last_rung_and_the_line_through_the_last_two(ladder: Ladder) -> None:
    found = naive_losses(ladder, FLOPS, TARGET.n_bytes, "total_bits")
    rungs = {rung.size.width: rung for rung in ladder.rungs if rung.config.seed == 0}
    last, before = (float(rungs[width].curve.bits[-1]) / N_BYTES for width in (64, 48))
    assert set(found) == {"last_rung", "line"}
    assert found["last_rung"] == last
    flops = [total_flops(rungs[width].config, N_BYTES).total for width in (48, 64)]
    slope = math.log(last / before) / math.log(flops[1] / flops[0])
    assert found["line"] == pytest.approx(last * (FLOPS / flops[1]) ** slope)


@pytest.mark.parametrize("quantity", ["total_bits", "final_bits_per_byte"])
def test_with_a_proxy_both_are_moved_by_what_the_proxy_loses_between_ladder_and_target(
    ladder: Ladder, tmp_path: Path, quantity: str
) -> None:
    proxy = make_run(tmp_path, Size(20, 1), TARGET.n_bytes, text=0.05).curves["model"]
    found = naive_losses(ladder, FLOPS, TARGET.n_bytes, quantity, proxy)  # type: ignore[arg-type]
    there, here = loss_bits_per_byte(proxy, np.array([N_BYTES, TARGET.n_bytes]), quantity)  # type: ignore[arg-type]
    assert abs(here / there - 1) > 0.05
    for name in ("last_rung", "line"):
        assert found[f"{name}_with_proxy"] == pytest.approx(found[name] * here / there)
